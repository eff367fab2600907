"""The pass `gemm`: a product that is only wanted transposed is computed transposed."""

from __future__ import annotations

import gtensor as gt
from gtensor.ir import Graph
from gtensor.passes.gemm import gemm

from .laws import left, op

X, W = "f32[2,3]", "f32[3,4]"


def test_a_product_wanted_transposed():
    assert left(gemm, lambda x, w: (x @ w).T, X, W) == ["t0: f32[4,2] = matmul(w, x, ta=True, tb=True)", "return t0"]


def test_operands_stored_transposed_are_then_stored_straight():
    def fn(x, w):
        return gt.exp(op("matmul", x, w, ta=True, tb=False).T)

    assert left(gemm, fn, "f32[3,2]", W) == [
        "t0: f32[4,2] = matmul(w, x, ta=True, tb=False)",
        "t1: f32[4,2] = exp(t0)",
        "return t1",
    ]


def test_a_stack_of_products():
    def fn(x, w):
        return gt.matrix_transpose(op("matmul", x, w, ta=False, tb=False))

    assert left(gemm, fn, "f32[5,2,3]", "f32[5,3,4]") == [
        "t0: f32[5,4,2] = matmul(w, x, ta=True, tb=True)",
        "return t0",
    ]


def test_a_product_wanted_both_ways_stays():
    def fn(x, w):
        product = x @ w
        return product, product.T

    graph = gt.trace(fn, gt.spec((2, 3)), gt.spec((3, 4)))
    assert gemm(graph) is graph


def test_another_permutation_stays():
    def fn(x, w):
        return gt.permute_dims(op("matmul", x, w, ta=False, tb=False), (1, 2, 0))

    graph = gt.trace(fn, gt.spec((5, 2, 3)), gt.spec((5, 3, 4)))
    assert gemm(graph) is graph


def test_uses_by_dead_equations_do_not_count():
    def fn(x, w):
        product = x @ w
        gt.exp(product)
        return product.T

    assert left(gemm, fn, X, W) == ["t0: f32[4,2] = matmul(w, x, ta=True, tb=True)", "return t0"]


def test_a_dead_transpose_does_not_turn_a_product():
    def fn(x, w):
        product = x @ w
        return gt.exp(product), product.T

    graph = gt.trace(fn, gt.spec((2, 3)), gt.spec((3, 4)))
    without = Graph(graph.name, graph.inputs, graph.eqns, graph.outputs[:1])
    assert gemm(without) is without


def test_both_user_lines_stay_with_the_product():
    def fn(x, w):
        product = x @ w
        return product.T

    (eqn,) = gemm(gt.trace(fn, gt.spec((2, 3)), gt.spec((3, 4)))).eqns
    first, second = eqn.source
    assert second.line == first.line + 1
