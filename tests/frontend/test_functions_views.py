"""Views, selections by masks, and derivatives at awkward points of NumPy's functions on traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad.numpy as snp
from symgrad.autodiff.reverse import grad
from symgrad.frontend.tracer import activate, wrap
from symgrad.frontend.tracing import Trace
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import param
from symgrad.ir.types import TensorType, f64
from tests.frontend.traced import check

X = np.arange(12.0).reshape(3, 4) - 5

VIEWS: list[Any] = [
    lambda a: a.reshape(4, 3), lambda a: a.T, lambda a: np.ravel(a), lambda a: np.swapaxes(a, 0, 1),
    lambda a: a[None, :, 0],
    lambda a: np.expand_dims(a, 1), lambda a: np.flip(a, 1), lambda a: np.split(a, 2, axis=1)[1], lambda a: np.rot90(a),
    lambda a: np.moveaxis(a, 0, 1)[1:], lambda a: np.squeeze(a[:, :1]), lambda a: np.atleast_3d(a),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(VIEWS)))
def test_assigning_into_a_view_changes_the_array(k: int) -> None:
    def f(x):
        a = x.copy()
        view = VIEWS[k](a)
        view[0] = 100.0
        view[...] *= 2
        return a, view

    check(f, X)


@pytest.mark.parametrize(
    "copy", [lambda a: a.flatten(), lambda a: a.T.reshape(-1), np.copy, lambda a: np.concatenate([a, a])]
)
def test_assigning_into_a_copy_leaves_the_array(copy: Callable[..., Any]) -> None:
    def f(x):
        a = x.copy()
        copy(a)[0] = 100.0
        return a

    check(f, X)


def test_a_broadcast_array_is_read_only() -> None:
    def f(x):
        np.broadcast_to(x, (2, 3, 4))[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        check(lambda x: f(x.copy()), X)


MASKED: list[Any] = [
    lambda x: np.sum(x[x > 0]), lambda x: np.mean(np.sqrt(x[x > 0])), lambda x: np.max(x[x < 0] ** 2),
    lambda x: np.std(x[x > -2]),
    lambda x: np.clip(x[x > 0], 1.0, 3.0).sum(), lambda x: np.where(x[x > 0] > 2, 1.0, 0.5).prod(),
    lambda x: scipy.special.expit(x[x > 0]).sum(), lambda x: np.maximum(2.0, x[x > 0]).min(),
    lambda x: np.any(x[x > 0] > 6),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(MASKED)))
def test_selections_by_traced_masks(k: int) -> None:
    check(MASKED[k], X)


def gradient(function: Callable[..., Any], x: Any) -> Any:
    """The derivative of a scalar function of one array."""
    a = np.asarray(x, float)
    n = param(TensorType(f64, a.shape))
    with activate(Trace()):
        result = function(wrap(n, fixed=False)).node
    return evaluate(grad(Graph((n,), (result,))), a)[1]


AWKWARD: list[Any] = [
    (np.std, [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    (np.linalg.norm, [0.0, 0.0], [0.0, 0.0]),
    (lambda x: np.sum(x**2), [0.0, -1.0], [0.0, -2.0]),
    (lambda x: np.sum(x**0), [0.0, 3.0], [0.0, 0.0]),
    (lambda x: np.sum(np.abs(x)), [0.0, -3.0], [0.0, -1.0]),
    (np.max, [3.0, 1.0, 3.0], [0.5, 0.0, 0.5]),
    (lambda x: np.maximum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5]),
    (np.median, [1.0, 2.0, 2.0, 3.0], [0.0, 0.5, 0.5, 0.0]),
    (np.median, [1.0, 2.0, 4.0], [0.0, 1.0, 0.0]),
    (lambda x: np.clip(x, 0.0, 1.0).sum(), [0.0, 1.0, 2.0, 0.5], [1.0, 1.0, 0.0, 1.0]),
    (lambda x: np.clip(x, 0.0, None).sum(), [0.0, -1.0, 2.0], [1.0, 0.0, 1.0]),
    (lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    (lambda x: np.sum(x % 2.0), [3.0, -1.0], [1.0, 1.0]),
    (lambda x: np.sum(x // 2.0), [3.0, -1.0], [0.0, 0.0]),
    (np.prod, [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    (lambda x: np.nanmean(x), [1.0, np.nan, 3.0], [0.5, 0.0, 0.5]),
    (lambda x: np.sum(x, where=x > 0), [1.0, -2.0], [1.0, 0.0]),
    (lambda x: np.interp(x, [0.0, 1.0, 3.0], [0.0, 5.0, 7.0]).sum(), [-1.0, 0.0, 1.0, 3.0, 4.0], [0, 5.0, 1.0, 1.0, 0]),
    (lambda x: np.sinc(x).sum(), [0.0], [0.0]),
    (lambda x: snp.special.logsumexp(x), [-np.inf, -np.inf], [0.0, 0.0]),
    (lambda x: np.sort(x)[0], [2.0, 1.0, 1.0], [0.0, 1.0, 0.0]),
    (lambda x: np.copysign(x, -1.0).sum(), [2.0, -3.0], [-1.0, 1.0]),
    (lambda x: np.trace(np.outer(x, x)), [1.0, 2.0], [2.0, 4.0]),
    (lambda x: np.einsum("i,ij,j->", x, [[1.0, 2.0], [0.0, 3.0]], x), [1.0, 2.0], [6.0, 14.0]),
    (lambda x: np.percentile(x, 25), [1.0, 2.0, 4.0], [0.5, 0.5, 0.0]),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(AWKWARD)))
def test_derivatives_at_awkward_points(k: int) -> None:
    f, x, wanted = AWKWARD[k]
    np.testing.assert_allclose(gradient(f, x), wanted, atol=1e-14)
