"""Reverse mode: what is appended to a graph, and how much."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad, pull, vjp
from symgrad.autodiff.rules import Linear
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, param
from symgrad.ir.types import Size, TensorType, f32, f64, i64, size_named
from symgrad.ops.folds import sum_
from symgrad.ops.pointwise import cast, exp, log, lt, select, sin, sqrt, stop
from symgrad.ops.products import dot
from symgrad.ops.views import slice_

K = size_named("k")  # texts list nodes by age: those of this size are made here first


def vector(*shape: Size) -> Node:
    return param(TensorType(f64, shape))


def test_the_gradient_shares_values_with_the_function():
    x = vector(K)
    assert str(grad(Graph((x,), (sum_(sin(x) * x, axes=(0,)),)))) == dedent("""\
        graph(%0: f64[k]) {
          %1: f64[k] = sin %0
          %2: f64[k] = mul %1 %0
          %3: f64[] = sum[axes=(0,)] %2
          %4: f64[k] = broadcast[axes=(), shape=(k,)] 1.0
          %5: f64[k] = mul %4 %0
          %6: f64[k] = mul %4 %1
          %7: f64[k] = cos %0
          %8: f64[k] = mul %5 %7
          %9: f64[k] = add %6 %8
          return %3 %9
        }""")


def test_the_condition_of_a_select_travels_with_the_adjoint():
    x = vector()
    assert str(grad(Graph((x,), (select(lt(0.0, x), log(sqrt(x)), 0.0),)))) == dedent("""\
        graph(%0: f64[]) {
          %1: bool[] = lt 0.0 %0
          %2: f64[] = sqrt %0
          %3: f64[] = log %2
          %4: f64[] = select %1 %3 0.0
          %5: f64[] = select %1 1.0 0.0
          %6: f64[] = div 1.0 %2
          %7: f64[] = mul %5 %6
          %8: f64[] = select %1 %7 0.0
          %9: f64[] = div 0.5 %2
          %10: f64[] = mul %8 %9
          %11: f64[] = select %1 %10 0.0
          return %4 %11
        }""")


def test_a_slice_masks_what_it_does_not_read():
    x = vector(K)  # a length of its own: what other tests still hold is printed in another order
    y = sum_(slice_(exp(x), starts=(1,), sizes=(137,), steps=(1,)), axes=(0,))
    assert str(grad(Graph((x,), (y,)))) == dedent("""\
        graph(%0: f64[k]) {
          %1: f64[k] = exp %0
          %2: f64[137] = slice[sizes=(137,), starts=(1,), steps=(1,)] %1
          %3: f64[] = sum[axes=(0,)] %2
          %4: f64[137] = broadcast[axes=(), shape=(137,)] 1.0
          %5: bool[137] = broadcast[axes=(), shape=(137,)] True
          %6: bool[k] = place[shape=(k,), starts=(1,), steps=(1,)] %5
          %7: f64[k] = place[shape=(k,), starts=(1,), steps=(1,)] %4
          %8: f64[k] = mul %7 %1
          %9: f64[k] = broadcast[axes=(), shape=(k,)] 0.0
          %10: f64[k] = select %6 %8 %9
          return %3 %10
        }""")


def test_the_pullback_of_a_product_is_two_products():
    a, b = vector(2, 3), vector(3, 4)
    assert str(vjp(Graph((a, b), (dot(a, b),)))) == dedent("""\
        graph(%0: f64[2,3], %1: f64[3,4], %2: f64[2,4]) {
          %3: f64[2,4] = dot %0 %1
          %4: f64[4,3] = transpose[perm=(1, 0)] %1
          %5: f64[2,3] = dot %2 %4
          %6: f64[3,2] = transpose[perm=(1, 0)] %0
          %7: f64[3,4] = dot %6 %2
          return %3 %5 %7
        }""")


def test_the_work_grows_with_the_nodes_and_not_with_the_paths():
    x = vector()
    z = x
    for _ in range(40):
        z = z * z  # 2**40 paths
    assert len(grad(Graph((x,), (z,))).nodes()) < 40 * 5


def test_a_deep_graph_needs_no_deep_recursion():
    x = vector()
    z = x
    for _ in range(5000):
        z = sin(z)
    value, slope = evaluate(grad(Graph((x,), (z,))), 0.5)
    assert 0.0 < slope < value


@pytest.mark.parametrize("order", range(1, 6))
def test_repeated_gradients(order):
    x = vector()
    graph = Graph((x,), (exp(x * 2.0),))
    for _ in range(order):
        graph = Graph((x,), (grad(graph).results[1],))
    np.testing.assert_allclose(evaluate(graph, 0.3)[0], 2.0**order * np.exp(0.6), rtol=1e-14)


def test_results_that_do_not_depend_give_none():
    x, y = vector(3), vector(3)
    assert pull([sin(x)], [Linear(x)], [y]) == [None]


def test_an_inner_value_can_be_differentiated_by():
    x = vector()
    inner = sin(x)
    (ct,) = pull([inner * inner], [Linear(inner)], [inner])
    assert ct is not None
    s = np.sin(0.4)
    np.testing.assert_allclose(evaluate(Graph((x,), (ct,)), 0.4)[0], 2 * s * s)


def test_integers_and_stopped_values_have_no_derivative():
    x, k = vector(), param(TensorType(i64))
    grads = evaluate(grad(Graph((x, k), (stop(sin(x)) * x * cast(k, dtype=f64),))), 0.5, 3)
    np.testing.assert_allclose(grads[1:], [3 * np.sin(0.5), 0])
    assert grads[2].dtype == np.int64


def test_a_cotangent_comes_back_in_the_dtype_of_the_argument():
    x = param(TensorType(f32))
    graph = grad(Graph((x,), (sin(cast(x, dtype=f64)),)))
    assert [r.dtype for r in graph.results] == [f64, f32]
