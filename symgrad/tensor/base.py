"""The tensor: a cell that holds a value and the edge to what it was computed from; in-place operations replace both.

A view reads from its base again when that has changed, and writes through to it. What all dialects share is here:
reading values, recording operations, gradients and hooks. Operators are in ``operators``, which fills in this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from symgrad.errors import DTypeError, TraceError
from symgrad.frontend.lines import located
from symgrad.frontend.tracer import is_traced
from symgrad.frontend.tracing import tracing
from symgrad.ir.types import dtype_of
from symgrad.tensor.gradients import RemovableHandle
from symgrad.tensor.modes import MODE
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.program import MADE_IN_TRACE, array_of, record, record_simple
from symgrad.tensor.reading import Readable
from symgrad.tensor.tape import Cotangent, Edge, Leaf, Record, recorded
from symgrad.tensor.values import FLOATS, Value, number

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """How a view reads from its base, and changes it. ``write`` is None for a view without gradient (``detach``)."""

    base: BaseTensor
    root: BaseTensor
    read: Function
    write: Function | None


class BaseTensor(Readable):
    """An array that records what is done to it. Its dialects say what is the custom where systems differ."""

    __slots__ = ()

    # --- recording ---

    def _value_now(self) -> Value:
        if self._view is not None and self._seen != self._view.root._version:
            view = self._view
            self._seen = view.root._version
            (out,) = apply(view.read, (view.base,))
            self._value, self._edge = out._value, None if view.write is None else out._edge
        return self._value

    def _replace(self, value: Value, edge: Edge | None) -> None:
        """Set value and edge, and those of the base of a view."""
        view = self._view
        if view is None:
            self._version += 1
        elif view.write is None:
            view.base._replace(value, view.base._edge)
        else:
            (new,) = apply(view.write, (view.base, type(self)._make(value, edge)))
            view.base._replace(new._value, new._edge if MODE.enabled else view.base._edge)
        self._value, self._edge = value, edge
        if view is not None:
            self._seen = view.root._version

    def _update(self, new: BaseTensor) -> Self:
        """Take another's value in place; the gradient follows when recording is on."""
        if MODE.enabled:
            self._check_in_place()
        value = new._value_now()
        if tuple(value.shape) != self._dims:
            raise RuntimeError(f"an in-place operation cannot change the shape {self._dims} to {tuple(value.shape)}")
        if value.dtype != self.dtype:
            (new,) = apply(bound(_cast, (SLOT, dtype_of(self.dtype)), {}), (new,))
            value = new._value
        self._replace(value, new._edge if MODE.enabled else self._edge)
        return self

    def _check_in_place(self) -> None:
        target: BaseTensor = self
        while target._view is not None and target._view.write is not None:
            target = target._view.base
        if target._view is None and target._edge is not None and isinstance(target._edge.record, Leaf):
            what = "a leaf tensor" if target is self else "a view of a leaf tensor"
            raise self._leaf_error(f"{what} that requires grad is used in an in-place operation; do that in no_grad()")

    def _view_of(self, read: Function, write: Function | None) -> Self:
        """A tensor that shares memory with this one."""
        (out,) = apply(read, (self,))
        root = self if self._view is None else self._view.root
        out._view, out._seen = View(self, root, read, write), root._version
        return out  # type: ignore[return-value]  # apply gives the class of its operand

    def _array(self) -> Any:
        """The value, which must not be changed."""
        return array_of(self._value_now())

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Self:
        from symgrad.tensor.indexing import getitem  # it needs this class

        return getitem(self, key)  # type: ignore[return-value]  # of this class

    def __setitem__(self, key: Any, new: Any) -> None:
        from symgrad.tensor.indexing import setitem  # it needs this class

        setitem(self, key, new)

    def detach(self) -> Self:
        """The same memory without the gradient's history."""
        out = self._view_of(_same, None)
        out._edge = None
        return out

    def detach_(self) -> Self:
        """Forget the gradient's history."""
        self._value_now()
        self._view, self._edge = None, None
        return self

    @property
    def data(self) -> Self:
        """The same memory without the gradient's history."""
        return self.detach()

    @data.setter
    def data(self, new: BaseTensor) -> None:
        self._replace(new._value_now(), self._edge)

    def clone(self) -> Self:
        """A copy in the graph: gradients flow through."""
        return apply(_copied, (self,))[0]  # type: ignore[return-value]  # apply gives the class of its operand


def _same(x: Any) -> Any:
    return x


def _copied(x: Any) -> Any:
    return x.copy()


