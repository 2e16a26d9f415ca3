"""Makers of tensors with PyTorch's defaults: float32 for Python floats, int64 for ints."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compat.torch.tensor import Tensor, on_processor
from symgrad.tensor import common
from symgrad.tensor.base import BaseTensor
from symgrad.tensor.native import several_sizes
from symgrad.tensor.random import generator, seed

_default = [np.dtype(np.float32)]


def set_default_dtype(dtype: Any) -> None:
    """The dtype of new tensors of Python floats."""
    if np.dtype(dtype).kind != "f":
        raise TypeError(f"the default dtype is a floating one, got {dtype}")
    _default[0] = np.dtype(dtype)


def get_default_dtype() -> np.dtype[Any]:
    return _default[0]


def _array(data: Any, dtype: Any) -> Any:
    if isinstance(data, BaseTensor):
        array = np.asarray(data)
    elif isinstance(data, list | tuple) and _contains_tensors(data):
        array = np.asarray(_plain(data))
    else:
        array = np.asarray(data)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic | BaseTensor):
        dtype = _default[0]
    return array if dtype is None else array.astype(dtype)


def _contains_tensors(data: Any) -> bool:
    return any(isinstance(x, BaseTensor) or (isinstance(x, list | tuple) and _contains_tensors(x)) for x in data)


def _plain(data: Any) -> Any:
    return [_plain(x) if isinstance(x, list | tuple) else np.asarray(x) for x in data]


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A leaf with a copy of ``data``."""
    on_processor(device)
    new: Tensor = common.made(Tensor, _array(data, dtype))
    if requires_grad and new.dtype.kind != "f":
        raise RuntimeError("only tensors of floating-point dtype can require gradients")
    return new.requires_grad_(requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The tensor itself where it is one of this dtype, else a copy."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.type(dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: Any) -> Tensor:
    """A copy: unlike PyTorch's, it shares no memory."""
    return tensor(array)


def from_dlpack(other: Any) -> Tensor:
    return common.from_dlpack(Tensor, other)  # type: ignore[no-any-return]  # of that class


def _made(array: Any, dtype: Any, requires_grad: bool, device: Any = None) -> Tensor:
    on_processor(device)
    return tensor(np.asarray(array, _default[0] if dtype is None else dtype), requires_grad=requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(np.zeros(several_sizes(size)), dtype, requires_grad, device)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(np.ones(several_sizes(size)), dtype, requires_grad, device)


empty = zeros


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    array = np.full(several_sizes((size,)), fill_value)
    wanted = array.dtype if dtype is None and array.dtype.kind != "f" else dtype
    return _made(array, wanted, requires_grad, device)


def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(np.eye(n, m), dtype, requires_grad)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    array = np.arange(start) if end is None else np.arange(start, end, step)
    return _made(array, array.dtype if dtype is None and array.dtype.kind != "f" else dtype, requires_grad)


def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(np.linspace(start, end, steps), dtype, requires_grad)


def rand(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(generator().random(several_sizes(size)), dtype, requires_grad, device)


def randn(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(generator().standard_normal(several_sizes(size)), dtype, requires_grad, device)


def randint(low: int, high: Any = None, size: Any = None, *, dtype: Any = np.int64) -> Tensor:
    """Integers from ``low`` (0 when it is left out) below ``high``."""
    if size is None:
        low, high, size = 0, low, high
    return _made(generator().integers(low, high, several_sizes((size,))), dtype, False)


def randperm(n: int) -> Tensor:
    return _made(generator().permutation(n), np.int64, False)


def normal(mean: Any, std: Any, size: Any = None) -> Tensor:
    shape = None if size is None else several_sizes((size,))
    return _made(generator().normal(np.asarray(mean), np.asarray(std), shape), None, False)


def bernoulli(p: Any) -> Tensor:
    p = np.asarray(p)
    return _made(generator().random(p.shape) < p, p.dtype, False)


def zeros_like(x: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return zeros(x._dims, dtype=dtype or x.dtype, requires_grad=requires_grad)


def ones_like(x: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return ones(x._dims, dtype=dtype or x.dtype, requires_grad=requires_grad)


empty_like = zeros_like


def full_like(x: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return full(x._dims, fill_value, dtype=dtype or x.dtype, requires_grad=requires_grad)


def rand_like(x: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return rand(x._dims, dtype=dtype or x.dtype, requires_grad=requires_grad)


def randn_like(x: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return randn(x._dims, dtype=dtype or x.dtype, requires_grad=requires_grad)


def manual_seed(number: int) -> None:
    """Begin a sequence of random numbers that is the same each time (not PyTorch's own)."""
    seed(number)
