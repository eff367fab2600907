"""The names that users see: `gt.…` is complete, explicit and documented, and methods reach their functions."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import gtensor as gt
from gtensor import methods
from gtensor.prim import FUNCTIONS

OTHERWISE = {
    "at": "x.at[key].set(values)",
    "backward": "loss.backward()",
    "gamma_density": "grad(gammainc)",
    "gelu_exact": "gelu(x)",
    "gelu_slope": "grad(gelu)",
    "gelu_tanh": 'gelu(x, approximate="tanh")',
    "gelu_tanh_slope": "grad(gelu)",
    "getitem": "x[key]",
    "ive": "grad(i1)",
    "power": "pow(x1, x2)",
    "sigmoid_slope": "grad(sigmoid)",
    "sinc_slope": "grad(sinc)",
    "slice_axis": "x.slice(…) or x[…]",
}
"""Registered functions that are called in another way than by their name on `gt`."""


def test_every_function_is_on_gt():
    missing = {name for name, f in FUNCTIONS.items() if getattr(gt, name, None) is not f}
    assert missing == set(OTHERWISE)


def test_every_name_is_listed_once_and_nothing_else_is_public():
    assert len(gt.__all__) == len(set(gt.__all__))
    here = {n for n, v in vars(gt).items() if not n.startswith("_") and not inspect.ismodule(v)} | set(gt._LATE)
    modules = {"errors", "linalg", "nn", "optim", "random", "show"}
    assert here - {"annotations"} | modules | {"__version__"} == set(gt.__all__)


@pytest.mark.parametrize("name", [n for n in gt.__all__ if callable(getattr(gt, n))])
def test_every_function_says_what_it_does(name):
    assert len(inspect.getdoc(getattr(gt, name)) or "") > 15


@pytest.mark.parametrize("module", [gt.linalg, gt.nn, gt.nn.initializers, gt.optim, gt.random])
def test_functions_of_modules_have_an_example(module):
    for name, f in vars(module).items():
        if inspect.isfunction(f) and not name.startswith("_") and f.__module__.startswith(f"{module.__name__}."):
            assert ">>> " in f.__doc__, name


def test_methods_call_functions_that_exist():
    called = re.findall(r'_call\("(\w+)"', Path(methods.__file__).read_text(encoding="utf-8"))
    assert len(called) > 80
    assert not set(called) - set(FUNCTIONS)


def test_aliases_are_the_same_function():
    assert gt.clamp is gt.clip
    assert gt.cat is gt.concatenate is gt.concat
    assert gt.power is gt.pow
    assert gt.topk is gt.top_k
    assert gt.bool is gt.bool_
    assert (gt.degrees, gt.radians, gt.gammaln) == (gt.rad2deg, gt.deg2rad, gt.lgamma)
    assert (gt.fix, gt.rint) == (gt.trunc, gt.round)
    for name in ("relu", "softmax", "gelu", "sigmoid", "silu", "logsumexp"):
        assert getattr(gt.nn, name) is getattr(gt, name)
