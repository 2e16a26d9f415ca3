"""What a tensor tells of itself: its type, its elements as Python's and NumPy's, its text, its pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from symgrad.tensor.cell import Cell
from symgrad.tensor.gradients import Differentiable
from symgrad.tensor.tape import Leaf
from symgrad.tensor.values import Value

if TYPE_CHECKING:
    from symgrad.tensor.base import BaseTensor


class Readable(Differentiable):
    """The part of the tensor that reads values, which runs what is pending."""

    __slots__ = ()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._dims[0]

    # --- reading ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = np.asarray(self._array())
        if copy or (dtype is not None and array.dtype != dtype):
            return np.array(array, dtype)
        shared = array.view()
        shared.flags.writeable = False
        return shared

    def item(self) -> Any:
        """The one element as a Python number."""
        array = self._array()
        if array.size != 1:
            raise ValueError(f"only a tensor of one element is a Python number; this one has shape {array.shape}")
        return array.item()

    def tolist(self) -> Any:
        return self._array().tolist()

    def __bool__(self) -> bool:
        if self._array().size != 1:
            raise RuntimeError("the truth of a tensor with more than one element is ambiguous: use all() or any()")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError("only an integer tensor of one element is an index")
        return int(self.item())

    def __contains__(self, x: Any) -> bool:
        return bool((self._array() == (x._array() if isinstance(x, Cell) else x)).any())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.ndim else str(self)

    def __repr__(self) -> str:
        body = np.array2string(np.asarray(self._array()), separator=", ", prefix="tensor(")
        flags = [f"dtype={self.dtype}"] if self.dtype not in (np.float64, np.int64, np.bool_) else []
        if self._edge is not None:
            leaf = isinstance(self._edge.record, Leaf)
            flags.append("requires_grad=True" if leaf else f"grad_fn={self._edge.record!r}")
        return f"tensor({', '.join([body, *flags])})"

    def __hash__(self) -> int:
        return id(self)

    # --- copying ---

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if not self.is_leaf:
            raise RuntimeError("only leaves can be deep-copied; detach() the tensor first")
        new = type(self)._make(Value(np.array(self._array())))
        new._require(self.requires_grad)
        new._parameter = self._parameter
        new._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        memo[id(self)] = new
        return new

    def __reduce__(self) -> Any:
        return restored, (type(self), np.array(self._array()), self.is_leaf and self.requires_grad, self._parameter)

    def __dlpack__(self, **keywords: Any) -> Any:
        if self.requires_grad:
            raise BufferError("a tensor that requires grad is not exported: detach() it first")
        return np.array(self._array()).__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # memory of the processor


def restored(cls: type[BaseTensor], array: Any, requires_grad: bool, parameter: bool) -> BaseTensor:
    """A tensor from its pickle."""
    new = cls._make(Value(array))
    new._parameter = parameter
    new._require(requires_grad)
    return new
