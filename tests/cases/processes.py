"""Python in a process of its own: for what a process has only once (environment, stack, locks, its death).

`run` gives what a script printed; `start` gives the process itself. A script sees the repository's packages and
works in `cwd`; variables set to None are taken away. Scripts print JSON on their last line for `answer`.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

PATIENCE = 120.0
"""Seconds after which a process counts as hanging: far more than any of them takes on a busy machine."""

AWKWARD = 'a b\'c/Márton-測試 "$x" %s'
"""A folder name that a shell, a C string or a format would take apart."""

NO_ZIG = "import sys\nsys.modules['ziglang'] = None\n"
"""The start of a script that has no compiler but those on PATH, even where the zig wheel is installed."""

Variables = Mapping[str, str | os.PathLike[str] | None]


def environment(variables: Variables) -> dict[str, str]:
    """The environment of this process with these variables; without a compiler or settings of the user's."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("GT_") and k != "CC"}
    base |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    base |= {k: os.fspath(v) for k, v in variables.items() if v is not None}
    return {k: v for k, v in base.items() if variables.get(k, "") is not None}


def start(
    code: str, *args: object, cwd: Path | None = None, limits: Sequence[str] = (), **variables: Any
) -> subprocess.Popen[str]:
    """A process that runs a script. `limits` are arguments of `ulimit`, one at a time, set before Python starts."""
    command = [sys.executable, "-c", code, *map(str, args)]
    if limits:
        shell = "; ".join(f"ulimit {limit} || exit 99" for limit in limits)
        command = ["/bin/sh", "-c", f'{shell}; exec "$@"', "sh", *command]
    return subprocess.Popen(
        command,
        cwd=cwd or ROOT,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], *, quiet: bool = True) -> str:
    """What a process printed; it must end well, and with `quiet` say nothing on standard error."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and its children, which hold the pipes
        out, err = process.communicate()
        raise AssertionError(f"the process hangs; it printed:\n{out}\n{err}") from None
    assert process.returncode == 0, f"the process ended with {process.returncode}:\n{out}\n{err[-4000:]}"
    assert not quiet or err == "", err
    return out


def run(code: str, *args: object, quiet: bool = True, **options: Any) -> str:
    """What a script prints."""
    return finish(start(code, *args, **options), quiet=quiet)


def answer(code: str, *args: object, **options: Any) -> Any:
    """The value of the JSON that a script prints last."""
    return json.loads(run(code, *args, **options).splitlines()[-1])


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class CountedCompiler:
    """The usual compiler behind a script that notes each start; `count` is the number of starts until now."""

    def __init__(self, folder: Path, name: str = "counted-cc") -> None:
        self.path = script(folder / name, 'echo started >> "$0.log"\nexec cc "$@"')
        self.log = folder / f"{name}.log"

    @property
    def count(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


WARM = "import gtensor as gt\ndef warm(x):\n    return x + 1\ngt.compile(warm)(gt.ones(1))\n"
"""A script after which the cache knows the compiler and has the bridge to Python."""
