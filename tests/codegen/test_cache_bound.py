"""The bound of the cache: what goes when it is full, what stays since somebody uses it, and what that costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor.cli import main
from gtensor.codegen import build, uses
from gtensor.codegen import cache as cache_module
from gtensor.codegen.cache import TOTAL, Cache, Key
from gtensor.codegen.folder import owner
from gtensor.codegen.library import LibraryError
from gtensor.errors import GTensorError, OptionError

from .test_cache import put, rest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lines():
    return []


@pytest.fixture
def bounded(tmp_path, lines):
    """A function of the number of entries that there is room for, each of less than 1,300 bytes and more than 1,100."""
    return lambda room: Cache(tmp_path / "cache", lambda level, line: lines.append(line), 1300 * room)


def fill(store, names, age=100):
    """Entries by these names, used one after the other, a while ago, by a process that has ended."""
    now = time.time()
    for position, name in enumerate(names):
        path = put(store, Key(name, "t"), text="x" * 900).path
        os.utime(path, (now - age + position, now - age + position))
    ended(store)


def ended(store):
    """As when this process had ended: it uses nothing."""
    uses.leave(os.getpid(), uses.file(store.folder.root))
    uses._NOTED.clear()


def held(store):
    """The names of what is there, and that the total was written down right."""
    entries = list((store.folder.root / "entries").iterdir())
    told = sum(map(int, (store.folder.root / TOTAL).read_text().split()))
    assert told == sum(path.stat().st_size for entry in entries for path in entry.iterdir())
    return sorted((entry / "key.txt").read_text().split()[0] for entry in entries)


def test_what_was_unused_longest_goes_when_it_is_full(bounded, lines):
    store = bounded(4)
    fill(store, "abcd")
    assert held(store) == [*"abcd"] and not lines
    assert store.find(Key("a", "t")) is not None
    ended(store)
    fill(store, "e")
    assert held(store) == [*"ade"]
    assert lines == [f"cache: 2 entries that were unused longest went: GT_CACHE_SIZE is {4 * 1300}"]
    assert rest(store) == []


def test_what_was_just_made_stays_whatever_the_bound(bounded):
    store = bounded(0)
    for name in "ab":
        put(store, Key(name, "t"))
        assert store.find(Key(name, "t")) is not None
    assert held(store) == ["a", "b"], "this process uses both"
    ended(store)
    put(store, Key("c", "t"))
    assert held(store) == ["c"]


def test_what_a_living_process_uses_stays(bounded):
    store = bounded(2)
    code = (
        "import sys\nfrom pathlib import Path\nfrom gtensor.codegen.cache import Cache, Key\n"
        "store = Cache(Path(sys.argv[1]), lambda level, line: None, 10**9)\n"
        "assert store.find(Key('a', 't')) is not None\nprint('found', flush=True)\nsys.stdin.read()\n"
    )
    fill(store, "ab")
    command = [sys.executable, "-c", code, str(store.folder.cache)]
    user = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert user.stdout.readline() == "found\n"
        os.utime(store.folder.root / "entries" / Key("a", "t").name, (1, 1))
        assert store.info()["used"] == 1
        fill(store, "cd")
        assert "a" in held(store)
        store.prune(max_bytes=0)
        assert held(store) == ["a"]
    finally:
        user.kill()
        user.communicate()
    assert store.prune(max_bytes=0) == 1, "it was killed, and what it noted went"
    assert held(store) == [] and list((store.folder.root / "uses").iterdir()) == []


def test_a_process_that_ends_leaves_no_note(bounded):
    store = bounded(9)
    fill(store, "a")
    code = (
        "import sys\nfrom pathlib import Path\nfrom gtensor.codegen.cache import Cache, Key\n"
        "store = Cache(Path(sys.argv[1]), lambda level, line: None, 10**9)\n"
        "store.find(Key('a', 't'))\nassert store.info()['used'] == 1\n"
        "import os\nif os.fork() == 0:\n    sys.exit(0)\nos.wait()\nassert store.info()['used'] == 1\n"
    )
    subprocess.run([sys.executable, "-c", code, str(store.folder.cache)], cwd=ROOT, check=True)
    assert list((store.folder.root / "uses").iterdir()) == []


def test_notes_of_other_hosts_are_believed_for_a_while(bounded):
    store = bounded(9)
    fill(store, "ab")
    notes = store.folder.root / "uses"
    for host, name in (("0" * 12, "a"), ("1" * 12, "b")):
        (notes / f"{host}.1").write_text(Key(name, "t").name + "\n")
    old = time.time() - 2 * uses.OLD
    os.utime(notes / f"{'1' * 12}.1", (old, old))
    assert store.prune(max_bytes=0) == 1 and held(store) == ["a"]
    assert owner() not in ("0" * 12, "1" * 12)


@pytest.mark.parametrize("text", [None, "12\nx\n", "1\n" * cache_module.LINES])
def test_a_total_that_is_unknown_wrong_or_long_is_counted_anew(text, bounded):
    store = bounded(2)
    fill(store, "ab")
    path = store.folder.root / TOTAL
    path.unlink() if text is None else path.write_text(text)
    fill(store, "c", age=50)
    assert held(store) == ["c"]


def test_clearing_begins_anew(bounded):
    store = bounded(3)
    fill(store, "abc")
    assert store.clear() == 3 and not (store.folder.root / TOTAL).exists()
    fill(store, "de")
    assert held(store) == ["d", "e"]


def test_a_hit_does_not_look_at_other_entries(bounded, monkeypatch):
    store = bounded(9)
    fill(store, "abc")
    seen = []
    monkeypatch.setattr(cache_module, "_children", lambda folder: seen.append(folder) or [])
    monkeypatch.setattr(cache_module, "size", lambda folder: seen.append(folder) or 0)
    assert store.find(Key("b", "t")) is not None
    assert store.find(Key("z", "t")) is None
    assert seen == []


def test_an_entry_that_goes_between_finding_and_loading_is_built_again(tmp_path, monkeypatch):
    def triple(x):
        return x * 3

    with gt.config(cache=tmp_path / "cache"):
        first = gt.compile(triple)(np.ones(3, np.float32))
        load = build._load

        def gone(entry, workshop, provider):
            monkeypatch.setattr(build, "_load", load)
            shutil.rmtree(entry.path)
            raise LibraryError("no such file")

        monkeypatch.setattr(build, "_load", gone)
        step = gt.compile(triple)
        assert step(np.ones(3, np.float32)).tolist() == first.tolist() and not step.compiled.hit
        assert build._load is load, "it was found"


# ---- the setting -------------------------------------------------------------------------------------------


def test_the_bound_is_a_setting(tmp_path, capsys):
    with gt.config(cache=tmp_path / "cache", cache_size="1.5M"):
        gt.compile(lambda x: x + 2)(np.ones(3, np.float32))
        assert main(["cache", "info"]) == 0
    assert "of at most 1.5 MB; " in capsys.readouterr().out


@pytest.mark.parametrize("given", ["much", "-1", "1.5.5G", "G", "1 X"])
def test_what_is_no_size(given, monkeypatch):
    with pytest.raises(GTensorError, match=r"cache_size=.* is not valid"), gt.config(cache_size=given):
        pass
    monkeypatch.setenv("GT_CACHE_SIZE", given)
    with pytest.raises(GTensorError, match=r"GT_CACHE_SIZE=.* is not valid"):
        gt.compile(lambda x: x + 2)(np.ones(3, np.float32))


def test_less_than_nothing():
    with gt.config(cache_size=-1), pytest.raises(OptionError, match="less than nothing"):
        gt.compile(lambda x: x + 2)(np.ones(3, np.float32))
