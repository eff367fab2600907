"""What all tests share: the cache folder, how hypothesis searches, and golden files.

The tests cache compiled models in build/cache unless GT_CACHE says otherwise. Hypothesis tries the same
examples on every run; `--fuzz N` tries N new ones for each property, so a property that needs more than
others says `@settings(max_examples=5 * settings.default.max_examples)`, never a number of its own.
A test that compares text with a file of tests/golden takes the fixture `golden`; `--golden` runs only
those tests and rewrites their files, so that a change of what is generated is reviewed as a diff.
The memory that compiled models work in is full of NaN at first: a result that depends on what nobody wrote is wrong.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from gtensor import resident
from gtensor.codegen import library, sanitizers
from tests.sanitized import LEFT_OUT, exact

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("GT_CACHE", str(ROOT / "build" / "cache"))


ROOM = exact if sanitizers.loaded() else library.aligned_empty


def poisoned(nbytes: int, empty: Callable[[int], np.ndarray] = ROOM) -> np.ndarray:
    """Memory whose floats are NaN, integers -1 and booleans no booleans."""
    memory = empty(nbytes)
    memory[:] = 0xFF
    return memory


library.aligned_empty = resident.aligned_empty = poisoned


@dataclass(frozen=True)
class Golden:
    """Compares text with the files of `folder`, or rewrites them when `update` is set."""

    folder: Path
    update: bool

    def __call__(self, name: str, text: str) -> None:
        """Fail with a diff unless the file `name` holds `text`."""
        path = self.folder / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"there is no golden file {name}: make golden writes it", pytrace=False)
        elif (held := path.read_text(encoding="utf-8")) != text:
            diff = difflib.unified_diff(held.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
            lines = list(diff) or ["(they differ in line ends)"]
            pytest.fail("\n".join([f"{name} has changed; if it should: make golden", *lines[:80]]), pytrace=False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares `text` with tests/golden/`name`."""
    return Golden(ROOT / "tests" / "golden", request.config.getoption("--golden"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gtensor")
    group.addoption("--golden", action="store_true", help="run the tests with golden files and rewrite the files")
    group.addoption("--fuzz", type=int, metavar="N", help="try N new examples for each hypothesis property")


def pytest_configure(config: pytest.Config) -> None:
    common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
    settings.register_profile("same", derandomize=True, **common)
    settings.register_profile("fuzz", max_examples=config.getoption("--fuzz") or 100, **common)
    settings.load_profile("fuzz" if config.getoption("--fuzz") else "same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--golden"):
        config.hook.pytest_deselected(items=[item for item in items if not has_golden(item)])
        items[:] = filter(has_golden, items)
    if sanitizers.loaded():
        for item in items:
            if mark := item.get_closest_marker("unsanitized"):
                item.add_marker(pytest.mark.skip(reason=LEFT_OUT + mark.args[0]))


def has_golden(item: pytest.Item) -> bool:
    """Whether a test compares with golden files."""
    return "golden" in getattr(item, "fixturenames", ())
