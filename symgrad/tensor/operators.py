"""Python's operators and NumPy's protocols on tensors, entered into the tensor's class.

Python numbers are inputs of the program, so that changing one compiles nothing; exponents are part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.cell import is_operand, spelled
from symgrad.frontend.functions import REPLACEMENTS
from symgrad.frontend.tracing import FUNCTIONS, REDUCTIONS
from symgrad.ir.types import f32, f64
from symgrad.tensor.base import BaseTensor, _cast, apply, apply_simple, call
from symgrad.tensor.operations import SLOT, bound

Function = Callable[..., Any]
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def named_operator(name: str, operands: int) -> Function:
    """Python's operator of a ufunc's name, on traced values."""
    return bound(FUNCTIONS["operator"], (name, *(SLOT,) * operands), {})


_OPERATORS = {name: named_operator(name, 2) for name in BINARY.values()}
_OPERATORS |= {name: named_operator(name, 1) for name in UNARY.values()}
_TO_FLOAT32 = bound(_cast, (SLOT, f32), {})


def binary(name: str, x: Any, y: Any) -> BaseTensor:
    """An operator on two operands, at least one of them a tensor."""
    if isinstance(x, np.generic) and y._narrow:
        x = x.item()
    if isinstance(y, np.generic) and x._narrow:
        y = y.item()
    if name == "power" and type(y) in (int, float):
        out = apply(bound(FUNCTIONS["operator"], (name, SLOT, y), {}), (x,))[0]
    else:
        out = apply(_OPERATORS[name], (x, y))[0]
    return narrowed(out, x, y) if out._narrow and out._value.node.type.dtype is f64 else out


def narrowed(out: BaseTensor, *operands: Any) -> BaseTensor:
    """As float32 what is float64 only because integers met a Python number or were divided."""
    if any(getattr(x, "dtype", None) == np.float64 for x in operands if not isinstance(x, np.generic)):
        return out
    return apply(_TO_FLOAT32, (out,))[0]


def _operand(x: Any) -> bool:
    return type(x) is float or isinstance(x, BaseTensor) or is_operand(x)


def _forward(name: str) -> Callable[[BaseTensor, Any], Any]:
    function = _OPERATORS[name]
    with_numbers = name != "power"

    def method(self: BaseTensor, other: Any) -> Any:
        if (type(other) is float and with_numbers) or isinstance(other, BaseTensor):  # the common case, written out
            out = apply_simple(function, self, other)
            return narrowed(out, self, other) if out._narrow and out._value.node.type.dtype is f64 else out
        return binary(name, self, other) if _operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[BaseTensor, Any], Any]:
    def method(self: BaseTensor, other: Any) -> Any:
        return binary(name, other, self) if _operand(other) else NotImplemented

    return method


def in_place(name: str) -> Callable[[BaseTensor, Any], Any]:
    """An operator that changes its first operand."""

    def method(self: BaseTensor, other: Any) -> Any:
        return self._update(binary(name, self, other)) if _operand(other) else NotImplemented

    return method


def _unary(name: str) -> Callable[[BaseTensor], Any]:
    function = _OPERATORS[name]

    def method(self: BaseTensor) -> Any:
        return apply_simple(function, self)

    return method


def array_ufunc(self: BaseTensor, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
    """NumPy's hook for ufuncs."""
    if method == "reduce":
        function = FUNCTIONS.get(REDUCTIONS.get(ufunc))
        keywords = {"axis": 0, **keywords}
    else:
        function = FUNCTIONS.get(ufunc) if method == "__call__" else None
    if function is None or out is not None:
        what = "out=" if out is not None else "" if method == "__call__" else f".{method}"
        raise UnsupportedError(f"{spelled(ufunc)} {what} is not supported on tensors".replace("  ", " "))
    if ufunc.__name__ in _OPERATORS and not keywords:
        if len(inputs) == 2:
            return binary(ufunc.__name__, *inputs)
        return apply_simple(_OPERATORS[ufunc.__name__], *inputs)
    if len(inputs) == 1 and not keywords and method == "__call__":
        return apply_simple(function, *inputs)
    return call(function, inputs, keywords, type(self))


def array_function(self: BaseTensor, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """NumPy's hook for its other functions."""
    if function in (np.shape, np.ndim, np.size):
        return function(np.empty(args[0].shape), *args[1:], **keywords)
    known = FUNCTIONS.get(function) or REPLACEMENTS.get(function)
    if known is None:
        raise UnsupportedError(f"{spelled(function)} is not supported on tensors")
    return call(known, args, keywords, type(self))


def _enter() -> None:
    for short, name in BINARY.items():
        setattr(BaseTensor, f"__{short}__", _forward(name))
        if short not in COMPARISONS:
            setattr(BaseTensor, f"__r{short}__", _reflected(name))
            setattr(BaseTensor, f"__i{short}__", in_place(name))
    for short, name in UNARY.items():
        setattr(BaseTensor, f"__{short}__", _unary(name))
    BaseTensor.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]  # it calls what needs the class
    BaseTensor.__array_function__ = array_function  # type: ignore[attr-defined]  # as above


_enter()
