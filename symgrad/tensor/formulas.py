"""Formulas of traced arrays that are one operation on tensors: activations, layers and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.frontend import functions  # noqa: F401  # fills the table of what NumPy's functions mean
from symgrad.frontend.functions.scipy_functions import SPECIAL
from symgrad.frontend.tracer import float_operands, wrap
from symgrad.frontend.tracing import FUNCTIONS
from symgrad.ops import pointwise as p

sigmoid = SPECIAL["expit"]
softplus = SPECIAL["softplus"]


def _mean(x: Any) -> Any:
    return FUNCTIONS[np.mean](x)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return FUNCTIONS[np.where](condition, x, y)


def relu(x: Any) -> Any:
    (n,) = float_operands(x)
    return wrap(p.relu(n), fixed=False)


def rsqrt(x: Any) -> Any:
    return 1 / FUNCTIONS[np.sqrt](x)


def leaky_relu(x: Any, slope: Any) -> Any:
    return _where(x > 0, x, x * slope)


def elu(x: Any, alpha: Any) -> Any:
    return _where(x > 0, x, alpha * FUNCTIONS[np.expm1](x))


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + SPECIAL["erf"](x * (1 / math.sqrt(2))))


def silu(x: Any) -> Any:
    return x * sigmoid(x)


def softmax(x: Any, axis: int) -> Any:
    return SPECIAL["softmax"](x, axis=axis)


def log_softmax(x: Any, axis: int) -> Any:
    return SPECIAL["log_softmax"](x, axis=axis)


# --- layers ----------------------------------------------------------------------------------------------------------


def linear(x: Any, weight: Any) -> Any:
    """``weight`` of shape (out, in)."""
    return x @ weight.T


def linear_bias(x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight.T + bias


def linear_by_columns(x: Any, weight: Any) -> Any:
    """``weight`` of shape (in, out)."""
    return x @ weight


def linear_by_columns_bias(x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight + bias


# --- losses, before they are averaged --------------------------------------------------------------------------------


def squared_error(x: Any, y: Any) -> Any:
    return (x - y) ** 2


def absolute_error(x: Any, y: Any) -> Any:
    return abs(x - y)


def smooth_error(x: Any, y: Any, beta: Any) -> Any:
    d = abs(x - y)
    return _where(d < beta, d * d * 0.5 / beta, d - 0.5 * beta)


def binary_cross_entropy(x: Any, y: Any) -> Any:
    """Logarithms are held above -100, so that a certain and wrong answer costs a finite amount."""
    certain = FUNCTIONS[np.maximum]
    log, log1p = FUNCTIONS[np.log], FUNCTIONS[np.log1p]
    return -(y * certain(log(x), -100.0) + (1 - y) * certain(log1p(-x), -100.0))


def binary_cross_entropy_with_logits(x: Any, y: Any) -> Any:
    return softplus(x) - x * y


def cross_entropy(x: Any, classes: Any) -> Any:
    """One loss for each row: scores (rows, classes) and the number of the right class."""
    return nll(log_softmax(x, -1 if x.ndim == 1 else 1), classes)


def nll(x: Any, classes: Any) -> Any:
    if x.ndim == 1:
        return -x[classes]
    picked = FUNCTIONS[np.take_along_axis](x, FUNCTIONS[np.expand_dims](classes, 1), axis=1)
    return -FUNCTIONS[np.squeeze](picked, axis=1)


def cross_entropy_of_shares(x: Any, shares: Any) -> Any:
    """One loss for each row, for a distribution over the classes."""
    axis = -1 if x.ndim == 1 else 1
    return -FUNCTIONS[np.sum](log_softmax(x, axis) * shares, axis=axis)
