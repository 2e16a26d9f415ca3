"""Stable forms: which naive forms are recognised, their values and gradients where the naive ones fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, constant, param, size_node
from symgrad.ir.types import TensorType, f32, f64, size_named
from symgrad.ops import pointwise as p
from symgrad.ops.folds import max_, sum_
from symgrad.ops.indexing import gather
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.products import dot
from symgrad.ops.views import broadcast, reshape
from symgrad.passes.stabilise import REWRITES, rewrites_applied, stabilise

INF, NAN = math.inf, math.nan
exp, log, sqrt = p.exp, p.log, p.sqrt


def trace(f: Callable[..., Node], *arrays: Any, dtype: Any = f64) -> Graph:
    params = tuple(param(TensorType(dtype, np.shape(a))) for a in arrays)
    return Graph(params, (f(*params),))


def both(f: Callable[..., Node], *arrays: Any) -> tuple[Any, Any]:
    """The stable value of ``f`` and the gradient of its sum in the first argument."""
    graph = stabilise(trace(f, *arrays))
    (value,) = graph.results
    total = Graph(graph.params, (sum_(value, axes=tuple(range(value.ndim))),))
    return evaluate(graph, *arrays)[0], evaluate(grad(total), *arrays)[1]


def check(
    f: Callable[..., Node], arrays: list[Any], value: Any, gradient: Any, rtol: float = 1e-14, atol: float = 1e-300
) -> None:
    got = both(f, *[np.asarray(a, float) for a in arrays])
    np.testing.assert_allclose(got[0], value, rtol=rtol, atol=atol)
    np.testing.assert_allclose(got[1], gradient, rtol=rtol, atol=atol)


def total(x: Node) -> Node:
    return sum_(x, axes=(x.ndim - 1,))


def keep(x: Node, like: Node) -> Node:
    """What keepdims and broadcasting make of a reduction over the last axis."""
    unit = reshape(x, shape=(*x.shape, 1))
    return broadcast_to(unit, like.shape)


# --- sums of exponentials --------------------------------------------------------------------------------------------


def logsumexp(x: Node) -> Node:
    return log(total(exp(x)))


def softmax(x: Node) -> Node:
    e = exp(x)
    return e / keep(total(e), e)


@pytest.mark.parametrize(
    ("x", "value", "gradient"),
    [
        ([1000.0, 1000.0], 1000 + math.log(2), [0.5, 0.5]),
        ([-1000.0, -2000.0], -1000, [1, 0]),
        ([-INF, 3.0], 3, [0, 1]),
        ([-INF, -INF], -INF, [0, 0]),
    ],
)
def test_log_sum_exp(x: Any, value: float, gradient: Any) -> None:
    check(logsumexp, [x], value, gradient)


def test_log_sum_exp_with_kept_axes() -> None:
    check(
        lambda x: log(reshape(total(exp(x)), shape=(2, 1))),
        [[[800.0, 800], [1, -INF]]],
        [[800 + math.log(2)], [1]],
        [[0.5, 0.5], [1, 0]],
    )


def test_log_of_a_mean_of_exponentials() -> None:
    check(lambda x: log(total(exp(x)) / 2.0), [[900.0, 900.0]], 900, [0.5, 0.5])
    check(lambda x: log(total(exp(x)) * 0.25), [[900.0, 900.0]], 900 - math.log(2), [0.5, 0.5])


def test_log_of_a_mean_over_a_symbolic_size() -> None:
    n = size_named("n")
    x = param(TensorType(f64, (n,)))
    graph = Graph((x,), (log(total(exp(x)) / p.cast(size_node(n), dtype=f64)),))
    assert evaluate(stabilise(graph), np.array([900.0, 900.0, 900.0]))[0] == pytest.approx(900)


def test_weighted_sums_of_exponentials() -> None:
    f = lambda x, w: log(total(w * exp(x) / 2.0))  # noqa: E731
    check(f, [[1000.0, 1000.0], [1.0, 3.0]], 1000 + math.log(2), [0.25, 0.75])
    check(f, [[700.0, -100.0], [0.0, 2.0]], -100, [0, 1])


def test_the_shift_counts_only_exponents_with_weight() -> None:
    x, w = np.array([700.0, -300.0]), np.array([0.0, 1.0])
    assert both(lambda x, w: log(total(w * exp(x))), x, w)[0] == -300


def test_gradient_in_the_weights() -> None:
    f = lambda w, x: log(total(w * exp(x)))  # noqa: E731
    check(f, [[1.0, 0.0], [900.0, 899.0]], 900, [1, math.exp(-1)])


def test_exponentials_of_broadcast_arguments() -> None:
    f = lambda x: log(total(broadcast(exp(x), shape=(2, 2), axes=(0,))))  # noqa: E731
    check(f, [[900.0, 1.0]], [900 + math.log(2), 1 + math.log(2)], [1, 1])


def test_a_form_that_is_shifted_already_is_left_alone() -> None:
    def f(x: Node) -> Node:
        m = max_(x, axes=(0,))
        return log(total(exp(x - broadcast_to(m, x.shape)))) + m

    assert rewrites_applied(trace(f, np.zeros(3))) == []
    check(f, [[1000.0, 999.0]], 1000 + math.log1p(math.exp(-1)), [0.7310585786300049, 0.2689414213699951])


def test_softmax() -> None:
    value = both(softmax, np.array([[1000.0, 1000.0], [-INF, 5.0], [-2000.0, -INF]]))[0]
    np.testing.assert_array_equal(value, [[0.5, 0.5], [0, 1], [1, 0]])


def test_softmax_has_the_gradient_of_the_limit() -> None:
    f = lambda x: total(softmax(x) * np_row(1.0, 3.0))  # noqa: E731
    check(f, [[1000.0, 1000.0]], 2, [-0.5, 0.5])


def np_row(*values: float) -> Node:
    return constant(np.array(values))


def test_masked_softmax() -> None:
    def f(x: Node, w: Node) -> Node:
        e = w * exp(x)
        return e / keep(total(e), e)

    np.testing.assert_array_equal(
        both(f, np.array([[900.0, 900.0, 1e4]]), np.array([[1.0, 3.0, 0.0]]))[0][0, :2], [0.25, 0.75]
    )


def test_softmax_over_the_first_axis() -> None:
    def f(x: Node) -> Node:
        e = exp(x)
        return e / broadcast(sum_(e, axes=(0,)), shape=(2, 3), axes=(1,))

    np.testing.assert_array_equal(both(f, np.full((2, 3), 800.0))[0], np.full((2, 3), 0.5))


def test_division_by_a_sum_along_another_axis_is_no_softmax() -> None:
    def f(x: Node) -> Node:
        e = exp(x)
        return e / broadcast(sum_(e, axes=(0,)), shape=(2, 2), axes=(0,))

    assert "softmax" not in rewrites_applied(trace(f, np.zeros((2, 2))))


def test_log_of_softmax() -> None:
    check(lambda x: log(softmax(x)), [[0.0, -2000.0]], [0, -2000], [-1, 1])


def test_log_of_gathered_softmax() -> None:
    pick = lambda x: log(gather(softmax(x), constant(np.array([1])), axes=(0,)))  # noqa: E731
    check(pick, [[0.0, -2000.0]], [-2000], [-1, 1])


# --- logistic functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "value", "gradient"),
    [
        (lambda x: 1.0 / (1.0 + exp(-x)), [0, 0.5, 1], [0, 0.25, 0]),
        (lambda x: exp(x) / (exp(x) + 1.0), [0, 0.5, 1], [0, 0.25, 0]),
        (lambda x: p.ipow(1.0 + exp(-x), n=-1), [0, 0.5, 1], [0, 0.25, 0]),
        (lambda x: 3.0 / (1.0 + exp(-x)), [0, 1.5, 3], [0, 0.75, 0]),
        (lambda x: 2.0 * exp(x) / (exp(x) + 1.0), [0, 1, 2], [0, 0.5, 0]),
        (lambda x: exp(-x) / p.ipow(1.0 + exp(-x), n=2), [0, 0.25, 0], [0, 0, 0]),
        (lambda x: 1.0 - 1.0 / (1.0 + exp(x)), [0, 0.5, 1], [0, 0.25, 0]),
        (lambda x: exp(x) / (exp(x) + exp(-x)), [0, 0.5, 1], [0, 0.5, 0]),
        (lambda x: (exp(x) - exp(-x)) / (exp(x) + exp(-x)), [-1, 0, 1], [0, 1, 0]),
        (lambda x: (1.0 - exp(-2.0 * x)) / (1.0 + exp(-2.0 * x)), [-1, 0, 1], [0, 1, 0]),
        (lambda x: (exp(x) - 1.0) / (exp(x) + 1.0), [-1, 0, 1], [0, 0.5, 0]),
        (lambda x: log(1.0 + exp(x)), [0, math.log(2), 1e4], [0, 0.5, 1]),
        (lambda x: p.log1p(exp(x)), [0, math.log(2), 1e4], [0, 0.5, 1]),
        (lambda x: log(1.0 / (1.0 + exp(-x))), [-1e4, -math.log(2), 0], [1, 0.5, 0]),
        (lambda x: log(1.0 - 1.0 / (1.0 + exp(-x))), [0, -math.log(2), -1e4], [0, -0.5, -1]),
        (lambda x: log(exp(x) + exp(-x)), [1e4, math.log(2), 1e4], [-1, 0, 1]),
        (lambda x: log(p.cosh(x)), [1e4 - math.log(2), 0, 1e4 - math.log(2)], [-1, 0, 1]),
        (lambda x: log(exp(x)), [-1e4, 0, 1e4], [1, 1, 1]),
    ],
)
def test_logistic_forms_at_overflow(f: Callable[[Node], Node], value: Any, gradient: Any) -> None:
    check(f, [[-1e4, 0.0, 1e4]], value, gradient)


def test_binary_cross_entropy_as_it_is_written() -> None:
    def f(x: Node, y: Node) -> Node:
        q = 1.0 / (1.0 + exp(-x))
        return -(y * log(q) + (1.0 - y) * log(1.0 - q))

    check(f, [[800.0, -800.0, 0.0], [0.0, 1.0, 1.0]], [800, 800, math.log(2)], [1, -1, -0.5])


# --- digits near 0 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "value"),
    [
        (lambda x: exp(x) - 1.0, 1e-20),
        (lambda x: exp(x) + -1.0, 1e-20),
        (lambda x: 1.0 - exp(x), -1e-20),
        (lambda x: log(1.0 + x), 1e-20),
        (lambda x: log(x + 1.0), 1e-20),
        (lambda x: log(1.0 - x), -1e-20),
    ],
)
def test_digits_near_0(f: Callable[[Node], Node], value: float) -> None:
    assert both(f, np.array(1e-20))[0] == value


def test_sine_over_its_argument() -> None:
    x = np.array([0.0, 1e-3, 2.0, 1e6])
    slope = [0, -1e-3 / 3 + 1e-9 / 30, (2 * math.cos(2) - math.sin(2)) / 4, (math.cos(1e6) - math.sin(1e6) / 1e6) / 1e6]
    check(lambda v: p.sin(v) / v, [x], [1, *(np.sin(x[1:]) / x[1:])], slope, rtol=1e-10, atol=1e-16)


# --- roots and squares -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [lambda x: sqrt(total(x * x)), lambda x: p.pow_(total(p.ipow(x, n=2)), 0.5)])
def test_norm(f: Callable[[Node], Node]) -> None:
    check(f, [[3.0, 4.0]], 5, [0.6, 0.8])
    check(f, [[0.0, 0.0]], 0, [0, 0])
    assert rewrites_applied(trace(f, np.zeros(2))) == ["norm2"]


def test_norm_by_a_product() -> None:
    def f(x: Node) -> Node:
        return sqrt(reshape(dot(reshape(x, shape=(1, 2)), reshape(x, shape=(2, 1))), shape=()))

    check(f, [[3.0, 4.0]], 5, [0.6, 0.8])
    check(f, [[0.0, 0.0]], 0, [0, 0])


def test_square_of_the_norm_at_0() -> None:
    check(lambda x: p.ipow(sqrt(total(x * x)), n=2), [[0.0, 0.0]], 0, [0, 0])


def test_root_of_a_sum_of_squares_written_out() -> None:
    f = lambda x, y: sqrt(x * x + p.ipow(y, n=2))  # noqa: E731
    check(f, [[3.0, 0.0], [4.0, 0.0]], [5, 0], [0.6, 0])


def test_standard_deviation_of_a_constant() -> None:
    def f(x: Node) -> Node:
        mean = broadcast_to(total(x) / 3.0, x.shape)
        return sqrt(total(p.ipow(x - mean, n=2)) / 3.0)

    check(f, [[2.0, 2.0, 2.0]], 0, [0, 0, 0])


def test_root_that_may_be_negative_keeps_its_derivative() -> None:
    check(lambda x, y: sqrt(x * x - y * y), [[0.0], [0.0]], [0], [NAN])


def test_a_very_long_sum_of_squares() -> None:
    def f(x: Node) -> Node:
        q = x * x
        for k in range(3000):
            q = q + p.ipow(x - float(k), n=2)
        return sqrt(q)

    assert rewrites_applied(trace(f, 0.0)) == ["sqrt_of_squares"]


def test_absolute_value() -> None:
    check(lambda x: sqrt(x * x), [[-3.0, 0.0, 1e200]], [3, 0, 1e200], [-1, 0, 1])


@pytest.mark.parametrize(
    "f", [lambda x: p.ipow(p.pow_(x, 0.5), n=2), lambda x: sqrt(x) * sqrt(x), lambda x: p.pow_(sqrt(x), 2.0)]
)
def test_square_of_a_root(f: Callable[[Node], Node]) -> None:
    check(f, [[0.0, 2.0]], [0, 2], [1, 1])
    assert math.isnan(both(f, np.array(-1.0))[0])


def test_fourth_power_of_a_root() -> None:
    check(lambda x: p.ipow(sqrt(x), n=4), [[0.0, 3.0]], [0, 9], [0, 6])


@pytest.mark.parametrize("f", [lambda x: x * p.pow_(x, 0.5), lambda x: sqrt(x) * x])
def test_a_number_times_its_root(f: Callable[[Node], Node]) -> None:
    check(f, [[0.0, 4.0]], [0, 8], [0, 3])


def test_a_number_times_its_power() -> None:
    check(lambda x: x * p.pow_(x, 0.25), [[0.0, 16.0]], [0, 32], [0, 2.5])


# --- the pass --------------------------------------------------------------------------------------------------------


def test_rewrites_are_reported_in_order() -> None:
    f = lambda x: -log(1.0 / (1.0 + exp(-x))) + sqrt(x * x)  # noqa: E731
    assert rewrites_applied(trace(f, 0.0)) == ["sigmoid", "log_sigmoid", "abs"]


def test_text_of_a_stable_graph() -> None:
    assert str(stabilise(trace(logsumexp, np.zeros(3), dtype=f32))) == dedent("""\
        graph(%0: f32[3]) {
          %1: f32[] = logsumexp[axes=(0,)] %0
          return %1
        }""")


def test_stable_graphs_stay_as_they_are() -> None:
    for f in (logsumexp, softmax, lambda x: log(softmax(x)), lambda x: log(1.0 + exp(x)), lambda x: sqrt(total(x * x))):
        once = stabilise(trace(f, np.zeros((2, 3))))
        assert stabilise(once).results == once.results


def test_other_arithmetic_is_left_alone() -> None:
    f = lambda x, y: log(x) + sqrt(y) / (x + 1.0) + exp(x) - y * x  # noqa: E731
    graph = trace(f, np.zeros(3), np.zeros(3))
    assert stabilise(graph).results == graph.results


def test_every_rewrite_says_where_it_holds() -> None:
    assert all(r.pattern and r.domain for r in REWRITES)


X = np.array([[0.3, 1.2, 0.9], [2.0, 0.7, 0.1]])
ORDINARY: list[Callable[[Node], Node]] = [
    logsumexp,
    softmax,
    lambda x: log(softmax(x)),
    lambda x: log(total(x * exp(x))),
    lambda x: log(total(exp(x)) / 3.0),
    lambda x: 1.0 / (1.0 + exp(-x)),
    lambda x: x / (1.0 + exp(x)),
    lambda x: exp(x) / (1.0 + exp(x)),
    lambda x: log(1.0 + exp(x)),
    lambda x: exp(x) / p.ipow(1.0 + exp(x), n=2),
    lambda x: (1.0 - exp(x)) / (1.0 + exp(x)),
    lambda x: log(p.cosh(x)),
    lambda x: log(1.0 - x * 0.1),
    lambda x: exp(x) - 1.0,
    lambda x: p.sin(x) / x,
    lambda x: sqrt(total(x * x)),
    lambda x: sqrt(x * x),
    lambda x: p.ipow(sqrt(x), n=2),
    lambda x: x * sqrt(x),
    lambda x: x * p.pow_(x, 0.3),
    lambda x: sqrt(x * x + p.ipow(x, n=2) * 2.0),
    lambda x: log(exp(x) + exp(x * 2.0)),
    lambda x: (exp(x) - exp(-x)) / (exp(-x) + exp(x)),
    lambda x: exp(x) / (exp(x * 2.0) + exp(x)),
]


@pytest.mark.parametrize("k", range(len(ORDINARY)))
def test_values_and_gradients_at_ordinary_points_are_the_naive_ones(k: int) -> None:
    graph = trace(ORDINARY[k], X)
    assert rewrites_applied(graph)
    (value,) = graph.results
    naive = grad(Graph(graph.params, (sum_(value * value, axes=tuple(range(value.ndim))),)))
    stable = grad(stabilise(Graph(graph.params, (sum_(value * value, axes=tuple(range(value.ndim))),))))
    for got, want in zip(evaluate(stable, X), evaluate(naive, X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
