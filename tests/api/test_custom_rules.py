"""``custom_vjp`` and ``custom_jvp``: in both modes, under every transform, and what goes wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([0.5, -1.0, 2.0])


@sg.custom_vjp
def clipped(x):
    """The identity, whose gradient is clipped to 1."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, x), lambda x, ct: (np.clip(ct, -1, 1),))


@sg.custom_vjp
def tripled(x, y):
    """x * y, whose rule says three times the derivative: so that it is seen to be used."""
    return x * y


def _forward(x, y):
    return x * y, (x, y)


def _backward(residuals, ct):
    x, y = residuals
    return 3 * ct * y, 3 * ct * x


tripled.defvjp(_forward, _backward)


@sg.custom_jvp
def doubled(x):
    """sin, whose rule says twice the derivative."""
    return np.sin(x)


@doubled.defjvp
def _rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return np.sin(x), 2 * np.cos(x) * t


def test_values_are_those_of_the_function():
    assert tripled(2.0, 3.0) == 6.0
    same(sg.jit(tripled)(2.0, 3.0), np.float64(6.0))
    same(sg.jit(doubled)(X), np.sin(X))


def test_reverse_mode():
    same(sg.grad(tripled, argnums=(0, 1))(2.0, 5.0), (np.float64(15.0), np.float64(6.0)))
    same(sg.grad(lambda x: np.sum(doubled(x)))(X), 2 * np.cos(X))
    same(sg.grad(lambda x: np.sum(clipped(x) * np.array([5.0, 0.5, -7.0])))(X), np.array([1.0, 0.5, -1.0]))


def test_forward_mode():
    same(sg.jvp(tripled, (2.0, 5.0), (1.0, 10.0))[1], np.float64(3 * (5 + 20)))
    same(sg.jacfwd(tripled)(2.0, 5.0), np.float64(15.0))
    same(sg.jacfwd(doubled)(X), np.diag(2 * np.cos(X)))


def test_inside_larger_functions():
    same(sg.grad(lambda x: np.sum(np.exp(doubled(x * x))))(X), np.exp(np.sin(X**2)) * 2 * np.cos(X**2) * 2 * X)


def test_second_order():
    same(sg.grad(sg.grad(lambda x: doubled(x)))(0.7), np.float64(-2 * math.sin(0.7)))
    same(sg.hessian(lambda x: tripled(x, x) * 1.0)(2.0), np.float64(6.0))
    same(sg.jacfwd(sg.jacrev(doubled))(0.7), np.float64(-2 * math.sin(0.7)))
    same(sg.jacrev(sg.jacfwd(doubled))(0.7), np.float64(-2 * math.sin(0.7)))


def test_under_vmap():
    same(sg.vmap(tripled, in_axes=(0, None))(X, 2.0), 2 * X)
    same(sg.vmap(sg.grad(tripled), in_axes=(0, None))(X, 2.0), np.full(3, 6.0))
    same(sg.grad(lambda x: np.sum(sg.vmap(tripled, in_axes=(0, None))(x, 2.0)))(X), np.full(3, 6.0))
    same(sg.vmap(sg.vmap(sg.grad(doubled)))(np.stack([X, X])), 2 * np.cos(np.stack([X, X])))
    same(sg.vmap(sg.jacfwd(doubled))(X), 2 * np.cos(X))
    same(sg.jacfwd(lambda x: sg.vmap(doubled)(x))(X), np.diag(2 * np.cos(X)))


def test_several_results_and_containers():
    @sg.custom_vjp
    def parts(p, k):
        return {"s": p["a"] * k, "t": (np.sum(p["b"]),)}

    def forward(p, k):
        return parts.__wrapped__(p, k), k

    def backward(k, ct):
        return {"a": 10 * ct["s"] * k, "b": np.ones(3) * ct["t"][0] * 100}, None

    parts.defvjp(forward, backward)

    def f(p, k):
        out = parts(p, k)
        return out["s"] + out["t"][0] * 2

    same(f({"a": 1.0, "b": X}, 3.0), np.float64(3 + 2 * X.sum()))
    same(sg.grad(f)({"a": 1.0, "b": X}, 3.0), {"a": np.float64(30.0), "b": np.full(3, 200.0)})
    same(sg.grad(f, argnums=1)({"a": 1.0, "b": X}, 3.0), np.float64(0.0))


def test_none_is_zero():
    @sg.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
    same(sg.grad(f, argnums=(0, 1))(2.0, 3.0), (np.float64(3.0), np.float64(0.0)))


