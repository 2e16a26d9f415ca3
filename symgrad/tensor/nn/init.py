"""First values of parameters, set in place: ``init.xavier_uniform_(layer.weight)``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.modes import no_grad
from symgrad.tensor.random import generator


def _set(x: BaseTensor, array: Any) -> Any:
    with no_grad():
        x._replace(as_value(np.broadcast_to(array, x._dims), x.dtype), x._edge)
    return x


def fans(x: BaseTensor) -> tuple[int, int]:
    """The number of inputs and of outputs that a weight (out, in, …) connects."""
    if x.ndim < 2:
        raise ValueError(f"a weight has at least two axes, got shape {x._dims}")
    inner = int(np.prod(x._dims[2:]))
    return x._dims[1] * inner, x._dims[0] * inner


def constant_(x: BaseTensor, value: float) -> Any:
    return _set(x, value)


def zeros_(x: BaseTensor) -> Any:
    return _set(x, 0.0)


def ones_(x: BaseTensor) -> Any:
    return _set(x, 1.0)


def uniform_(x: BaseTensor, a: float = 0.0, b: float = 1.0) -> Any:
    return _set(x, generator().uniform(a, b, x._dims))


def normal_(x: BaseTensor, mean: float = 0.0, std: float = 1.0) -> Any:
    return _set(x, generator().normal(mean, std, x._dims))


def xavier_uniform_(x: BaseTensor, gain: float = 1.0) -> Any:
    bound = gain * math.sqrt(6 / sum(fans(x)))
    return uniform_(x, -bound, bound)


def xavier_normal_(x: BaseTensor, gain: float = 1.0) -> Any:
    return normal_(x, 0.0, gain * math.sqrt(2 / sum(fans(x))))


def kaiming_uniform_(x: BaseTensor, a: float = 0.0) -> Any:
    """For layers before a (leaky, with slope ``a``) ReLU."""
    bound = math.sqrt(6 / ((1 + a * a) * fans(x)[0]))
    return uniform_(x, -bound, bound)


def kaiming_normal_(x: BaseTensor, a: float = 0.0) -> Any:
    """For layers before a (leaky, with slope ``a``) ReLU."""
    return normal_(x, 0.0, math.sqrt(2 / ((1 + a * a) * fans(x)[0])))
