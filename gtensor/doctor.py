"""`gtensor doctor`: what this machine offers, and whether compiled code works on it.

Goes out: a few lines per finding (compiler, vectors, BLAS, calls, cache) and a self-test, in which a small training
step is compiled afresh and compared with the evaluator. Law: a finding that fails says what to do, and the others
are still looked at.
"""

from __future__ import annotations

import platform
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import optim
from .api import compile
from .codegen import blas, build, toolchain
from .codegen.artefact import Workshop
from .codegen.errors import CodegenError
from .codegen.options import Options
from .codegen.trampoline import bridge
from .config import config
from .errors import GTensorError, InternalError
from .grad import value_and_grad
from .ops.contract import matmul
from .ops.statistics import mean
from .ops.transcendental import tanh
from .report import amount
from .stages import Settings


def main() -> int:
    """Print the findings; the exit status is 0 if all is well."""
    print(f"\n  gtensor {sys.modules[__package__ or 'gtensor'].__version__}\n")
    failed = [name for name, look in FINDINGS if not _finding(name, look)]
    print(f"\n  {'All is well.' if not failed else 'Not in order: ' + ', '.join(failed) + '.'}\n")
    return 1 if failed else 0


def _finding(name: str, look: Callable[[Options], Sequence[str]]) -> bool:
    """Print one finding; False if it failed."""
    try:
        lines, good = look(Settings.now().options), True
    except (GTensorError, CodegenError, OSError) as error:
        lines, good = str(error).splitlines(), False
    for i, line in enumerate(lines):
        print(f"  {(name if i == 0 else ''):<11}{'' if good or i else 'FAILED: '}{line}")
    return good


def _python(options: Options) -> list[str]:
    return [f"{platform.python_version()} on {platform.system()} {platform.machine()}, numpy {np.__version__}"]


def _compiler(options: Options) -> list[str]:
    found = toolchain.find(options)
    return [f"{shlex.join(found.command)}: {found.version}", f"{found.path}"]


def _vectors(options: Options) -> list[str]:
    target = build.target(options)
    fused = "with" if target.fma else "without"
    features = " ".join(name.strip("_").lower() for name in toolchain.find(options).features)
    lines, line = [f"{8 * target.width} bits wide, {target.registers} registers, {fused} fused multiply-add"], ""
    for feature in features.split():
        if len(line) + len(feature) > 66:
            lines, line = [*lines, line], ""
        line = f"{line} {feature}".strip()
    return [*lines, line] if line else lines


def _blas(options: Options) -> list[str]:
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    if not provider:
        return ["none: products are gtensor's own"]
    blas.table(provider, workshop)
    return [f"{provider.name} {provider.version}, multiplies right", provider.path]


def _calls(options: Options) -> list[str]:
    mode = bridge(Workshop(options)).mode
    return ["compiled trampoline" if mode == "api" else "through libffi: no Python.h or no compiler for a trampoline"]


def _cache(options: Options) -> list[str]:
    info = build.cache(options).info()
    state = f"{info['entries']} entries, {amount(info['bytes'], 'B')}"
    if not info["usable"]:
        state += ", not there yet" if not info["entries"] else ", read-only or unsafe: not used"
    return [state, info["folder"]]


def _self_test(options: Options) -> list[str]:
    """Train a small network for three steps, compiled in a folder of its own, and evaluated; raises InternalError."""
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((5, 3), np.float32), "b": np.zeros(3, np.float32)}
    x, y = rng.standard_normal((7, 5), np.float32), rng.standard_normal((7, 3), np.float32)
    optimizer = optim.adam(1e-2)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        def loss_fn(params: Any) -> Any:
            return mean((tanh(matmul(x, params["w"]) + params["b"]) - y) ** 2)

        loss, grads = value_and_grad(loss_fn)(params)
        return *optimizer.update(params, grads, state), loss

    def losses(run: Callable[..., Any]) -> list[float]:
        now, state, found = params, optimizer.init(params), []
        for _ in range(3):
            now, state, loss = run(now, state, x, y)
            found.append(loss.item())
        return found

    evaluated = losses(step)
    with tempfile.TemporaryDirectory(prefix="gtensor-doctor-") as folder, config(cache=folder, dump=""):
        compiled = losses(compile(step))
    if not np.allclose(evaluated, compiled, rtol=1e-5):
        raise InternalError(f"a compiled step gives {compiled}, evaluated it gives {evaluated}")
    return [f"a compiled training step agrees with the evaluator: loss {compiled[-1]:.6f}"]


FINDINGS: tuple[tuple[str, Callable[[Options], Sequence[str]]], ...] = (
    ("python", _python),
    ("compiler", _compiler),
    ("vectors", _vectors),
    ("blas", _blas),
    ("calls", _calls),
    ("cache", _cache),
    ("self-test", _self_test),
)
"""Name -> how it is found out, in order."""
