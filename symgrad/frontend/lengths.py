"""Sizes as Python sees them: an int where the length is one, else a ``TracedSize`` that behaves like an int.

Arithmetic with ints and sizes stays a size; a comparison is decided by the assumptions of the trace; ``/`` and
arithmetic with floats and traced values makes a traced number. Where Python needs the int itself, the length is pinned.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import TraceError
from symgrad.frontend.lines import located
from symgrad.frontend.tracing import FUNCTIONS, call, constant_value, current_trace
from symgrad.ir.node import SIZE, Node
from symgrad.ir.sizes import current
from symgrad.ir.types import Dim, Size


def make_size(size: Size) -> Any:
    """What a size is in Python."""
    size = current().canonical(size)
    return TracedSize(size) if isinstance(size, Dim) else size


def _plain(x: Any) -> Size | None:
    """The size that a Python or NumPy integer or a TracedSize is, else None."""
    if type(x) is TracedSize:
        return current().canonical(x.size)
    return int(x) if type(x) in (int, bool) or (isinstance(x, np.integer) and type(x).__module__ == "numpy") else None


def size_of(x: Any) -> Size:
    """A length, axis or position as an ir size; a traced number that is none is pinned."""
    plain = _plain(x)
    if plain is not None:
        return plain
    node = getattr(x, "node", None)
    if isinstance(node, Node):
        return size_of_node(node)
    if isinstance(x, np.ndarray | int | np.bool_) and np.ndim(x) == 0:
        return int(x)
    raise located(TraceError(f"an integer is wanted here, not {type(x).__name__}"))


def size_of_node(node: Node) -> Size:
    if node.op is SIZE:
        return current().canonical(node.attr("size"))
    if node.shape or node.dtype.kind not in "iub":
        raise located(TraceError(f"an integer is wanted here, not a traced {node.type}"))
    constant = constant_value(node)
    return int(constant if constant is not None else current_trace().pin(node))


class TracedSize:
    """A length that is a symbol, in the role of a Python int."""

    __slots__ = ("size",)
    __array_priority__ = 1001.0

    def __init__(self, size: Dim) -> None:
        self.size = size

    @property  # type: ignore[misc]  # so that isinstance(n, int) holds
    def __class__(self) -> type:
        return int

    def pin(self) -> int:
        """The number itself, which the trace then holds for only."""
        return current().pin(self.size)

    def _arithmetic(self, name: str, other: Any, swapped: bool = False) -> Any:
        """A size where both are sizes, a traced number otherwise."""
        b = _plain(other)
        if b is None or name == "true_divide":
            pair = (other, self) if swapped else (self, other)
            return (
                NotImplemented if other is None or isinstance(other, str) else call(FUNCTIONS["operator"], name, *pair)
            )
        a = current().canonical(self.size)
        return make_size(_size_arithmetic(name, *((b, a) if swapped else (a, b))))

    def __add__(self, other: Any) -> Any:
        return self._arithmetic("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._arithmetic("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._arithmetic("subtract", other)

    def __rsub__(self, other: Any) -> Any:
        return self._arithmetic("subtract", other, True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, list | tuple):
            return other * self.pin()
        return self._arithmetic("multiply", other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._arithmetic("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._arithmetic("floor_divide", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._arithmetic("remainder", other)

    def __rmod__(self, other: Any) -> Any:
        return self._arithmetic("remainder", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._arithmetic("true_divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._arithmetic("true_divide", other, True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other >= 0:
            out: Size = 1
            for _ in range(other):
                out = out * self.size
            return make_size(out)
        return call(FUNCTIONS["operator"], "power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return call(FUNCTIONS["operator"], "power", other, self)

    def __neg__(self) -> Any:
        return make_size(-self.size)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if current().le(0, self.size) else -self

    def __round__(self, ndigits: Any = None) -> Any:
        return self

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __eq__(self, other: Any) -> Any:
        b = _plain(other)
        if b is not None:
            return current().same(self.size, b)
        if type(other) is float:
            return other.is_integer() and current().same(self.size, int(other))
        return self._arithmetic("equal", other)

    def __ne__(self, other: Any) -> Any:
        same = self.__eq__(other)
        if same is NotImplemented or isinstance(same, bool):
            return same if same is NotImplemented else not same
        return self._arithmetic("not_equal", other)

    def __le__(self, other: Any) -> Any:
        b = _bound(other, math.floor)
        return self._arithmetic("less_equal", other) if b is None else current().le(self.size, b)

    def __lt__(self, other: Any) -> Any:
        b = _bound(other, math.ceil)
        return self._arithmetic("less", other) if b is None else current().le(self.size + 1, b)

    def __ge__(self, other: Any) -> Any:
        b = _bound(other, math.ceil)
        return self._arithmetic("greater_equal", other) if b is None else current().le(b, self.size)

    def __gt__(self, other: Any) -> Any:
        b = _bound(other, math.floor)
        return self._arithmetic("greater", other) if b is None else current().le(b + 1, self.size)

    def __bool__(self) -> bool:
        return not current().same(self.size, 0)

    def __index__(self) -> int:
        return self.pin()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.pin())

    def __hash__(self) -> int:
        return hash(self.pin())

    def __and__(self, other: Any) -> Any:
        return self.pin() & other

    def __or__(self, other: Any) -> Any:
        return self.pin() | other

    def __xor__(self, other: Any) -> Any:
        return self.pin() ^ other

    def __lshift__(self, other: Any) -> Any:
        return self.pin() << other

    def __rshift__(self, other: Any) -> Any:
        return self.pin() >> other

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __rlshift__(self, other: Any) -> Any:
        return other << self.pin()

    def __rrshift__(self, other: Any) -> Any:
        return other >> self.pin()

    def __invert__(self) -> int:
        return ~self.pin()

    def bit_length(self) -> int:
        return self.pin().bit_length()

    def __str__(self) -> str:
        return str(self.pin())

    def __format__(self, spec: str) -> str:
        return format(self.pin(), spec)

    def __repr__(self) -> str:
        return f"TracedSize({self.size})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.pin(), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return FUNCTIONS["ufunc"](ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return FUNCTIONS["function"](function, args, kwargs)

    def __reduce__(self) -> Any:
        raise located(TraceError("a traced length cannot be pickled or copied out of its trace"))

    def __copy__(self) -> TracedSize:
        return self

    def __deepcopy__(self, memo: Any) -> TracedSize:
        return self


def _bound(other: Any, whole: Any) -> Size | None:
    """The integer bound that comparing an integer with ``other`` amounts to; None when ``other`` is traced."""
    if type(other) is float and math.isfinite(other):
        return int(whole(other))
    return _plain(other)


def _size_arithmetic(name: str, a: Size, b: Size) -> Size:
    if name == "add":
        return a + b
    if name == "subtract":
        return a - b
    if name == "multiply":
        return a * b
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return a // b if name == "floor_divide" else a - (a // b) * b
