"""Paddle's functions of tensors: each is the method of its name, or one of those that take several tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compat.paddle.tensor import FUNCTIONS, Tensor, by_axis
from symgrad.tensor import common
from symgrad.tensor.methods import BINARY, UNARY
from symgrad.tensor.operators import binary


def _unary(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(x: Any, name: str | None = None) -> Any:
        return method(x)

    function.__name__ = name
    return function


def _binary(short: str) -> Callable[..., Any]:
    ufunc = BINARY[short]

    def function(x: Any, y: Any, name: str | None = None) -> Any:
        return binary(ufunc, x, y)

    function.__name__ = short
    return function


def reshape(x: Any, shape: Any, name: str | None = None) -> Any:
    return common.reshape(x, shape)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of tensors."""
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    total = given[0]
    for x in given[1:]:
        total = total + x
    return total


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


_OWN = {"concat": by_axis(common.cat), "stack": by_axis(common.stack), "where": common.where, "einsum": common.einsum}
_functions: dict[str, Any] = {
    **{name: _unary(name) for name in UNARY},
    **{name: _binary(name) for name in BINARY},
    **FUNCTIONS,
    **_OWN,
}
globals().update(_functions)

__all__ = sorted({*_functions, "add_n", "is_tensor", "reshape"})
