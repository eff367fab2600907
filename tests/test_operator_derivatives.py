"""First and second derivatives of every function of docs/operators.md that has some, against differences.

Functions are called as for the page, with operands drawn away from ties and kinks; other tests go to those.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import gtensor as gt
from docs import operator_errors, operators

PAGE = operators.PAGE.read_text(encoding="utf-8")
DERIVATIVES = dict(re.findall(r"^\| `([\w.]+)` \|.*\| (any[\w ]*) \| [^|]* \| [^|]* \| [^|]* \|$", PAGE, re.MULTILINE))
SIDES = {"any": (0, 1), "any by x1": (0,), "any by x2": (1,)}


def test_most_functions_have_derivatives():
    assert len(DERIVATIVES) > 280 and {"sin", "matmul", "nn.conv2d", "linalg.svd", "gammainc"} <= {*DERIVATIVES}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_differences(name):
    run = operators.call(name, operators.functions()[name])
    operands = [gt.tensor(a.astype(np.float64)) for a in operator_errors.operands(name, 3)]
    sides = SIDES[DERIVATIVES[name]]

    def varied(*some):
        given = dict(zip(sides, some, strict=True))
        return operator_errors.floats(run(*(given.get(i, operands[i]) for i in (0, 1))))

    gt.check_grads(varied, [operands[i] for i in sides], order=2)
