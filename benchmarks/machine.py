"""The machine under test: one core to run on, one thread for every library, and what is said of both.

Law: nothing here imports more than the standard library, so that it can be used before anything is timed.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ALONE = "GT_BENCH_ALONE"
"""Set in processes that were started with one thread."""

THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    ALONE,
)
"""What tells libraries to use one thread."""

FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""What would keep BLAS from the kernels that it has for this CPU."""


def environment(**more):
    """This process's environment for a process with one thread; gtensor caches in the repository, unless told."""
    kept = {name: value for name, value in os.environ.items() if name not in FORCED}
    return {"GT_CACHE": str(ROOT / "build" / "cache"), **kept, **dict.fromkeys(THREADS, "1"), **more}


def last_core():
    """The core to use: the last of those that this process may use; None where processes cannot be pinned."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else None


def pin(core):
    """Keep this process, and what it starts, on one core; None leaves it where it is."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def alone():
    """Start this program again, on one core and with one thread: for programs that measure in their own process."""
    if ALONE not in os.environ:
        pin(last_core())
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment())


def cpu():
    """The CPU's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model n")]
        return names[0] if names else platform.machine()
    if sys.platform == "darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor()