def test_arguments_that_are_not_numbers():
    @sg.custom_vjp
    def f(x, mode, n):
        return x * n if mode == "times" else x

    f.defvjp(lambda x, mode, n: (f.__wrapped__(x, mode, n), n), lambda n, ct: (ct * n * 10, None, None))
    same(sg.grad(lambda x: f(x, "times", 3))(2.0), np.float64(30.0))


def test_in_a_loop():
    def f(x):
        for _ in range(3):
            x = doubled(x)
        return x

    y1, y2 = math.sin(0.4), math.sin(math.sin(0.4))
    same(sg.grad(f)(0.4), np.float64(8 * math.cos(0.4) * math.cos(y1) * math.cos(y2)))


def test_as_methods():
    class Layer:
        def __init__(self, k):
            self.k = k

        @sg.custom_jvp
        def apply(self, x):
            return self.k * x

    @Layer.apply.defjvp
    def _(primals, tangents):
        layer, x = primals
        return layer.k * x, 100 * layer.k * tangents[1]

    same(sg.grad(lambda x: Layer(2.0).apply(x))(3.0), np.float64(200.0))


def test_rules_that_call_functions_of_the_module():
    scale = 2.0

    @sg.custom_vjp
    def f(x):
        return x * scale

    def backward(_, ct):
        return (ct * scale * 7,)

    f.defvjp(lambda x: (x * scale, None), backward)
    g = sg.grad(f)
    same(g(1.0), np.float64(14.0))
    scale = 3.0
    same(g(1.0), np.float64(21.0))


def test_float32():
    got = sg.grad(lambda x: np.sum(tripled(x, x)))(X.astype(np.float32))
    same(got, (6 * X).astype(np.float32), rtol=1e-6)


def test_lengths_are_free():
    g = sg.grad(lambda x: np.sum(doubled(x)))
    for n in (3, 5, 2, 8):
        same(g(np.ones(n)), np.full(n, 2 * math.cos(1.0)))
    assert g.cache_info().misses == 2


def test_plain_python_outside():
    assert type(tripled(2, 3)) is int
    same(doubled(X), np.sin(X))


def rule(forward, backward):
    @sg.custom_vjp
    def broken(x, y):
        return x * y

    broken.defvjp(forward, backward)
    return broken


GOOD = lambda x, y: (x * y, (x, y))  # noqa: E731  # short


@pytest.mark.parametrize(
    ("forward", "backward", "error", "match"),
    [
        (GOOD, lambda r, ct: (ct,), sg.TraceError, "broken.*1 cotangents for 2 arguments"),
        (GOOD, lambda r, ct: (ct, ct, ct), sg.TraceError, "broken.*3 cotangents for 2 arguments"),
        (GOOD, lambda r, ct: ct, sg.TraceError, "broken.*1 cotangents for 2"),
        (GOOD, lambda r, ct: (np.ones(2), ct), sg.ShapeError, r"broken.*\(2,\).*\(3,\)"),
        (GOOD, lambda r, ct: ((ct, ct), ct), sg.TraceError, "broken.*structure"),
        (lambda x, y: x * y, lambda r, ct: (ct, ct), sg.TraceError, r"broken.*\(result, residuals\)"),
        (GOOD, lambda r, ct: ("a", ct), sg.SymgradError, "str"),
    ],
)
def test_wrong_rules(forward, backward, error, match):
    broken = rule(forward, backward)
    with pytest.raises(error, match=match) as caught:
        sg.grad(lambda x: np.sum(broken(x, X)))(X)
    assert "test_custom_rules.py" in str(caught.value)


def test_wrong_forward_rules():
    @sg.custom_jvp
    def broken(x):
        return x * 2

    for bad, match in [
        (lambda p, t: t[0], "broken.*\\(result, tangent\\)"),
        (lambda p, t: (p[0], np.ones(2)), r"broken.*\(2,\).*\(3,\)"),
        (lambda p, t: (p[0], (t[0], t[0])), "broken.*2 tangents.*1"),
    ]:
        broken.defjvp(bad)
        with pytest.raises(sg.SymgradError, match=match):
            sg.jacfwd(broken)(X)


def test_missing_rules():
    @sg.custom_vjp
    def f(x):
        return x

    @sg.custom_jvp
    def g(x):
        return x

    with pytest.raises(sg.TraceError, match=r"f is a custom_vjp without rules.*defvjp"):
        sg.grad(f)(1.0)
    with pytest.raises(sg.TraceError, match=r"g is a custom_jvp without a rule.*defjvp"):
        sg.grad(g)(1.0)


def test_unused_rule_is_not_asked():
    def explode(*_):
        raise AssertionError("asked")

    @sg.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(explode, explode)
    same(sg.jit(f)(1.5), np.float64(3.0))
    same(sg.grad(lambda x, y: f(x) * y, argnums=1)(1.5, 2.0), np.float64(3.0))
