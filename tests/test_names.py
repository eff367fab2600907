"""Functions composed of others: derivatives, compiled as evaluated, awkward values, aliases, what is refused."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor import names
from gtensor.check import check_graph
from gtensor.errors import DTypeError, IndexingError, OptionError, ShapeError, TraceError
from gtensor.ops.counting import COMPARED
from gtensor.tensor import as_tensor
from tests.values import agree, check_derivatives, close, f32, same
from tests.ways import agreed

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(3)
V = [0.5, -1.0, 2.0, 0.25]

SMOOTH = {
    "average": lambda x: gt.average(x, 1, weights=gt.exp(x)),
    "append": lambda x: gt.append(x, x[:1] * 2, axis=0),
    "array_split": lambda x: gt.array_split(x, 3, axis=1)[0] * gt.array_split(x, 3, axis=1)[1][:, :1],
    "atleast_3d": lambda x: gt.atleast_3d(x[0]),
    "bincount": lambda x: gt.bincount([0, 2, 2, 1], x[0], length=4),
    "block": lambda x: gt.block([[x, 2 * x], [x * x, x]]),
    "broadcast_arrays": lambda x: gt.broadcast_arrays(x, x[:1])[1],
    "choose": lambda x: gt.choose([[0], [1], [1]], [x, x * x]),
    "convolve": lambda x: gt.convolve(x[0], x[1], "same"),
    "correlate": lambda x: gt.correlate(x[0], x[1, :2], "full"),
    "cross": lambda x: gt.cross(x[:, :3], x[:, 1:]),
    "delete": lambda x: gt.delete(x, [0, 2], axis=1),
    "diag": lambda x: gt.diag(x[0], 1),
    "diagonal": lambda x: gt.diagonal(x, 1),
    "gradient": lambda x: gt.gradient(x, axis=1, edge_order=2),
    "gradient over points": lambda x: gt.gradient(x[0], x[1], edge_order=2),
    "histogram": lambda x: gt.histogram(V, 3, weights=x[0])[0],
    "inner": lambda x: gt.inner(x, x),
    "insert": lambda x: gt.insert(x, [0, 2], x[:, :2] * 3, axis=1),
    "interp": lambda x: gt.interp(x[0] / 9, [-1.0, 0.15, 0.6, 1.0], x[1]),
    "interp over points": lambda x: gt.interp([0.1, 0.9], gt.exp(x[:, 0]) * [0.1, 1, 10], x[:, 1]),
    "kron": lambda x: gt.kron(x, x[:2]),
    "matrix_trace": lambda x: x.trace(1) ** 2,
    "nanmean": lambda x: gt.nanmean(gt.where(x > 9, NAN, x), 0),
    "nanstd": lambda x: gt.nanstd(x, 1, correction=1),
    "nanvar": lambda x: gt.nanvar(gt.stack([x[0], x[1], x[0] * NAN]), 0),
    "pad by edge": lambda x: gt.pad(x, (1, 2), "edge"),
    "pad by reflect": lambda x: gt.pad(x, 5, "reflect"),
    "pad by symmetric": lambda x: gt.pad(x, ((0, 1), (2, 0)), "symmetric"),
    "pad by wrap": lambda x: gt.pad(x, 4, "wrap"),
    "piecewise": lambda x: gt.piecewise(x, [x < 0], [lambda v: v * v, gt.sin]),
    "polyval": lambda x: gt.polyval(x[0], x[1]),
    "ptp": lambda x: gt.ptp(x, 1),
    "repeat": lambda x: gt.repeat(x, 3, axis=1),
    "repeat each": lambda x: gt.repeat(x, [2, 0, 5], axis=0),
    "repeat far apart": lambda x: gt.repeat(gt.ravel(x), [0, 1, 0, 1, 0, 2, 0, 1, 3, 0, 1, 0]),
    "roll": lambda x: gt.roll(x, (1, -2), (0, 1)),
    "rot90": lambda x: gt.rot90(x, -1),
    "select": lambda x: gt.select([x < 0, x < 1], [x * x, gt.exp(x)], x),
    "tile": lambda x: gt.tile(x, (2, 1, 2)),
    "trapezoid": lambda x: gt.trapezoid(x[0], x[1]),
    "tril": lambda x: gt.tril(x, 1),
    "triu": gt.triu,
    "vander": lambda x: gt.vander(x[0], 4),
    "vdot": lambda x: gt.vdot(x, x * x),
    "vstack": lambda x: gt.vstack([x, x[0]]),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    x = RNG.standard_normal((3, 4))
    check_derivatives(SMOOTH[name], x)
    gt.check_grads(SMOOTH[name], [x], order=2)


PLAIN = {
    "allclose": lambda x, i: gt.allclose(x, x + 1e-9),
    "argless": lambda x, i: gt.identity(3) + gt.tri(3, k=-1) + gt.vander(gt.arange(3)),
    "array_equal": lambda x, i: gt.array_equal(x, x),
    "bincount": lambda x, i: gt.bincount(i, length=5),
    "count_nonzero": lambda x, i: gt.count_nonzero(i),
    "digitize": lambda x, i: gt.digitize(x, [-1.0, 0.0, 1.0]),
    "digitize by edges of the call": lambda x, i: gt.digitize(x, x[0, ::-1], right=True),
    "geomspace": lambda x, i: gt.geomspace(-1, -1000, 4) + gt.logspace(0, 2, 4, base=2),
    "histogram": lambda x, i: gt.histogram(x, 4, density=True),
    "interp": lambda x, i: gt.interp(x, [-1.0, 0.0, 2.0], [1.0, 3.0, 2.0], left=-INF),
    "isclose": lambda x, i: gt.isclose(x, gt.round(x), rtol=0.1),
    "nanmax": lambda x, i: gt.nanmax(gt.where(x > 0, x, NAN), 0),
    "nanprod": lambda x, i: gt.nanprod(gt.where(x > 0, x, NAN), 0),
    "ravel_multi_index": lambda x, i: gt.ravel_multi_index((i, i), (3, 4)),
    "ravel_multi_index out of range": lambda x, i: gt.ravel_multi_index((i * 9, i - 9), (3, 4), mode="wrap"),
    "ravel_multi_index clipped": lambda x, i: gt.ravel_multi_index((i * 9, i - 9), (3, 4), mode="clip"),
    "roll by what is computed": lambda x, i: gt.roll(x, i[2] - 9, 1),
    "split": lambda x, i: gt.split(x, 2, axis=1),
    "unravel_index": lambda x, i: gt.unravel_index(i * 3, (2, 5)),
}


def test_traced_and_compiled_they_are_the_eager_ones():
    def everything(x, i):
        losses = [lambda x, f=f: gt.sum(gt.sin(f(x))) for f in SMOOTH.values()]
        return [gt.value_and_grad(loss)(x) for loss in losses], [f(x, i) for f in PLAIN.values()]

    x, i = f32(RNG.standard_normal((3, 4))), np.array([0, 2, 2, 1])
    check_graph(gt.trace(everything, x, i))
    agreed(everything, x, i, rtol=1e-5, atol=1e-5)


# ---- awkward values -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_is_left_out():
    x = np.array([[1.0, NAN, 3.0], [NAN, NAN, NAN], [INF, 2.0, NAN], [5.0, 5.0, 5.0]])
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"):
        for axis, keepdims in ((None, False), (0, True), (1, False)):
            wanted = getattr(np, name)(x, axis, keepdims=keepdims)
            close(getattr(gt, name)(x, axis, keepdims=keepdims), wanted, rtol=1e-12)
            close(getattr(gt, name)(f32(x), axis, keepdims=keepdims), wanted)
    close(gt.nanvar(x, 1, 1.0), np.nanvar(x, 1, ddof=1))
    for f in (gt.nansum, gt.nanprod, gt.nanmax, gt.nanmin, gt.nanmean, gt.nanvar, gt.nanstd):
        slope = gt.grad(lambda x, f=f: gt.sum(f(x, 1)))(x[[0, 1, 3]]).numpy()
        assert np.isfinite(slope).all() and not slope[0, 1] and not slope[1].any(), f.__name__


def test_zeros_outside_a_triangle_are_exact_also_in_the_gradient():
    x = np.array([[1.0, INF], [NAN, 2.0]])
    assert gt.tril(x).tolist()[0][1] == 0 and gt.triu(x).tolist()[1][0] == 0
    assert gt.grad(lambda x: gt.sum(gt.log(gt.tril(x) + gt.triu(gt.ones((2, 2)), 1))))(
        np.array([[1.0, 0.0], [2.0, 4.0]])
    ).tolist() == [[1.0, 0.0], [0.5, 0.25]]


def test_each_nan_is_unique_and_minus_0_is_0():
    x = np.array([NAN, 1.0, -0.0, NAN, 0.0])
    values, indices, inverse, counts = gt.unique_all(x)
    wanted = np.unique_all(x)
    same(values, wanted.values)
    same(counts, wanted.counts)
    assert values.numpy()[inverse.numpy()].tolist()[1:3] == [1, 0] and len(values) == 4
    same(values, x[indices.numpy()])


def test_unique_values_have_the_gradient_of_their_first_occurrence():
    assert gt.grad(lambda x: gt.sum(gt.unique_values(x) * [1.0, 10.0]))(f32([3, 1, 3])).tolist() == [10, 1, 0]


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("step", [1, -1])
def test_many_edges_are_searched(step, right):
    """As a few are compared: in both orders, equal ones and awkward values among them."""
    edges = np.repeat(np.arange(COMPARED, dtype=np.float32), 2)[::step]
    x = f32([NAN, -INF, INF, -1.0, 0.0, 0.5, 7.0, COMPARED - 1, COMPARED + 1.0])
    wanted = np.digitize(x, edges, right)
    same(gt.digitize(x, edges, right), wanted)
    same(gt.compile(gt.digitize, static="right")(x, edges, right), wanted)
    np.testing.assert_array_equal(gt.vmap(lambda v: gt.digitize(v, edges, right))(x[:, None]).numpy()[:, 0], wanted)


def test_bins_of_awkward_values():
    x = [NAN, -INF, INF, 0.0, 1.0, 2.0]
    for edges in ([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [0.0, 1.0, 1.0, 2.0]):
        for right in (False, True):
            same(gt.digitize(x, edges, right), np.digitize(x, edges, right))
    same(gt.histogram(x[3:], [0.0, 1.0, 1.0, 2.0])[0], np.histogram(x[3:], [0.0, 1.0, 1.0, 2.0])[0])
    close(gt.interp(x, [0.0, 1.0, 2.0], [5.0, 6.0, 8.0]), np.interp(x, [0.0, 1.0, 2.0], [5.0, 6.0, 8.0]))
    close(gt.interp([1.0, 2.0, 0.5], [0.0, 1.0, 1.0, 2.0], [5, 6, 7, 8]),
          np.interp([1.0, 2.0, 0.5], [0.0, 1.0, 1.0, 2.0], [5, 6, 7, 8]))  # fmt: skip


def test_closeness_of_awkward_values():
    a, b = [NAN, INF, INF, 1.0, 0.0], [NAN, INF, -INF, INF, -0.0]
    for equal_nan in (False, True):
        assert gt.isclose(a, b, equal_nan=equal_nan).tolist() == np.isclose(a, b, equal_nan=equal_nan).tolist()
    assert not gt.array_equal(a, a) and gt.array_equal(a, a, equal_nan=True)
    assert not gt.allclose([2**62], [-(2**62)]) and gt.allclose([2**62], [2**62 + 1])
    assert gt.isclose(np.uint8([3]), np.uint8([4])).tolist() == [False]


def test_counts():
    for weights in (None, f32([1, 2, 3, 4]), np.arange(4)):
        wanted = np.bincount([1, 3, 1, 0], weights, 6)
        got = gt.bincount([1, 3, 1, 0], weights, 6)
        assert got.tolist() == wanted.tolist() and got.dtype == (weights.dtype if weights is not None else gt.int64)
    assert gt.bincount([1, 1], length=3).tolist() == [0, 2, 0] and gt.bincount(np.zeros(0, int)).shape == (0,)
    for x in ([-1, 0], [0, 3]):
        with pytest.raises(IndexingError):
            gt.bincount(x, length=3)


def test_places():
    for shape in ((2, 3, 4), (5,), 7):
        size = int(np.prod(shape))
        flat = np.arange(size)
        places = gt.unravel_index(flat, shape)
        for ours, numpys in zip(places, np.unravel_index(flat, shape), strict=True):
            same(ours, numpys)
        same(gt.ravel_multi_index(places, shape), flat)
    wrong = ([9, -9, 1], [0, 5, -1])
    for mode in ("wrap", "clip"):
        same(gt.ravel_multi_index(wrong, (2, 3), mode), np.ravel_multi_index(wrong, (2, 3), mode))


def test_spaces():
    for args in ((1, 1000, 4), (1e-3, 1e3, 50), (-2, -32, 5), (5, 5, 3), (2, 3, 1), (2, 3, 0)):
        close(gt.geomspace(*args, dtype="float64"), np.geomspace(*args), rtol=1e-14)
        close(gt.geomspace(*args, endpoint=False), np.geomspace(*args, endpoint=False))
    assert gt.geomspace(1, 1000, 4, dtype="int64").tolist()[-1] == 1000
    for args in ((0, 3, 4), (-1.5, 2.5, 7, 2.0)):
        start, stop, num, *base = args
        close(gt.logspace(*args, dtype="float64"), np.logspace(start, stop, num, True, *base), rtol=1e-14)
    assert gt.empty((2, 0)).shape == (2, 0) and gt.empty_like(gt.ones(3, dtype="int32")).dtype == gt.int32
    assert gt.zeros(2, dtype=None).dtype == gt.eye(2, dtype=None).dtype == gt.float32


def test_a_piecewise_function_hands_its_arguments_on():
    assert gt.piecewise(f32([-1, 1]), [[True, False]], [lambda x, a, b: x * a + b, 0], 2, b=3).tolist() == [1, 0]


# ---- how they are made, and what they are not -----------------------------------------------------------------


def test_few_runs_are_slices_and_many_an_index():
    def kinds(f):
        return {eqn.prim.name for eqn in gt.trace(f, gt.spec((20,))).eqns}

    assert kinds(lambda x: gt.roll(x, 3)) == {"slice", "concat"}
    assert kinds(lambda x: gt.pad(x, 2, "reflect")) == {"slice", "flip", "concat"}
    assert kinds(lambda x: gt.pad(x, 2, "edge")) == {"slice", "broadcast", "concat"}
    assert kinds(lambda x: gt.delete(x, [3])) == {"slice", "concat"}
    assert kinds(lambda x: gt.repeat(x, [0, 1] * 10)) == {"take"}
    assert kinds(lambda x: gt.diag(x)) == {"pad", "reshape"}
    assert kinds(lambda x: gt.diagonal(x.reshape(4, 5))) == {"reshape", "slice"}
    assert kinds(lambda x: gt.repeat(x, 2)) == {"reshape", "broadcast"}


def test_a_run_time_batch_goes_through():
    spec = gt.spec(("B", 3, 4), max={"B": 5})

    def f(x):
        parts = [gt.tril(x), gt.diagonal(x, 0, 1, 2), gt.pad(x, ((0, 0), (1, 1), (0, 0)), "edge"), gt.roll(x, 1, 2)]
        return [
            *parts,
            gt.repeat(x, 2, 1),
            gt.tile(x, (1, 2, 1)),
            gt.nanmean(x, 0),
            gt.average(x, 0),
            *gt.split(x, 2, 2),
        ]

    x = f32(RNG.standard_normal((2, 3, 4)))
    graph = gt.trace(f, spec)
    assert str(graph.outputs[0].type) == "f32[B,3,4]"
    for size in (1, 2):
        agree(gt.compile(f)(x[:size]), f(x[:size]))


def test_every_alias_is_the_same_function():
    tree = ast.parse(Path(names.__file__).read_text(encoding="utf-8"))
    table = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)]
    found = {target.id: node.value.id for node in table for target in node.targets}
    assert {
        "absolute": "abs",
        "arctan2": "atan2",
        "invert": "bitwise_invert",
        "array": "asarray",
    }.items() <= found.items()
    assert all(getattr(gt, alias) is getattr(gt, name) for alias, name in found.items())
    assert {*found} <= {*gt.__all__}


def test_numpys_functions_of_tensors_are_ours():
    x = gt.tensor([0.5, 0.25])
    for f in (np.sin, np.arcsin, np.arctan, np.absolute, np.negative, np.rint):
        assert isinstance(f(x), gt.Tensor)
        close(f(x), f(x.numpy()))


def test_methods_are_the_functions():
    x = gt.reshape(gt.arange(12), (3, 4))
    pairs = [
        (x.ravel(), gt.ravel(x)), (x.swapaxes(0, 1), x.T), (x.diagonal(1), gt.diagonal(x, 1)), (x.trace(), 15),
        (x.tril(-1), gt.tril(x, -1)), (x.triu(1), gt.triu(x, 1)), (x.repeat(2, 0), gt.repeat(x, 2, 0)),
        (x.tile(2, 1), gt.tile(x, (2, 1))), (x.tile((2, 1)), gt.tile(x, (2, 1))), (x.roll(1), gt.roll(x, 1)),
        (x.dot(x.T), x @ x.T), (x.chunk(2, 1)[1], x[:, 2:]), (x.nonzero()[1], gt.nonzero(x)[1]),
    ]  # fmt: skip
    for got, wanted in pairs:
        same(got, as_tensor(wanted))


X = np.arange(12.0).reshape(3, 4)

REFUSED = {
    "a diagonal of a vector": (lambda: gt.diagonal([1]), ShapeError),
    "a diagonal of one axis": (lambda: gt.diagonal(X, 0, 1, -1), ShapeError),
    "diag of three axes": (lambda: gt.diag(X[None]), ShapeError),
    "a triangle of a vector": (lambda: gt.tril([1]), ShapeError),
    "powers of a matrix": (lambda: gt.vander(X), ShapeError),
    "left and right of a vector": (lambda: gt.fliplr([1]), ShapeError),
    "up and down of a number": (lambda: gt.flipud(1), ShapeError),
    "a turn about one axis": (lambda: gt.rot90(X, 1, (0, -2)), ShapeError),
    "a negative repeat": (lambda: gt.repeat(X, -1), ShapeError),
    "repeats that do not fit": (lambda: gt.repeat(X, [1, 2], 0), ShapeError),
    "a float repeat": (lambda: gt.repeat(X, 1.5), DTypeError),
    "a negative tile": (lambda: gt.tile(X, -1), ShapeError),
    "shifts that do not pair": (lambda: gt.roll(X, (1, 2, 3), (0, 1)), ShapeError),
    "axes that do not pair": (lambda: gt.moveaxis(X, (0, 1), 0), ShapeError),
    "an axis moved twice": (lambda: gt.moveaxis(X, (0, 0), (0, 1)), ShapeError),
    "blocks of two depths": (lambda: gt.block([[X], X]), ShapeError),
    "no blocks": (lambda: gt.block([]), ShapeError),
    "a split that does not divide": (lambda: gt.split(X, 3, 1), ShapeError),
    "no pieces": (lambda: gt.array_split(X, 0), ShapeError),
    "no chunks": (lambda: gt.chunk(X, 0), OptionError),
    "a vector split in columns of columns": (lambda: gt.dsplit(X, 2), ShapeError),
    "a vector split in rows": (lambda: gt.vsplit([1], 1), ShapeError),
    "a pad mode": (lambda: gt.pad(X, 1, "mirror"), OptionError),
    "a border of nothing": (lambda: gt.pad(X[:0], 1, "edge"), ShapeError),
    "a place to insert": (lambda: gt.insert(X, 13, 1.0), IndexingError),
    "places to insert": (lambda: gt.insert(X, [13, 1], 1.0), IndexingError),
    "a place to delete": (lambda: gt.delete(X, 12), IndexingError),
    "a mask to delete": (lambda: gt.delete(X, [True]), IndexingError),
    "weights of an average": (lambda: gt.average(X, 0, [1.0, 2.0]), ShapeError),
    "weights of a histogram": (lambda: gt.histogram(X, weights=[1.0]), ShapeError),
    "no bins": (lambda: gt.histogram(X, 0), OptionError),
    "bins that are no vector": (lambda: gt.histogram(X, X), ShapeError),
    "a range that goes down": (lambda: gt.histogram(X, 2, (1, 0)), OptionError),
    "edges that are no vector": (lambda: gt.digitize(X, X), ShapeError),
    "counts of floats": (lambda: gt.bincount([1.0]), DTypeError),
    "counts of a matrix": (lambda: gt.bincount([[1]]), ShapeError),
    "weights of counts": (lambda: gt.bincount([1], [1.0, 2.0]), ShapeError),
    "nonzero of a number": (lambda: gt.nonzero(1), ShapeError),
    "a place outside": (lambda: gt.unravel_index(12, (3, 4)), IndexingError),
    "a float place": (lambda: gt.unravel_index(1.0, (3, 4)), DTypeError),
    "places outside": (lambda: gt.ravel_multi_index(([3], [0]), (3, 4)), IndexingError),
    "places of other axes": (lambda: gt.ravel_multi_index(([3],), (3, 4)), ShapeError),
    "float places": (lambda: gt.ravel_multi_index(([1.0], [0]), (3, 4)), DTypeError),
    "a mode of places": (lambda: gt.ravel_multi_index(([1], [0]), (3, 4), "fold"), OptionError),
    "sizes of vdot": (lambda: gt.vdot(X, X[0]), ShapeError),
    "extents of inner": (lambda: gt.inner(X, X.T), ShapeError),
    "a cross of two": (lambda: gt.cross(X[:, :2], X[:, :2]), ShapeError),
    "choices and conditions": (lambda: gt.select([X > 0], [X, X]), ShapeError),
    "conditions that are numbers": (lambda: gt.select([X], [X]), DTypeError),
    "a choice that is not there": (lambda: gt.choose([2], [X[0], X[1]]), IndexingError),
    "a float choice": (lambda: gt.choose([1.0], [X[0], X[1]]), DTypeError),
    "no choices": (lambda: gt.choose([0], []), OptionError),
    "functions for conditions": (lambda: gt.piecewise(X, [X > 0], [1, 2, 3]), ShapeError),
    "a polynomial of a matrix": (lambda: gt.polyval(X, X), ShapeError),
    "points of a function": (lambda: gt.interp(X, [1.0, 2.0], [1.0]), ShapeError),
    "no points": (lambda: gt.interp(X, [], []), ShapeError),
    "points of an integral": (lambda: gt.trapezoid(X, X[:2]), ShapeError),
    "an edge order": (lambda: gt.gradient(X, edge_order=3), OptionError),
    "spacings": (lambda: gt.gradient(X, 1.0, 2.0, 3.0), ShapeError),
    "points of a gradient": (lambda: gt.gradient(X[0], [1.0, 2.0]), ShapeError),
    "a gradient of one": (lambda: gt.gradient(X[:1], axis=0), ShapeError),
    "a convolution of matrices": (lambda: gt.convolve(X, X), ShapeError),
    "a convolution of nothing": (lambda: gt.convolve(X[0], []), ShapeError),
    "a mode of convolution": (lambda: gt.convolve(X[0], X[0], "half"), OptionError),
    "a factor through 0": (lambda: gt.geomspace(-1, 1, 3), OptionError),
    "a negative number of values": (lambda: gt.logspace(0, 1, -1), ShapeError),
    "unique values of a trace": (lambda: gt.trace(gt.unique_values, X), TraceError),
    "places of a trace": (lambda: gt.trace(gt.nonzero, X), TraceError),
    "rows of places of a trace": (lambda: gt.trace(gt.argwhere, X), TraceError),
    "counts of a trace": (lambda: gt.trace(gt.bincount, np.arange(3)), TraceError),
    "repeats of a trace": (lambda: gt.trace(lambda n: gt.repeat(X, n), 2), TraceError),
    "bools subtracted": (lambda: gt.subtract([True], [False]), DTypeError),
    "a negative bool": (lambda: -gt.tensor([True]), DTypeError),
    "bools divided down": (lambda: gt.trace(lambda x: x // x, gt.spec((2,), "bool")), DTypeError),
    "no dtype": (lambda: gt.astype(X, None), DTypeError),
    "a matrix for a function": (lambda: gt.trace(X), TraceError),
    "a run-time split": (lambda: gt.trace(lambda x: gt.split(x, 2), gt.spec(("B",), max={"B": 4})), ShapeError),
    "a run-time diagonal": (lambda: gt.trace(gt.diag, gt.spec(("B",), max={"B": 4})), ShapeError),
    "a run-time matrix": (lambda: gt.trace(gt.diagonal, gt.spec(("B", 4), max={"B": 4})), ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    attempt, error = REFUSED[name]
    with pytest.raises(error) as info:
        attempt()
    assert "test_names.py" in str(info.value) and len(str(info.value).splitlines()) <= 4


def test_what_a_call_computes_is_checked_by_the_call():
    f = gt.compile(lambda i: gt.unravel_index(i * 2, (2, 3)))
    assert [a.tolist() for a in f(np.array([1, 2]))] == [[0, 1], [2, 1]]
    with pytest.raises(IndexingError):
        f(np.array([1, 3]))
