"""Homes that are missing and disks that are full: what is compiled runs all the same, or one error says what to do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor.codegen import folder as folder_module
from gtensor.codegen import trampoline
from gtensor.codegen.artefact import Workshop
from gtensor.codegen.cache import verify
from gtensor.codegen.compiler import CompileError
from gtensor.codegen.folder import LAYOUT
from gtensor.codegen.options import Options
from gtensor.errors import ToolchainError

from .processes import run

X = np.array([0.5, -2], np.float32)

USE = """
import gtensor as gt
def triple(x):
    return x * 3
print(gt.compile(triple)(gt.ones(2)).tolist())
"""


@pytest.mark.parametrize("home", ["none", "nowhere", "a file", "read-only"])
def test_a_home_that_cannot_be_used(home, tmp_path):
    """The cache is a private folder of the process then, and nothing is said of it unless one asks."""
    (tmp_path / "a file").write_text("")
    place = {"none": None, "nowhere": "/proc/nowhere", "a file": tmp_path / "a file", "read-only": "/sys"}[home]
    places = {"HOME": place, "XDG_CACHE_HOME": None, "TMPDIR": tmp_path}
    if home == "none":
        places["XDG_CACHE_HOME"] = tmp_path / "a file"  # else the home is looked up, and it may be a good one
    assert run(USE, **places) == "[3.0, 3.0]\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a file"], "and it is gone again"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 300 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_small_disk_for_the_cache(small_disk, tmp_path):
    assert run(USE, GT_CACHE=small_disk / "cache", TMPDIR=tmp_path) == "[3.0, 3.0]\n"
    assert not list((small_disk / "cache").rglob("*.so"))
    assert list((small_disk / "cache" / LAYOUT / "drafts").iterdir()) == []


def test_a_small_disk_for_everything(small_disk):
    (small_disk / "data").write_bytes(bytes(250_000))
    code = USE.replace("import gtensor as gt", "import gtensor as gt\nfrom gtensor.errors import ToolchainError")
    code = code.replace("print(", "try:\n    print(").rstrip() + "\nexcept ToolchainError as error:\n    print(error)\n"
    told = run(code, GT_CACHE=small_disk / "cache", TMPDIR=small_disk)
    assert "No space left on device" in told and "gtensor cache prune makes room; GT_CACHE names" in told


# ---- a disk that is full in the middle ---------------------------------------------------------------------


@pytest.fixture
def warm(tmp_path):
    """A cache that knows the compiler of this process."""
    with gt.config(cache=tmp_path / "cache"):
        gt.compile(lambda x: x + 1)(X)
    return tmp_path / "cache"


def test_a_disk_that_is_full_at_any_of_its_writes(warm, monkeypatch):
    """Each writing of a file fails in its turn: the call says so or does without, nothing half is left to be found, and
    when there is room again all is well.
    """
    write, left, failed = Path.write_text, [0], []

    def full(path, *args, **kwargs):
        if path.is_relative_to(warm):
            left[0] -= 1
            if left[0] == 0:
                failed.append(path.name)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full)
    told = []
    for turn in range(1, 100):
        left[0] = turn
        scale = float(turn)
        with gt.config(cache=warm):
            try:
                assert gt.compile(lambda x, scale=scale: x * scale)(X).tolist() == (X * scale).tolist()
            except ToolchainError as error:
                told.append(str(error))
            done, left[0] = left[0] > 0, 0
            entries = list((warm / LAYOUT / "entries").iterdir())
            assert all(verify(entry) for entry in entries) and not list((warm / LAYOUT / "drafts").iterdir())
            assert gt.compile(lambda x, scale=scale: x * scale)(X).tolist() == (X * scale).tolist()
        if done:
            break
    assert len(told) >= 3 and all("No space left on device" in error for error in told)
    assert all("gtensor cache prune" in error for error in told)
    assert {"lambda.c", "key.txt", "entry.json"} <= set(failed), failed


def test_a_bridge_that_found_no_room_is_tried_again(tmp_path, monkeypatch):
    """While one that the compiler refuses is not."""
    cache = tmp_path / "cache"
    refuses = tmp_path / "cc"
    refuses.write_text('#!/bin/sh\ncase "$*" in *gt_stepper*) echo no >&2; exit 1;; esac\nexec cc "$@"\n')
    refuses.chmod(0o755)

    def tried():
        workshop = Workshop(Options(cache=cache, cc=str(refuses)))
        with pytest.raises((ImportError, CompileError)) as caught:
            trampoline.compiled(workshop)
        return str(caught.value)

    with monkeypatch.context() as full:
        full.setattr(trampoline, "roomy", lambda path: False)
        assert "failed with exit status 1" in tried()
    assert "failed with exit status 1" in tried()
    assert "the compiler failed on it before" in tried()
    assert folder_module.roomy(tmp_path)
