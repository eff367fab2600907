"""What this machine is, without asking a compiler: the text that keeps code for one CPU from running on another.

`-march=native` code runs on CPUs that are like this one; which those are is decided by the text of `cpu()`, read
from the operating system in well under a millisecond (macOS: one `sysctl` process). Law: what changes from boot to
boot or from second to second (clock rates, bogomips) is not in it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

MACOS = platform.system() == "Darwin"

FIELDS = frozenset(
    "vendor_id|cpu family|model|model name|stepping|flags|Features|CPU implementer|CPU architecture|CPU variant"
    "|CPU part|CPU revision|isa|uarch|cpu|machine|features".split("|")
)
"""The lines of /proc/cpuinfo that say what code the CPU runs, on x86, ARM, RISC-V, POWER and s390."""


def _linux() -> str:
    with CPUINFO.open(encoding="utf-8", errors="replace") as file:
        lines: list[str] = []
        for line in file:
            if not line.strip() and lines:
                break
            name, _, value = line.partition(":")
            if name.strip() in FIELDS:
                lines.append(f"{name.strip()}: {value.strip()}")
    return "\n".join(lines)


def _darwin() -> str:
    names = ["machdep.cpu.brand_string", "hw.cpufamily", "hw.cpusubfamily"]
    done = subprocess.run(["sysctl", *names], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip()


READERS = {"linux": _linux, "darwin": _darwin}


@functools.cache
def cpu() -> str:
    """A short text that is equal on two machines only if code for one runs on the other."""
    return describe()


def describe() -> str:
    """The text of `cpu()`, read anew."""
    try:
        text = READERS[sys.platform]() if sys.platform in READERS else platform.processor()
    except (OSError, subprocess.SubprocessError):
        text = platform.processor()
    name = next((line.partition(": ")[2] for line in text.splitlines() if "name" in line or "brand" in line), "")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{system()} {name or 'cpu'} {digest}"


@functools.cache
def features() -> frozenset[str]:
    """What /proc/cpuinfo says that the CPU can do; nothing where there is no such file."""
    lines = _linux().splitlines() if CPUINFO.exists() else []
    named = [line.partition(": ")[2] for line in lines if line.startswith(("flags: ", "Features: "))]
    return frozenset(" ".join(named).split())


def has(needs: Collection[str]) -> bool:
    """Whether the CPU has all of these features; nothing is read if there are none."""
    return not needs or features().issuperset(needs)


def system() -> str:
    """The operating system and the kind of machine: what portable code depends on."""
    return f"{sys.platform} {platform.machine()}"


def jobs() -> int:
    """How many compiler processes may run at once: the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
