"""Functions of tensors that networks are made of; each is one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.frontend.tracing import FUNCTIONS
from symgrad.tensor import formulas
from symgrad.tensor.base import BaseTensor, apply, apply_simple, as_value
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.random import generator

_tanh = FUNCTIONS[np.tanh]


def sigmoid(x: Any) -> Any:
    return apply_simple(formulas.sigmoid, x)


def tanh(x: Any) -> Any:
    return apply_simple(_tanh, x)


def relu(x: Any) -> Any:
    return apply_simple(formulas.relu, x)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return apply(formulas.leaky_relu, (x, float(negative_slope)))[0]


def elu(x: Any, alpha: float = 1.0) -> Any:
    return apply(formulas.elu, (x, float(alpha)))[0]


def gelu(x: Any) -> Any:
    return apply_simple(formulas.gelu, x)


def silu(x: Any) -> Any:
    return apply_simple(formulas.silu, x)


def softplus(x: Any) -> Any:
    return apply_simple(formulas.softplus, x)


def softmax(x: Any, dim: int | None = None, axis: int = -1) -> Any:
    """Shares that add up to one along an axis."""
    return apply(bound(formulas.softmax, (SLOT, axis if dim is None else dim), {}), (x,))[0]


def log_softmax(x: Any, dim: int | None = None, axis: int = -1) -> Any:
    """The logarithm of ``softmax``, without overflow."""
    return apply(bound(formulas.log_softmax, (SLOT, axis if dim is None else dim), {}), (x,))[0]


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias``."""
    if bias is None:
        return apply(formulas.linear, (x, weight))[0]
    return apply(formulas.linear_bias, (x, weight, bias))[0]


def linear_by_columns(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight + bias``."""
    if bias is None:
        return apply(formulas.linear_by_columns, (x, weight))[0]
    return apply(formulas.linear_by_columns_bias, (x, weight, bias))[0]


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Zeros in place of a share ``p`` of the elements, the others made larger so that the mean stays."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability, got {p}")
    if not training or p == 0:
        return x
    kept = (generator().random(x._dims) >= p).astype(x.dtype)
    return x * type(x)._make(as_value(kept / (1 - p) if p < 1 else kept))


def one_hot(x: BaseTensor, num_classes: int) -> Any:
    """A row with a one at each number."""
    return type(x)._make(as_value(np.eye(num_classes, dtype=np.int64)[np.asarray(x)]))


# --- losses ----------------------------------------------------------------------------------------------------------


class _Reduced:
    """A loss for each element, then their mean or sum."""

    def __init__(self, loss: Callable[..., Any], reduction: str) -> None:
        self.__name__ = loss.__name__
        self.loss, self.reduction = loss, reduction

    def __call__(self, *args: Any) -> Any:
        each = self.loss(*args)
        return FUNCTIONS[np.mean if self.reduction == "mean" else np.sum](each)


_reduced: dict[tuple[Any, str], Any] = {}


def _loss(function: Callable[..., Any], operands: tuple[Any, ...], reduction: str) -> Any:
    key = (function, reduction)
    found = _reduced.get(key)
    if found is None:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction={reduction!r}: wanted 'mean', 'sum' or 'none'")
        found = _reduced[key] = function if reduction == "none" else _Reduced(function, reduction)
    return apply(found, operands)[0]


def _same_shapes(x: Any, target: Any, what: str) -> None:
    if x._dims != target._dims:
        raise ValueError(f"{what}: the input has shape {x._dims}, the target {target._dims}; they must be the same")


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """The square of the difference."""
    return _loss(formulas.squared_error, (x, target), reduction)


def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """The size of the difference."""
    return _loss(formulas.absolute_error, (x, target), reduction)


def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Half the square of a difference below ``beta``, over ``beta``; its size less ``beta / 2`` above."""
    if beta <= 0:
        raise ValueError(f"smooth_l1_loss: beta must be positive, got {beta}")
    return _loss(formulas.smooth_error, (x, target, float(beta)), reduction)


def binary_cross_entropy(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Of probabilities."""
    _same_shapes(x, target, "binary_cross_entropy")
    return _loss(formulas.binary_cross_entropy, (x, target), reduction)


def binary_cross_entropy_with_logits(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Of scores, whose sigmoid is the probability."""
    _same_shapes(x, target, "binary_cross_entropy_with_logits")
    return _loss(formulas.binary_cross_entropy_with_logits, (x, target), reduction)


def cross_entropy(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Of scores (rows, classes) and the numbers of the right classes, or distributions over them."""
    if target.dtype.kind != "f":
        return _loss(formulas.cross_entropy, (x, target), reduction)
    _same_shapes(x, target, "cross_entropy")
    each = apply(formulas.cross_entropy_of_shares, (x, target))[0]
    return each if reduction == "none" else _loss(_itself, (each,), reduction)


def nll_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Of logarithms of probabilities and the numbers of the right classes."""
    return _loss(formulas.nll, (x, target), reduction)


def _itself(x: Any) -> Any:
    return x
