"""Makers of tensors with Paddle's defaults: float32 for Python floats, no gradient unless asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compat.paddle.tensor import Tensor
from symgrad.tensor import common
from symgrad.tensor.base import BaseTensor
from symgrad.tensor.native import several_sizes
from symgrad.tensor.random import generator
from symgrad.tensor.random import seed as seed

_default = [np.dtype(np.float32)]


def set_default_dtype(dtype: Any) -> None:
    """The dtype of new tensors of Python floats."""
    if np.dtype(dtype).kind != "f":
        raise TypeError(f"the default dtype is a floating one, got {dtype}")
    _default[0] = np.dtype(dtype)


def get_default_dtype() -> str:
    return _default[0].name


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A leaf with a copy of ``data``."""
    array = np.asarray(data)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic | BaseTensor):
        dtype = _default[0]
    new: Tensor = common.made(Tensor, array if dtype is None else array.astype(dtype))
    new.stop_gradient = stop_gradient
    return new


def _made(array: Any, dtype: Any) -> Tensor:
    return to_tensor(np.asarray(array, _default[0] if dtype is None else dtype))


def _shape(shape: Any) -> tuple[int, ...]:
    return several_sizes((shape,))


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(np.zeros(_shape(shape)), dtype)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(np.ones(_shape(shape)), dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(np.full(_shape(shape), fill_value), dtype)


empty = zeros


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(np.eye(num_rows, num_columns), dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    array = np.arange(start) if end is None else np.arange(start, end, step)
    return _made(array, array.dtype if dtype is None and array.dtype.kind != "f" else dtype)


def linspace(start: Any, stop: Any, num: int, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(np.linspace(start, stop, num), dtype)


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(generator().random(_shape(shape)), dtype)


def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return _made(generator().standard_normal(_shape(shape)), dtype)


def uniform(shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:
    return _made(generator().uniform(min, max, _shape(shape)), dtype)


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Tensor:
    size = None if shape is None else _shape(shape)
    return _made(generator().normal(np.asarray(mean), np.asarray(std), size), None)


def randint(low: int = 0, high: Any = None, shape: Any = (1,), dtype: Any = None, name: str | None = None) -> Tensor:
    """Integers from ``low`` below ``high``; with one bound, from 0 below it."""
    low, high = (0, low) if high is None else (low, high)
    return _made(generator().integers(low, high, _shape(shape)), dtype or np.int64)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Tensor:
    return _made(generator().permutation(n), dtype)


def bernoulli(x: Any, name: str | None = None) -> Tensor:
    p = np.asarray(x)
    return _made(generator().random(p.shape) < p, p.dtype)


def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return zeros(x._dims, dtype or x.dtype)


def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return ones(x._dims, dtype or x.dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return full(x._dims, fill_value, dtype or x.dtype)
