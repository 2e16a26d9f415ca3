"""Paddle's tensor: axes, flags and conventions as its programs expect them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, final

import numpy as np

from symgrad.tensor import common
from symgrad.tensor.base import RemovableHandle, as_value
from symgrad.tensor.native import Shaped
from symgrad.tensor.nn import functional as F
from symgrad.tensor.nn.module import clear

float32, float64 = np.dtype("float32"), np.dtype("float64")
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, bool_ = np.dtype("uint8"), np.dtype("bool")


def by_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of dims with Paddle's keywords: ``axis``, and a ``name`` that does nothing."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, name: str | None = None, **keywords: Any) -> Any:
        if "axis" in keywords:
            keywords["dim"] = keywords.pop("axis")
        return function(x, *args, **keywords)

    return call


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The sum along axes, of all elements by default."""
    return common.sum(x, axis, keepdim, dtype)


def prod(x: Any, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> Any:
    return common.prod(x, axis, keepdim, dtype)


def _reduction(all_of: Callable[..., Any]) -> Callable[..., Any]:
    def method(x: Any, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
        return all_of(x, axis, keepdim)

    return method


mean, max, min = map(_reduction, (common.mean, common.amax, common.amin))


def norm(x: Any, p: Any = None, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The norm of the elements as one vector, or along axes."""
    return common.norm(x, 2 if p is None else p, axis, keepdim)


def cast(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


def clip(x: Any, min: Any = None, max: Any = None, name: str | None = None) -> Any:
    return x.clamp(min, max)


@final
class Tensor(Shaped):
    """An array that records what is done to it, with Paddle's methods; gradients stop unless asked for."""

    __slots__ = ()
    _narrow = True
    _leaf_error = ValueError

    def __init__(self, data: Any = ()) -> None:
        self._value = as_value(data, np.float32)
        self._edge = self._grad = self._view = None
        self._version, self._parameter = 0, False

    @property
    def shape(self) -> list[int]:
        return list(self._dims)

    @property
    def size(self) -> int:
        return common.numel(self)

    def dim(self) -> int:
        return self.ndim

    def numpy(self) -> Any:
        """The values as a NumPy array of its own."""
        return np.array(self._array())

    def backward(self, grad_tensor: Any = None, retain_graph: bool = False) -> None:
        """Add gradients to the leaves; the seed is ones unless given."""
        from symgrad.compat.paddle.autograd import backward  # it needs this class

        backward([self], [grad_tensor], retain_graph)

    def gradient(self) -> Any:
        """The gradient as a NumPy array."""
        return None if self._grad is None else np.array(self._grad)

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Set the gradient to zero, or forget it."""
        clear(self, not set_to_zero)

    def clear_grad(self) -> None:
        clear(self, False)

    def retain_grads(self) -> None:
        self.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        return super().register_hook(hook)

    def cpu(self) -> Self:
        return self

    @property
    def place(self) -> str:
        return "Place(cpu)"

    def set_value(self, value: Any) -> None:
        """Take the values of an array or tensor in place."""
        new = as_value(value, self.dtype)
        if tuple(new.shape) != self._dims:
            raise ValueError(f"set_value: the tensor has shape {self._dims}, got {tuple(new.shape)}")
        self._replace(new, self._edge)

    def exponential_(self, lam: float = 1.0) -> Self:
        from symgrad.tensor.random import generator

        return self._update(common.made(Tensor, generator().exponential(1 / lam, self._dims).astype(self.dtype)))


def transpose(x: Any, perm: Any, name: str | None = None) -> Any:
    """The axes in another order."""
    return common.permute(x, perm)


SAME = (
    "allclose", "bmm", "chunk", "diag", "dot", "expand", "gather", "index_select", "matmul", "maximum", "minimum", "mm",
    "mv", "numel", "outer", "split", "t", "tile", "tril", "triu", "unbind",
)  # fmt: skip
BY_AXIS = (
    "all", "any", "argmax", "argmin", "argsort", "cumprod", "cumsum", "logsumexp", "masked_fill", "squeeze", "std",
    "unsqueeze", "var",
)  # fmt: skip
OWN: dict[str, Callable[..., Any]] = {
    "sum": sum, "prod": prod, "mean": mean, "max": max, "min": min, "norm": norm, "cast": cast, "clip": clip,
    "transpose": transpose, "amax": max, "amin": min,
    "flatten": lambda x, start_axis=0, stop_axis=-1, name=None: common.flatten(x, start_axis, stop_axis),
    "sort": lambda x, axis=-1, descending=False, name=None: common.sort(x, axis, descending)[0],
    "softmax": lambda x, axis=-1, name=None: F.softmax(x, axis=axis),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(common, name) for name in SAME},
    **{name: by_axis(getattr(common, name)) for name in BY_AXIS},
    **OWN,
}
for _name, _function in FUNCTIONS.items():
    setattr(Tensor, _name, _function)
