"""Paddle's ``paddle.nn.initializer``: objects that set the values of a parameter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.tensor.base import as_value
from symgrad.tensor.nn import init


class Constant:
    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def __call__(self, p: Any) -> None:
        init.constant_(p, self.value)


class Uniform:
    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        self.low, self.high = low, high

    def __call__(self, p: Any) -> None:
        init.uniform_(p, self.low, self.high)


class Normal:
    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        self.mean, self.std = mean, std

    def __call__(self, p: Any) -> None:
        init.normal_(p, self.mean, self.std)


class XavierUniform:
    def __call__(self, p: Any) -> None:
        bound = math.sqrt(6 / sum(init.fans(p)))
        init.uniform_(p, -bound, bound)


class XavierNormal:
    def __call__(self, p: Any) -> None:
        init.normal_(p, 0.0, math.sqrt(2 / sum(init.fans(p))))


class Assign:
    """The values of an array."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def __call__(self, p: Any) -> None:
        p._replace(as_value(self.value, p.dtype), p._edge)
