"""The machines that C can be compiled for: this one, or any of a kind, by name.

Comes in: the name of a target, as `gtensor build --target` takes it. Goes out: a `Platform`, which says what its
compiler is told and what a CPU must have. Law: what is compiled for a named platform runs on each machine of that
system whose CPU has these features, and on no other is it tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from . import machine

NATIVE = "native"


@dataclass(frozen=True)
class Platform:
    """`flags` are ways to tell a compiler of the CPU: the first that it takes counts.

    `system` is what `machine.system` says there, `macros` are what its compiler defines and `needs` are CPU features
    by the names of /proc/cpuinfo; they are empty for this machine, whose CPU is known by `machine.cpu`. `triple` names
    the platform to clang, and with a dash and the tool to the shell (`aarch64-linux-gnu-gcc`).
    """

    name: str
    flags: tuple[tuple[str, ...], ...]
    system: str = ""
    macros: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    triple: str = ""

    @property
    def text(self) -> str:
        """What tells apart machines that need code of their own: for a cache key, and for the user."""
        return self.name if self.system else machine.cpu()

    @property
    def foreign(self) -> bool:
        """Whether it is another system than this one, so that nothing made for it can be tried out here."""
        return self.system not in ("", machine.system())

    @property
    def runs_here(self) -> bool:
        """Whether this machine can run what is made for it."""
        return not self.foreign and machine.has(self.needs)


def _x86(level: str, needs: str) -> Platform:
    """A level of the x86-64 psABI, table 3.1 (https://gitlab.com/x86-psABIs/x86-64-ABI), in Linux' names."""
    return Platform(
        level,
        ((f"-march={level}",), (f"-mcpu={level.replace('-', '_')}",)),
        system="linux x86_64",
        macros=frozenset({"__linux__", "__x86_64__"}),
        needs=frozenset(needs.split()),
        triple="x86_64-linux-gnu",
    )


_V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3 = f"{_V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"

PLATFORMS = MappingProxyType(
    {
        platform.name: platform
        for platform in (
            Platform(NATIVE, (("-march=native",), ("-mcpu=native",), ())),
            _x86("x86-64", ""),
            _x86("x86-64-v2", _V2),
            _x86("x86-64-v3", _V3),
            _x86("x86-64-v4", _V4),
            Platform(
                "aarch64",
                (("-march=armv8-a",), ("-mcpu=generic",)),
                system="linux aarch64",
                macros=frozenset({"__linux__", "__aarch64__"}),
                triple="aarch64-linux-gnu",
            ),
            Platform(
                "aarch64-macos",
                (("-mcpu=apple-m1",), ("-mcpu=apple_m1",)),
                system="darwin arm64",
                macros=frozenset({"__APPLE__", "__aarch64__"}),
                triple="aarch64-macos",
            ),
        )
    }
)
"""Name -> platform, this machine first."""
