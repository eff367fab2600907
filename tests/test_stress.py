"""Five rounds of the stress program, and faults that it must find."""

from __future__ import annotations

import random
import shutil

import pytest

from tests.stress import one_round, warm

pytestmark = pytest.mark.unsanitized("measures how long processes wait")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A cache that knows the compiler and the bridge, and the seconds that the step takes to compile."""
    cache = tmp_path_factory.mktemp("known") / "cache"
    return cache, warm(cache)


def test_twenty_processes_of_which_some_are_killed(known, tmp_path):
    chance, killed = random.Random(20), 0
    for number in range(5):
        found = one_round(shutil.copytree(known[0], tmp_path / str(number)), known[1], chance)
        assert found.wrong == []
        killed += found.killed
    assert killed >= 10


FAULTS = {
    "a half entry can be seen": """
import shutil
rename = os.rename
def copied(source, target):
    if "entries" not in str(target):
        return rename(source, target)
    os.mkdir(target)
    for name in os.listdir(source):
        time.sleep(0.02)
        shutil.copy(os.path.join(source, name), target)
os.rename = copied
""",
    "somebody still waits": """
from gtensor.codegen.artefact import Workshop
def locked(self, *args, **kwargs):
    while True:  # for a lock that a dead process holds
        time.sleep(1)
Workshop.make = locked
""",
    "different losses": """
right = losses
losses = lambda: ([str(os.getpid())], right()[1])
""",
    "have no result": "losses = lambda: os._exit(0)\n",
    "RuntimeError('an error')": """
def losses():
    raise RuntimeError("an error")
""",
}


@pytest.mark.parametrize("told", FAULTS)
def test_a_fault_is_found(told, known, tmp_path):
    found = one_round(shutil.copytree(known[0], tmp_path / "cache"), known[1], random.Random(1), 2, FAULTS[told])
    assert any(told in line for line in found.wrong), found.wrong
