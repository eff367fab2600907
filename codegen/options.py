"""What a build is asked for besides the program: one frozen record, filled by the caller.

codegen reads no setting from the environment; `gtensor.config` turns GT_CACHE, GT_CC and the others into
`Options`. An empty text means the default. Law: two equal Options on one machine give the same cache keys;
`log` and `debug` only say what happens and are outside of every key.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .errors import CodegenError
from .platforms import NATIVE, PLATFORMS, Platform

VARIANTS = ("native", "portable")
BLAS = ("scipy-openblas32", "system", "accelerate", "none")
SANITIZERS = ("address", "undefined")

REFUSED_FLAGS = frozenset(
    "-ffast-math -Ofast -ffinite-math-only -funsafe-math-optimizations -fassociative-math -freciprocal-math"
    " -fno-signed-zeros -fcx-limited-range -fno-honor-nans -fno-honor-infinities -fapprox-func -ffp-model=fast"
    " -ffp-contract=fast -ffp-contract=on -ffp-contract=fast-honor-pragmas -fp-model=fast -mdaz-ftz"
    " -fsingle-precision-constant".split()
)
"""Flags that change what the C means; linking with some of them also switches the whole process to flush-to-zero."""


class OptionError(CodegenError, ValueError):
    """A setting has a value that means nothing or that gtensor refuses."""


def to_stderr(line: str) -> None:
    """The default log: one line to standard error."""
    print(line, file=sys.stderr)


def split(text: str, what: str) -> tuple[str, ...]:
    """The words of a command line, as a shell would split them; raises OptionError for an open quote."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{what}={text!r} cannot be split into words: {error}") from None


def refuse(flags: tuple[str, ...], what: str) -> None:
    """Raise OptionError if a flag is one that changes the meaning of arithmetic."""
    if wrong := [flag for flag in flags if flag in REFUSED_FLAGS]:
        raise OptionError(
            f"{what} holds {wrong[0]}: gtensor's results are those of IEEE arithmetic, and code linked with it may"
            " also switch the whole process to flush-to-zero\n  hint: leave the flag out; the generated C is written"
            " to be fast without it"
        )


def command(text: str, what: str) -> tuple[str, ...]:
    """A compiler command: the path of a program as it is, anything else as words; raises OptionError.

    >>> command("gcc -m64", "CC")
    ('gcc', '-m64')
    """
    words = (text,) if os.path.isfile(text) else split(text, what)
    refuse(words, what)
    return words


@dataclass(frozen=True)
class Options:
    """How to build.

    `cache` is the folder of compiled models (None: a private one that ends with the process), `cache_size` the bytes
    that it holds at most, but for what is in use (GT_CACHE_SIZE). `cc` is a compiler
    command (GT_CC), `cflags` more flags (GT_CFLAGS), `blas` one of `BLAS` or "" (GT_BLAS), `variant` one of
    `VARIANTS`, `target` one of `PLATFORMS`, `sanitize` names from `SANITIZERS` with commas between (GT_SANITIZE),
    `timing` defines GT_TIME in the C (GT_TIME), `flush` lets denormal numbers count as zero (GT_FLUSH). Lines of a
    level up to `debug` (GT_DEBUG) go to `log`. Raises OptionError for a value that is none.

    >>> Options(cflags="-g -DN='a b'").words
    ('-g', '-DN=a b')
    >>> Options(blas="mkl")
    Traceback (most recent call last):
    ...
    gtensor.codegen.options.OptionError: GT_BLAS='mkl' is none of scipy-openblas32, system, accelerate, none
    """

    cache: Path | None = None
    cache_size: int = 2 * 10**9
    cc: str = ""
    cflags: str = ""
    blas: str = ""
    variant: str = "native"
    target: str = NATIVE
    sanitize: str = ""
    timing: bool = False
    flush: bool = False
    debug: int = 0
    log: Callable[[str], None] = field(default=to_stderr, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache_size < 0:
            raise OptionError(f"GT_CACHE_SIZE={self.cache_size} is less than nothing")
        if self.variant not in VARIANTS:
            raise OptionError(f"variant={self.variant!r} is none of {', '.join(VARIANTS)}")
        if self.target not in PLATFORMS:
            raise OptionError(f"target={self.target!r} is none of {', '.join(PLATFORMS)}")
        if self.blas and self.blas not in BLAS:
            raise OptionError(f"GT_BLAS={self.blas!r} is none of {', '.join(BLAS)}")
        if wrong := [name for name in self.sanitizers if name not in SANITIZERS]:
            raise OptionError(f"GT_SANITIZE={self.sanitize!r}: {wrong[0]!r} is none of {', '.join(SANITIZERS)}")
        refuse(self.words, "GT_CFLAGS")
        command(self.cc, "GT_CC")

    @property
    def platform(self) -> Platform:
        """What `target` names."""
        return PLATFORMS[self.target]

    @property
    def words(self) -> tuple[str, ...]:
        """`cflags` as separate arguments."""
        return split(self.cflags, "GT_CFLAGS")

    @property
    def sanitizers(self) -> tuple[str, ...]:
        """`sanitize` as sorted names."""
        return tuple(sorted({part.strip() for part in self.sanitize.split(",") if part.strip()}))

    def say(self, level: int, line: str) -> None:
        """Log a line that belongs to a debug level."""
        if level <= self.debug:
            self.log(line)
