"""einsum against NumPy's: equations, dtypes, broadcasting, nothing and 0-d; how it is lowered; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from tests.values import agree, check_derivatives, close
from tests.ways import evaluated

RNG = np.random.default_rng(7)

EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "ij,kj->ik": [(2, 3), (4, 3)],
    "ji,jk->ki": [(3, 2), (3, 4)],
    "i,i": [(3,), (3,)],
    "i,j->ij": [(3,), (4,)],
    "ij,j->i": [(2, 3), (3,)],
    "ii": [(3, 3)],
    "ii->i": [(3, 3)],
    "iii": [(3, 3, 3)],
    "ij->ji": [(2, 3)],
    "ba": [(2, 3)],
    "ij->": [(2, 3)],
    "ij->j": [(2, 3)],
    "bij,bjk->bik": [(5, 2, 3), (5, 3, 4)],
    "bij,kj->bik": [(5, 2, 3), (4, 3)],
    "ij,bjk->bik": [(2, 3), (5, 3, 4)],
    "...ij,...jk->...ik": [(5, 2, 3), (1, 3, 4)],
    "bqhd,bkhd->bhqk": [(2, 3, 4, 5), (2, 6, 4, 5)],
    "ijk,jil->kl": [(3, 4, 5), (4, 3, 2)],
    "i...,i...->...": [(3, 4, 5), (3, 4, 5)],
    "...,...": [(2, 3), (3,)],
    "...i->...": [(2, 3, 4)],
    "b...a": [(2, 3, 4)],
    "ij,kj,lk->il": [(2, 3), (4, 3), (5, 4)],
    "ab,bc,cd,de->ae": [(2, 3), (3, 4), (4, 5), (5, 2)],
    "abc,cd,bde->ae": [(2, 3, 4), (4, 5), (3, 5, 6)],
    "i,i,i->i": [(3,), (3,), (3,)],
    "i,j,k,l->lkji": [(2,), (3,), (2,), (3,)],
    "iij->ij": [(3, 3, 4)],
    "iijj->ij": [(3, 3, 4, 4)],
    "ijji->i": [(3, 4, 4, 3)],
    "i,->i": [(3,), ()],
    ",": [(), ()],
    "ij, ij -> ij": [(1, 3), (2, 3)],
    "ij,jk->ik of ones": [(2, 1), (3, 4)],
    "ij,jk->ik of nothing": [(2, 0), (0, 4)],
    "ij,jk->ik without rows": [(0, 3), (3, 4)],
}


def operands(name, dtype):
    drawn = [RNG.standard_normal(shape) * 3 for shape in EQUATIONS[name]]
    return [np.asarray(x > 0 if dtype == "bool" else x).astype(dtype) for x in drawn]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
@pytest.mark.parametrize("name", EQUATIONS)
def test_it_is_numpys(name, dtype):
    equation, xs = name.partition(" of ")[0].partition(" without ")[0], operands(name, dtype)
    got, wanted = gt.einsum(equation, *xs).numpy(), np.einsum(equation, *xs)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    close(got, wanted, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-12)
    np.testing.assert_array_equal(evaluated(lambda *xs: gt.einsum(equation, *xs), *xs), got)


def test_operands_meet_in_one_dtype():
    a, b = np.arange(4, dtype=np.int32).reshape(2, 2), np.ones((2, 2), np.float32)
    assert gt.einsum("ij,jk->ik", a, b).dtype == gt.float32
    close(gt.einsum("ij,jk->ik", a, b), a @ b)
    close(gt.einsum("ij,->ij", a, 2), a * 2)


SMOOTH = ["ij,jk->ik", "bqhd,bkhd->bhqk", "ijji->i", "...,...", "abc,cd,bde->ae", "i,i,i->i", "ij,ij->ij", "ij->j"]


@pytest.mark.parametrize("equation", SMOOTH)
def test_derivatives(equation):
    name = "ij, ij -> ij" if equation == "ij,ij->ij" else equation
    first, *rest = operands(name, "float64")
    check_derivatives(lambda x: gt.einsum(equation, gt.sin(x), *rest), first)
    gt.check_grads(lambda *xs: gt.einsum(equation, *xs), [first, *rest], order=2)


def test_compiled_it_is_the_evaluated_one():
    xs = {name: operands(name, "float32") for name in EQUATIONS}

    def everything(xs):
        return [gt.einsum(name.partition(" of ")[0].partition(" without ")[0], *x) for name, x in xs.items()]

    agree(gt.compile(everything)(xs), everything(xs))


def test_a_batch_of_products_is_one_product_without_copies():
    graph = gt.trace(lambda a, b: gt.einsum("bqhd,bkhd->bhqk", a, b), gt.spec((2, 3, 4, 5)), gt.spec((2, 6, 4, 5)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["transpose", "transpose", "matmul"]
    graph = gt.trace(lambda a, b: gt.einsum("...ij,jk->...ik", a, b), gt.spec((7, 4, 5)), gt.spec((5, 2)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["reshape", "matmul", "reshape"]
    graph = gt.trace(lambda a, b: gt.einsum("ki,kj->ij", a, b), gt.spec((3, 4)), gt.spec((3, 5)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["matmul"] and graph.eqns[0].params["ta"]


def test_a_chain_is_multiplied_in_the_cheap_order():
    sizes = gt.spec((100, 2)), gt.spec((2, 100)), gt.spec((100, 2))
    graph = gt.trace(lambda a, b, c: gt.einsum("ij,jk,kl->il", a, b, c), *sizes)
    assert (100, 100) not in [eqn.outs[0].type.shape for eqn in graph.eqns]


def test_a_run_time_batch_goes_through():
    graph = gt.trace(lambda a, b: gt.einsum("bij,jk->bik", a, b), gt.spec(("B", 4, 5), max={"B": 9}), gt.spec((5, 2)))
    assert str(graph.outputs[0].type) == "f32[B,4,2]"


@pytest.mark.parametrize(
    "equation, shapes, error",
    [
        ("ij,jk->ix", [(2, 3), (3, 4)], OptionError),
        ("ij->ii", [(2, 2)], OptionError),
        ("i1->i", [(2, 2)], OptionError),
        ("i->j->k", [(2,)], OptionError),
        ("ij->i->", [(2, 2)], OptionError),
        ("i....->i", [(2, 3)], OptionError),
        ("ij,jk", [(2, 3)], ShapeError),
        ("ijk", [(2, 3)], ShapeError),
        ("i", [(1, 2)], ShapeError),
        ("i..j", [(2, 2)], ShapeError),
        ("...i...", [(2, 2)], ShapeError),
        ("ij,jk->ik", [(2, 3), (4, 4)], ShapeError),
        ("ii", [(2, 3)], ShapeError),
    ],
)
def test_what_is_refused(equation, shapes, error):
    with pytest.raises(error, match="einsum"):
        gt.einsum(equation, *[np.ones(shape) for shape in shapes])
