"""``static_argnums`` and ``static_argnames``: arguments that are part of the program."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0])


def f(x, mode, k=2):
    return x * k if mode == "times" else x + k


@pytest.mark.parametrize(
    "options",
    [{"static_argnums": 1}, {"static_argnums": (1,)}, {"static_argnames": "mode"}, {"static_argnames": ["mode"]}],
)
def test_strings_by_position_or_name(options):
    g = sg.jit(f, **options)
    same(g(X, "times"), 2 * X)
    same(g(X, "plus", 5), X + 5)
    same(g(X, mode="times", k=7), 7 * X)
    assert g.cache_info().misses == 2


def test_negative_positions():
    g = sg.jit(lambda x, n: x * sum(range(n)), static_argnums=-1)
    same(g(X, 4), 6 * X)
    same(g(X, 3), 3 * X)
    assert g.cache_info().misses == 2


def test_static_numbers_are_plain_python():
    g = sg.jit(lambda x, n: (type(n).__name__, x * n), static_argnames="n")
    assert g(2.0, 3) == ("int", 6.0)
    assert g(2.0, 3.0) == ("float", 6.0)
    assert g(2.0, True) == ("bool", 2.0)
    assert g.cache_info().misses == 3


def test_static_tuples_and_enums_and_functions():
    class Kind(enum.Enum):
        A = "a"
        B = "b"

    g = sg.jit(
        lambda x, shape, kind, act: act(np.zeros(shape) + x) * (1 if kind is Kind.A else 2), static_argnums=(1, 2, 3)
    )
    same(g(0.5, (2,), Kind.A, np.sin), np.full(2, np.sin(0.5)))
    same(g(0.5, (1, 2), Kind.B, np.cos), np.full((1, 2), 2 * np.cos(0.5)))


def test_defaults_of_static_arguments():
    g = sg.jit(lambda x, mode="a": x if mode == "a" else -x, static_argnames="mode")
    assert (g(1.0), g(1.0, "a"), g(1.0, mode="b")) == (1.0, 1.0, -1.0)


def test_string_defaults_need_no_declaration():
    g = sg.jit(lambda x, mode="a": x if mode == "a" else -x)
    assert g(1.0) == 1.0


def test_with_grad():
    g = sg.grad(lambda x, n: np.sum(x**n), static_argnums=1)
    same(g(X, 3), 3 * X**2)
    same(sg.value_and_grad(lambda n, x: np.sum(x**n), argnums=1, static_argnums=0)(2, X), (np.float64(5.0), 2 * X))


def test_keyword_only():
    g = sg.jit(lambda x, *, mode: x if mode == "a" else -x, static_argnames="mode")
    assert (g(1.0, mode="a"), g(1.0, mode="b")) == (1.0, -1.0)


def test_static_by_equality_not_identity():
    g = sg.jit(lambda x, key: x + len(key), static_argnums=1)
    assert g(1.0, ("a", "b")) == 3.0
    assert g(1.0, tuple(["a", "b"])) == 3.0
    assert g.cache_info()[:2] == (1, 1)


def test_nested_compiled_functions_take_strings():
    inner = sg.jit(f, static_argnames="mode")
    same(sg.jit(lambda x: inner(x, "times"))(X), 2 * X)


def test_stabilize_false_has_numpys_values():
    naive = sg.jit(lambda x: np.log(1 + np.exp(x)), stabilize=False)
    stable = sg.jit(lambda x: np.log(1 + np.exp(x)))
    assert np.isinf(naive(1000.0)) and stable(1000.0) == 1000.0
