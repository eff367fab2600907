"""Which equations share a kernel, and the text that says why."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.fuse import MAX_EQUATIONS, fuse
from gtensor.ir import Var
from gtensor.passes import simplify
from gtensor.schedule import Schedule


def schedule(fn, *args) -> Schedule:
    """The schedule of a traced and simplified function."""
    return fuse(simplify(gt.trace(fn, *args)))


def kinds(made: Schedule) -> list[str]:
    """The kinds of the groups, in order."""
    return [group.kind for group in made.groups]


def laws(made: Schedule) -> None:
    """Every operand is made in an earlier group, or in the same one at a level that the loop passes on."""
    for index, group in enumerate(made.groups):
        seen: set[Var] = set()
        for eqn in group.eqns:
            for atom in eqn.ins:
                home = made.home.get(atom, -1) if isinstance(atom, Var) else -1
                assert home <= index
                if home == index:
                    assert atom in seen and made.level[atom] != "after"
            seen.update(eqn.outs)


ROWS = gt.spec((6, 33))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: gt.softmax(x, axis=-1),
        lambda x: gt.log_softmax(x, axis=-1),
        lambda x: gt.nn.layer_norm(x),
        gt.grad(lambda x: gt.sum(gt.softmax(x) * gt.exp(x))),
        gt.grad(lambda x: gt.sum(gt.nn.layer_norm(x) ** 3)),
        lambda x: gt.tanh(gt.exp(x) * 2 + 1),
        lambda x: gt.sum(x * x, axis=0),
    ],
    ids=["softmax", "log_softmax", "layer_norm", "softmax gradient", "layer_norm gradient", "chain", "column sum"],
)
def test_one_kernel(fn):
    made = schedule(fn, ROWS)
    laws(made)
    assert kinds(made) == ["row"], made.as_text()


def test_cross_entropy_and_its_gradient_are_one_row_kernel_and_one_scalar_kernel():
    labels = gt.spec(6, "int32")
    made = schedule(gt.value_and_grad(lambda x, y: gt.nn.cross_entropy(x, y, ignore_index=None)), ROWS, labels)
    laws(made)
    spaces = [group.space for group in made.groups]
    assert spaces.count((6, 33)) == 1 and len(spaces) <= 2, made.as_text()


def test_a_product_takes_its_epilogue():
    made = schedule(lambda x, w, b: gt.relu(x @ w + b), ROWS, gt.spec((33, 8)), gt.spec(8))
    assert kinds(made) == ["product"], made.as_text()


def test_a_product_takes_a_column_sum_but_no_row_sum():
    columns = schedule(lambda x, w: gt.sum(x @ w, axis=0), ROWS, gt.spec((33, 8)))
    rows = schedule(lambda x, w: gt.sum(x @ w, axis=1), ROWS, gt.spec((33, 8)))
    assert kinds(columns) == ["product"] and kinds(rows) == ["product", "row"]


def test_transposes_and_heads_are_strides():
    def heads(x, w):
        split = gt.permute_dims(gt.reshape(x @ w, (2, 5, 3, 4)), (0, 2, 1, 3))
        return split @ gt.matrix_transpose(split)

    made = schedule(heads, gt.spec((2, 5, 6)), gt.spec((6, 12)))
    assert kinds(made) == ["product", "product"], made.as_text()


def test_counters_and_literals_have_no_memory():
    made = schedule(lambda x: x * gt.arange(33, dtype="float32") + gt.zeros((6, 33)), ROWS)
    assert kinds(made) == ["row"], made.as_text()


def test_what_cannot_be_a_view_is_copied():
    made = schedule(lambda x: gt.reshape(x.T, (198,)), ROWS)
    assert kinds(made) == ["copy"], made.as_text()


def test_the_elements_of_a_view_are_copied_once_for_all_its_shapes():
    def fn(x, w):
        turned = gt.permute_dims(gt.exp(x), (1, 0, 2))
        return gt.reshape(turned, (12, 10)) @ w, gt.sum(gt.reshape(turned, (3, 40)), axis=0), gt.reshape(turned, (120,))

    x, w = np.random.default_rng(0).normal(size=(4, 3, 10)), np.ones((10, 2))
    made = schedule(fn, x, w)
    assert kinds(made).count("copy") == 2, made.as_text()  # the second one is the output's own memory
    for eager, compiled in zip(fn(x, w), gt.compile(fn)(x, w), strict=True):
        np.testing.assert_allclose(compiled.numpy(), np.asarray(eager), rtol=1e-14)


def test_outputs_have_memory_of_their_own():
    made = schedule(lambda x: (x, x.T, gt.exp(x), gt.zeros(3)), ROWS)
    assert len(set(made.outputs)) == 4
    assert all(made.location[v].base is v for v in made.outputs)
    again = fuse(gt.trace(lambda x: [gt.exp(x)] * 2, ROWS))
    assert len(set(again.outputs)) == 2 and kinds(again) == ["row", "copy"]


def test_a_full_group_is_closed():
    def long(x):
        for i in range(MAX_EQUATIONS + 20):
            x = x * (1.5 + i / 8192)
        return x

    made = schedule(long, gt.spec(5))
    laws(made)
    assert [len(group.eqns) for group in made.groups] == [MAX_EQUATIONS, 20]
    assert "kernel 0 is full" in made.as_text()


def test_the_text_says_why():
    text = schedule(lambda x, w: gt.sum(gt.tanh(gt.sum(x, axis=0)) @ w), ROWS, gt.spec((33, 2))).as_text()
    assert "is known only when kernel 0 is done" in text and "a product starts a kernel" in text


def test_equations_that_read_the_same_memory_share_a_loop():
    def both(p, q, g):
        return p - 0.1 * g, q + g * g

    a = gt.spec((4, 5))
    assert kinds(schedule(both, a, a, a)) == ["row"]


def test_fusing_is_pure():
    graph = gt.trace(lambda x: gt.softmax(x), np.ones((3, 4), np.float32))
    before = str(graph)
    assert fuse(graph).as_text() == fuse(graph).as_text()
    assert str(graph) == before
