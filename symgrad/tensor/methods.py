"""Methods that all dialects share, entered into the tensor's class: functions of one array, and in-place forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.frontend.functions.scipy_functions import SPECIAL
from symgrad.frontend.tracing import FUNCTIONS
from symgrad.ir.types import dtype_of
from symgrad.tensor import formulas
from symgrad.tensor.base import BaseTensor, _cast, apply, apply_simple
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.operators import binary, in_place

UNARY: dict[str, Callable[..., Any]] = {
    "exp": FUNCTIONS[np.exp],
    "exp2": FUNCTIONS[np.exp2],
    "expm1": FUNCTIONS[np.expm1],
    "log": FUNCTIONS[np.log],
    "log2": FUNCTIONS[np.log2],
    "log10": FUNCTIONS[np.log10],
    "log1p": FUNCTIONS[np.log1p],
    "sqrt": FUNCTIONS[np.sqrt],
    "square": FUNCTIONS[np.square],
    "reciprocal": FUNCTIONS[np.reciprocal],
    "abs": FUNCTIONS[np.absolute],
    "neg": FUNCTIONS[np.negative],
    "sign": FUNCTIONS[np.sign],
    "floor": FUNCTIONS[np.floor],
    "ceil": FUNCTIONS[np.ceil],
    "trunc": FUNCTIONS[np.trunc],
    "sin": FUNCTIONS[np.sin],
    "cos": FUNCTIONS[np.cos],
    "tan": FUNCTIONS[np.tan],
    "asin": FUNCTIONS[np.arcsin],
    "acos": FUNCTIONS[np.arccos],
    "atan": FUNCTIONS[np.arctan],
    "sinh": FUNCTIONS[np.sinh],
    "cosh": FUNCTIONS[np.cosh],
    "tanh": FUNCTIONS[np.tanh],
    "asinh": FUNCTIONS[np.arcsinh],
    "acosh": FUNCTIONS[np.arccosh],
    "atanh": FUNCTIONS[np.arctanh],
    "isnan": FUNCTIONS[np.isnan],
    "isinf": FUNCTIONS[np.isinf],
    "isfinite": FUNCTIONS[np.isfinite],
    "erf": SPECIAL["erf"],
    "sigmoid": formulas.sigmoid,
    "relu": formulas.relu,
    "rsqrt": formulas.rsqrt,
}
BINARY = {
    "add": "add",
    "sub": "subtract",
    "subtract": "subtract",
    "mul": "multiply",
    "multiply": "multiply",
    "div": "true_divide",
    "divide": "true_divide",
    "true_divide": "true_divide",
    "floor_divide": "floor_divide",
    "remainder": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "eq": "equal",
    "equal": "equal",
    "ne": "not_equal",
    "not_equal": "not_equal",
    "lt": "less",
    "less_than": "less",
    "le": "less_equal",
    "gt": "greater",
    "greater_than": "greater",
    "ge": "greater_equal",
    "logical_and": "bitwise_and",
    "logical_or": "bitwise_or",
}
IN_PLACE = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "pow", "remainder", "floor_divide")


def _unary(name: str) -> Callable[[BaseTensor], BaseTensor]:
    function = UNARY[name]

    def method(self: BaseTensor) -> BaseTensor:
        return apply_simple(function, self)

    method.__name__ = name
    return method


def _unary_in_place(name: str) -> Callable[[BaseTensor], BaseTensor]:
    function = UNARY[name]

    def method(self: BaseTensor) -> BaseTensor:
        return self._update(apply_simple(function, self))

    method.__name__ = f"{name}_"
    return method


def _binary(name: str) -> Callable[..., BaseTensor]:
    ufunc = BINARY[name]

    def method(self: BaseTensor, other: Any) -> BaseTensor:
        return binary(ufunc, self, other)

    method.__name__ = name
    return method


def zero_(self: BaseTensor) -> BaseTensor:
    """Set all elements to zero in place."""
    return fill_(self, 0)


def fill_(self: BaseTensor, value: Any) -> BaseTensor:
    """Set all elements to one value in place."""
    return self._update(apply(_filled, (self, value))[0])


def copy_(self: BaseTensor, other: Any) -> BaseTensor:
    """Take the elements of another tensor, which may broadcast, in place."""
    return self._update(apply(_filled, (self, other))[0])


def clamp_(self: BaseTensor, min: Any = None, max: Any = None) -> BaseTensor:
    return self._update(clamp(self, min, max))


def clamp(self: BaseTensor, min: Any = None, max: Any = None) -> BaseTensor:
    """The elements held within bounds."""
    bounds = [b for b in (min, max) if b is not None]
    slots = tuple(None if b is None else SLOT for b in (min, max))
    return apply(bound(FUNCTIONS[np.clip], (SLOT, *slots), {}), (self, *bounds))[0]


def addcmul_(self: BaseTensor, x: Any, y: Any, *, value: float = 1.0) -> BaseTensor:
    return self._update(self + x * y * value)


def addcdiv_(self: BaseTensor, x: Any, y: Any, *, value: float = 1.0) -> BaseTensor:
    return self._update(self + x / y * value)


def astype(self: BaseTensor, dtype: Any) -> BaseTensor:
    """The elements as another dtype; the tensor itself when it has that dtype."""
    to = dtype_of(dtype)
    return self if to.numpy == self.dtype else apply(bound(_cast, (SLOT, to), {}), (self,))[0]


def _filled(x: Any, value: Any) -> Any:
    out = x.copy()
    out[...] = value
    return out


def _enter() -> None:
    for name in UNARY:
        setattr(BaseTensor, name, _unary(name))
        setattr(BaseTensor, f"{name}_", _unary_in_place(name))
    for name in BINARY:
        setattr(BaseTensor, name, _binary(name))
    for name in IN_PLACE:
        setattr(BaseTensor, f"{name}_", in_place(BINARY[name]))
    for function in (zero_, fill_, copy_, clamp, clamp_, addcmul_, addcdiv_, astype):
        setattr(BaseTensor, function.__name__, function)


_enter()
