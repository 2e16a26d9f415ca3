"""``stop_gradient``: the value as it is, its derivative zero."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0, -3.0])


@pytest.mark.parametrize("transform", [sg.grad, sg.jacfwd, sg.jacrev])
def test_a_factor_held_constant(transform):
    same(transform(lambda x: np.sum(sg.stop_gradient(x) * x))(X), X)


def test_the_value_is_unchanged():
    same(sg.jit(lambda x: sg.stop_gradient(x) + 1)(X), X + 1)


def test_outside_a_trace_it_is_the_identity():
    assert sg.stop_gradient(X) is X
    assert sg.stop_gradient({"a": (1.0, "s")}) == {"a": (1.0, "s")}


def test_containers_and_other_leaves():
    f = sg.grad(lambda p: np.sum(sg.stop_gradient(p)["a"] * p["b"]))
    same(f({"a": X, "b": 2 * X}), {"a": np.zeros(3), "b": X})


def test_whole_function_constant():
    same(sg.grad(lambda x: np.sum(sg.stop_gradient(x**2)))(X), np.zeros(3))


def test_second_order():
    same(sg.hessian(lambda x: np.sum(sg.stop_gradient(x) * x**2))(X), np.diag(2 * X))


def test_only_the_inner_derivative_is_stopped():
    same(sg.grad(lambda x: sg.stop_gradient(sg.grad(lambda y: y**3)(x)) * x)(2.0), np.float64(12.0))


def test_straight_through_estimator():
    same(sg.grad(lambda x: np.sum(3 * (x + sg.stop_gradient(np.round(x) - x))))(X), np.full(3, 3.0))


def test_under_vmap():
    same(sg.vmap(sg.grad(lambda x: sg.stop_gradient(x) * x))(X), X)
