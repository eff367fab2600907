"""Entries on disk: the key, damage, foreign hands, builders that race or die, folders that cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gtensor.codegen import cache as cache_module
from gtensor.codegen import folder as folder_module
from gtensor.codegen import machine, toolchain
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.cache import Cache, Damaged, Key, tree_digest, verify
from gtensor.codegen.compiler import CompileError, ToolchainError
from gtensor.codegen.folder import LAYOUT, Draft, Folder, trusted
from gtensor.codegen.options import Options

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (Path(__file__).parent / "by_hand.c").read_text(encoding="utf-8")
RECIPE = Recipe("by_hand", "some graph")
KEY = Key("base", "toolchain")
PEOPLE = 'a b\'c/Márton-測試 "$x"'
"""A folder name that a shell would take apart."""


BOUND = 10**9


def silent(level, line):
    """A log that drops what it is told."""


@pytest.fixture
def store(tmp_path):
    return Cache(tmp_path / "cache", silent, BOUND)


def put(store, key=KEY, text="library"):
    """An entry without a compiler: one file that stands for the library."""
    with store.draft() as draft:
        (draft.path / "f.so").write_text(text)
        (draft.path / "f.c").write_text("int x;\n")
        return store.publish(draft, key, label="f", library="f.so", sources=["f.c"], command="cc")


def rest(store):
    """What is in the cache's folder beside entries and facts."""
    root = store.folder.root
    return [path.name for name in ("drafts", "failed") if (root / name).exists() for path in (root / name).iterdir()]


def test_an_entry_is_found_again_and_holds_what_was_put(store):
    assert store.find(KEY) is None
    made = put(store)
    found = store.find(KEY)
    assert found == made
    assert (found.label, found.sources, found.read("f.c")) == ("f", ("f.c",), "int x;\n")
    assert found.read("key.txt") == KEY.text
    assert rest(store) == []


@pytest.mark.parametrize("other", [Key("base2", "toolchain"), Key("base", "toolchain2"), Key("baset", "oolchain")])
def test_another_key_is_another_entry(store, other):
    put(store)
    assert store.find(other) is None


def test_a_key_of_the_same_name_is_compared_in_full(store, monkeypatch):
    put(store)
    monkeypatch.setattr(cache_module, "digest", lambda text: "0" * 64)
    first, second = Key("one", "t"), Key("two", "t")
    put(store, first)
    assert store.find(first) is not None
    assert store.find(second) is None


