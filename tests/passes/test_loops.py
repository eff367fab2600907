"""The passes on loops: joined and pruned, inlined, split and hoisted."""

from __future__ import annotations

import pytest

import gtensor as gt
from gtensor.ir import Graph, subgraphs
from gtensor.passes import PASSES
from gtensor.passes.hoist import hoist
from gtensor.passes.inline import inline
from gtensor.passes.loops import loops
from gtensor.passes.split import split

from .laws import check_laws, left

H, X, W, U = "f64[4,3]", "f64[5,4,2]", "f64[3,3]", "f64[2,3]"
SPECS = tuple(gt.spec(shape, "float64") for shape in ((4, 3), (5, 4, 2), (3, 3), (2, 3)))


def rollout(h, x, w, u):
    return gt.scan(lambda h, x: (gt.tanh(h @ w + x @ u),) * 2, h, x)


def loss(h, x, w, u):
    _, hs = rollout(h, x, w, u)
    return gt.sum(hs * hs)


def scans(graph: Graph):
    return [eqn for eqn in graph.eqns if eqn.prim.name == "scan"]


def inside(graph: Graph) -> list[str]:
    """The operations of a loop's body."""
    (_, body), = subgraphs(scans(graph)[0])  # fmt: skip
    return [eqn.prim.name for eqn in body.eqns]


def test_the_loop_of_a_derivative_is_one_with_the_first():
    graph = gt.trace(gt.grad(loss, (0, 1, 2, 3)), *SPECS)
    assert len(scans(graph)) == 3
    result = check_laws(loops, graph)
    forward, back = scans(result)
    assert len(forward.outs) == 3 and back.params["reverse"]


def test_what_nobody_reads_goes():
    def fn(h, x, w, u):
        def step(carry, row):
            h, steps, unused = carry
            return (gt.tanh(h @ w), steps + 1, unused * 2), (h, row @ u)

        (_, steps, _), (hs, _) = gt.scan(step, (h, 0, h), x)
        return hs, steps

    result = check_laws(loops, gt.trace(fn, *SPECS))
    (scan,) = scans(result)
    assert (scan.params["carries"], scan.params["slices"], len(scan.outs)) == (2, 0, 3)
    assert inside(result) == ["matmul", "tanh", "add"]


def test_products_of_rows_leave_a_loop_and_what_they_need_goes_with_them():
    def fn(h, x, w, u):
        return gt.scan(lambda h, x: (gt.tanh(h @ w + gt.sin(x) @ (u * 2)),) * 2, h, x)

    result = check_laws(hoist, gt.trace(fn, *SPECS))
    assert inside(result) == ["matmul", "add", "tanh"]
    assert [eqn.prim.name for eqn in result.eqns if eqn.prim.kind != "view"] == ["sin", "mul", "matmul", "scan"]


def test_weight_gradients_and_readouts_are_made_after_the_loop():
    graph = loops(gt.trace(gt.grad(loss, (1, 2, 3)), *SPECS))
    result = check_laws(hoist, graph)
    back = scans(result)[1].params["body"]
    assert [eqn.prim.name for eqn in back.eqns].count("matmul") == 1
    assert sum(eqn.prim.name == "matmul" for eqn in result.eqns) == 4


def test_a_loop_in_which_all_depends_on_the_carry_stays():
    graph = gt.trace(lambda h, x, w, u: gt.scan(lambda h, _: (gt.tanh(h @ w), None), h, length=3)[0], *SPECS)
    assert hoist(graph) is graph


def test_products_of_joined_arrays_are_split():
    def fn(a, b, w):
        return gt.concat([a, b], axis=1) @ w

    assert left(split, fn, "f64[4,3]", "f64[4,2]", "f64[5,2]") == [
        "t0: f64[3,2] = slice(w, start=(0, 0), step=(1, 1), stop=(3, 2))",
        "t1: f64[4,2] = matmul(a, t0, ta=False, tb=False)",
        "t2: f64[2,2] = slice(w, start=(3, 0), step=(1, 1), stop=(5, 2))",
        "t3: f64[4,2] = matmul(b, t2, ta=False, tb=False)",
        "t4: f64[4,2] = add(t1, t3)",
        "return t4",
    ]


def test_only_the_columns_that_are_used_are_computed():
    def fn(a, b, w):
        return gt.exp((a @ w + b @ w)[:, 1:3])

    lines = left(split, fn, "f64[4,3]", "f64[4,3]", "f64[3,5]")
    assert [line.split(" = ")[1].split("(")[0] for line in lines[:-1]] == ["slice", "matmul", "matmul", "add", "exp"]
    assert "f64[4,5]" not in "".join(lines)


def test_columns_that_are_used_otherwise_too_are_all_computed():
    graph = gt.trace(lambda a, w: (lambda p: (p[:, :1], gt.sum(p)))(a @ w), gt.spec((4, 3)), gt.spec((3, 5)))
    assert split(graph) is graph


def test_checkpoints_are_inlined():
    graph = gt.trace(lambda x: gt.checkpoint(lambda x: gt.sin(gt.exp(x)))(x) + 1, gt.spec((3,)))
    assert [eqn.prim.name for eqn in inline(graph).eqns] == ["exp", "sin", "add"]


@pytest.mark.parametrize("fn", [rollout, loss, gt.grad(loss, (0, 1, 2, 3))], ids=["rollout", "loss", "grad"])
def test_every_pass_keeps_its_laws_on_loops(fn):
    graph = gt.trace(fn, *SPECS)
    for each in PASSES:
        graph = check_laws(each.run, graph)


def test_a_loop_over_what_is_captured_leaves_with_all_its_results():
    def fn(h, x, w):
        def step(h, row):
            last, rows = gt.scan(lambda c, _: (gt.tanh(c @ w), gt.sum(c)), w, length=3)
            return h + last[0], gt.sum(rows) * row

        return gt.scan(step, h, x)

    graph = gt.trace(fn, gt.spec((3,), "float64"), gt.spec((5, 3), "float64"), gt.spec((3, 3), "float64"))
    outer = [body for eqn in scans(check_laws(hoist, graph)) for _, body in subgraphs(eqn)]
    assert len(outer) == 2 and not any(scans(body) for body in outer)


def test_a_loop_over_rows_stays_in_its_loop():
    def fn(h, x, w):
        def step(h, row):
            last, rows = gt.scan(lambda c, _: (gt.tanh(c), gt.sum(c)), row, length=3)
            return h + last @ w, rows

        return gt.scan(step, h, x)

    graph = gt.trace(fn, gt.spec((3,), "float64"), gt.spec((5, 3), "float64"), gt.spec((3, 3), "float64"))
    assert any(scans(body) for eqn in scans(check_laws(hoist, graph)) for _, body in subgraphs(eqn))
