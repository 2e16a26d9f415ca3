"""The memory of a tensor: a value, the edge to what it was computed from, and what belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from symgrad.tensor.tape import Edge
from symgrad.tensor.values import Value

if TYPE_CHECKING:
    from symgrad.tensor.base import View


class Cell:
    """What the parts of the tensor's class share."""

    __slots__ = ("__weakref__", "_edge", "_grad", "_parameter", "_seen", "_value", "_version", "_view", "name")
    __array_priority__ = 2000.0
    _leaf_error: ClassVar[type[Exception]] = RuntimeError  # for in-place operations on leaves that require grad
    _narrow: ClassVar[bool] = False  # whether integers become float32, and NumPy's numbers adapt as Python's do

    _value: Value
    _edge: Edge | None
    _grad: Any  # a tensor of the same class, or None
    _view: View | None
    _version: int  # how often the value was replaced, of a tensor that is no view
    _seen: int  # the version of the root that a view was read from
    _parameter: bool  # whether modules count it among their parameters

    @classmethod
    def _make(cls, value: Value, edge: Edge | None = None) -> Self:
        self = object.__new__(cls)
        self._value = value
        self._edge = edge
        self._grad = self._view = None
        self._version = 0
        self._parameter = False
        return self

    def _value_now(self) -> Value:
        """The value; a view's is read again when its base has changed."""
        raise NotImplementedError

    def _array(self) -> Any:
        """The elements, which must not be changed."""
        raise NotImplementedError

    # --- type ---

    @property
    def _dims(self) -> tuple[int, ...]:
        """The lengths, in every dialect as a tuple."""
        return tuple(self._value_now().shape)

    @property
    def shape(self) -> Any:
        return self._dims

    @property
    def dtype(self) -> Any:
        return self._value_now().dtype

    @property
    def ndim(self) -> int:
        return len(self._value_now().shape)

    @property
    def itemsize(self) -> int:
        return int(self._value_now().dtype.itemsize)
