"""Every setting: its type, its default, one sentence; environment variables and `gt.config`.

A setting is read when it is used, so `with gt.config(debug=2):` and a changed environment both work.
Law: nothing else in gtensor reads the environment.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .codegen.lazy import Lazy
from .errors import GTensorError

if TYPE_CHECKING:
    import platformdirs
else:
    platformdirs = Lazy("platformdirs")


@dataclass(frozen=True)
class Setting:
    """One setting: environment variable, parser of its text, default, and what it does."""

    variable: str
    parse: Callable[[str], Any]
    default: Callable[[], Any]
    doc: str


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.replace(",", " ").split() if part)


def byte_count(text: str) -> int:
    """Bytes from a text such as 500M; raises ValueError.

    >>> byte_count("2k"), byte_count("1.5G")
    (2000, 1500000000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)B?", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size, such as 500M")
    return int(float(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}[match[2]])


SETTINGS: dict[str, Setting] = {
    "cache": Setting(
        "GT_CACHE", Path, lambda: Path(platformdirs.user_cache_dir("gtensor")), "folder of compiled models"
    ),
    "cache_size": Setting(
        "GT_CACHE_SIZE", byte_count, lambda: 2 * 10**9, "bytes it holds at most, such as 500M: the longest unused goes"
    ),
    "cc": Setting("GT_CC", str, lambda: "", "C compiler to use instead of CC or the first of cc, gcc, clang"),
    "cflags": Setting("GT_CFLAGS", str, lambda: "", "flags added to the compiler's command"),
    "blas": Setting("GT_BLAS", str, lambda: "", "BLAS provider: scipy-openblas32, system, accelerate or none"),
    "debug": Setting("GT_DEBUG", int, lambda: 0, "1: stages and times, 2: and graphs, 3: and schedules, 4: and C"),
    "dump": Setting("GT_DUMP", str, lambda: "", "folder to which every stage is written as numbered text files"),
    "check": Setting("GT_CHECK", int, lambda: 0, "1: check every graph, 2: also evaluate before and after each pass"),
    "skip": Setting("GT_SKIP", _names, lambda: (), "names of passes to leave out"),
    "time": Setting("GT_TIME", int, lambda: 0, "1: time each kernel inside the C and print a table at exit"),
    "flush": Setting("GT_FLUSH", int, lambda: 0, "1: denormal numbers count as zero inside compiled functions"),
    "variant": Setting("GT_VARIANT", str, lambda: "native", "native, or portable: plain C99, as an export has it"),
    "sanitize": Setting("GT_SANITIZE", str, lambda: "", "sanitizers for the generated C, such as address,undefined"),
}

_OVERRIDES: ContextVar[dict[str, Any]] = ContextVar("gtensor_config", default={})  # noqa: B039 - never mutated


def get(name: str) -> Any:
    """The value of a setting now: `gt.config` first, then the environment, then the default."""
    overrides = _OVERRIDES.get()
    if name in overrides:
        return overrides[name]
    setting = SETTINGS[name]
    text = os.environ.get(setting.variable)
    if not text:
        return setting.default()
    return _parsed(setting, text, f"{setting.variable}={text!r}")


def _parsed(setting: Setting, text: str, given: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError:
        raise GTensorError(f"{given} is not valid: {setting.doc}") from None


@contextlib.contextmanager
def config(**values: Any) -> Iterator[None]:
    """Change settings inside a `with` block; raises GTensorError for an unknown name or a text that is no value.

    >>> with config(debug=1):
    ...     get("debug")
    1
    """
    for name, value in values.items():
        if name not in SETTINGS:
            raise GTensorError(f"there is no setting {name!r}", hint="settings are " + ", ".join(SETTINGS))
        if isinstance(value, (str, os.PathLike)):
            values[name] = _parsed(SETTINGS[name], os.fspath(value), f"{name}={value!r}")
    token = _OVERRIDES.set({**_OVERRIDES.get(), **values})
    try:
        yield
    finally:
        _OVERRIDES.reset(token)
