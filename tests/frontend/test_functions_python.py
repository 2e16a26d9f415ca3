"""``math``, builtins, NumPy's scalar types and scipy.special on traced values, as a rewritten function calls them."""

from __future__ import annotations

import builtins
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.special

import symgrad.numpy as snp
from symgrad.errors import UnsupportedError
from symgrad.frontend.functions import replacement
from symgrad.frontend.tracer import TracedSize, activate, is_traced, wrap
from symgrad.frontend.tracing import Trace
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import param
from symgrad.ir.types import TensorType, f64, i64
from tests.frontend.traced import check, traced


def replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a rewritten function calls, on traced and on plain arguments."""
    return replacement(function) or function


def number(function: Callable[..., Any], *xs: float) -> Any:
    """``function`` of traced Python numbers: its value as a Python number."""
    params = [param(TensorType(f64 if isinstance(x, float) else i64)) for x in xs]
    with activate(Trace()):
        out = function(*(wrap(n, weak=True) for n in params))
        assert is_traced(out) and out.weak
    (value,) = evaluate(Graph(tuple(params), (out.node,)), *xs)
    return value.item()


ONE = [
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "exp", "expm1", "log",
    "log1p", "log2", "log10", "sqrt", "fabs", "floor", "ceil", "trunc", "erf", "erfc", "gamma", "lgamma",
    "degrees", "radians", "isnan", "isinf", "isfinite", "cbrt", "exp2",
]  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_math_of_one_number(name: str) -> None:
    f = getattr(math, name)
    got = number(replaced(f), 0.7)
    assert got == pytest.approx(f(0.7), rel=1e-14)
    assert type(got) is type(f(0.7))
    assert replaced(f)(0.7) == f(0.7)


@pytest.mark.parametrize("name", ["atan2", "pow", "fmod", "hypot", "copysign", "log", "remainder"])
def test_math_of_two_numbers(name: str) -> None:
    f = getattr(math, name)
    assert number(replaced(f), 2.7, 1.3) == pytest.approx(f(2.7, 1.3), rel=1e-14)
    assert number(lambda x: replaced(f)(x, 2), 2.7) == pytest.approx(f(2.7, 2), rel=1e-14)


def test_math_of_integers_and_arrays_of_one_element() -> None:
    assert number(replaced(math.sqrt), 2) == math.sqrt(2)
    assert number(replaced(math.floor), 2) == 2
    assert traced(replaced(math.sin), np.array([0.5])) == math.sin(0.5)
    assert number(replaced(math.acosh), 2.5) == pytest.approx(math.acosh(2.5), rel=1e-15)


def test_math_of_several_numbers() -> None:
    assert number(replaced(math.hypot), 1.0, 2.0, 2.0) == 3.0
    assert number(lambda x, y: replaced(math.fsum)([x, y, 1]), 1.5, 2.0) == 4.5
    assert number(lambda x, y: replaced(math.prod)([x, y], start=2), 1.5, 2.0) == 6.0
    assert number(lambda x, y: replaced(math.dist)((x, y), (0, 0)), 3.0, 4.0) == 5.0
    assert traced(replaced(math.prod), np.array([1.5, 2.0])) == 3.0


def test_math_of_an_array_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"math\.sin.*np\.sin"):
        traced(replaced(math.sin), np.ones(3))


def test_conversions() -> None:
    assert number(replaced(float), 3) == 3.0
    assert number(replaced(int), -2.7) == -2
    assert number(replaced(round), 2.5) == 2
    assert number(lambda x: replaced(round)(x, 1), 2.36) == 2.4
    assert number(replaced(abs), -2) == 2
    assert number(replaced(pow), 2.0, 3) == 8.0
    assert traced(replaced(np.float32), np.float64(0.1)) == np.float32(0.1)
    assert traced(replaced(np.int64), np.array([1.7, -1.7])).tolist() == [1, -1]
    assert replaced(float)("2.5") == 2.5


@pytest.mark.parametrize("name", ["min", "max"])
def test_choices(name: str) -> None:
    f = getattr(builtins, name)
    for x, y in ((1.0, 2.0), (2.0, 1.0), (math.nan, 1.0), (1.0, math.nan), (1.5, 1.5)):
        assert number(replaced(f), x, y) == pytest.approx(f(x, y), nan_ok=True)
    assert number(lambda x: replaced(f)(x, 0.0, 3), 1.0) == f(1.0, 0.0, 3)
    assert number(lambda x, y: replaced(f)([x, y, 5]), 3, 4) == f([3, 4, 5])
    assert traced(replaced(f), np.array([3.0, 1.0, 2.0])) == f([3.0, 1.0, 2.0])
    assert replaced(f)([3, 1], key=lambda v: -v) == f([3, 1], key=lambda v: -v)
    with pytest.raises(UnsupportedError, match="key"):
        number(lambda x: replaced(f)(x, 1.0, key=abs), 2.0)


def test_sum_any_all_len() -> None:
    total = replaced(sum)
    check(total, np.arange(6.0).reshape(3, 2))
    assert number(lambda x: total(x * k for k in range(3)), 2.0) == 6.0
    assert total([1, 2], 3) == 6
    assert traced(lambda x: replaced(any)(x > 2), np.array([1.0, 3.0]))
    assert not traced(lambda x: replaced(all)([x[0] > 2, x[1] > 2]), np.array([1.0, 3.0]))
    assert replaced(any)(iter(())) is False
    assert traced(lambda x: wrap_size(replaced(len)(x)), np.ones((4, 2)), symbolic=True) == 4


def wrap_size(n: Any) -> Any:
    assert type(n) is TracedSize
    return n


SPECIAL_ONE = [
    "expit",
    "log_expit",
    "erf",
    "erfc",
    "erfcx",
    "gammaln",
    "gamma",
    "digamma",
    "psi",
    "entr",
    "ndtr",
    "log_ndtr",
    "expm1",
    "exp10",
]


@pytest.mark.parametrize("name", SPECIAL_ONE)
def test_special_functions_of_one_argument(name: str) -> None:
    f = getattr(scipy.special, name)
    x = np.array([[0.3, 1.7], [2.5, 0.9]])
    check(replaced(f), x)
    check(f, x)
    check(f, x.astype(np.float32))


def test_special_functions_by_either_way() -> None:
    p = np.array([0.1, 0.5, 0.8])
    for name in ("logit", "erfinv", "ndtri"):
        check(getattr(scipy.special, name), p)
        check(getattr(snp.special, name), p)


@pytest.mark.parametrize(
    "name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "betaln", "beta", "huber", "pseudo_huber", "boxcox"]
)
def test_special_functions_of_two_arguments(name: str) -> None:
    f = getattr(scipy.special, name)
    check(f, np.array([0.5, 1.0, 2.5]), np.array([[0.3], [1.2]]), rtol=1e-11)


def test_special_functions_with_axes() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    for f in (scipy.special.softmax, scipy.special.log_softmax, scipy.special.logsumexp):
        check(lambda v, f=f: replaced(f)(v, axis=1), x)
    check(lambda v: replaced(scipy.special.polygamma)(2, v), np.abs(x) + 0.5, rtol=1e-10)


def test_functions_we_lack_are_named() -> None:
    for f, name in (
        (scipy.special.zeta, r"scipy\.special\.zeta"), (np.linalg.lstsq, r"np\.linalg\.lstsq"),
        (np.fft.fft, r"np\.fft\.fft"),
        (scipy.fft.fft, r"scipy\.fft"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=name):
            traced(replaced(f), np.ones((2, 2)))
    assert replaced(scipy.special.zeta)(2.0) == scipy.special.zeta(2.0)


def test_random_numbers_are_drawn_outside() -> None:
    for draw in (np.random.normal, np.random.default_rng(0).normal, random.random, np.random.default_rng):
        with pytest.raises(UnsupportedError, match=r"random.*draw outside"):
            replaced(draw)()


def test_creations_with_nothing_traced_give_traced_arrays() -> None:
    with activate(Trace()):
        assert is_traced(replaced(np.zeros)(3))
        assert is_traced(replaced(np.array)([1, 2]))
        assert replaced(math.sin)(0.5) == math.sin(0.5)
        assert snp.linalg.norm is not None and is_traced(snp.sqrt(2.0))


def test_users_functions_are_not_replaced() -> None:
    assert replacement(number) is None
    assert replacement([].append) is None


def test_lists_of_traced_numbers_reach_numpys_functions() -> None:
    check(lambda x: replaced(np.sum)([x[0], 2.0, x[1]]), np.array([1.0, 5.0]))
    check(lambda x: replaced(np.sqrt)([x[0], x[1]]), np.array([1.0, 5.0]))
    check(lambda x: replaced(np.linalg.norm)([x[0], x[1] * 2]), np.array([1.0, 5.0]))
    check(lambda x: replaced(np.dot)([[x[0], 1.0], [0.0, x[1]]], x), np.array([1.0, 5.0]))
    assert replaced(np.sin)(0.5) == np.sin(0.5)


def test_generators_of_traced_numbers() -> None:
    assert number(lambda x: replaced(max)(x * k for k in (-1, 2)), 2.0) == 4.0
    assert number(lambda x: replaced(any)(x > k for k in (1, 2)), 1.5) is True
    assert replaced(all)(k < 2 or 1 / 0 for k in (3 - 2, 0)) is True
    assert replaced(any)(k == 1 or 1 / 0 for k in (1, 0)) is True
