"""The architecture as a test: imports run one way, and files stay small.

`LAYERS` is the architecture, lowest layer first, one word per file; a new file is one word more. The
rules read the sources only (nothing is imported) and are themselves tested on small made-up sources.
Law: a module imports modules of its own layer or of lower ones, never in a circle, and at its top.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = {
    "C0": """codegen codegen.lazy codegen.extent codegen.program codegen.cexpr codegen.target codegen.errors
             codegen.options codegen.machine codegen.platforms""",
    "C1": """codegen.access codegen.boundary codegen.check codegen.donate codegen.memory codegen.nest codegen.show
             codegen.trips""",
    "C2": """codegen.ctext codegen.signature codegen.vectors codegen.body codegen.rows codegen.tiles
             codegen.blocking codegen.gemm codegen.prepack codegen.describe codegen.emit codegen.blas codegen.abi
             codegen._abi codegen.folder codegen.uses codegen.sanitizers codegen.compiler codegen.toolchain
             codegen.cache codegen.artefact codegen.trampoline codegen.library codegen.functions codegen.lines
             codegen.routine""",
    "C3": "codegen.write codegen.build codegen.bundle codegen.exported",
    "L0": "types ir tree errors config",
    "L1": "builder prim",
    "L2": """interchange tensor methods torch_methods reach trace pullback grad batch interp show check gradcheck
             explain record jacobian debug narrow arrays_file""",
    "L3": """ops ops.records ops.arithmetic ops.transcendental ops.reduce ops.statistics ops.layout ops.arrange
             ops.assemble ops.create ops.contract ops.products ops.conv ops.index ops.sort ops.random ops.remat
             ops.backscan ops.scan ops.control ops.linalg inspection ops.choice ops.closeness ops.counting
             ops.diagonals ops.einsum ops.joining ops.nan_statistics ops.padding ops.places ops.repeating
             ops.sampled ops.sets ops.splitting ops.elementary ops.floats ops.special ops.custom ops.cumulative
             ops.getitem ops.scatter ops.updates ops.quantiles ops.factors ops.shorthands""",
    "L4": """passes passes.axes passes.compose passes.logic passes.rules passes.sink passes.verify passes.cut
             passes.views passes.algebra passes.gemm passes.loops passes.inline passes.split passes.hoist
             passes.dce nn.activations nn.attention nn.gates nn.piecewise nn.normalization nn.functions nn.losses
             nn.divergences nn.cells nn.layers optim optim.optimizer optim.descent optim.adaptive optim.schedules
             optim.averaging optim.chaining optim.accumulation optim.grouping nn.initializers quantile random names
             nn.channels nn.convolution nn.image_layers nn.pooling nn.resizing linalg linalg.factors linalg.norms
             linalg.products linalg.systems nn.distances nn.likelihoods nn.margins nn.pixels nn.sampling""",
    "L5": "schedule fuse kernel steps statements lower",
    "L6": """gtensor api captures calls donation pipeline stages report resident shortcut loop train nn nn.updaters
             cli demo doctor wiring interface saved loading exporting""",
}
"""Layer -> its modules, named without the leading `gtensor.`; `gtensor` is `gtensor/__init__.py`."""

CODEGEN_SEEN_FROM = {
    "L3": {"codegen.program", "codegen.cexpr"},
    "L6": {name for layer in ("C0", "C1", "C2", "C3") for name in LAYERS[layer].split()},
}
"""What of codegen a layer may import; a layer that is not named here sees the data types, C0."""

THIRD_PARTY = {"numpy", "cffi", "_cffi_backend", "optree", "platformdirs"}
"""Third-party packages imported at the top of a module (`_cffi_backend` is cffi's part at run time)."""

LAZY = {
    "jinja2",
    "matplotlib",
    "ml_dtypes",
    "pygments",
    "safetensors",
    "scipy",
    "scipy_openblas32",
    "sklearn",
    "tqdm",
}
"""Heavy or optional third-party packages: imported inside the function that needs them, nowhere else."""

MAX_LINES = 600

LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules.split()}
RANK = {layer: rank for rank, layer in enumerate(LAYERS)}


@dataclass(frozen=True)
class Import:
    """One imported name. `module` is dotted and absolute; `runs` is false under `if TYPE_CHECKING`."""

    module: str
    line: int
    relative: bool
    nested: bool
    runs: bool


