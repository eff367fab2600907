"""Pieces of C text: names that do not clash, comments and strings that cannot break out, index arithmetic, lines.

In comes text of any origin (hints, equations, the user's source lines) and extents; out goes C that means
what it says under gcc and clang with all warnings on. Laws: a name is given once per scope and is never a
keyword, a macro or a function of the C library; index arithmetic is done in int64_t.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from .cexpr import DTYPES, STORED, identifier
from .program import Dim, Extent

FLOATS = ("f32", "f64")
"""The tags of floats."""

VARIABLES = {**DTYPES, "b1": "int", **dict.fromkeys(STORED, "float")}
"""Tag -> the C type of a variable. A b1 is an int that holds 0 or 1, a float of 16 bits a float of that value."""

WIDTH = 118
"""Columns of generated C: longer comments go to a line of their own, longer calls are broken."""

_FUNCTIONS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim"
    " finite floor fma fmax fmin fmod frexp gamma hypot ilogb isinf isnan j0 j1 jn ldexp lgamma llrint llround log"
    " log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round"
    " roundeven scalb scalbln scalbn signbit significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn"
)
LIBRARY = frozenset(
    [name + suffix for name in _FUNCTIONS.split() for suffix in ("", "f", "l")]
    + "abort abs alloca atexit bcmp bcopy bzero calloc exit ffs free gamma_r index isalnum isalpha isascii isblank"
    " iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit labs lgamma_r llabs malloc memccpy"
    " memchr memcmp memcpy memmove mempcpy memset printf puts putchar realloc rindex signgam strcat strchr strcmp"
    " strcoll strcpy strdup strlen strncat strncmp strncpy strspn strstr strtok strxfrm toascii tolower toupper".split()
)
"""Functions that the compiler knows: a function of ours must not bear such a name; a variable may."""

_MACROS = frozenset(
    "NULL VFMA alloca asm assert bool complex false i386 imaginary linux noreturn signbit isfinite isinf isnan"
    " isnormal fpclassify isgreater isgreaterequal isless islessequal islessgreater isunordered math_errhandling"
    " true typeof unix args blas code".split()
)
"""Macros and extension keywords of gnu C, and the words of the frame: nothing of ours may bear such a name."""


class Names:
    """The C names in use, scope within scope.

    >>> names = Names(); names.new("x"), names.new("x"), names.new("asm"), names.new("x", "ij")
    ('x', 'x_2', 'asm_2', 'x_ij')
    """

    def __init__(self, *taken: Iterable[str]) -> None:
        self._scopes = [set().union(*taken)]
        self._numbers: dict[str, int] = {}

    def new(self, hint: str, subscript: str = "") -> str:
        """A free name like the hint; where that is taken, the hint with the subscript, then with a number."""
        base = identifier(hint)
        candidates = [base, f"{base}_{subscript}"] if subscript else [base]
        name = next((c for c in candidates if self._free(c)), "")
        while not name:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            numbered = f"{candidates[-1]}_{self._numbers[base]}"
            name = numbered if self._free(numbered) else ""
        self._scopes[-1].add(name)
        return name

    def counter(self) -> str:
        """A free name of a loop counter: i, j, k, …."""
        letters = (*"ijklmnpqr", *(f"i{n}" for n in range(10_000)))
        name = next(letter for letter in letters if self._free(letter))
        self._scopes[-1].add(name)
        return name

    def push(self) -> None:
        """Open a scope."""
        self._scopes.append(set())

    def pop(self) -> None:
        """Close the innermost scope and forget its names."""
        self._scopes.pop()

    def _free(self, name: str) -> bool:
        return name not in _MACROS and not any(name in scope for scope in self._scopes)


def comment(text: str) -> str:
    """Text that may stand in a C comment: on one line, without comment marks or a last backslash.

    >>> comment("a */ b /* c" + chr(10) + "d" + chr(92))
    'a * / b / * c d'
    """
    flat = re.sub(r"[^\S ]+", " ", text.strip()).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return "".join(c if c.isprintable() else "?" for c in flat).rstrip("\\ ")


def string(text: str) -> str:
    """A C string literal.

    >>> string('say "hi"')
    '"say \\\\"hi\\\\""'
    """
    out: list[str] = []
    for c in text:
        if c in '\\"':
            out.append("\\" + c)
        elif c == "?" and out and out[-1].endswith("?"):
            out.append("\\?")  # "??" could begin a trigraph
        elif c.isprintable():
            out.append(c)
        else:
            out += [f"\\{byte:03o}" for byte in c.encode("utf-8", "replace")]
    return f'"{"".join(out)}"'


def extent(value: Extent) -> str:
    """An extent as C, for use as a factor or a term: `3`, `B`, `3 * B`."""
    if isinstance(value, Dim):
        return value.name if value.factor == 1 else f"{value.factor} * {value.name}"
    return str(value) if abs(value) < 2**31 else f"INT64_C({value})"


def size(shape: Sequence[Extent]) -> str:
    """The number of elements of a shape, as C."""
    constant = 1
    names = []
    for item in shape:
        constant *= item.factor if isinstance(item, Dim) else item
        names += [item.name] if isinstance(item, Dim) else []
    if constant == 0:
        return "0"
    return " * ".join(([extent(constant)] if constant != 1 or not names else []) + names)


def affine(terms: Iterable[tuple[str, Extent]], offset: Extent = 0) -> str:
    """The sum of stride times counter, as C.

    >>> affine([("i", 784), ("j", 1)]), affine([("j", -1)], 9), affine([("i", Dim(0, "B", 8, 3))], 4), affine([])
    ('784 * i + j', '9 - j', '3 * B * i + 4', '0')
    """
    parts = [_term(stride, counter) for counter, stride in terms if stride != 0 and counter != "0"]
    if offset != 0:
        parts.append(_term(offset, ""))
    parts.sort(key=lambda part: part[0])  # what is subtracted comes last; the order of the others stays
    if not parts:
        return "0"
    first = ("-" if parts[0][0] else "") + parts[0][1]
    return first + "".join((" - " if negative else " + ") + text for negative, text in parts[1:])


def _term(stride: Extent, counter: str) -> tuple[bool, str]:
    """Whether the term is subtracted, and its absolute value as C."""
    if isinstance(stride, Dim):
        sizes, factor = [stride.name], stride.factor
    else:
        sizes, factor = [], stride
    counters = [counter] if counter else []
    plain = abs(factor) == 1 and (sizes or counters)
    return factor < 0, " * ".join(([] if plain else [extent(abs(factor))]) + sizes + counters)


def call(head: str, args: Sequence[str], tail: str, brackets: str = "()") -> list[str]:
    """`head(args)tail`, broken into aligned lines where it is too wide.

    >>> call("f", ["a", "b"], ";")
    ['f(a, b);']
    """
    opening, closing = brackets[0], brackets[1]
    lines = [f"{head}{opening}"]
    for place, arg in enumerate(args):
        piece = arg + ("," if place < len(args) - 1 else f"{closing}{tail}")
        space = "" if place == 0 else " "
        if len(lines[-1]) + len(piece) + 8 > WIDTH and place > 0:
            lines.append(" " * (len(head) + 1) + piece)
        else:
            lines[-1] += space + piece
    return lines if args else [f"{head}{opening}{closing}{tail}"]


def wrapped(lines: Iterable[str]) -> list[str]:
    """The lines as comment text, each broken where it is too wide."""
    return [part for line in lines for part in textwrap.wrap(comment(line), WIDTH - 6, subsequent_indent="  ")]


def packed(words: Iterable[str], indent: str = "  ") -> list[str]:
    """Lines of as many words as there is room for, all but the first indented; words may contain spaces.

    >>> packed(["(B, 4):", "x f32[B, 4]", "->", "y f32[B]"])
    ['(B, 4): x f32[B, 4] -> y f32[B]']
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 1 <= WIDTH - 6:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent if lines else ''}{word}")
    return lines


