"""`gt.compile`: signatures, results, donated and captured memory, ahead-of-time compilation, threads and forks."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import weakref
from collections import namedtuple

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DonatedError, DTypeError, OptionError, SignatureError

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: object
    b: object


def address(array):
    return np.asarray(array).__array_interface__["data"][0]


@gt.compile
def affine(x, w, b):
    return gt.tanh(x @ w) + b


X, W, B = (np.linspace(-1, 1, n, dtype=np.float32) for n in (6, 12, 4))
X, W = X.reshape(2, 3), W.reshape(3, 4)


def test_it_computes_what_the_function_computes():
    np.testing.assert_allclose(affine(X, W, B).numpy(), affine.fn(X, W, B).numpy(), rtol=1e-6)
    assert affine.__name__ == "affine"
    assert affine(X, W, b=B).shape == (2, 4)


def test_one_specialisation_for_each_signature():
    f = gt.compile(lambda x: x + 1)
    for x in (np.ones(2, np.float32), np.ones(3, np.float32), gt.ones(3), np.ones(3), np.ones((3, 1), np.float32)):
        assert f(x).numpy().tolist() == (x + 1).tolist()
    assert len(f._known) == 4
    assert [f(np.ones(n, np.float32)).shape for n in (2, 3, 2, 3)] == [(2,), (3,), (2,), (3,)]
    assert len(f._known) == 4


def test_trees_come_back_as_the_function_made_them():
    @gt.compile
    def f(layer, pair, more):
        total = layer.w + layer.b
        return Layer(total, None), Pair(pair.left * 2, [pair.right]), {"b": more["a"][0], "a": ()}, 1.5

    layer, pair, tree, number = f(Layer(X, X), Pair(X, B), {"a": [W, None]})
    assert isinstance(layer, Layer) and layer.b is None
    assert isinstance(pair, Pair) and isinstance(pair.right, list)
    assert tree["a"] == () and np.array_equal(tree["b"].numpy(), W)
    assert np.array_equal(layer.w.numpy(), X + X) and np.array_equal(pair.left.numpy(), X * 2)
    assert number.item() == 1.5 and number.dtype is gt.float32


def test_numbers_are_weak_inputs_of_one_signature():
    f = gt.compile(lambda x, a: x * a)
    assert [f(X, a).numpy().tolist() for a in (2.0, 3.0)] == [(X * 2).tolist(), (X * 3).tolist()]
    assert f(X, 2.0).dtype is gt.float32
    assert len(f._known) == 1
    assert f(np.arange(3), 2).numpy().tolist() == [0, 2, 4]
    for strong in (np.float64(2), np.array(2.0), gt.tensor(2.0, gt.float64)):
        assert f(X, strong).dtype is gt.float64
        assert f(X, 2.0).dtype is gt.float32
    assert f(X > 0, True).numpy().tolist() == (X > 0).tolist()
    with pytest.raises(DTypeError, match=r"36893488147419103232 does not fit int64"):
        f(np.arange(3), 2**65)


def test_static_arguments_belong_to_the_signature():
    @gt.compile(static="n")
    def f(x, n, mode="sum", fn=None):
        x = x if fn is None else fn(x)
        return gt.sum(x) * n if mode == "sum" else gt.max(x) * n

    assert f(X, 2, "max").item() == 2
    assert f(X, 3, "max").item() == 3
    assert f(X, 3, "max", gt.negative).item() == 3
    assert f(-X, 3, mode="max", fn=gt.abs).item() == 3
    assert f(X, 2.0, "max").dtype is gt.float32
    assert len(f._known) == 5


def test_defaults_and_closed_over_numbers_are_part_of_the_program():
    def scaled(k):
        return gt.compile(lambda x, plus=1.0: x * k + plus)

    double, triple = scaled(2.0), scaled(np.float32(3))
    x = np.array([1, 2], np.float32)
    assert double(x).tolist() == [3, 5]
    assert triple(x).tolist() == [4, 7]
    assert triple(x, 0.0).tolist() == [3, 6]


def test_results_are_fresh_memory():
    f = gt.compile(lambda x: (gt.sum(x), x))
    given = [np.array([k, k], np.float32) for k in (1, 2, 3)]
    results = [f(x) for x in given]
    assert [total.item() for total, _ in results] == [2, 4, 6]
    for x in given:
        x[:] = -1
    assert [same.tolist() for _, same in results] == [[1, 1], [2, 2], [3, 3]]
    with pytest.raises(ValueError, match="read-only"):
        results[0][1].numpy()[0] = 5


# ---- memory of any kind ----------------------------------------------------------------------------------


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


class Sub(np.ndarray):
    """An array class of somebody else."""


KINDS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every other": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "repeated": lambda a: np.broadcast_to(np.float32(0.5), a.shape),
    "read-only": read_only,
    "misaligned": misaligned,
    "big-endian": lambda a: a.astype(">f4"),
    "subclass": lambda a: a.view(Sub),
    "tensor": gt.tensor,
    "tensor of a view": lambda a: gt.tensor(a.T).T,
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_memory_is_read_right(kind):
    w, b = KINDS[kind](W), np.broadcast_to(B, (2, 4))[0]
    assert np.array_equal(affine(X, w, b).numpy(), affine(X, np.array(w, np.float32, order="C"), B).numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_captured_memory_of_any_kind_is_read_right(kind):
    w = KINDS[kind](W)
    assert np.array_equal(gt.compile(lambda x: x @ w)(X).numpy(), gt.compile(lambda x, w: x @ w)(X, w).numpy())


def test_empty_and_zero_dimensional_arrays():
    f = gt.compile(lambda x, s: (x * s, gt.sum(x), s))
    for shape in ((0,), (0, 3), (2, 0)):
        same, total, _ = f(np.ones(shape, np.float32), np.float32(2))
        assert same.shape == shape and total.item() == 0
    for s in (np.float32(3), np.array(3, np.float32), gt.tensor(3.0)):
        same, total, back = f(s, s)
        assert (same.item(), total.item(), back.shape) == (9, 3, ())


def test_no_outputs_and_no_inputs():
    assert gt.compile(lambda x: None)(X) is None
    assert gt.compile(lambda: (gt.ones(2), []))()[0].tolist() == [1, 1]


# ---- donation --------------------------------------------------------------------------------------------


@gt.compile(donate="state")
def advance(state, x):
    return {"a": state["b"], "b": state["a"] + state["b"]}, gt.sum(x)


@pytest.fixture
def fibonacci():
    return {"a": gt.tensor([0.0]), "b": gt.tensor([1.0])}


def test_donated_tensors_are_updated_in_place_and_refuse_further_use(fibonacci):
    before = sorted(address(t) for t in fibonacci.values())
    state, old = fibonacci, fibonacci["a"]
    for _ in range(6):
        state, _ = advance(state, X)
    assert (state["a"].item(), state["b"].item()) == (8, 13)
    assert sorted(address(t) for t in state.values()) == before
    for use in (old.numpy, lambda: old + 1, lambda: advance({"a": old, "b": old}, X), lambda: affine(X, W, old)):
        with pytest.raises(DonatedError, match="donated to a compiled call"):
            use()
    assert "donated" in repr(old)


def test_a_donated_array_is_overwritten():
    state = {"a": np.array([2], np.float32), "b": np.array([3], np.float32)}
    new, _ = advance(state, X)
    assert (new["a"].item(), new["b"].item()) == (3, 5)
    assert sorted([state["a"].item(), state["b"].item()]) == [3, 5]
    assert sorted(map(address, new.values())) == sorted(map(address, state.values()))
    again, _ = advance(new, X)  # `state` still sees the memory: it is left alone from now on
    assert (again["a"].item(), again["b"].item()) == (5, 8)
    assert sorted([state["a"].item(), state["b"].item()]) == [3, 5]
    kept = sorted(map(address, again.values()))
    again, _ = advance(again, X)
    assert sorted(map(address, again.values())) == kept


def test_memory_that_others_see_is_copied(fibonacci):
    seen = fibonacci["b"].numpy()
    twin = gt.Tensor(fibonacci["a"].type, fibonacci["a"].data)
    new, _ = advance(fibonacci, X)
    assert (new["a"].item(), new["b"].item()) == (1, 1)
    assert (seen.item(), twin.item()) == (1, 0)
    view = new["b"].data[:]
    newer, _ = advance(new, X)
    assert newer["b"].item() == 2
    assert view.item() == 1


def test_one_tensor_in_two_places_is_copied():
    tied = gt.tensor([4.0])
    new, _ = advance({"a": tied, "b": tied}, X)
    assert (new["a"].item(), new["b"].item()) == (4, 8)
    assert address(new["a"]) != address(new["b"])
    both = gt.compile(lambda p, q: (p + 1, p + q), donate=("p",))
    t = gt.tensor([4.0])
    assert [r.item() for r in both(t, t)] == [5, 8]


def test_arrays_that_overlap_a_donated_one_are_read_before():
    f = gt.compile(lambda p, q: (p * 0, gt.sum(q)), donate="p")
    data = np.arange(8, dtype=np.float32)
    _, total = f(data[:4], data[2:6])
    assert total.item() == 14
    assert data.tolist() == [0, 0, 0, 0, 4, 5, 6, 7]
    with pytest.raises(DonatedError, match=r"state\.a and state\.b share memory"):
        advance({"a": data[:1], "b": data[:1]}, X)


def test_an_array_that_cannot_be_overwritten_is_refused():
    a = np.zeros(2, np.float32)
    for wrong, reason in ((read_only(a), "is read-only"), (np.zeros(4, np.float32)[::2], "is not C-contiguous")):
        with pytest.raises(DonatedError, match=f"the donated argument state.b {reason}"):
            advance({"a": a, "b": wrong}, X)
    assert a.tolist() == [0, 0]


def test_a_call_that_raises_leaves_donated_arguments_alone():
    @gt.compile(donate=("w",))
    def f(w, index):
        return w * 2, gt.take(w, index, axis=0)

    w, array = gt.tensor([1.0, 2.0]), np.array([1, 2], np.float32)
    with pytest.raises(IndexError):
        f(w, np.array([2]))
    with pytest.raises(IndexError):
        f(array, np.array([-3]))
    assert (w.tolist(), array.tolist()) == ([1, 2], [1, 2])
    assert f(w, np.array([1]))[0].tolist() == [2, 4]


def test_a_leaf_goes_to_the_memory_it_had_whatever_the_order():
    @gt.compile(donate=("params", "state"))
    def f(params, state):
        return {"m": state["m"] + 1, "v": params["w"] * 0}, {"w": params["w"] + state["v"]}

    params, state = {"w": gt.tensor([0.0, 0.0])}, {"m": gt.tensor([0.0, 0.0]), "v": gt.tensor([1.0, 1.0])}
    places = address(state["m"]), address(state["v"]), address(params["w"])
    state, params = f(params, state)
    assert (address(state["m"]), address(state["v"]), address(params["w"])) == places
    assert (state["m"].tolist(), state["v"].tolist(), params["w"].tolist()) == ([1, 1], [0, 0], [1, 1])


def test_donated_memory_without_a_fitting_result_is_given_up_all_the_same():
    f = gt.compile(lambda x: gt.sum(x), donate="x")
    x = gt.ones(3)
    assert f(x).item() == 3
    assert x.donated
    assert f(2.0).item() == 2


def test_names_of_arguments_are_checked():
    with pytest.raises(OptionError, match=r"(?s)donate: there is no argument 'params'\n.*hint: arguments are x"):
        gt.compile(lambda x: x, donate="params")
    with pytest.raises(OptionError, match="compile takes a function, not int"):
        gt.compile(3)
    with pytest.raises(OptionError, match="static: there is no argument 'n'"):
        gt.compile(lambda x: x, static=("n",))
    assert gt.compile(lambda **rest: rest["p"] + 1, donate="p")(p=gt.zeros(1)).item() == 1


# ---- captured arrays -------------------------------------------------------------------------------------

SCALE = np.array([1, 2], np.float32)


class Model:
    def __init__(self):
        self.layers = [{"w": np.ones((3, 1), np.float32)}, {"w": gt.ones((1, 1))}]

    @gt.compile
    def __call__(self, x):
        for layer in self.layers:
            x = x @ layer["w"]
        return gt.sum(x)


def test_a_change_inside_a_captured_array_is_seen():
    held, leaf = np.ones(3, np.float32), gt.ones(3)
    f = gt.compile(lambda x: x * held + leaf)
    assert f(X[0]).tolist() == (X[0] + 1).tolist()
    held[:] = 2
    leaf.assign_(np.zeros(3, np.float32))
    assert f(X[0]).tolist() == (X[0] * 2).tolist()
    assert len(f._known) == 1


def test_a_name_bound_to_another_array_is_seen(monkeypatch):
    f = gt.compile(lambda: gt.multiply(SCALE, 2))
    assert f().tolist() == [2, 4]
    monkeypatch.setitem(globals(), "SCALE", np.array([3, 4], np.float32))
    assert f().tolist() == [6, 8]
    monkeypatch.setitem(globals(), "SCALE", np.array([3, 4, 5]))
    assert f().tolist() == [6, 8, 10]


def test_attributes_and_items_bound_to_other_arrays_are_seen():
    model, other = Model(), Model()
    assert model(X).item() == pytest.approx(X.sum(), abs=1e-6)
    model.layers[0]["w"] = np.full((3, 1), 2, np.float32)
    assert model(X + 1).item() == pytest.approx(2 * (X + 1).sum())
    model.layers = [{"w": np.full((3, 1), 3, np.float32)}, {"w": gt.ones((1, 1))}]
    assert model(X + 1).item() == pytest.approx(3 * (X + 1).sum())
    assert other(X + 1).item() == pytest.approx((X + 1).sum())


def test_two_names_of_one_array_may_part():
    a = b = np.ones(2, np.float32)
    f = gt.compile(lambda: (a, b * 2))
    assert [r.tolist() for r in f()] == [[1, 1], [2, 2]]
    b = np.zeros(2, np.float32)
    assert [r.tolist() for r in f()] == [[1, 1], [0, 0]]


def test_arrays_captured_by_a_helper_are_seen():
    held = np.ones(2, np.float32)

    def helper(x):
        return x * held

    f = gt.compile(lambda x: helper(x))
    assert f(SCALE).tolist() == SCALE.tolist()
    held = np.zeros(2, np.float32)
    assert f(SCALE).tolist() == [0, 0]


# ---- ahead of time ---------------------------------------------------------------------------------------


def test_a_function_compiled_ahead_of_time_serves_later_calls():
    f = gt.compile(lambda x, a=2.0: x * a)
    compiled = f.trace(gt.spec((2, 3)), 2.0).lower().compile()
    assert len(f._known) == 1
    assert np.array_equal(f(X, 3.0).numpy(), X * 3) and np.array_equal(compiled(X, 3.0).numpy(), X * 3)
    assert len(f._known) == 1
    for three in (3, np.float64(3), np.array(3.0)):
        assert compiled(X, three).tolist() == (X * 3).tolist()


def test_a_run_time_extent_serves_every_batch_up_to_its_bound():
    f = gt.compile(lambda x, y: {"loss": gt.mean((x - y) ** 2, axis=1), "out": x})
    n = {"B": 5}
    compiled = f.trace(gt.spec(("B", 3), max=n), gt.spec(("B", 3), max=n)).lower().compile()
    rng = np.random.default_rng(0)
    for size in (0, 1, 4, 5):
        x, y = rng.standard_normal((2, size, 3)).astype(np.float32)
        for call in (compiled, f):
            result = call(x, gt.tensor(y))
            np.testing.assert_allclose(result["loss"].numpy(), ((x - y) ** 2).mean(axis=1), rtol=1e-6)
            assert result["out"].shape == (size, 3)
    assert len(f._known) == 1
    with pytest.raises(SignatureError, match=r"x: f32\[B,3\] \(B <= 5\); this call has f32\[6,3\]"):
        compiled(np.ones((6, 3), np.float32), np.ones((6, 3), np.float32))
    with pytest.raises(SignatureError, match=r"y: f32\[B,3\] \(B <= 5\) with B = 2; this call has f32\[3,3\]"):
        compiled(np.ones((2, 3), np.float32), np.ones((3, 3), np.float32))
    assert f(np.ones((6, 3), np.float32), np.ones((6, 3), np.float32))["out"].shape == (6, 3)
    assert len(f._known) == 2


def test_two_run_time_extents():
    f = gt.compile(lambda x, y: (gt.sum(x), y * 2))
    call = f.trace(gt.spec(("N",), max={"N": 4}), gt.spec(("M", 2), max={"M": 3})).lower().compile()
    total, double = call(np.ones(3, np.float32), np.ones((1, 2), np.float32))
    assert (total.item(), double.tolist()) == (3, [[2, 2]])
    assert call(np.ones(4, np.float32), np.ones((3, 2), np.float32))[1].shape == (3, 2)


def test_a_donated_argument_may_have_a_run_time_extent():
    f = gt.compile(lambda x: x + 1, donate="x")
    f.trace(gt.spec(("B", 2), max={"B": 4})).lower().compile()
    x = gt.tensor(np.zeros((3, 2), np.float32))
    place = address(x)
    y = f(x)
    assert (y.shape, address(y), y.type.shape) == ((3, 2), place, (3, 2))


# ---- where no compiled code may run ----------------------------------------------------------------------


def test_inside_a_trace_the_function_itself_is_traced():
    square = gt.compile(lambda x: x * x)
    graph = gt.trace(lambda x: square(x) + square(SCALE[0]), gt.spec((2,)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["mul", "add"]
    assert gt.compile(lambda x: square(x) + 1)(X).tolist() == (X * X + 1).tolist()


def test_gradients_go_through():
    square = gt.compile(lambda x: gt.sum(x * x))
    assert gt.grad(square)(gt.tensor([1.0, 3.0])).tolist() == [2, 6]
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    assert gt.grad(square(w), [w])[0].tolist() == [2, 4]
    gt.compile(lambda: gt.sum(w * w))().backward()
    assert w.grad.tolist() == [2, 4]
    assert gt.compile(gt.grad(square))(X).tolist() == (2 * X).tolist()


def test_integer_tensors_that_are_looked_at_run_compiled():
    f = gt.compile(lambda x: x[1] + 1)
    assert f(gt.arange(3)).item() == 2
    assert f(np.arange(3)).dtype is gt.int64


# ---- several at once -------------------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other():
    f = gt.compile(lambda x: gt.sum(gt.exp(x) @ x.T, axis=1))
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((40, 40)).astype(np.float32) for _ in range(4)]
    expected = [f(x).numpy() for x in inputs]
    wrong = []

    def work(x, right):
        for _ in range(30):
            if not np.array_equal(f(x).numpy(), right):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected, strict=True) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_may_compile_the_same_function():
    f = gt.compile(lambda x: gt.log(x + 4) * 3)
    results = []
    threads = [threading.Thread(target=lambda: results.append(f(X).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [f(X).tolist()] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_calls_on():
    expected = affine(X, W, B).tolist()
    child = os.fork()
    if child == 0:
        os._exit(0 if affine(X, W, B).tolist() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert affine(X, W, B).tolist() == expected


def test_nothing_holds_on_to_arguments_and_results():
    f = gt.compile(lambda x: x * 2)
    x = np.ones(1000, np.float32)
    f(x)
    gc.collect()
    gone = []
    weakref.finalize(x, gone.append, 1)
    del x
    assert gone == [1]