def _cast(x: Any, dtype: Any) -> Any:
    return x.astype(dtype.numpy)


# --- applying --------------------------------------------------------------------------------------------------------


def apply(function: Function, operands: Sequence[Any], like: type[BaseTensor] | None = None) -> list[BaseTensor]:
    """A function of traced arrays on tensors and numbers, recorded; gives tensors of the first one's class."""
    values, edges = [], []  # type: tuple[list[Value], list[Edge | None]]
    some = False
    for x in operands:
        kind = type(x)
        if kind is float or kind is int or kind is bool:
            values.append(number(x))
            edges.append(None)
        elif isinstance(x, BaseTensor):
            if like is None:
                like = kind
            values.append(x._value if x._view is None else x._value_now())
            edge = x._edge
            edges.append(edge)
            if edge is not None:
                some = True
        else:
            values.append(as_value(x))
            edges.append(None)
    assert like is not None
    results, operation = record(function, values)
    if some and MODE.enabled:
        step = recorded(operation, values, results, edges, like)
        if step is not None:
            floats = step.operation.floats
            if len(results) == 1:
                return [like._make(results[0], Edge(step, 0))]
            return [like._make(v, Edge(step, k) if floats[k] else None) for k, v in enumerate(results)]
    if len(results) == 1:
        return [like._make(results[0])]
    return [like._make(v) for v in results]


def apply_simple(function: Function, x: BaseTensor, y: Any = SLOT) -> BaseTensor:
    """``apply`` of a function that gives one array to a tensor, or to two, or to one and a float: written out."""
    if tracing():
        return apply(function, (x,) if y is SLOT else (x, y))[0]
    a = x._value if x._view is None else x._value_now()
    like, edge = type(x), x._edge
    new = object.__new__(like)
    new._grad = new._view = None
    new._version = 0
    new._parameter = False
    if y is SLOT:
        out, operation = record_simple(function, a)
        if edge is None or not MODE.enabled or not operation.floats[0]:
            new._value, new._edge = out, None
        else:
            step = Record(operation, (a, out), out, (edge,), _ONE, like)
            new._value, new._edge = out, _edge((step, 0))
        return new
    if type(y) is float:
        b, other = FLOATS.get(y) or number(y), None
    else:
        b, other = y._value if y._view is None else y._value_now(), y._edge
    out, operation = record_simple(function, a, b)
    if (edge is None and other is None) or not MODE.enabled or not operation.floats[0]:
        new._value, new._edge = out, None
        return new
    active = _BOTH if other is not None and edge is not None else _FIRST if other is None else _SECOND
    step = Record(operation, (a, b, out), out, (edge, other), active, like)
    new._value, new._edge = out, _edge((step, 0))
    return new


_ONE, _FIRST, _SECOND, _BOTH = (True,), (True, False), (False, True), (True, True)
_edge = partial(tuple.__new__, Edge)


def as_value(x: Any, dtype: Any = None) -> Value:
    """A copy of anything NumPy takes for an array."""
    if is_traced(x):
        raise located(TraceError("a tensor from outside is used in a compiled function: pass it in as an argument"))
    array = np.array(x, dtype, order="C")
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"tensors hold numbers, got {array.dtype}")
    dtype_of(array.dtype)
    made = Value(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))
    if tracing():
        made.position = MADE_IN_TRACE
    return made


def call(function: Function, args: tuple[Any, ...], keywords: dict[str, Any], like: type[BaseTensor] | None) -> Any:
    """``function`` of traced arrays on arguments among which are tensors; the rest is part of the operation."""
    operands: list[Any] = []
    fixed = bound(function, _slotted(args, operands), {k: _slotted(v, operands) for k, v in keywords.items()})
    outs = apply(fixed, operands, like)
    return outs[0] if len(outs) == 1 and not several(outs[0], fixed) else tuple(outs)


def _slotted(x: Any, operands: list[Any]) -> Any:
    """An argument with slots for its arrays, which are appended to ``operands``."""
    if isinstance(x, BaseTensor | np.ndarray):
        operands.append(x)
        return SLOT
    if type(x) in (tuple, list):
        return type(x)([_slotted(item, operands) for item in x])
    return x.item() if isinstance(x, np.generic) else x


def several(out: BaseTensor, function: Function) -> bool:
    """Whether a function gave its one result in a tuple."""
    segment = out._value.segment
    return segment is not None and segment.state.operation is not None and segment.state.operation.several


__all__ = ["SLOT", "BaseTensor", "Cotangent", "RemovableHandle", "View", "apply", "as_value", "call"]
