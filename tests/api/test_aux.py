"""``has_aux``: results beside the scalar one come through unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0, 3.0])


def loss(x):
    residual = x - 1
    return np.sum(residual**2), {"residual": residual, "n": 3, "name": None}


def test_grad():
    g, aux = sg.grad(loss, has_aux=True)(X)
    same(g, 2 * (X - 1))
    same(aux["residual"], X - 1)
    assert aux["n"] == 3 and aux["name"] is None


def test_value_and_grad():
    (value, aux), g = sg.value_and_grad(loss, has_aux=True)(X)
    same(value, np.float64(5.0))
    same(g, 2 * (X - 1))
    same(aux["residual"], X - 1)


def test_vjp():
    y, pullback, aux = sg.vjp(lambda x: (x**2, x.sum()), X, has_aux=True)
    same(y, X**2)
    same(aux, X.sum())
    same(pullback(np.ones(3)), (2 * X,))


def test_aux_of_bools_and_integers():
    g, aux = sg.grad(lambda x: (np.sum(x), (x > 1.5, np.argmax(x))), has_aux=True)(X)
    same(g, np.ones(3))
    same(aux, (X > 1.5, np.int64(2)))


def test_aux_may_be_empty():
    g, aux = sg.grad(lambda x: (np.sum(x), ()), has_aux=True)(X)
    same(g, np.ones(3))
    assert aux == ()


@pytest.mark.parametrize(
    "bad", [lambda x: np.sum(x), lambda x: (np.sum(x),), lambda x: (x, 1.0), lambda x: [np.sum(x), x, x]]
)
def test_wrong_results_are_errors(bad):
    with pytest.raises(sg.SymgradError, match=r"aux|scalar"):
        sg.grad(bad, has_aux=True)(X)


def test_aux_is_constant_in_higher_orders():
    def slope(x):
        g, aux = sg.grad(lambda y: (y**3, y**2), has_aux=True)(x)
        return g + aux

    same(sg.grad(slope)(2.0), np.float64(6 * 2.0 + 2 * 2.0))