@pytest.mark.parametrize("name", ["f.so", "f.c", "key.txt", "entry.json"])
@pytest.mark.parametrize("harm", ["half", "empty", "gone", "flipped", "link"])
def test_damage_is_found_and_repaired(store, name, harm, tmp_path):
    path = put(store).path / name
    held = path.read_bytes()
    if harm in ("half", "empty"):
        path.write_bytes(held[: len(held) // 2 if harm == "half" else 0])
    elif harm == "flipped":
        path.write_bytes(bytes([held[0] ^ 1]) + held[1:])
    else:
        path.unlink()
        if harm == "link":
            (tmp_path / "elsewhere").write_bytes(held)
            path.symlink_to(tmp_path / "elsewhere")
    assert store.find(KEY) is None
    assert not path.parent.exists()
    assert put(store).library_path.read_text() == "library"
    assert store.find(KEY) is not None


@pytest.mark.parametrize("name", ["f.so", "f.c", "key.txt", "entry.json"])
def test_no_bit_of_an_entry_is_taken_as_it_is_not(name, store):
    """Not one of any file, wherever it is; but for the words about an entry that are for people only."""
    path = put(store).path / name
    held = path.read_bytes()
    told = [held.index(word) for word in (b'"cc"', b'"f",')] if name == "entry.json" else []
    for place in range(len(held)):
        if not any(start <= place < start + 4 for start in told):
            path.write_bytes(held[:place] + bytes([held[place] ^ 1 << place % 8]) + held[place + 1 :])
            with pytest.raises(Damaged):
                verify(path.parent)


def test_files_of_another_format_are_damage(store):
    path = put(store).path / "entry.json"
    about = json.loads(path.read_text())
    for change in (
        {"format": 0},
        {"library": "../f.so"},
        {"files": {"../f.so": ""}},
        {"sources": ["g.c"]},
        {"files": 3},
    ):
        path.write_text(json.dumps(about | change))
        with pytest.raises(Damaged):
            verify(path.parent)


def others_file(path, monkeypatch):
    """Make a file or folder look like another user's."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


@pytest.mark.parametrize("name", ["f.so", "f.c", "."])
def test_what_another_user_owns_is_not_loaded(store, name, monkeypatch):
    entry = put(store)
    others_file(entry.path / name, monkeypatch)
    assert store.find(KEY) is None


@pytest.mark.parametrize("mode", [stat.S_IWGRP, stat.S_IWOTH])
@pytest.mark.parametrize("name", ["f.so", "."])
def test_what_others_can_write_is_not_loaded(store, name, mode):
    path = put(store).path / name
    path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)
    assert store.find(KEY) is None


@pytest.mark.parametrize("how", ["mode", "owner", "link"])
def test_a_folder_in_foreign_hands_is_neither_read_nor_written(store, how, monkeypatch, tmp_path):
    put(store)
    root, lines = store.folder.root, []
    monkeypatch.setattr(folder_module, "_TOLD", set())
    monkeypatch.setattr(folder_module, "_STAND_INS", {})
    before = sorted(root.rglob("*"))
    if how == "mode":
        root.chmod(0o777)
    elif how == "owner":
        others_file(root, monkeypatch)
    else:
        root.rename(tmp_path / "moved")
        root.symlink_to(tmp_path / "moved")
    suspicious = Cache(root.parent, lambda level, line: lines.append((level, line)), BOUND)
    assert suspicious.find(KEY) is None
    put(suspicious, Key("new", "t"))
    assert how == "link" or sorted(root.rglob("*")) == before
    if os.geteuid() == os.getuid():
        assert not suspicious.find(Key("new", "t")).path.is_relative_to(tmp_path)
    assert [(level, "could have been written by another user" in line) for level, line in lines] == [(1, True)]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_any_umask_gives_entries_that_are_accepted(store, umask):
    held = os.umask(umask)
    try:
        entry = put(store)
    finally:
        os.umask(held)
    assert store.find(KEY) is not None
    assert all(trusted(path) for path in (store.folder.root, entry.path, *entry.path.iterdir()))


@pytest.mark.parametrize("kind", ["read-only", "no folder", "none"])
def test_a_cache_that_cannot_be_written_is_replaced_for_the_process(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(folder_module, "_STAND_INS", {})
    monkeypatch.setattr(folder_module, "_TOLD", set())
    lines = []
    where = tmp_path / "cache"
    if kind == "no folder":
        where.write_text("a file")
        where = where / "below"
    store = Cache(None if kind == "none" else where, lambda level, line: lines.append((level, line)), BOUND)
    if kind == "read-only":
        put(store, Key("before", "t"))
        monkeypatch.setattr(os, "access", lambda path, mode: not (str(path).startswith(str(where)) and mode & os.W_OK))
    put(store)
    put(store, Key("more", "t"))
    assert store.find(KEY) is not None
    assert not store.find(KEY).path.is_relative_to(tmp_path)
    assert kind != "read-only" or store.find(Key("before", "t")).path.is_relative_to(where)
    assert [level for level, _ in lines] == [1] * (kind != "none"), "said once"


def test_the_private_folder_goes_with_the_process_and_not_with_its_children():
    code = (
        "import os\nfrom gtensor.codegen.cache import Cache, Key\n"
        "store = Cache(None, lambda level, line: None, 10**9)\n"
        "draft = store.draft()\nprint(draft.root)\n"
        "if os.fork() == 0:\n    import sys\n    sys.exit(0)\n"
        "os.wait()\nassert draft.root.exists()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = done.stdout.split("\n")[:1]
    assert line and not Path(line).exists()


def test_the_first_of_two_builders_wins(store):
    with store.draft() as one, store.draft() as two:
        for draft, text in ((one, "one"), (two, "two")):
            (draft.path / "f.so").write_text(text)
        first = store.publish(one, KEY, label="f", library="f.so", sources=[], command="")
        second = store.publish(two, KEY, label="f", library="f.so", sources=[], command="")
    assert first == second
    assert first.library_path.read_text() == "one"
    assert rest(store) == []


def test_a_builder_takes_the_place_of_a_damaged_entry(store):
    put(store).library_path.write_text("broken")
    assert put(store, text="whole").library_path.read_text() == "whole"
    assert store.find(KEY) is not None


def test_drafts_of_the_dead_go_and_those_of_the_living_stay(store):
    put(store)
    root = store.folder.root
    living = Draft(root)
    living.__enter__()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    owner = living.path.name.partition(".")[0]
    names = {
        "dead": f"{owner}.{dead.pid}.0",
        "elsewhere": f"{'0' * 12}.{dead.pid}.0",
        "elsewhere, old": f"{'0' * 12}.{dead.pid}.1",
    }
    for name in names.values():
        (root / "drafts" / name / "scratch").mkdir(parents=True)
    old = time.time() - 2 * folder_module.OLD
    os.utime(root / "drafts" / names["elsewhere, old"], (old, old))
    with store.draft():
        left = {path.name for path in (root / "drafts").iterdir()}
        assert names["elsewhere"] in left and living.path.name in left
        assert names["dead"] not in left and names["elsewhere, old"] not in left
    living.__exit__()


def test_facts_are_remembered_and_damage_forgets_them(store):
    folder = store.folder
    folder.remember("compiler", "gcc", {"version": 12})
    folder.remember("compiler", "clang", {"version": 14})
    other = Folder(folder.cache, silent)
    assert other.recall("compiler", "gcc") == {"version": 12}
    assert other.recall("compiler", "tcc") is None
    (folder.root / "facts.json").write_text("{")
    assert other.recall("compiler", "gcc") is None
    folder.remember("compiler", "gcc", 3)
    assert other.recall("compiler", "gcc") == 3
    (folder.root / "facts.json").chmod(0o666)
    assert other.recall("compiler", "gcc") is None


def test_prune_and_clear(store):
    now = time.time()
    for age in range(4):
        os.utime(put(store, Key(f"k{age}", "t")).path, (now - 100 * age, now - 100 * age))
    shutil.rmtree(store.folder.root / "uses")  # as when the process that made them has ended
    assert [round(line["idle"], -2) for line in store.listing()] == [0, 100, 200, 300]
    assert store.info()["entries"] == 4
    assert store.prune() == 0
    each = store.listing()[0]["bytes"]
    assert store.prune(max_bytes=3 * each) == 1
    assert store.find(Key("k3", "t")) is None
    os.utime(store.folder.root / "entries" / Key("k2", "t").name, (now - 200, now - 200))
    assert store.prune(max_idle=150) == 1
    (store.folder.root / "entries" / Key("k0", "t").name / "f.so").write_text("x")
    assert [bool(line["wrong"]) for line in store.listing()].count(True) == 1
    assert store.prune() == 1
    assert store.clear() == 1
    assert store.listing() == [] and rest(store) == []


def test_a_hit_counts_as_use(store):
    path = put(store).path
    os.utime(path, (1, 1))
    store.find(KEY)
    assert store.listing()[0]["idle"] < 60


def test_tree_digest_sees_names_and_contents(tmp_path):
    seen = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("a/b.py", "2")):
        folder = tmp_path / str(len(seen))
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
        (folder / "notes.txt").write_text(str(len(seen)))
        seen.add(tree_digest(folder))
    assert len(seen) == 4


# What a model's key holds, with a real compiler.


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A compiler that writes a line to a file each time it is started; the fixture gives options and the count."""
    log, script = tmp_path / "started", tmp_path / "counted-cc"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec cc "$@"\n')
    script.chmod(0o755)
    monkeypatch.delenv("CC", raising=False)

    def count():
        return len(log.read_text().splitlines()) if log.exists() else 0

    return Options(cache=tmp_path / "cache", cc=str(script)), count


def built(options, recipe=RECIPE):
    """Whether the library of a recipe had to be made."""
    workshop = Workshop(options)
    if workshop.find(recipe) is not None:
        return False
    workshop.make(recipe, {"by_hand.c": SOURCE})
    return True


def test_no_change_is_a_hit_that_starts_no_compiler(counted):
    options, count = counted
    assert built(options)
    before = count()
    assert before > 0
    assert not built(options)
    code = (
        "import sys\nfrom pathlib import Path\nfrom gtensor.codegen.artefact import Recipe, Workshop\n"
        "from gtensor.codegen.options import Options\n"
        "options = Options(cache=Path(sys.argv[1]), cc=sys.argv[2])\n"
        "assert Workshop(options).find(Recipe('by_hand', 'some graph')) is not None\n"
        "assert not {'jinja2', 'pycparser'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(options.cache), options.cc], cwd=ROOT, check=True)
    assert count() == before


def change_cpu(monkeypatch, options):
    monkeypatch.setattr(machine, "cpu", lambda: "another CPU")
    return options


def change_version(monkeypatch, options):
    probe = toolchain.probe

    def newer(*args):
        compiler = probe(*args)
        return type(compiler)(**{**vars(compiler), "version": compiler.version + " patched"})

    monkeypatch.setattr(toolchain, "probe", newer)
    os.utime(options.cc)
    return options


def change_compiler(monkeypatch, options):
    other = Path(options.cc).with_name("other-cc")
    other.write_text(Path(options.cc).read_text())
    other.chmod(0o755)
    return Options(cache=options.cache, cc=str(other))


CHANGES = {
    "cpu": change_cpu,
    "compiler version": change_version,
    "compiler path": change_compiler,
    "compiler arguments": lambda monkeypatch, options: Options(cache=options.cache, cc=f"{options.cc} -O2"),
    "flags": lambda monkeypatch, options: Options(cache=options.cache, cc=options.cc, cflags="-g"),
    "variant": lambda monkeypatch, options: Options(cache=options.cache, cc=options.cc, variant="portable"),
    "sanitizer": lambda monkeypatch, options: Options(cache=options.cache, cc=options.cc, sanitize="undefined"),
    "timing": lambda monkeypatch, options: Options(cache=options.cache, cc=options.cc, timing=True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_a_miss_and_the_way_back_a_hit(counted, monkeypatch, what):
    options, count = counted
    assert built(options)
    with monkeypatch.context() as patch:
        changed = CHANGES[what](patch, options)
        assert built(changed)
        before = count()
        assert not built(changed)
        assert count() == before
    if what != "compiler version":
        assert not built(options)


def test_another_text_is_a_miss(counted):
    options, _ = counted
    assert built(options)
    assert built(options, Recipe("by_hand", "another graph"))
    assert not built(options, Recipe("another name", "some graph"))


def test_what_was_compiled_runs_without_a_compiler(counted, monkeypatch, tmp_path):
    options, _ = counted
    assert built(options)
    broken = Options(cache=options.cache, cc="/bin/false")
    assert Workshop(broken).find(RECIPE) is not None
    with pytest.raises(CompileError, match="/bin/false"):
        built(broken, Recipe("by_hand", "another graph"))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    none = Options(cache=options.cache)
    assert Workshop(none).find(RECIPE) is not None
    with pytest.raises(ToolchainError, match="no C compiler"):
        built(none, Recipe("by_hand", "another graph"))
    monkeypatch.setattr(machine, "cpu", lambda: "another CPU")
    assert Workshop(none).find(RECIPE) is None


BUILDER = """
import sys, time
from pathlib import Path
import numpy as np
from gtensor.codegen import trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.library import Library
from gtensor.codegen.options import Options
cache, cc, unit, go = sys.argv[1:]
text = Path(unit).read_text(encoding="utf-8")
print("ready", flush=True)
while not Path(go).exists():
    time.sleep(0.002)
workshop = Workshop(Options(cache=Path(cache), cc=cc))
recipe = Recipe("by_hand", "some graph")
entry = workshop.find(recipe) or workshop.make(recipe, {"by_hand.c": text})
library = Library(entry.library_path, trampoline.abi_bridge(), lambda: 0)
x = np.ones((2, 3), np.float32)
y, _ = library.call([x, x[0], np.zeros(2, np.int64), np.empty(0, bool)], state=library.new_state())
print(float(y.sum()))
"""


def start_builders(count, arguments):
    """Processes that are ready to build, all waiting for the file named last."""
    command = [sys.executable, "-c", BUILDER, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    builders = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(count)]
    for builder in builders:
        assert builder.stdout.readline() == "ready\n", builder.stderr.read()
    return builders


def test_builders_that_race_and_one_that_dies(tmp_path):
    unit, go = tmp_path / "by_hand.c", tmp_path / "go"
    unit.write_text(SOURCE, encoding="utf-8")
    slow = tmp_path / "slow-cc"
    slow.write_text('#!/bin/sh\ncase "$*" in *by_hand.c*) sleep 0.5;; esac\nexec cc "$@"\n')
    slow.chmod(0o755)
    cache = tmp_path / PEOPLE
    toolchain.find(Options(cache=cache, cc=str(slow)))
    builders = start_builders(6, [cache, slow, unit, go])
    go.touch()
    victim = builders.pop()
    drafts = cache / LAYOUT / "drafts"
    deadline = time.time() + 20
    while not any(f".{victim.pid}." in path.name for path in drafts.glob("*")):
        assert time.time() < deadline and victim.poll() is None
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.communicate()
    for builder in builders:
        out, err = builder.communicate(timeout=60)
        assert (builder.returncode, out) == (0, "6.0\n"), err
    (entry,) = (cache / LAYOUT / "entries").iterdir()
    library = next(entry.glob("*.so"))
    for harm in (library.stat().st_size // 2, 0):
        os.truncate(next(entry.glob("*.so")), harm)
        (builder,) = start_builders(1, [cache, slow, unit, go])
        out, err = builder.communicate(timeout=60)
        assert (builder.returncode, out) == (0, "6.0\n"), err
    assert [path.name for path in (cache / LAYOUT / "entries").iterdir()] == [entry.name]
    assert list(drafts.iterdir()) == []
    assert not (cache / LAYOUT / "failed").exists()
