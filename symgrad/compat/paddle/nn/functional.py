"""Paddle's ``paddle.nn.functional``."""

from __future__ import annotations

from typing import Any

from symgrad.tensor.nn import functional as F
from symgrad.tensor.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    dropout,
    elu,
    gelu,
    l1_loss,
    leaky_relu,
    mse_loss,
    nll_loss,
    one_hot,
    relu,
    sigmoid,
    silu,
    smooth_l1_loss,
    softplus,
    tanh,
)

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "dropout", "elu", "gelu", "l1_loss",
    "leaky_relu", "linear", "log_softmax", "mse_loss", "nll_loss", "one_hot", "relu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softplus", "square_error_cost", "tanh",
]  # fmt: skip


def linear(x: Any, weight: Any, bias: Any = None, name: str | None = None) -> Any:
    """``x @ weight + bias``."""
    return F.linear_by_columns(x, weight, bias)


def softmax(x: Any, axis: int = -1, name: str | None = None) -> Any:
    return F.softmax(x, axis=axis)


def log_softmax(x: Any, axis: int = -1, name: str | None = None) -> Any:
    return F.log_softmax(x, axis=axis)


def square_error_cost(input: Any, label: Any) -> Any:
    return F.mse_loss(input, label, "none")


def cross_entropy(input: Any, label: Any, reduction: str = "mean", soft_label: bool = False) -> Any:
    """Of scores and the numbers of the right classes (a last axis of one is dropped), or with ``soft_label`` shares."""
    if not soft_label and label.ndim == input.ndim and label._dims[-1] == 1:
        label = label.reshape(label._dims[:-1])
    return F.cross_entropy(input, label, reduction)
