"""``vjp``, ``jvp`` and ``hvp``: structure, and the adjoint identity."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same, slope

RNG = np.random.default_rng(1)
A = RNG.normal(size=(3, 2))
X = RNG.normal(size=2)


def curve(x):
    return np.tanh(A @ x) * np.sum(x)


def test_vjp_against_differences():
    y, pullback = sg.vjp(curve, X)
    ct = RNG.normal(size=3)
    same(y, curve(X))
    same(pullback(ct), (ct @ slope(curve, X),), rtol=1e-8)


def test_jvp_against_differences():
    t = RNG.normal(size=2)
    y, dy = sg.jvp(curve, (X,), (t,))
    same(y, curve(X))
    same(dy, slope(curve, X) @ t, rtol=1e-8)


def test_adjoint_identity():
    ct, t = RNG.normal(size=3), RNG.normal(size=2)
    pullback = sg.vjp(curve, X)[1]
    same(ct @ sg.jvp(curve, (X,), (t,))[1], pullback(ct)[0] @ t)


def test_vjp_of_several_arguments_and_results():
    out, pullback = sg.vjp(lambda x, p: {"s": x * p["a"], "t": np.sum(x)}, X, {"a": 3.0})
    same(out, {"s": 3 * X, "t": X.sum()})
    same(pullback({"s": np.ones(2), "t": 10.0}), (np.full(2, 13.0), {"a": X.sum()}))


def test_pullback_again_with_another_cotangent():
    _, pullback = sg.vjp(lambda x: x * x, X)
    same(pullback(np.ones(2))[0], 2 * X)
    same(pullback(np.array([0.0, 5.0]))[0], 10 * X * [0, 1])


def test_jvp_of_several_arguments():
    y, dy = sg.jvp(lambda x, y: (x * y, x - y), (2.0, 3.0), (1.0, 10.0))
    same(y, (np.float64(6.0), np.float64(-1.0)))
    same(dy, (np.float64(23.0), np.float64(-9.0)))


def test_jvp_with_ints_among_numbers():
    same(sg.jvp(lambda x: x * x, (3,), (1,)), (np.float64(9.0), np.float64(6.0)))


def test_inside_a_compiled_function():
    @sg.jit
    def both(x, t):
        y, pullback = sg.vjp(np.sin, x)
        return sg.jvp(np.sin, (x,), (t,))[1], pullback(t)[0], y

    same(both(X, np.ones(2)), (np.cos(X), np.cos(X), np.sin(X)))


def test_reverse_over_forward():
    t = np.array([1.0, -2.0])
    got = sg.grad(lambda x: sg.jvp(lambda z: np.sum(z**3), (x,), (t,))[1])(X)
    same(got, 6 * X * t)


def test_linear_in_the_tangent():
    got = sg.grad(lambda t: np.sum(sg.jvp(lambda x: x**2, (X,), (t,))[1]))(np.ones(2))
    same(got, 2 * X)


def test_an_integer_result_has_no_derivative():
    y, dy = sg.jvp(lambda x: (x * 2, np.argmax(x)), (X,), (np.ones(2),))
    same(y[1], np.argmax(X))
    same(dy[0], np.full(2, 2.0))


def test_wrong_tangents_are_errors():
    with pytest.raises(sg.ShapeError, match=r"tangent.*\(3,\).*\(2,\)"):
        sg.jvp(np.sin, (X,), (np.ones(3),))
    with pytest.raises(sg.ShapeError, match="structure"):
        sg.jvp(np.sin, (X,), ((np.ones(2), 1.0),))
    with pytest.raises(sg.ShapeError, match=r"cotangent.*\(3,\).*\(2,\)"):
        sg.vjp(np.sin, X)[1](np.ones(3))


def test_hvp_is_the_hessian_times_v():
    def f(x, a):
        return np.sum(np.exp(x * a)) + x[0] * x[1] ** 2

    v, a = np.array([0.3, -2.0]), np.array([1.0, 0.5])
    same(sg.hvp(f)(X, a, v), sg.hessian(f)(X, a) @ v, rtol=1e-12)
    same(sg.hvp(f, argnums=1)(X, a, v), sg.hessian(f, argnums=1)(X, a) @ v, rtol=1e-12)


def test_hvp_of_a_dict():
    p, v = {"a": 2.0, "b": X}, {"a": 1.0, "b": np.zeros(2)}
    same(sg.hvp(lambda p: p["a"] ** 3 * np.sum(p["b"]))(p, v), {"a": 12 * X.sum(), "b": np.full(2, 12.0)})
