"""NumPy's reductions and statistics on traced values against NumPy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from symgrad.errors import ShapeError, UnsupportedError
from tests.frontend.traced import check, traced

X = np.random.default_rng(1).normal(size=(3, 4))
Y = np.random.default_rng(2).normal(size=(2, 3, 4))
I = np.array([[3, -1, 2], [0, 5, -4]])
B = np.array([[True, False, True], [True, True, True]])
NAN = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [4.0, -1.0, 0.5]])
AXES: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"keepdims": True}]


@pytest.mark.parametrize("keywords", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"])
def test_reductions(name: str, keywords: dict[str, Any]) -> None:
    f = getattr(np, name)
    check(lambda x: f(x, **keywords), X)
    check(lambda x: f(x, **keywords), Y)
    check(lambda x: f(x, **keywords), X.astype(np.float32))
    check(lambda x: f(x, **keywords), I)
    check(lambda x: f(x, **keywords), B)
    check(lambda x: getattr(x, name)(**keywords), X)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "max", "any"])
def test_reductions_over_several_axes(name: str) -> None:
    check(lambda x: getattr(np, name)(x, axis=(0, 2)), Y)
    check(lambda x: getattr(np, name)(x, axis=(-1, 0), keepdims=True), Y)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.bool_])
def test_sums_of_small_integers_widen(dtype: Any) -> None:
    check(np.sum, np.ones((3, 2), dtype))
    check(lambda x: np.cumsum(x, axis=0), np.ones((3, 2), dtype))
    check(lambda x: np.sum(x, dtype=np.float32), np.ones(3, dtype))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "any", "all"])
def test_reductions_of_nothing(name: str) -> None:
    check(lambda x: getattr(np, name)(x, axis=0), np.zeros((0, 3)))
    check(getattr(np, name), np.zeros(0))


def test_the_largest_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="zero-size array"):
        traced(np.max, np.zeros(0))
    with pytest.raises(ValueError, match="zero-size array"):
        traced(lambda x: x.min(axis=1), np.zeros((3, 0)), symbolic=True)
    check(lambda x: np.max(x, axis=1), np.zeros((0, 3)))


def test_the_largest_of_nothing_with_an_initial_value() -> None:
    check(lambda x: np.max(x, initial=2.0), np.zeros(0))
    check(lambda x: np.sum(x, initial=2.0, axis=0), X)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any"])
def test_where_keyword(name: str) -> None:
    check(lambda x: getattr(np, name)(x, where=x > -0.5, axis=1), X)
    check(lambda x, m: getattr(np, name)(x, where=m), X, np.array([True, False, True, True]))


def test_where_keyword_of_extremes() -> None:
    check(lambda x: np.max(x, where=x < 0.5, initial=-9.0, axis=0), X)


@pytest.mark.parametrize(
    "keywords", [{"ddof": 1}, {"ddof": 1, "axis": 0}, {"correction": 1}, {"ddof": 5, "axis": 0}], ids=str
)
def test_degrees_of_freedom(keywords: dict[str, Any]) -> None:
    check(lambda x: np.var(x, **keywords), X)
    check(lambda x: np.std(x, **keywords), X)


@pytest.mark.parametrize("keywords", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"keepdims": True}], ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name: str, keywords: dict[str, Any]) -> None:
    check(lambda x: getattr(np, name)(x, **keywords), X)
    check(lambda x: getattr(np, name)(x, **keywords), I)
    check(lambda x: getattr(np, name)(x, **keywords), B)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"])
def test_reductions_that_skip_nan(name: str) -> None:
    check(getattr(np, name), NAN)
    check(lambda x: getattr(np, name)(x, axis=1), NAN)
    check(lambda x: getattr(np, name)(x, axis=0, keepdims=True), NAN.astype(np.float32))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_running_reductions(name: str) -> None:
    for x in (X, I, NAN) if name.startswith("nan") else (X, I):
        check(getattr(np, name), x)
        check(lambda x: getattr(np, name)(x, axis=1), x)
        check(lambda x: getattr(np, name)(x, axis=-2), x)


def test_other_folds() -> None:
    check(np.ptp, X)
    check(lambda x: np.ptp(x, axis=1), I)
    check(lambda x: np.count_nonzero(x, axis=0), I)
    check(np.count_nonzero, X)
    check(np.add.reduce, X)
    check(lambda x: np.maximum.reduce(x, axis=1), X)
    check(lambda x: np.add.accumulate(x, axis=1), X)


def test_newer_names() -> None:
    check(lambda x: np.cumulative_sum(x, axis=1, include_initial=True), X)
    check(np.cumulative_prod, X[0])
    check(lambda x: np.nanargmax(x, axis=0), NAN[[0, 2]])
    check(np.nanargmin, NAN)
    check(lambda x: np.linalg.vector_norm(x, axis=0, ord=1), X)
    check(lambda x: np.linalg.matrix_norm(x, ord=np.inf), Y)
    check(lambda x: np.astype(x, np.float32), X)
    check(lambda x: np.isin(x, [3, 5]), I)


def test_differences() -> None:
    check(np.diff, X)
    check(lambda x: np.diff(x, n=2, axis=0), X)
    check(lambda x: np.diff(x, prepend=0.0, append=x[:, :1]), X)
    check(np.diff, np.array([True, False, False]))
    check(np.ediff1d, I)
    check(lambda x: np.ediff1d(x, to_begin=[9, 8], to_end=7), I)


def test_average() -> None:
    check(np.average, X)
    check(lambda x, w: np.average(x, axis=0, weights=w), X, np.array([1.0, 2.0, 0.5]))
    check(lambda x, w: np.average(x, axis=1, weights=w, returned=True), X, np.abs(X))
    check(lambda x: np.average(x, weights=[[1, 2, 3], [4, 5, 6]], keepdims=True), I)


@pytest.mark.parametrize("keywords", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}], ids=str)
def test_median(keywords: dict[str, Any]) -> None:
    for x in (X, X[:, :3], NAN, I, np.array([[1.0, np.inf, 2.0, -np.inf]] * 2)):
        check(lambda x: np.median(x, **keywords), x)


@pytest.mark.parametrize("q", [0.0, 0.3, 1.0, [0.1, 0.5, 0.99]])
def test_quantile(q: Any) -> None:
    for x in (X, NAN, I, X.astype(np.float32)):
        check(lambda x: np.quantile(x, q, axis=1), x)
    check(lambda x: np.percentile(x, np.multiply(q, 100)), Y)
    check(lambda x: np.quantile(x, q, axis=(0, 2), keepdims=True), Y)
    check(np.quantile, Y, np.asarray(q))


def test_other_quantile_methods_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="method='nearest'"):
        traced(lambda x: np.quantile(x, 0.5, method="nearest"), X)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, np.inf, -np.inf, -1])
def test_vector_norms(order: Any) -> None:
    check(lambda x: np.linalg.norm(x, order, axis=1), X)
    check(lambda x: np.linalg.norm(x, order), X[0])
    check(lambda x: np.linalg.norm(x, order, axis=0, keepdims=True), I[:, :2] + 7)


@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(order: Any) -> None:
    check(lambda x: np.linalg.norm(x, order), X)
    check(lambda x: np.linalg.norm(x, order, axis=(2, 0)), Y)
    check(lambda x: np.linalg.norm(x, order, axis=(0, 1), keepdims=True), Y.astype(np.float32))


def test_statistics_of_rows() -> None:
    check(np.cov, X)
    check(lambda x: np.cov(x, rowvar=False, bias=True), X)
    check(np.cov, X[0], X[1])
    check(np.corrcoef, X)
    check(lambda a, b: np.corrcoef(a, b)[0, 1], X[0], X[1])


def test_numerical_calculus() -> None:
    check(np.trapezoid, X)
    check(lambda y, x: np.trapezoid(y, x, axis=0), X, np.array([0.0, 1.0, 4.0]))
    check(lambda y: np.trapezoid(y, dx=0.5, axis=0), X)
    check(np.gradient, X)
    check(lambda y: np.gradient(y, 0.5, axis=1), X)
    check(lambda y, x: np.gradient(y, x, axis=0), X, np.array([0.0, 1.0, 4.0]))


@pytest.mark.parametrize("keywords", [{}, {"axis": 1}, {"axis": 0, "keepdims": True}], ids=str)
def test_log_of_a_sum_of_exponentials(keywords: dict[str, Any]) -> None:
    f = scipy.special.logsumexp
    for x in (X, X * 1000, np.full((2, 2), -np.inf), I):
        check(lambda x: _special("logsumexp")(x, **keywords), x, rtol=1e-11)
    check(lambda x, b: _special("logsumexp")(x, b=b, axis=1), X, np.array([0.5, 2.0, 0.0, 1.0]), rtol=1e-11)
    assert f(X[0]) == pytest.approx(float(traced(_special("logsumexp"), X[0])))


def _special(name: str) -> Any:
    import symgrad.numpy as snp

    return getattr(snp.special, name)


def test_softmax() -> None:
    check(lambda x: _special("softmax")(x, axis=1), X)
    check(_special("softmax"), X * 1000)
    check(lambda x: _special("log_softmax")(x, axis=0), X.astype(np.float32))


def test_axis_out_of_range() -> None:
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        traced(lambda x: np.sum(x, axis=2), X)


def test_out_keyword_stores() -> None:
    def f(x):
        total = x[0] * 0.0
        np.sum(x, axis=0, out=total)
        return total

    check(f, X)