def read(root: Path) -> dict[str, str]:
    """Path below `root` -> text, of every module of gtensor/ and codegen/ at its real place."""
    found = [path for top in ("gtensor", "codegen") for path in (root / top).rglob("*.py")]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}


def module_of(path: str) -> str:
    """The name in `LAYERS` of a source file: `gtensor/ops/reduce.py` is `ops.reduce`."""
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts[1:] if parts[0] == "gtensor" and len(parts) > 1 else parts)


def full(module: str) -> str:
    """The import name of a name in `LAYERS`."""
    return module if module == "gtensor" else f"gtensor.{module}"


def short(module: str) -> str:
    """The name in `LAYERS` of an import name."""
    return module.removeprefix("gtensor.")


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether a statement is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def lazy_name(node: ast.AST) -> str:
    """The name in `Lazy("name", …)`, or the empty string: it counts as an import at the top."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Lazy", "_Lazy")
    if named and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return ""


def imports(path: str, tree: ast.Module, known: set[str]) -> Iterator[Import]:
    """Every import of a module; `from package import name` is the module `package.name` if that is known."""
    package = full(module_of(path)).split(".")
    if not path.endswith("/__init__.py"):
        package.pop()

    def walk(body: Iterable[ast.AST], nested: bool, runs: bool) -> Iterator[Import]:
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, node.lineno, False, nested, runs)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
                for alias in node.names:
                    name = f"{base}.{alias.name}"
                    yield Import(name if name in known else base, node.lineno, node.level > 0, nested, runs)
            elif name := lazy_name(node):
                dots = len(name) - len(name.lstrip("."))
                base = ".".join([*package[: len(package) - dots + 1], name[dots:]]) if dots else name
                yield Import(base, getattr(node, "lineno", 0), dots > 0, False, True)
            elif is_type_checking(node):
                yield from walk(node.body, nested, False)
                yield from walk(node.orelse, nested, runs)
            else:
                inside = nested or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                yield from walk(ast.iter_child_nodes(node), inside, runs)

    yield from walk(tree.body, False, True)


def wrong_import(module: str, item: Import) -> str:
    """What is wrong with one import of `module`, or the empty string."""
    top = item.module.split(".")[0]
    if top == "codegen":
        return "imports codegen as a top-level package: it is gtensor.codegen (a second copy would be loaded)"
    if top == "gtensor":
        return wrong_own_import(module, item)
    if top in LAZY:
        return "" if item.nested or not item.runs else f"imports {top} at its top: it belongs inside the function"
    if top not in THIRD_PARTY and top not in sys.stdlib_module_names:
        return f"imports {top}, which is not on the list of third-party packages"
    return f"imports {top} inside a function: imports stand at the top" if item.nested else ""


def wrong_own_import(module: str, item: Import) -> str:
    """What is wrong with an import of one of our own modules."""
    target, layer = short(item.module), LAYER_OF[module]
    from_codegen, into_codegen = layer.startswith("C"), target.split(".")[0] == "codegen"
    if from_codegen and not into_codegen:
        return f"imports {item.module}: codegen knows nothing of gtensor"
    if from_codegen and not item.relative:
        return f"imports {item.module} by its absolute name: inside codegen imports are relative"
    if item.nested:
        return f"imports {item.module} inside a function: imports stand at the top"
    if target not in LAYER_OF:
        return f"imports {item.module}, which is not in LAYERS"
    if not item.runs:
        return ""
    seen = CODEGEN_SEEN_FROM.get(layer, set(LAYERS["C0"].split()))
    if into_codegen and not from_codegen and target not in seen:
        return f"imports {item.module}: {layer} may import only {', '.join(sorted(seen))} of codegen"
    if RANK[LAYER_OF[target]] > RANK[layer]:
        return f"imports {item.module} ({LAYER_OF[target]}) from {layer}: imports run downwards"
    return ""


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every breach of the architecture in `sources` (path -> text), one line each."""
    out = []
    known = {full(module_of(path)) for path in sources}
    strangers = {module for module in known if short(module) not in LAYER_OF}
    edges: dict[str, set[str]] = {}
    for path, text in sources.items():
        module, tree = module_of(path), ast.parse(text, path)
        if module not in LAYER_OF:
            out.append(f"{path}: is in no layer: add {module!r} to LAYERS in tests/test_layers.py")
            continue
        if ast.get_docstring(tree) is None:
            out.append(f"{path}: has no docstring: open with what lives here and which law holds")
        if (lines := len(text.splitlines())) > MAX_LINES:
            out.append(f"{path}: has {lines} lines, more than {MAX_LINES}: split it by subject")
        found = [item for item in imports(path, tree, known) if item.module not in strangers]
        out += dict.fromkeys(f"{path}:{item.line}: {wrong}" for item in found if (wrong := wrong_import(module, item)))
        edges[module] = {short(item.module) for item in found if item.runs and item.module in known}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        out.append("imports run in a circle: " + " -> ".join(reversed(error.args[1])))
    return out


