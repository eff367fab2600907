"""Every function of docs/operators.md: derivatives against differences, compiled against eager, vmap against a loop.

Functions are called as for the page, with operands drawn away from ties and kinks; other tests go to those.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import gtensor as gt
from docs.operator_errors import floats, operands, traced
from docs.operators import PAGE, call, functions

FUNCTIONS = functions()
SIDES = {"any": (0, 1), "any by x1": (0,), "any by x2": (1,)}
ROW = re.compile(r"^\| `([\w.]+)` \|.*\| (any[\w ]*) \| [^|]* \| [^|]* \| [^|]* \|$", re.MULTILINE)
DERIVATIVES = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
"""Function -> by which operands it has derivatives of any order."""


def drawn(name, seed=3):
    """Operands in float64."""
    return tuple(a.astype(np.float64) for a in operands(name, seed))


TRACED = [name for name in DERIVATIVES if traced(call(name, FUNCTIONS[name]), *map(gt.tensor, drawn(name)))]
PARTS = [TRACED[at : at + 60] for at in range(0, len(TRACED), 60)]


def test_most_functions_have_derivatives():
    assert len(TRACED) > 280 and {"sin", "matmul", "nn.conv2d", "linalg.svd", "gammainc"} <= {*TRACED}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_differences(name):
    run, given, sides = call(name, FUNCTIONS[name]), [*map(gt.tensor, drawn(name))], SIDES[DERIVATIVES[name]]

    def varied(*some):
        chosen = dict(zip(sides, some, strict=True))
        return floats(run(*(chosen.get(i, given[i]) for i in (0, 1))))

    gt.check_grads(varied, [given[i] for i in sides], order=2)


def loss_of(name):
    """The sum of the squares of all that a function gives."""
    run = call(name, FUNCTIONS[name])
    return lambda x, y: sum(gt.sum(gt.square(out)) for out in floats(run(x, y)))


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_compiled_derivatives_are_the_eager_ones(part):
    given = {name: drawn(name) for name in PARTS[part]}

    def slopes(given):
        return {name: gt.grad(loss_of(name), SIDES[DERIVATIVES[name]])(*given[name]) for name in PARTS[part]}

    eager = slopes({name: tuple(map(gt.tensor, pair)) for name, pair in given.items()})
    for name, found in gt.compile(slopes)(given).items():
        for got, wanted in zip(found, eager[name], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("name", TRACED)
def test_a_batch_is_a_loop(name):
    run = call(name, FUNCTIONS[name])
    each = [drawn(name, seed) for seed in range(3)]
    batch = gt.vmap(lambda x, y: floats(run(x, y)))(*(np.stack(side) for side in zip(*each, strict=True)))
    for i, pair in enumerate(each):
        for got, wanted in zip(batch, floats(run(*map(gt.tensor, pair))), strict=True):
            np.testing.assert_allclose(got.numpy()[i], wanted, rtol=1e-9, atol=1e-11)
