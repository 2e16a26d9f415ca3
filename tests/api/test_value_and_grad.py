"""``value_and_grad``: both in one program."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from tests.api.truth import same

X = np.array([0.5, -1.5])


def test_value_then_gradient():
    same(sg.value_and_grad(lambda x: np.sum(np.exp(x)))(X), (np.exp(X).sum(), np.exp(X)))


def test_types_of_numbers():
    value, (dx, dy) = sg.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(3.0, 2)
    assert [type(v) for v in (value, dx, dy)] == [np.float64] * 3
    assert (value, dx, dy) == (6.0, 2.0, 3.0)


def test_decorator_without_and_with_arguments():
    @sg.value_and_grad
    def f(x):
        return x * x

    @sg.value_and_grad(argnums=(1,))
    def g(x, y):
        return x * y * y

    same(f(3.0), (np.float64(9.0), np.float64(6.0)))
    same(g(2.0, 3.0), (np.float64(18.0), (np.float64(12.0),)))


def test_equals_function_and_grad():
    def f(x, a):
        return np.sum(np.log1p(x * x) * a)

    a = np.array([1.0, 2.0])
    value, g = sg.value_and_grad(f)(X, a)
    same(value, f(X, a))
    same(g, sg.grad(f)(X, a), rtol=1e-15)


def test_float32():
    value, g = sg.value_and_grad(lambda x: np.sum(x * x))(np.ones(3, np.float32))
    same(value, np.float32(3))
    same(g, np.full(3, 2, np.float32))


def test_dicts():
    value, g = sg.value_and_grad(lambda p: p["a"] * np.sum(p["b"]))({"b": X, "a": 2.0})
    same(value, np.float64(2 * X.sum()))
    same(g, {"b": np.full(2, 2.0), "a": X.sum()})
