"""Transforms of transforms: random stacks up to order four, perturbation confusion, ways to write a function."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

# Each has closed derivatives: f^(k) at x.
FUNCTIONS = {
    "sin": (lambda x: np.sin(2 * x), lambda x, k: 2**k * np.sin(2 * x + k * math.pi / 2)),
    "exp": (lambda x: np.exp(-x / 2), lambda x, k: (-0.5) ** k * np.exp(-x / 2)),
    "log": (lambda x: np.log(x), lambda x, k: np.log(x) if k == 0 else (-1) ** (k - 1) * math.factorial(k - 1) / x**k),
    "power": (lambda x: x**3 * x, lambda x, k: math.prod(range(4 - k + 1, 5)) * x ** (4 - k)),
    "reciprocal": (lambda x: 1 / x, lambda x, k: (-1) ** k * math.factorial(k) / x ** (k + 1)),
}
ONE_MORE = {
    "grad": sg.grad,
    "jacfwd": sg.jacfwd,
    "jacrev": sg.jacrev,
    "jvp": lambda f: lambda x: sg.jvp(f, (x,), (1.0,))[1],
    "vjp": lambda f: lambda x: sg.vjp(f, x)[1](1.0)[0],
    "value_and_grad": lambda f: lambda x: sg.value_and_grad(f)(x)[1],
}
STACKS = [
    tuple(np.random.default_rng(seed).choice(sorted(ONE_MORE), size=order))
    for order, count in ((2, 10), (3, 10), (4, 6))
    for seed in range(100 * order, 100 * order + count)
]


@pytest.mark.parametrize("stack", STACKS, ids="-".join)
def test_derivatives_of_any_order_by_any_transforms(stack):
    rng = np.random.default_rng(len(stack[0]) + len(stack))
    name = rng.choice(sorted(FUNCTIONS))
    f, exact = FUNCTIONS[name]
    for step, transform in enumerate(stack):
        f = ONE_MORE[transform](f)
        if rng.random() < 0.3:
            f = sg.jit(f)
        if step == 1 and rng.random() < 0.3:
            f = functools.partial(lambda inner, x: sg.vmap(inner)(np.stack([x, x]))[1], f)
    same(sg.jit(f)(1.7), np.float64(exact(1.7, len(stack))), rtol=1e-10)
    x = np.array([0.6, 1.7, 2.5])
    same(sg.vmap(f)(x), exact(x, len(stack)), rtol=1e-10)


def test_perturbation_confusion_of_nested_grads():
    same(sg.grad(lambda x: x * sg.grad(lambda y: x + y)(1.0))(1.0), np.float64(1.0))
    same(sg.grad(lambda x: x * sg.grad(lambda y: x * y)(2.0))(3.0), np.float64(6.0))
    same(sg.grad(lambda x: sg.grad(lambda y: x * y * y)(x))(3.0), np.float64(12.0))


def test_perturbation_confusion_of_nested_jvps():
    def d(f):
        return lambda x: sg.jvp(f, (x,), (1.0,))[1]

    same(d(lambda x: x * d(lambda y: x + y)(1.0))(1.0), np.float64(1.0))
    same(d(lambda x: x * d(lambda y: x * y)(2.0))(3.0), np.float64(6.0))


def test_a_function_returned_by_a_differentiated_one():
    def shift(s):
        return lambda g: lambda x: g(x + s)

    def derivative(f):
        return lambda x: sg.jvp(f, (x,), (1.0,))[1]

    # d/ds of (shift(s) applied to a derivative), a classic confusion
    same(derivative(lambda s: shift(s)(derivative(np.sin))(1.0))(0.0), np.float64(-math.sin(1.0)))


def test_mixed_partial_derivatives_commute():
    def f(x, y):
        return np.sin(x * y) + x**2 * y**3

    a = sg.grad(sg.grad(f, 0), 1)(0.7, 1.3)
    b = sg.grad(sg.grad(f, 1), 0)(0.7, 1.3)
    same(a, b, rtol=1e-13)
    x, y = 0.7, 1.3
    same(a, np.float64(math.cos(x * y) - x * y * math.sin(x * y) + 6 * x * y**2), rtol=1e-12)


def test_gradient_of_a_gradient_norm():
    def penalty(x):
        return np.sum(sg.grad(lambda z: np.sum(z**3))(x) ** 2)

    x = np.array([1.0, -2.0])
    same(sg.grad(penalty)(x), 36 * x**3)


def test_implicit_gradient_step_inside():
    def outer(rate):
        w = 1.0
        for _ in range(3):
            w = w - rate * sg.grad(lambda v: (v - 3.0) ** 2)(w)
        return (w - 3.0) ** 2

    # w_k - 3 = (1 - 2 rate)^k (1 - 3): the loss is 4 (1 - 2 rate)^6
    same(sg.grad(outer)(0.1), np.float64(4 * 6 * (1 - 0.2) ** 5 * -2), rtol=1e-12)


def test_decorators_of_the_users():
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return 2 * f(*args, **kwargs)

        return wrapper

    @sg.grad
    @twice
    def f(x):
        return x**2

    @twice
    @sg.grad
    def g(x):
        return x**2

    assert (f.__name__, g.__name__) == ("f", "g")
    same((f(3.0), g(3.0)), (np.float64(12.0), np.float64(12.0)))


def test_stacked_decorators():
    @sg.jit
    @sg.grad
    @sg.jit
    def f(x):
        return np.sum(x**3)

    same(f(np.array([1.0, 2.0])), np.array([3.0, 12.0]))


def test_lambdas_on_one_line():
    f, g, h = sg.grad(lambda x: x**2), sg.grad(lambda x: x**3), sg.grad(lambda x: x * 5.0)
    assert (f(2.0), g(2.0), h(2.0)) == (4.0, 12.0, 5.0)


def test_functions_made_in_a_loop():
    fs = [sg.grad(lambda x, k=k: k * x**2) for k in (1.0, 2.0, 3.0)]
    assert [f(1.0) for f in fs] == [2.0, 4.0, 6.0]


def test_functions_as_arguments():
    f = sg.jit(lambda g, x: g(x) * 2)
    x = np.array([0.1, 0.2])
    same(f(np.sin, x), 2 * np.sin(x))
    same(f(np.cos, x), 2 * np.cos(x))
    same(f(lambda z: z + 1, x), 2 * x + 2)


def test_callable_objects_as_arguments_are_read_at_each_call():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return self.k * x

    scale = Scale(2.0)
    f = sg.jit(lambda g, x: g(x))
    assert f(scale, 3.0) == 6.0
    scale.k = 5.0
    assert f(scale, 3.0) == 15.0
    assert f(Scale(7.0), 3.0) == 21.0


def test_generators_comprehensions_and_unpacking():
    @sg.grad
    def f(xs):
        first, *rest = xs
        squares = {k: v * v for k, v in enumerate(rest)}
        return first * sum(v for v in squares.values()) + sum(map(lambda x: x, rest))

    same(f([2.0, 3.0, 4.0]), [np.float64(25.0), np.float64(13.0), np.float64(17.0)])


def test_iteration_over_rows_zip_and_enumerate():
    m = np.arange(6.0).reshape(3, 2)

    @sg.grad
    def f(m):
        return sum(k * np.sum(row * other) for k, (row, other) in enumerate(zip(m, m[::-1], strict=True)))

    def plain(m):
        return sum(k * np.sum(row * other) for k, (row, other) in enumerate(zip(m, m[::-1], strict=True)))

    eps = np.zeros((3, 2))
    wanted = np.zeros((3, 2))
    for i in np.ndindex(3, 2):
        eps[i] = 1e-6
        wanted[i] = (plain(m + eps) - plain(m - eps)) / 2e-6
        eps[i] = 0
    same(f(m), wanted, rtol=1e-7, atol=1e-8)


def test_try_and_with_inside():
    @sg.jit
    def f(x):
        try:
            with np.errstate(divide="ignore"):
                return np.log(x) * {}["missing"]
        except KeyError:
            return np.log(x)

    same(f(2.0), np.float64(math.log(2.0)))


def test_walrus_star_arguments_and_matching():
    @sg.jit
    def f(x, kind):
        match kind:
            case "double":
                factor = 2
            case _:
                factor = 3
        return (y := x * factor) + y

    g = sg.jit(f.__wrapped__, static_argnames="kind")
    assert g(1.0, "double") == 4.0 and g(1.0, kind="other") == 6.0
    with pytest.raises(sg.DTypeError, match="static_argnames"):
        f(1.0, "double")


def test_classes_defined_inside():
    @sg.jit
    def f(x):
        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

            def __add__(self, other):
                return Pair(self.a + other.a, self.b * other.b)

        p = Pair(x, x) + Pair(1.0, 2.0)
        return p.a * p.b

    same(f(3.0), np.float64(24.0))