def second_copies(root: Path) -> list[str]:
    """Tests and scripts that import codegen by the name that would load a second copy of it."""
    out = []
    for path in sorted(path for top in ("tests", "examples", "benchmarks") for path in (root / top).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for item in imports(name, ast.parse(path.read_text(encoding="utf-8"), name), set()):
            if item.module.split(".")[0] == "codegen":
                out.append(f"{name}:{item.line}: imports codegen: its name is gtensor.codegen")
    return out


def test_the_sources_keep_the_architecture():
    sources = read(ROOT)
    assert "codegen/program.py" in sources
    assert "gtensor/ir.py" in sources
    assert not (found := violations(sources)), "\n".join(found)


def test_nothing_loads_a_second_codegen():
    assert not (found := second_copies(ROOT)), "\n".join(found)


def test_each_module_has_one_layer():
    named = [module for modules in LAYERS.values() for module in modules.split()]
    assert sorted(named) == sorted(set(named))


def test_read_visits_each_file_once(tmp_path):
    for path in ("codegen/program.py", "gtensor/ir.py", "gtensor/ops/reduce.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text('"""Doc."""\n')
    (tmp_path / "gtensor" / "codegen").symlink_to("../codegen")
    assert list(read(tmp_path)) == ["codegen/program.py", "gtensor/ir.py", "gtensor/ops/reduce.py"]


def test_second_copies_are_found(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("import gtensor.codegen\nfrom gtensor.codegen import program\n")
    assert second_copies(tmp_path) == []
    (tmp_path / "tests" / "test_b.py").write_text("import codegen.program\ndef f():\n    from codegen import emit\n")
    assert [line.split(": ")[0] for line in second_copies(tmp_path)] == ["tests/test_b.py:1", "tests/test_b.py:3"]


DOC = '"""Doc."""\n'
"""The least that a made-up module needs to be lawful."""

LAWFUL = {
    "gtensor/ir.py": "from typing import TYPE_CHECKING\nimport numpy as np\nfrom .types import Type\n"
    "if TYPE_CHECKING:\n    from .prim import Prim\n    from scipy import special",
    "gtensor/types.py": "import math",
    "gtensor/prim.py": "from . import ir\nfrom .types import Type",
    "gtensor/ops/__init__.py": "from . import reduce",
    "gtensor/ops/reduce.py": "from ..prim import Prim\nfrom ..codegen.cexpr import Expr\nfrom ..codegen import program",
    "gtensor/lower.py": "from .codegen.errors import ProgramError\nfrom .ops import reduce",
    "gtensor/api.py": "import gtensor.types\nfrom .codegen import build\ndef f():\n    from scipy import special",
    "gtensor/__init__.py": "from .api import f",
    "codegen/__init__.py": "",
    "codegen/cexpr.py": "",
    "codegen/errors.py": "",
    "codegen/program.py": "from .cexpr import Expr",
    "codegen/emit.py": "from . import program\ndef f():\n    import jinja2",
    "codegen/build.py": "from .emit import f\nfrom .program import Program",
}
"""A small lawful tree; each case below adds one sin to it."""


def made_up(**changes: str) -> list[str]:
    sources = {path: DOC + text for path, text in LAWFUL.items()}
    return violations(sources | {path: DOC + text for path, text in changes.items()})


def test_a_lawful_tree_passes():
    assert made_up() == []


@pytest.mark.parametrize(
    "path, text, message",
    [
        ("gtensor/types.py", "from .api import f", "gtensor/types.py:2: imports gtensor.api (L6) from L0"),
        ("gtensor/types.py", "from . import prim", "gtensor/types.py:2: imports gtensor.prim (L1) from L0"),
        ("gtensor/types.py", "import gtensor.prim", "gtensor/types.py:2: imports gtensor.prim (L1) from L0"),
        ("gtensor/types.py", "from gtensor import prim", "gtensor/types.py:2: imports gtensor.prim (L1) from L0"),
        ("gtensor/types.py", "from . import f", "gtensor/types.py:2: imports gtensor (L6) from L0"),
        ("gtensor/types.py", "try:\n    from .api import f\nexcept ImportError:\n    f = None", "(L6) from L0"),
        ("gtensor/ops/reduce.py", "from ..lower import lower", "imports gtensor.lower (L5) from L3"),
        ("codegen/program.py", "from .emit import f", "imports gtensor.codegen.emit (C2) from C0"),
        (
            "gtensor/types.py",
            'later = Lazy(".prim", __package__)',
            "gtensor/types.py:2: imports gtensor.prim (L1) from L0",
        ),
        ("codegen/emit.py", 'later = Lazy("..types", __package__)', "codegen knows nothing of gtensor"),
        ("gtensor/types.py", "from .ir import Var", "imports run in a circle: "),
        ("gtensor/ops/reduce.py", "from . import vjp", "imports run in a circle: "),
        ("gtensor/new.py", "", "gtensor/new.py: is in no layer: add 'new' to LAYERS"),
        ("gtensor/ops/new.py", "", "add 'ops.new' to LAYERS"),
        ("codegen/new.py", "", "add 'codegen.new' to LAYERS"),
        ("gtensor/types.py", "from .nowhere import x", "imports gtensor.nowhere, which is not in LAYERS"),
        ("gtensor/api.py", "def f():\n    from .types import Type", ":3: imports gtensor.types inside a function"),
        ("gtensor/api.py", "def f():\n    if f:\n        import math", ":4: imports math inside a function"),
        ("gtensor/api.py", "async def f():\n    import math", "imports math inside a function"),
        ("gtensor/api.py", "class A:\n    def f():\n        import numpy", "imports numpy inside a function"),
        ("codegen/emit.py", "def f():\n    from . import program", "imports gtensor.codegen.program inside a function"),
        ("gtensor/api.py", "import scipy.special", "imports scipy at its top"),
        ("codegen/emit.py", "from jinja2 import Template", "imports jinja2 at its top"),
        ("gtensor/api.py", "import torch", "imports torch, which is not on the list"),
        ("gtensor/api.py", "def f():\n    import torch", "imports torch, which is not on the list"),
        ("gtensor/api.py", "import codegen", "imports codegen as a top-level package"),
        ("gtensor/api.py", "from codegen.program import Program", "imports codegen as a top-level package"),
        ("codegen/emit.py", "from codegen import program", "imports codegen as a top-level package"),
        ("codegen/emit.py", "from gtensor.codegen import program", "by its absolute name"),
        ("codegen/emit.py", "from ..types import Type", "imports gtensor.types: codegen knows nothing of gtensor"),
        ("codegen/emit.py", "import gtensor", "imports gtensor: codegen knows nothing of gtensor"),
        ("codegen/emit.py", "from .. import x", "imports gtensor: codegen knows nothing of gtensor"),
        ("codegen/emit.py", "def f():\n    from ..api import f", "codegen knows nothing of gtensor"),
        ("codegen/emit.py", "if TYPE_CHECKING:\n    from ..types import Type", "codegen knows nothing of gtensor"),
        ("gtensor/ops/reduce.py", "from ..codegen import build", "L3 may import only codegen.cexpr, codegen.program"),
        (
            "gtensor/ops/reduce.py",
            "from ..codegen.errors import E",
            "L3 may import only codegen.cexpr, codegen.program",
        ),
        ("gtensor/ops/reduce.py", "import gtensor.codegen", "L3 may import only codegen.cexpr, codegen.program"),
        ("gtensor/lower.py", "from .codegen.emit import f", "imports gtensor.codegen.emit: L5 may import only"),
        ("gtensor/types.py", "x = 1\n" * MAX_LINES, f"has {MAX_LINES + 1} lines"),
    ],
)
def test_a_sin_is_found(path, text, message):
    found = made_up(**{path: text})
    assert any(message in line for line in found), found


def test_a_module_without_docstring_is_found():
    assert violations({"gtensor/types.py": "# types\n"})[0].startswith("gtensor/types.py: has no docstring")
