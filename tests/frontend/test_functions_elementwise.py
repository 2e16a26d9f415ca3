"""NumPy's elementwise functions on traced values against NumPy itself: values, dtypes, shapes."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from symgrad.errors import UnsupportedError
from tests.frontend.traced import check, traced

X = np.array([[-1.7, -0.4, 0.0], [0.3, 1.2, 2.5]])
POSITIVE = np.array([0.2, 0.7, 1.0, 3.5])
UNIT = np.array([-0.9, -0.2, 0.0, 0.8])
I = np.array([-7, -2, 0, 3, 5])
J = np.array([2, -3, 4, 1, -2])
AWKWARD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan])

UNARY = [
    "negative", "positive", "absolute", "fabs", "sign", "rint", "floor", "ceil", "trunc", "fix", "exp", "exp2",
    "expm1", "square",
    "cbrt", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "deg2rad", "rad2deg", "radians",
    "degrees", "sinc",
    "isnan", "isinf", "isfinite", "signbit", "logical_not", "nan_to_num", "real", "conj", "around", "round",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    f = getattr(np, name)
    check(f, X)
    check(f, X.astype(np.float32))
    check(f, np.float64(0.7))
    check(f, np.zeros((0, 2)))
    check(f, AWKWARD)


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("sinc", "around", "round")])
def test_unary_of_integers(name: str) -> None:
    check(getattr(np, name), I)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p", "sqrt", "reciprocal"])
def test_on_positive_numbers(name: str) -> None:
    check(getattr(np, name), POSITIVE)
    check(getattr(np, name), POSITIVE.astype(np.float32))


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctanh"])
def test_on_the_unit_interval(name: str) -> None:
    check(getattr(np, name), UNIT)


def test_arccosh() -> None:
    check(np.arccosh, POSITIVE + 1)


BINARY = [
    "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "fmod", "arctan2", "hypot", "logaddexp",
    "logaddexp2",
    "maximum", "minimum", "fmax", "fmin", "copysign", "heaviside", "less", "less_equal", "equal", "not_equal",
    "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    f = getattr(np, name)
    check(f, X, np.array([1.5, -0.7, 2.0]))
    check(f, X.astype(np.float32), np.array([1.5, -0.7, 2.0], np.float32))
    check(f, X.astype(np.float32), np.array([1, -2, 3]))
    check(f, np.float64(2.0), X)
    check(lambda a: f(a, 2), X.astype(np.float32))
    check(f, np.zeros((0, 3)), np.ones(3))


@pytest.mark.parametrize("name", [*BINARY, "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_binary_of_integers(name: str) -> None:
    check(getattr(np, name), I, J)


@pytest.mark.parametrize(
    "name", ["maximum", "minimum", "fmax", "fmin", "less", "equal", "copysign", "heaviside", "logaddexp"]
)
def test_binary_at_awkward_values(name: str) -> None:
    check(getattr(np, name), AWKWARD[:, None], AWKWARD[None, :])


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_division_rounds_as_numpy_does(name: str) -> None:
    check(
        getattr(np, name),
        np.array([1.0, -1.0, 6.0, -6.0, 7.5, 0.0, np.inf, 5.0]),
        np.array([0.1, 0.1, -0.2, 4.0, 2.5, 3.0, 1.0, 0.0]),
    )


@pytest.mark.parametrize(
    "name", ["logical_and", "bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply", "maximum", "equal"]
)
def test_binary_of_bools(name: str) -> None:
    check(getattr(np, name), np.array([True, True, False]), np.array([True, False, False]))


def test_subtracting_bools_is_an_error() -> None:
    with pytest.raises(TypeError, match="boolean subtract"):
        traced(np.subtract, np.array([True]), np.array([False]))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -3, 2.0, 0.5, 1.5, -0.5])
def test_power_with_a_written_exponent(n: float) -> None:
    check(lambda x: x**n, POSITIVE)
    check(lambda x: x**n, POSITIVE.astype(np.float32))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_power_of_integers(n: int) -> None:
    check(lambda x: x**n, I)
    check(np.power, I, np.full(5, n))
    check(lambda x: np.power(x, 2), np.float32(3))


def test_integers_to_a_negative_power_are_an_error() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        traced(lambda x: x**-1, I)


def test_power_with_arrays() -> None:
    check(np.power, POSITIVE, np.array([0.5, 2.0, -1.0, 0.0]))
    check(np.float_power, I, J)
    check(lambda x: 2.0**x, X)
    check(operator.pow, np.array([2, 3, -2]), np.array([3, 0, 5]))


def test_shifts_and_invert() -> None:
    check(lambda x: (x << 2) + (x >> 1), I)
    check(np.invert, I)
    check(np.invert, np.array([True, False]))


def test_divmod_and_modf() -> None:
    check(np.divmod, X, np.array([0.5, -0.7, 2.0]))
    check(np.modf, AWKWARD[[0, 1, 4, 5]])


@pytest.mark.parametrize("bounds", [(-0.5, 1.0), (None, 1.0), (0.0, None), (1, 2)])
def test_clip(bounds: tuple[float | None, float | None]) -> None:
    check(lambda x: np.clip(x, *bounds), X)
    check(lambda x: x.clip(*bounds), X.astype(np.float32))
    check(lambda x: np.clip(x, *bounds), I)
    check(np.clip, X, np.array([-1.0, 0.0, 1.0]), np.array([0.0, 0.5, 2.0]))


@pytest.mark.parametrize("decimals", [0, 1, 2, -1])
def test_round(decimals: int) -> None:
    check(lambda x: np.round(x, decimals), X * 12.345)
    check(lambda x: np.round(x, decimals), I * 7)


def test_where_and_select() -> None:
    check(lambda x: np.where(x > 0, x, -1), X)
    check(lambda x: np.where(x > 0, x, -1), X.astype(np.float32))
    check(np.where, X > 0, X, np.array([1, 2, 3]))
    check(np.where, I, X[0, 0], np.float32(2))
    check(lambda x: np.select([x > 1, x > 0], [x, x * 2], 7.0), X)


def test_where_with_one_argument_says_why_not() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.where"):
        traced(lambda x: np.where(x > 0), X)


def test_nan_to_num_replacements() -> None:
    check(lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0), AWKWARD)
    check(np.nan_to_num, AWKWARD.astype(np.float32))


def test_isclose() -> None:
    check(np.isclose, np.array([1.0, 1.0, np.nan, np.inf]), np.array([1.0 + 1e-9, 1.1, np.nan, np.inf]))
    check(lambda a, b: np.isclose(a, b, equal_nan=True), np.array([1.0, np.nan]), np.array([1.1, np.nan]))
    check(np.allclose, X, X + 1e-12)
    check(np.array_equal, X, X)


def test_unknown_keywords_are_named() -> None:
    with pytest.raises(UnsupportedError, match="signature"):
        traced(lambda x: np.sin(x, signature="d->d"), X)


def test_where_keyword_needs_out() -> None:
    with pytest.raises(UnsupportedError, match="where="):
        traced(lambda x: np.sin(x, where=x > 0), X)


def test_out_and_where_keywords_store() -> None:
    def f(x):
        out = x * 0.0
        np.divide(1.0, x, out=out, where=x > 0)
        return out

    check(f, X)


def test_dtype_keyword() -> None:
    check(lambda x: np.add(x, 1, dtype=np.float32), X.astype(np.float32))
