"""From C text to a library file through the cache: one key, one entry, whoever asks.

Comes in: sources by file name and a `Recipe` (what the caller's key says, for which target). Goes out: a verified
cache entry. Laws: the key holds everything that the machine code depends on; a hit starts no process; without a
working compiler an entry that this CPU can run, made by any toolchain, is still a hit.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import machine, toolchain
from .abi import with_headers
from .cache import Cache, Entry, Key, digest
from .cexpr import identifier
from .compiler import CompileError, Compiler, ToolchainError
from .options import Options


@dataclass(frozen=True)
class Recipe:
    """What is built: `label` names it for people, `text` is all of the key that the caller knows.

    `add` are flags after ours, `link` what is linked, both part of the key; `plain` builds without GT_CFLAGS and
    warnings, but with the sanitizers of GT_SANITIZE (for what is not a model).
    """

    label: str
    text: str
    add: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    plain: bool = False


class Workshop:
    """The cache and the compiler that one set of options stands for; the compiler is looked for when needed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.cache = Cache(options.cache, options.say, options.cache_size)
        self._compiler: Compiler | ToolchainError | None = None

    @property
    def compiler(self) -> Compiler:
        """The compiler; raises ToolchainError each time when there is none."""
        if self._compiler is None:
            try:
                self._compiler = toolchain.find(self.options)
            except ToolchainError as error:
                self._compiler = error
        if isinstance(self._compiler, ToolchainError):
            raise self._compiler
        return self._compiler

    def variant(self, recipe: Recipe) -> str:
        """The variant of a recipe: that of the options if it is a model."""
        return "native" if recipe.plain else self.options.variant

    def flags(self, recipe: Recipe) -> tuple[str, ...]:
        """The compiler flags of a recipe."""
        if recipe.plain:
            return (*recipe.add, *toolchain.sanitizer_flags(self.compiler, self.options))
        compiler = self.compiler
        return (*toolchain.flags(compiler, compiler.target(self.variant(recipe)), self.options), *recipe.add)

    def base(self, recipe: Recipe) -> str:
        """The part of the key that needs no compiler."""
        options = self.options
        lines = [f"add {shlex.join(recipe.add)}", f"link {shlex.join(recipe.link)}"]
        lines.append(f"sanitize {','.join(options.sanitizers)}")
        if not recipe.plain:
            lines += [
                f"variant {options.variant}",
                f"cflags {shlex.join(options.words)}",
                f"timing {int(options.timing)}",
                f"flush {int(options.flush)}",
            ]
        lines.append(f"machine {self.options.platform.text if self.variant(recipe) == 'native' else machine.system()}")
        return "\n".join([*lines, "", recipe.text])

    def key(self, recipe: Recipe) -> Key:
        """The whole key; raises ToolchainError without a compiler."""
        compiler = self.compiler
        identity = compiler.identity(compiler.target(self.variant(recipe)))
        return Key(self.base(recipe), f"{identity}\nflags {shlex.join(self.flags(recipe))}")

    def find(self, recipe: Recipe) -> Entry | None:
        """The entry of a recipe if there is one: this compiler's, or anyone's if there is no compiler."""
        try:
            key = self.key(recipe)
        except ToolchainError:
            return self.cache.find_any(self.base(recipe))
        return self.cache.find(key)

    def make(self, recipe: Recipe, sources: Mapping[str, str], *, search: Sequence[Path] = ()) -> Entry:
        """Compile the sources (headers of templates/ are added) and put the result into the cache.

        `search` are folders of other headers: what matters of them is in the recipe's text.
        Raises ToolchainError without a compiler, CompileError (which says where the sources are kept) if it fails.
        """
        compiler, key = self.compiler, self.key(recipe)
        with self.cache.draft() as draft:
            library = f"{identifier(recipe.label)[:60]}-{digest(key.text)[:12]}.so"
            flags = [*self.flags(recipe), *(f"-I{folder}" for folder in search)]
            link = [*toolchain.link_flags(compiler, self.options), *recipe.link]
            try:
                done = compiler.build(draft, with_headers(sources), library, flags, link)
            except CompileError as error:
                error.directory = draft.keep()
                raise
            self.options.say(4, f"toolchain: {shlex.join(done.command)}")
            if done.output.strip():
                self.options.say(1, f"toolchain: {recipe.label}: the compiler says:\n{done.output.rstrip()}")
            units = [name for name in sources if name.endswith(".c")]
            # Without the folder of the moment: equal entries have equal bytes.
            command = shlex.join(word for word in done.command if str(draft.path) not in word)
            return self.cache.publish(draft, key, label=recipe.label, library=library, sources=units, command=command)

    def assembly(self, recipe: Recipe, sources: Mapping[str, str]) -> str:
        """The assembly that the compiler makes of the sources; raises as `make` does."""
        with self.cache.draft() as draft:
            try:
                return self.compiler.assembly(draft, with_headers(sources), self.flags(recipe))
            except CompileError as error:
                error.directory = draft.keep()
                raise
