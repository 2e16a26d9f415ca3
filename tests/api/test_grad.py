"""``grad``: structure, argnums, numbers and arrays, as function and as decorator."""

from __future__ import annotations

import inspect
import math
from collections import namedtuple
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same, slope

X = np.array([0.3, -1.2, 2.0])


def test_of_a_number():
    got = sg.grad(lambda x: x**3 + math.sin(x))(2.0)
    assert type(got) is np.float64
    same(got, np.float64(12 + math.cos(2.0)))


def test_of_an_int_is_that_of_the_float():
    got = sg.grad(lambda x: x**3)(2)
    assert type(got) is np.float64 and got == 12.0


def test_of_an_array_has_its_shape():
    same(sg.grad(lambda x: np.sum(x**3))(X), 3 * X**2)


def test_of_a_zero_dimensional_array():
    got = sg.grad(lambda x: np.exp(2 * x))(np.array(0.5))
    same(got, np.float64(2 * math.exp(1.0)))


def test_of_a_numpy_scalar_keeps_float32():
    got = sg.grad(lambda x: x * x)(np.float32(3))
    assert type(got) is np.float32 and got == 6


def test_of_a_float32_array_keeps_float32():
    got = sg.grad(lambda x: np.sum(x * x * 0.5))(np.arange(4, dtype=np.float32))
    same(got, np.arange(4, dtype=np.float32))


def test_of_an_empty_array():
    same(sg.grad(lambda x: np.sum(x * x))(np.zeros(0)), np.zeros(0))


def test_of_an_argument_that_is_not_used():
    same(sg.grad(lambda x, y: y * y, argnums=(0, 1))(X, 3.0), (np.zeros(3), np.float64(6.0)))


def test_of_a_constant_function():
    same(sg.grad(lambda x: 3.0)(X), np.zeros(3))


@pytest.mark.parametrize("argnums", [1, -1, (1,), (0, 1), (1, 0), [0, 1], (-2, -1)])
def test_argnums(argnums):
    a, b = np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]])
    grads = (2 * (b @ a) @ b, 2 * np.outer(b @ a, a))
    wanted = grads[argnums] if isinstance(argnums, int) else tuple(grads[n] for n in argnums)
    same(sg.grad(lambda a, b: np.sum((b @ a) ** 2), argnums=argnums)(a, b), wanted)


def test_containers_keep_their_structure():
    p = {"w": [np.ones(2), np.full(2, 2.0)], "b": (3.0, {"c": np.array(4.0)}), "none": None}

    def f(p):
        return np.sum(p["w"][0] ** 2 * p["w"][1]) + p["b"][0] ** 2 * p["b"][1]["c"]

    got = sg.grad(f)(p)
    same(got, {"w": [np.full(2, 4.0), np.ones(2)], "b": (np.float64(24.0), {"c": np.float64(9.0)}), "none": None})


def test_namedtuples_and_dataclasses():
    Pair = namedtuple("Pair", "u v")

    @dataclass
    class Model:
        w: np.ndarray
        pair: Pair

    got = sg.grad(lambda m: np.sum(m.w) * m.pair.u * m.pair.v**2)(Model(X, Pair(2.0, 3.0)))
    assert isinstance(got, Model) and isinstance(got.pair, Pair)
    same(got.w, np.full(3, 18.0))
    same(tuple(got.pair), (9 * X.sum(), 12 * X.sum()))


def test_keyword_arguments_and_defaults():
    @sg.grad
    def f(x, scale=2.0, *, power=3):
        return np.sum(scale * x**power)

    same(f(X), 6 * X**2)
    same(f(X, 5.0), 15 * X**2)
    same(f(X, scale=5.0, power=2), 10 * X)
    same(f(x=X), 6 * X**2)


def test_variadic_arguments():
    f = sg.grad(lambda *xs, **kw: sum(np.sum(x * k) for x, k in zip(xs, kw.values(), strict=True)), argnums=(0, 1))
    same(f(X, X, a=2.0, b=3.0), (np.full(3, 2.0), np.full(3, 3.0)))


def test_as_decorator_with_arguments_keeps_the_metadata():
    @sg.grad(argnums=1)
    def loss(x: float, y: float) -> float:
        """The loss."""
        return x * y**2

    assert (loss.__name__, loss.__doc__) == ("loss", "The loss.")
    assert list(inspect.signature(loss).parameters) == ["x", "y"]
    assert loss.__wrapped__(2.0, 3.0) == 18.0
    same(loss(2.0, 3.0), np.float64(12.0))


def test_of_partials_and_callable_objects():
    class Quadratic:
        def __init__(self, a):
            self.a = a

        def __call__(self, x):
            return self.a * np.sum(x * x)

    same(sg.grad(partial(lambda a, x: a * np.sum(x * x), 3.0))(X), 6 * X)
    same(sg.grad(partial(lambda x, a: a * np.sum(x * x), a=3.0))(X), 6 * X)
    same(sg.grad(Quadratic(2.0))(X), 4 * X)


def test_of_numpys_own_functions():
    same(sg.grad(np.sin)(0.3), np.float64(math.cos(0.3)))
    same(sg.grad(np.linalg.norm)(np.array([3.0, 4.0])), np.array([0.6, 0.8]))


def test_agrees_with_differences_on_a_small_network():
    rng = np.random.default_rng(0)
    w, v, x, y = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(5, 3)), rng.normal(size=5)

    def loss(w, v, x, y):
        return np.mean((np.tanh(x @ w) @ v - y) ** 2)

    for argnum in range(4):
        wanted = slope(loss, w, v, x, y, argnum=argnum)
        same(sg.grad(loss, argnum)(w, v, x, y), wanted, rtol=1e-8, atol=1e-10)


def test_arguments_are_not_modified_or_aliased():
    x = X.copy()
    got = sg.grad(lambda x: np.sum(x))(x)
    got[:] = 7
    same(x, X)


def test_fresh_results_at_each_call():
    f = sg.grad(lambda x: np.sum(x * x))
    first = f(X)
    kept = first.copy()
    f(2 * X)
    same(first, kept)


def test_assignment_inside():
    def f(x):
        out = np.zeros_like(x)
        out[1:] = x[1:] * x[:-1]
        out[0] = x[0] ** 2
        return np.sum(out)

    same(sg.grad(f)(X), slope(f, X), rtol=1e-8)