def block_comment(lines: Iterable[str]) -> list[str]:
    """A comment block of one or more lines.

    >>> block_comment(["h = x @ w", "train.py:3"])
    ['/* h = x @ w', ' * train.py:3 */']
    """
    texts = [comment(line) for line in lines]
    if not texts:
        return []
    marked = [("/* " if place == 0 else " * ") + text for place, text in enumerate(texts)]
    return [*(line.rstrip() for line in marked[:-1]), marked[-1] + " */"]


@dataclass
class Code:
    """Lines of C under way: indentation, and notes set as comments in a column of their own."""

    depth: int = 1
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    _open: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def add(self, text: str, note: str = "") -> None:
        """One line; a note becomes its comment."""
        head, count = self._open[-1]
        self._open[-1] = (head, count + 1)
        self.lines.append((self.depth, text, comment(note)))

    def open(self, head: str = "") -> None:
        """`head {`, and one step inwards."""
        self.add(f"{head} {{".strip())
        self._open.append((len(self.lines) - 1, 0))
        self.depth += 1

    def close(self) -> None:
        """One step outwards, and `}`; a loop around one statement needs no braces."""
        self.depth -= 1
        place, count = self._open.pop()
        depth, head, note = self.lines[place]
        if count == 1 and head != "{" and not self.lines[place + 1][1].startswith("const "):
            self.lines[place] = (depth, head.removesuffix(" {"), note)
        else:
            self.lines.append((self.depth, "}", ""))

    def text(self) -> str:
        """All lines; the notes of neighbouring lines are aligned."""
        out: list[str] = []
        for depth, run in groupby(self.lines, key=lambda line: line[0]):
            out += _aligned("    " * depth, [(text, note) for _, text, note in run])
        return "\n".join(out)


def _aligned(pad: str, run: list[tuple[str, str]]) -> list[str]:
    """Lines of one depth: a note stands in the common column, else behind its line, else above it."""
    column = max((len(text) for text, note in run if note and len(text) <= 72), default=0)
    out: list[str] = []
    for text, note in run:
        behind = len(pad) + len(note) + len("  // ")
        width = column if behind + max(column, len(text)) <= WIDTH else 0
        if not note:
            out.append((pad + text).rstrip())
        elif behind + len(text) <= WIDTH:
            out.append(f"{pad}{text.ljust(width)}  // {note}")
        else:
            out += [f"{pad}// {note}", pad + text]
    return out
