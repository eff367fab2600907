"""What the project says of itself holds: README, Makefile, change log, links, and the fixtures of the tests."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import gtensor
from gtensor.config import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of README.md in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_ci_runs_the_test_command_of_the_readme():
    environment, activate, *commands = blocks("sh")[1].strip().split(" && ")
    assert (environment, activate) == ("python3 -m venv .venv", ". .venv/bin/activate")
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in commands] == commands
    assert lines[-1] == commands[-1]


def test_the_example_of_the_readme_runs(tmp_path, capsys):
    (example,) = blocks("python")
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    runpy.run_path(str(tmp_path / "example.py"))
    before, after = capsys.readouterr().out.strip().splitlines()[-1].split(" -> ")
    assert float(after) < 0.5 * float(before)


def test_the_readme_has_every_setting():
    rows = re.findall(r"^\| `(GT_\w+)` \| `(\w+)` \| (.*) \|$", README, re.MULTILINE)
    assert rows == [(setting.variable, name, setting.doc) for name, setting in SETTINGS.items()]


PAGES = sorted(
    p.relative_to(ROOT).as_posix() for folder in (".", "docs", "examples") for p in ROOT.glob(f"{folder}/*.md")
)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not ((ROOT / name).parent / link).exists()]


def test_every_page_of_the_documentation_is_linked():
    assert not [page for page in PAGES if page.startswith("docs/") and f"({page})" not in README]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_has_the_targets_that_are_named(name):
    named = set(re.findall(r"`make (\w+)", (ROOT / name).read_text(encoding="utf-8")))
    assert named <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_change_log_opens_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None
    assert first.group(1) == gtensor.__version__


@pytest.mark.parametrize("name", ["codegen", "templates"])
def test_the_import_names_are_links_to_the_top_level(name):
    assert (ROOT / "gtensor" / name).resolve() == ROOT / name


def test_golden_files_are_compared_and_rewritten(golden, tmp_path):
    compare, update = type(golden)(tmp_path, False), type(golden)(tmp_path, True)
    with pytest.raises(pytest.fail.Exception, match=r"no golden file w1/a\.txt"):
        compare("w1/a.txt", "one\n")
    update("w1/a.txt", "one\n")
    compare("w1/a.txt", "one\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)has changed.*-one\n\+two"):
        compare("w1/a.txt", "two\n")
