"""Each rewrite of `views` in one example: the equations that are left."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.passes.views import views

from .laws import extents, left, left_inside, op


def T(x, *axes):
    return op("transpose", x, axes=axes)


def R(x, *shape):
    return op("reshape", x, shape=extents(shape))


def S(x, *shape):
    return op("broadcast", x, shape=extents(shape))


def apart(x):
    """Four elements at 1, 3, 5 and 7 of nine."""
    return op("pad", x, shape=(9,), start=(1,), step=(2,), value=0.0)


COMPOSED = [
    ("transposes", lambda x: T(T(x, 1, 2, 0), 1, 0, 2), ["f32[2,3,4]"],
     ["t0: f32[4,3,2] = transpose(x, axes=(2, 1, 0))", "return t0"]),
    ("transposes that undo each other", lambda x: T(T(T(x, 1, 2, 0), 1, 2, 0), 1, 2, 0), ["f32[2,3,4]"], ["return x"]),
    ("a transpose of unit axes", lambda x: T(x, 1, 0, 2), ["f32[1,3,4]"],
     ["t0: f32[3,1,4] = reshape(x, shape=(3, 1, 4))", "return t0"]),
    ("a transpose of a broadcast", lambda x: T(S(x, 2, 3), 1, 0), ["f32[3]"],
     ["t0: f32[3,1] = reshape(x, shape=(3, 1))", "t1: f32[3,2] = broadcast(t0, shape=(3, 2))", "return t1"]),
    ("reshapes", lambda x: R(R(x, 6), 3, 2), ["f32[2,3]"], ["t0: f32[3,2] = reshape(x, shape=(3, 2))", "return t0"]),
    ("a reshape of a literal", lambda: R(R(np.float32(2), 1, 1), 1), [],
     ["t0: f32[1] = broadcast(2.0:f32, shape=(1))", "return t0"]),
    ("a reshape of a broadcast by whole axes", lambda x: R(S(x, 2, 3, 4), 6, 4), ["f32[4]"],
     ["t0: f32[6,4] = broadcast(x, shape=(6, 4))", "return t0"]),
    ("a reshape of a broadcast in the middle", lambda x: R(S(R(x, 2, 1, 4), 2, 3, 4), 2, 3, 2, 2), ["f32[2,4]"],
     ["t0: f32[2,1,2,2] = reshape(x, shape=(2, 1, 2, 2))", "t1: f32[2,3,2,2] = broadcast(t0, shape=(2, 3, 2, 2))",
      "return t1"]),
    ("not a reshape that tears a broadcast", lambda x: R(S(x, 2, 3), 6), ["f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "t1: f32[6] = reshape(t0, shape=(6))", "return t1"]),
    ("broadcasts", lambda x: S(S(x, 2, 1, 3), 4, 2, 5, 3), ["f32[1,3]"],
     ["t0: f32[4,2,5,3] = broadcast(x, shape=(4, 2, 5, 3))", "return t0"]),
    ("a broadcast that repeats nothing", lambda x: S(x, 1, 1, 3), ["f32[3]"],
     ["t0: f32[1,1,3] = reshape(x, shape=(1, 1, 3))", "return t0"]),
    ("a broadcast of new unit axes", lambda x: S(R(x, 1, 1, 3), 2, 4, 3), ["f32[3]"],
     ["t0: f32[2,4,3] = broadcast(x, shape=(2, 4, 3))", "return t0"]),
    ("a broadcast of dropped unit axes", lambda x: S(R(x), 2, 3), ["f32[1,1]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "return t0"]),
    ("flips", lambda x: op("flip", op("flip", x, axes=(0, 1)), axes=(1, 2)), ["f32[2,3,4]"],
     ["t0: f32[2,3,4] = flip(x, axes=(0, 2))", "return t0"]),
    ("flips of one axis", lambda x: op("flip", op("flip", x, axes=(0,)), axes=(0,)), ["f32[3]"], ["return x"]),
    ("a flip of unit axes", lambda x: op("flip", x, axes=(0, 1, 2)), ["f32[1,3,0]"],
     ["t0: f32[1,3,0] = flip(x, axes=(1))", "return t0"]),
    ("a flip of a broadcast", lambda x: op("flip", S(x, 2, 3), axes=(0, 1)), ["f32[3]"],
     ["t0: f32[3] = flip(x, axes=(0))", "t1: f32[2,3] = broadcast(t0, shape=(2, 3))", "return t1"]),
    ("a flip of repeated axes", lambda x: op("flip", S(x, 2, 3), axes=(0,)), ["f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "return t0"]),
    ("slices", lambda x: x[1:9:2][1:3], ["f32[10]"],
     ["t0: f32[2] = slice(x, start=(3), step=(2), stop=(6))", "return t0"]),
    ("slices with bounds of several kinds", lambda x: (x[0:5:2], x[0:6:2]), ["f32[7]"],
     ["t0: f32[3] = slice(x, start=(0), step=(2), stop=(5))", "return t0, t0"]),
    ("empty slices", lambda x: (x[2:2], x[5:5]), ["f32[7]"],
     ["t0: f32[0] = slice(x, start=(0), step=(1), stop=(0))", "return t0, t0"]),
    ("a slice of repeated axes", lambda x: op("slice", S(x, 6, 3), start=(1, 0), stop=(5, 3), step=(2, 1)), ["f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "return t0"]),
    ("a slice of a broadcast", lambda x: op("slice", S(x, 6, 3), start=(1, 1), stop=(5, 3), step=(2, 1)), ["f32[3]"],
     ["t0: f32[2] = slice(x, start=(1), step=(1), stop=(3))", "t1: f32[2,2] = broadcast(t0, shape=(2, 2))",
      "return t1"]),
    ("a slice of a broadcast of one element", lambda x: S(x, 6, 3)[2:4], ["f32[]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "return t0"]),
    ("a slice with a run-time axis", lambda x: x[:, 1:][:, ::2], ["f32[B,6]"],
     ["t0: f32[B,3] = slice(x, start=(0, 1), step=(1, 2), stop=(B, 6))", "return t0"]),
    ("a slice inside one piece", lambda x, y: gt.concat([x, y])[3:5], ["f32[2,3]", "f32[4,3]"],
     ["t0: f32[2,3] = slice(y, start=(1, 0), step=(1, 1), stop=(3, 3))", "return t0"]),
    ("a slice that is a piece", lambda x, y: gt.concat([x, y], axis=1)[:, 2:], ["f32[3,2]", "f32[3,4]"], ["return y"]),
    ("not a slice of two pieces", lambda x, y: gt.concat([x, y])[1:3], ["f32[2]", "f32[2]"],
     ["t0: f32[4] = concat(x, y, axis=0)", "t1: f32[2] = slice(t0, start=(1), step=(1), stop=(3))", "return t1"]),
    ("a slice inside a pad", lambda x: gt.pad(x, (2, 3))[3:5], ["f32[4]"],
     ["t0: f32[2] = slice(x, start=(1), step=(1), stop=(3))", "return t0"]),
    ("a slice that undoes a pad", lambda x: apart(x)[1:8:2], ["f32[4]"],
     ["return x"]),
    ("not a slice of the border", lambda x: gt.pad(x, (2, 3))[1:4], ["f32[4]"],
     ["t0: f32[9] = pad(x, shape=(9), start=(2), step=(1), value=0.0)",
      "t1: f32[3] = slice(t0, start=(1), step=(1), stop=(4))", "return t1"]),
    ("not a slice between written elements", lambda x: apart(x)[2:7:2], ["f32[4]"],
     ["t0: f32[9] = pad(x, shape=(9), start=(1), step=(2), value=0.0)",
      "t1: f32[3] = slice(t0, start=(2), step=(2), stop=(7))", "return t1"]),
    ("a pad of nothing", lambda x: gt.pad(x, (0, 0)), ["f32[4]"], ["return x"]),
    ("pads with one value", lambda x: gt.pad(gt.pad(x, (1, 2)), (0, 3)), ["f32[4]"],
     ["t0: f32[10] = pad(x, shape=(10), start=(1), step=(1), value=0.0)", "return t0"]),
    ("pads with steps", lambda x: op("pad", op("pad", x, shape=(4,), start=(1,), step=(2,), value=1.0),
                                     shape=(12,), start=(2,), step=(3,), value=1.0), ["f32[2]"],
     ["t0: f32[12] = pad(x, shape=(12), start=(5), step=(6), value=1.0)", "return t0"]),
    ("not pads with two values", lambda x: gt.pad(gt.pad(x, (1, 0), constant_values=-0.0), (1, 0)), ["f32[1]"],
     ["t0: f32[2] = pad(x, shape=(2), start=(1), step=(1), value=-0.0)",
      "t1: f32[3] = pad(t0, shape=(3), start=(1), step=(1), value=0.0)", "return t1"]),
    ("a concat of one", lambda x: gt.concat([x]), ["f32[4]"], ["return x"]),
    ("a concat with empty pieces", lambda x, y, z: gt.concat([x, y, z]), ["f32[0]", "f32[2]", "f32[3]"],
     ["t0: f32[5] = concat(y, z, axis=0)", "return t0"]),
    ("a concat of empty pieces", lambda x, y: gt.concat([x, y]), ["f32[0,2]", "f32[0,2]"], ["return x"]),
    ("a constant place", lambda x: op("take", x, -1, axis=1), ["f32[2,3]"],
     ["t0: f32[2,1] = slice(x, start=(0, 2), step=(1, 1), stop=(2, 3))", "t1: f32[2] = reshape(t0, shape=(2))",
      "return t1"]),
]  # fmt: skip


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in COMPOSED])
def test_views_compose(fn, types, expected):
    assert left(views, fn, *types) == expected


PAST = [
    ("a literal spread", lambda x: op("mul", x, S(np.float32(2), 2, 3)), ["f32[2,3]"],
     ["t0: f32[2,3] = mul(x, 2.0:f32)", "return t0"]),
    ("a literal spread and rearranged", lambda x: op("sub", T(S(R(np.float32(2), 1, 1), 3, 2), 1, 0), x), ["f32[2,3]"],
     ["t0: f32[2,3] = sub(2.0:f32, x)", "return t0"]),
    ("a literal that is neutral", lambda x: op("mul", S(np.float32(1), 2, 3), x), ["f32[2,3]"], ["return x"]),
    ("literals only", lambda: op("exp", op("add", S(np.float32(1), 1, 2), np.float32(2))), [],
     ["t0: f32[] = exp(3.0:f32)", "t1: f32[1,2] = broadcast(t0, shape=(1, 2))", "return t1"]),
    ("a broadcast", lambda x: gt.exp(S(x, 2, 3)), ["f32[3]"],
     ["t0: f32[3] = exp(x)", "t1: f32[2,3] = broadcast(t0, shape=(2, 3))", "return t1"]),
    ("broadcasts of two shapes", lambda x, y: op("add", S(x, 4, 2, 3), S(y, 4, 2, 3)), ["f32[2,1]", "f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "t1: f32[2,3] = broadcast(y, shape=(2, 3))",
      "t2: f32[2,3] = add(t0, t1)", "t3: f32[4,2,3] = broadcast(t2, shape=(4, 2, 3))", "return t3"]),
    ("not broadcasts that need each other", lambda x, y: op("add", S(x, 2, 3), S(y, 2, 3)), ["f32[2,1]", "f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "t1: f32[2,3] = broadcast(y, shape=(2, 3))",
      "t2: f32[2,3] = add(t0, t1)", "return t2"]),
    ("not an index check of what may be repeated 0 times",
     lambda i: op("check_index", S(i, 0, 2), low=0, high=9), ["i64[2]"],
     ["t0: i64[0,2] = broadcast(i, shape=(0, 2))", "t1: i64[0,2] = check_index(t0, high=9, low=0)", "return t1"]),
    ("an index check", lambda i: op("check_index", S(i, 3, 2), low=0, high=9), ["i64[2]"],
     ["t0: i64[2] = check_index(i, high=9, low=0)", "t1: i64[3,2] = broadcast(t0, shape=(3, 2))", "return t1"]),
    ("a reshape", lambda x: gt.tanh(R(gt.exp(x), 6)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[2,3] = tanh(t0)", "t2: f32[6] = reshape(t1, shape=(6))", "return t2"]),
    ("a reshape there and back", lambda x: gt.sin(R(gt.tanh(R(gt.exp(x), 6)), 2, 3)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[2,3] = tanh(t0)", "t2: f32[2,3] = sin(t1)", "return t2"]),
    ("reshapes of two values", lambda x, y: op("add", R(gt.exp(x), 6), R(gt.sin(y), 6)), ["f32[2,3]", "f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[2,3] = sin(y)", "t2: f32[2,3] = add(t0, t1)",
      "t3: f32[6] = reshape(t2, shape=(6))", "return t3"]),
    ("not reshapes of two shapes", lambda x, y: op("add", R(gt.exp(x), 6), R(gt.sin(y), 6)), ["f32[2,3]", "f32[3,2]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[6] = reshape(t0, shape=(6))", "t2: f32[3,2] = sin(y)",
      "t3: f32[6] = reshape(t2, shape=(6))", "t4: f32[6] = add(t1, t3)", "return t4"]),
    ("not a reshape of an input", lambda x: gt.tanh(R(x, 6)), ["f32[2,3]"],
     ["t0: f32[6] = reshape(x, shape=(6))", "t1: f32[6] = tanh(t0)", "return t1"]),
    ("not a view of a view", lambda x: gt.tanh(R(T(gt.exp(x), 1, 0), 6)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[3,2] = transpose(t0, axes=(1, 0))", "t2: f32[6] = reshape(t1, shape=(6))",
      "t3: f32[6] = tanh(t2)", "return t3"]),
    ("not beside a value of the other shape", lambda x, y: R(gt.exp(x), 6) + gt.exp(y), ["f32[2,3]", "f32[6]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[6] = reshape(t0, shape=(6))", "t2: f32[6] = exp(y)", "t3: f32[6] = add(t1, t2)",
      "return t3"]),
    ("a bias behind a stack of rows", lambda x, w, b: gt.tanh(x @ w + b), ["f32[2,3,4]", "f32[4,5]", "f32[5]"],
     ["t0: f32[6,4] = reshape(x, shape=(6, 4))", "t1: f32[6,5] = matmul(t0, w, ta=False, tb=False)",
      "t2: f32[6,5] = broadcast(b, shape=(6, 5))", "t3: f32[6,5] = add(t1, t2)", "t4: f32[6,5] = tanh(t3)",
      "t5: f32[2,3,5] = reshape(t4, shape=(2, 3, 5))", "return t5"]),
    ("two layers and a residual input", lambda x, w, v: x + gt.tanh(x @ w) @ v, ["f32[B,3,4]", "f32[4,5]", "f32[5,4]"],
     ["t0: f32[3*B,4] = reshape(x, shape=(3*B, 4))", "t1: f32[3*B,5] = matmul(t0, w, ta=False, tb=False)",
      "t2: f32[3*B,5] = tanh(t1)", "t3: f32[3*B,4] = matmul(t2, v, ta=False, tb=False)",
      "t4: f32[3*B,4] = add(t0, t3)", "t5: f32[B,3,4] = reshape(t4, shape=(B, 3, 4))", "return t5"]),
    ("not a broadcast that a reshape would tear", lambda x, w, b: x @ w + b, ["f32[2,3,4]", "f32[4,5]", "f32[3,1]"],
     ["t0: f32[6,4] = reshape(x, shape=(6, 4))", "t1: f32[6,5] = matmul(t0, w, ta=False, tb=False)",
      "t2: f32[2,3,5] = reshape(t1, shape=(2, 3, 5))", "t3: f32[2,3,5] = broadcast(b, shape=(2, 3, 5))",
      "t4: f32[2,3,5] = add(t2, t3)", "return t4"]),
    ("a row's number kept as an axis", lambda x: x / gt.sum(x, axis=1, keepdims=True), ["f32[2,3]"],
     ["t0: f32[2] = sum(x, axis=(1))", "t1: f32[2,1] = reshape(t0, shape=(2, 1))",
      "t2: f32[2,3] = broadcast(t1, shape=(2, 3))", "t3: f32[2,3] = div(x, t2)", "return t3"]),
    ("arithmetic on a row's number", lambda x: x * gt.exp(gt.sum(x, axis=1, keepdims=True)), ["f32[2,3]"],
     ["t0: f32[2] = sum(x, axis=(1))", "t1: f32[2] = exp(t0)", "t2: f32[2,1] = reshape(t1, shape=(2, 1))",
      "t3: f32[2,3] = broadcast(t2, shape=(2, 3))", "t4: f32[2,3] = mul(x, t3)", "return t4"]),
    ("a transpose", lambda x: gt.tanh(gt.exp(x).T).T, ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[2,3] = tanh(t0)", "return t1"]),
    ("flips", lambda x: gt.flip(gt.exp(x)) * gt.flip(gt.sin(x)), ["f32[3]"],
     ["t0: f32[3] = exp(x)", "t1: f32[3] = sin(x)", "t2: f32[3] = mul(t0, t1)", "t3: f32[3] = flip(t2, axes=(0))",
      "return t3"]),
    ("not a flip beside a value in order", lambda x: gt.flip(gt.exp(x)) * x, ["f32[3]"],
     ["t0: f32[3] = exp(x)", "t1: f32[3] = flip(t0, axes=(0))", "t2: f32[3] = mul(t1, x)", "return t2"]),
]  # fmt: skip


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in PAST])
def test_elementwise_operations_move_past_views(fn, types, expected):
    assert left_inside(views, fn, *types) == expected


FOLDED = [
    ("a sum of one keeps its +0", lambda x: op("sum", x, axis=(1,)), ["f32[3,1]"],
     ["t0: f32[3] = reshape(x, shape=(3))", "t1: f32[3] = add(t0, 0.0:f32)", "return t1"]),
    ("a sum over no axes", lambda x: op("sum", x, axis=()), ["f32[3]"], ["t0: f32[3] = add(x, 0.0:f32)", "return t0"]),
    ("a sum of one integer", lambda x: op("sum", x, axis=(1,)), ["i32[3,1]"],
     ["t0: i64[3,1] = cast(x, dtype=int64, weak=False)", "t1: i64[3] = reshape(t0, shape=(3))", "return t1"]),
    ("a product of one", lambda x: op("prod", x, axis=(0,)), ["f32[1,3]"],
     ["t0: f32[3] = reshape(x, shape=(3))", "return t0"]),
    ("the largest of one", lambda x: op("max", x, axis=(0, 1)), ["f32[1,1]"],
     ["t0: f32[] = reshape(x, shape=())", "return t0"]),
    ("any of one", lambda x: op("any", x, axis=(0,)), ["b1[1]"], ["t0: b1[] = reshape(x, shape=())", "return t0"]),
    ("merged axes", lambda x: op("sum", R(gt.exp(x), 2, 3, 4), axis=(0, 1)), ["f32[6,4]"],
     ["t0: f32[6,4] = exp(x)", "t1: f32[4] = sum(t0, axis=(0))", "return t1"]),
    ("axes beside merged ones", lambda x: gt.flip(op("max", R(gt.exp(x), 2, 3, 4), axis=(2,))), ["f32[6,4]"],
     ["t0: f32[6,4] = exp(x)", "t1: f32[6] = max(t0, axis=(1))", "t2: f32[2,3] = reshape(t1, shape=(2, 3))",
      "t3: f32[2,3] = flip(t2, axes=(0, 1))", "return t3"]),
    ("unit axes that the reshape drops", lambda x: op("sum", R(gt.exp(x), 3), axis=(0,)), ["f32[3,1]"],
     ["t0: f32[3,1] = exp(x)", "t1: f32[] = sum(t0, axis=(0, 1))", "return t1"]),
    ("not part of what was merged", lambda x: op("sum", R(gt.exp(x), 2, 3), axis=(0,)), ["f32[6]"],
     ["t0: f32[6] = exp(x)", "t1: f32[2,3] = reshape(t0, shape=(2, 3))", "t2: f32[3] = sum(t1, axis=(0))",
      "return t2"]),
    ("a transpose", lambda x: op("sum", gt.exp(x).T, axis=(0,)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[2] = sum(t0, axis=(1))", "return t1"]),
    ("not a transpose that exchanges terms", lambda x: op("sum", gt.exp(x).T, axis=(0, 1)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[3,2] = transpose(t0, axes=(1, 0))", "t2: f32[] = sum(t1, axis=(0, 1))",
      "return t2"]),
    ("the largest of equal elements", lambda x: op("max", S(x, 2, 3), axis=(0,)), ["f32[3]"], ["return x"]),
    ("the largest of equal elements in rows", lambda x: op("min", S(x, 2, 3), axis=(1,)), ["f32[2,1]"],
     ["t0: f32[2] = reshape(x, shape=(2))", "return t0"]),
    ("not any of none", lambda x: op("any", S(x, 0, 3), axis=(0,)), ["b1[3]"],
     ["t0: b1[0,3] = broadcast(x, shape=(0, 3))", "t1: b1[3] = any(t0, axis=(0))", "return t1"]),
    ("not a sum of equal elements", lambda x: op("sum", S(x, 2, 3), axis=(0,)), ["f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "t1: f32[3] = sum(t0, axis=(0))", "return t1"]),
]  # fmt: skip


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in FOLDED])
def test_reductions_move_past_views(fn, types, expected):
    assert left(views, fn, *types) == expected


def matmul(a, b, ta=False, tb=False):
    return op("matmul", a, b, ta=ta, tb=tb)


PRODUCTS = [
    ("a transposed operand", lambda x, w: x @ w.T, ["f32[2,3]", "f32[4,3]"],
     ["t0: f32[2,4] = matmul(x, w, ta=False, tb=True)", "return t0"]),
    ("two, one of them transposed already", lambda x, w: matmul(x.T, w.T, tb=True), ["f32[3,2]", "f32[3,4]"],
     ["t0: f32[2,4] = matmul(x, w, ta=True, tb=False)", "return t0"]),
    ("in a stack", lambda x, w: matmul(T(x, 0, 2, 1), w), ["f32[5,3,2]", "f32[5,3,4]"],
     ["t0: f32[5,2,4] = matmul(x, w, ta=True, tb=False)", "return t0"]),
    ("not another permutation", lambda x, w: matmul(T(x, 1, 0, 2), w), ["f32[2,5,3]", "f32[5,3,4]"],
     ["t0: f32[5,2,3] = transpose(x, axes=(1, 0, 2))", "t1: f32[5,2,4] = matmul(t0, w, ta=False, tb=False)",
      "return t1"]),
    ("a stack times one matrix", lambda x, w: matmul(x, S(w, 5, 3, 4)), ["f32[5,2,3]", "f32[3,4]"],
     ["t0: f32[10,3] = reshape(x, shape=(10, 3))", "t1: f32[10,4] = matmul(t0, w, ta=False, tb=False)",
      "t2: f32[5,2,4] = reshape(t1, shape=(5, 2, 4))", "return t2"]),
    ("a stack of vectors", lambda x, w: gt.tanh(R(matmul(R(x, "B", 1, 3), S(w, "B", 4, 3), tb=True), "B", 4)),
     ["f32[B,3]", "f32[4,3]"],
     ["t0: f32[B,4] = matmul(x, w, ta=False, tb=True)", "t1: f32[B,4] = tanh(t0)", "return t1"]),
    ("not a stack that is scattered", lambda x, w: matmul(T(x, 1, 0, 2), S(w, 5, 3, 4)), ["f32[2,5,3]", "f32[3,4]"],
     ["t0: f32[5,2,3] = transpose(x, axes=(1, 0, 2))", "t1: f32[5,3,4] = broadcast(w, shape=(5, 3, 4))",
      "t2: f32[5,2,4] = matmul(t0, t1, ta=False, tb=False)", "return t2"]),
    ("not a stack times a stack",
     lambda x, w: matmul(x, S(R(w, 5, 1, 3, 4), 5, 2, 3, 4)), ["f32[5,2,3,3]", "f32[5,3,4]"],
     ["t0: f32[5,1,3,4] = reshape(w, shape=(5, 1, 3, 4))", "t1: f32[5,2,3,4] = broadcast(t0, shape=(5, 2, 3, 4))",
      "t2: f32[5,2,3,4] = matmul(x, t1, ta=False, tb=False)", "return t2"]),
]  # fmt: skip


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in PRODUCTS])
def test_products_take_views_in(fn, types, expected):
    assert left(views, fn, *types) == expected


def test_names_of_the_author_stay_with_their_values():
    def fn(x):
        flat = gt.tanh(gt.reshape(gt.exp(x), 6))
        return gt.flip(flat)

    assert left(views, fn, "f32[2,3]") == [
        "t0: f32[2,3] = exp(x)",
        "t1: f32[2,3] = tanh(t0)",
        "flat: f32[6] = reshape(t1, shape=(6))",
        "t2: f32[6] = flip(flat, axes=(0))",
        "return t2",
    ]


KEPT = [
    ("a reshape", lambda x: gt.tanh(R(gt.exp(x), 6)), ["f32[2,3]"],
     ["t0: f32[2,3] = exp(x)", "t1: f32[6] = reshape(t0, shape=(6))", "t2: f32[6] = tanh(t1)", "return t2"]),
    ("a broadcast", lambda x: gt.exp(S(x, 2, 3)), ["f32[3]"],
     ["t0: f32[2,3] = broadcast(x, shape=(2, 3))", "t1: f32[2,3] = exp(t0)", "return t1"]),
    ("a row's number", lambda x: op("max", R(gt.exp(x), 2, 3, 4), axis=(2,)), ["f32[6,4]"],
     ["t0: f32[6,4] = exp(x)", "t1: f32[2,3,4] = reshape(t0, shape=(2, 3, 4))", "t2: f32[2,3] = max(t1, axis=(2))",
      "return t2"]),
    ("not a literal", lambda x: op("mul", S(np.float32(2), 3), x), ["f32[3]"],
     ["t0: f32[3] = mul(2.0:f32, x)", "return t0"]),
    ("not literals only", lambda: op("add", S(np.float32(1), 3), S(np.float32(2), 3)), [],
     ["t0: f32[3] = broadcast(3.0:f32, shape=(3))", "return t0"]),
]  # fmt: skip


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in KEPT])
def test_outputs_do_not_become_views(fn, types, expected):
    assert left(views, fn, *types) == expected


def test_rewritten_equations_keep_their_lines():
    graph = views(gt.trace(lambda x: gt.tanh(gt.exp(x).T), gt.spec((2, 3))))
    assert all(eqn.source and eqn.source[0].base == "test_views.py" for eqn in graph.eqns)
