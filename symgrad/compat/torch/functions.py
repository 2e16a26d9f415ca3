"""PyTorch's functions of tensors: each is the method of its name, or one of those that take several tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compat.torch.tensor import METHODS, Tensor
from symgrad.tensor import common
from symgrad.tensor.methods import BINARY, UNARY
from symgrad.tensor.operators import binary

_SHARED = ("cat", "einsum", "stack", "where")
_OTHERS = ("clamp", "max", "min", "reshape", "softmax", "log_softmax", "transpose")


def _method(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(input: Any, *args: Any, **keywords: Any) -> Any:
        return method(input, *args, **keywords)

    function.__name__, function.__doc__ = name, method.__doc__
    return function


def _binary(name: str) -> Callable[[Any, Any], Any]:
    ufunc = BINARY[name]

    def function(input: Any, other: Any) -> Any:
        return binary(ufunc, input, other)

    function.__name__ = name
    return function


globals().update({name: _method(name) for name in (*UNARY, *METHODS, *_OTHERS)})
globals().update({name: _binary(name) for name in BINARY})
globals().update({name: getattr(common, name) for name in _SHARED})


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def equal(x: Any, y: Any) -> bool:
    """Whether two tensors have the same shape and elements."""
    return x._dims == y._dims and bool((x == y).all())


concat = common.cat

__all__ = sorted({*UNARY, *METHODS, *_OTHERS, *BINARY, *_SHARED, "concat", "equal", "is_tensor"})
