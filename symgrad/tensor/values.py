"""Values of tensor programs: an array, a place in a block of small results, a Python number, or pending.

A value is immutable, so that its memory can be given to native programs by address, which is worked out once.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from symgrad.tensor.program import Segment

_EMPTY = np.zeros(64, np.uint8)  # what an empty array points to, so that a guarded read stays in memory
_numbers: dict[Any, Value] = {}
FLOATS: dict[float, Value] = {}  # those of ``number`` that are floats other than zero
_MOST_NUMBERS = 10_000


class Value:
    """A value, or the promise of one: the node that is to be computed, at a position of the pending segment.

    ``kind`` says what a program sees of it: dtype and shape, or the type of a number. ``error``: why there is no value.
    """

    __slots__ = ("address", "array", "block", "error", "kind", "node", "position", "segment")

    def __init__(self, array: Any = None, segment: Segment | None = None, position: int = 0, node: Any = None) -> None:
        self.array = array
        self.segment = segment
        self.position = position
        self.node = node
        self.address = 0
        self.block: Any = None
        self.kind: Any = None
        self.error: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether it has not been computed."""
        return self.array is None and self.block is None

    @property
    def shape(self) -> tuple[Any, ...]:
        shape: tuple[Any, ...] = self.node.type.shape if self.array is None else np.shape(self.array)
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.array is None:
            dtype: np.dtype[Any] = self.node.type.dtype.numpy
            return dtype
        return self.array.dtype if hasattr(self.array, "dtype") else np.dtype(type(self.array))

    @property
    def weak(self) -> bool:
        """Whether it is a Python number, which adapts its dtype."""
        return type(self.array) in (float, int, bool)

    def own_array(self) -> Any:
        """The array of a value that has been computed."""
        if self.array is None:
            offset = self.address - ctypes.addressof(self.block)
            self.array = np.ndarray(self.shape, self.dtype, self.block, offset).copy()
            self.block, self.address = None, 0
        return self.array

    def locate(self) -> int:
        """The address of the memory, which is contiguous from now on."""
        array = self.own_array()
        if type(array) is not np.ndarray or not array.flags.c_contiguous or not array.flags.aligned:
            array = self.array = np.require(np.asarray(array), None, ("C", "A"))
        held = array if array.size else _EMPTY
        self.address = held.__array_interface__["data"][0]
        return self.address


def number(x: float) -> Value:
    """A Python number, the same value for the same number."""
    key = (type(x), x if x else repr(x))  # 0.0 and -0.0 are two
    found = _numbers.get(key)
    if found is None:
        found = Value(x)
        c_type: Any = {float: ctypes.c_double, int: ctypes.c_int64, bool: ctypes.c_bool}[type(x)]
        if type(x) is int and not -(2**63) <= x < 2**63:
            raise OverflowError(f"the integer {x} does not fit into 64 bits")
        found.block, found.kind = c_type(x), type(x)
        found.address = ctypes.addressof(found.block)
        if len(_numbers) >= _MOST_NUMBERS:
            _numbers.clear()
            FLOATS.clear()
        _numbers[key] = found
        if type(x) is float and x:
            FLOATS[x] = found
    return found
