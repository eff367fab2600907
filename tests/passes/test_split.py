"""The pass `split`, as far as long dot products are concerned: they are sums, which keep their digits."""

from __future__ import annotations

import pytest

import gtensor as gt
from gtensor.passes.split import LONG, split

from .laws import left, op

K = LONG + 1


def names(lines):
    return [line.split(" = ")[1].split("(")[0] for line in lines[:-1]]


def test_a_long_dot_product_is_a_sum():
    lines = left(split, lambda x, y: op("matmul", x, y, ta=True, tb=False), f"f32[{K},1]", f"f32[{K},1]")
    assert names(lines) == ["reshape", "reshape", "broadcast", "mul", "sum", "reshape"]
    assert lines[-3:] == ["t4: f32[1] = sum(t3, axis=(1))", "t5: f32[1,1] = reshape(t4, shape=(1, 1))", "return t5"]


@pytest.mark.parametrize("types", [(f"f32[3,{K}]", f"f32[{K},1]"), (f"f32[1,{K}]", f"f32[3,{K}]")], ids=str)
def test_rows_that_lie_as_they_are_read_are_summed_along(types):
    turned = types[0].startswith("f32[1")
    lines = left(split, lambda x, y: op("matmul", x, y, ta=False, tb=turned), *types)
    assert names(lines)[-3:] == ["mul", "sum", "reshape"]


@pytest.mark.parametrize(
    ("types", "ta", "tb"),
    [
        (("f32[1,4096]", "f32[4096,1]"), False, False),
        ((f"f32[{K},3]", f"f32[{K},1]"), True, False),
        ((f"f32[2,{K}]", f"f32[{K},2]"), False, False),
        ((f"i64[1,{K}]", f"i64[{K},1]"), False, False),
        ((f"f32[2,1,{K}]", f"f32[2,{K},1]"), False, False),
    ],
)
def test_other_products_stay(types, ta, tb):
    specs = [gt.spec(tuple(map(int, t[4:-1].split(","))), {"f": "float32", "i": "int64"}[t[0]]) for t in types]
    graph = gt.trace(lambda x, y: op("matmul", x, y, ta=ta, tb=tb), *specs)
    assert split(graph) is graph
