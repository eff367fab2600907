"""docs/read-the-c.md shows what gtensor really makes: every excerpt stands in the text of a stage.

The page's first Python block is run as the file `mlp.py`; its step is written for one fixed target, so
that the page does not depend on the machine.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from gtensor.codegen import show
from gtensor.codegen.emit import emit
from gtensor.codegen.target import Target
from gtensor.codegen.write import place

PAGE = Path(__file__).resolve().parent.parent / "docs" / "read-the-c.md"
AVX2 = Target("avx2", width=32, registers=16, fma=True)


def blocks(language: str) -> list[str]:
    """The code blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The stages of the page's step as text."""
    path = tmp_path_factory.mktemp("docs") / "mlp.py"
    path.write_text(blocks("python")[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mlp", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lowered = module.train.compiled.lowered
    plan = place(lowered.program, AVX2, False)
    return {
        "c": emit(plan, AVX2).c_source,
        "text": "\n".join([lowered.traced.as_text(), lowered.as_text("schedule"), show.show(plan.program)]),
    }


@pytest.mark.parametrize("language", ["c", "text"])
def test_excerpts_are_real(texts, language):
    found = blocks(language)
    assert found
    for block in found:
        for part in re.split(r"^ *…\n", block, flags=re.MULTILINE):
            assert part.rstrip() in texts[language], f"{language}: not in the stage:\n{part}"
