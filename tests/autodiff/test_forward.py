"""Forward mode: what is appended to a graph, and its agreement with reverse mode on compositions."""

from __future__ import annotations

from textwrap import dedent

import numpy as np

from symgrad.autodiff.forward import jvp, push
from symgrad.autodiff.reverse import vjp
from symgrad.autodiff.rules import Linear
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, param
from symgrad.ir.types import TensorType, f64, i64
from symgrad.ops.folds import logsumexp, max_, norm2
from symgrad.ops.indexing import gather
from symgrad.ops.pointwise import cast, floor, log, lt, select, sin, sqrt
from symgrad.ops.products import dot
from symgrad.ops.running import cumprod
from symgrad.ops.sorting import argsort
from symgrad.ops.views import concatenate, reshape


def vector(*shape: int) -> Node:
    return param(TensorType(f64, shape))


def test_tangents_share_values_with_the_function():
    x = vector(3)
    assert str(jvp(Graph((x,), (sin(x) * x,)))) == dedent("""\
        graph(%0: f64[3], %1: f64[3]) {
          %2: f64[3] = sin %0
          %3: f64[3] = mul %2 %0
          %4: f64[3] = cos %0
          %5: f64[3] = mul %1 %4
          %6: f64[3] = mul %5 %0
          %7: f64[3] = mul %1 %2
          %8: f64[3] = add %6 %7
          return %3 %8
        }""")


def test_a_select_chooses_among_tangents():
    x = vector()
    assert str(jvp(Graph((x,), (select(lt(0.0, x), log(sqrt(x)), 0.0),)))) == dedent("""\
        graph(%0: f64[], %1: f64[]) {
          %2: bool[] = lt 0.0 %0
          %3: f64[] = sqrt %0
          %4: f64[] = log %3
          %5: f64[] = select %2 %4 0.0
          %6: f64[] = div 0.5 %3
          %7: f64[] = mul %1 %6
          %8: f64[] = div 1.0 %3
          %9: f64[] = mul %7 %8
          %10: f64[] = select %2 %9 0.0
          return %5 %10
        }""")


def test_the_pushforward_of_a_product_is_two_products():
    a, b = vector(2, 3), vector(3, 4)
    assert str(jvp(Graph((a, b), (dot(a, b),)))) == dedent("""\
        graph(%0: f64[2,3], %1: f64[3,4], %2: f64[2,3], %3: f64[3,4]) {
          %4: f64[2,4] = dot %0 %1
          %5: f64[2,4] = dot %2 %1
          %6: f64[2,4] = dot %0 %3
          %7: f64[2,4] = add %5 %6
          return %4 %7
        }""")


def test_what_has_no_tangent_costs_nothing():
    x, y = vector(3), vector(3)
    (t,) = push([x * sin(y)], [x], [Linear(x)])
    assert t is x * sin(y)


def test_integers_and_steps_have_no_tangent():
    x, k = vector(), param(TensorType(i64))
    assert push([floor(x), cast(k, dtype=f64)], [x, k], [Linear(x), Linear(k)]) == [None, None]


def composition(x: Node) -> Node:
    """Sorts, selects, runs, norms and a product, on six numbers."""
    ordered = gather(x, argsort(x), axes=(0,))
    table = reshape(concatenate(ordered, cumprod(x, axis=0), axis=0), shape=(3, 4))
    clear = select(lt(0.0, table), log(table), sin(table))
    return concatenate(
        logsumexp(clear, axes=(1,)),
        max_(clear, axes=(0,)),
        norm2(dot(table, reshape(clear, shape=(4, 3))), axes=(1,)),
        axis=0,
    )


def test_both_modes_give_one_jacobian():
    x = vector(6)
    graph = Graph((x,), (composition(x),))
    at = np.array([0.7, -0.3, 1.2, 0.4, -1.1, 0.9])
    rows = [evaluate(vjp(graph), at, u)[1] for u in np.eye(10)]
    columns = [evaluate(jvp(graph), at, t)[1] for t in np.eye(6)]
    np.testing.assert_allclose(rows, np.transpose(columns), rtol=1e-12, atol=1e-13)
    step = 1e-6
    slopes = [(evaluate(graph, at + step * t)[0] - evaluate(graph, at - step * t)[0]) / (2 * step) for t in np.eye(6)]
    np.testing.assert_allclose(columns, slopes, rtol=1e-6, atol=1e-8)
