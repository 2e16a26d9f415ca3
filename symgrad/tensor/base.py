"""The tensor: a cell that holds a value and the edge to what it was computed from; in-place operations replace both.

A view reads from its base again when that has changed, and writes through to it. What all dialects share is here:
reading values, recording operations, gradients and hooks. Operators are in ``operators``, which fills in this class.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from symgrad.errors import DTypeError, TraceError
from symgrad.frontend.lines import located
from symgrad.frontend.tracer import is_traced
from symgrad.frontend.tracing import tracing
from symgrad.ir.types import dtype_of
from symgrad.tensor.modes import MODE
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.program import MADE_IN_TRACE, array_of, record
from symgrad.tensor.tape import Cotangent, Edge, Leaf, Step, recorded
from symgrad.tensor.values import Value, number

Function = Callable[..., Any]
_handles = itertools.count()


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """How a view reads from its base, and changes it. ``write`` is None for a view without gradient (``detach``)."""

    base: BaseTensor
    root: BaseTensor
    read: Function
    write: Function | None


class RemovableHandle:
    """Takes a hook away again."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> bool:
        """Whether the hook was still there."""
        return self._hooks.pop(self._key, None) is not None


class BaseTensor:
    """An array that records what is done to it. Its dialects say what is the custom where systems differ."""

    __slots__ = ("__weakref__", "_edge", "_grad", "_parameter", "_seen", "_value", "_version", "_view", "name")
    __array_priority__ = 2000.0
    _leaf_error: ClassVar[type[Exception]] = RuntimeError  # for in-place operations on leaves that require grad
    _narrow: ClassVar[bool] = False  # whether integers become float32, and NumPy's numbers adapt as Python's do

    _value: Value
    _edge: Edge | None
    _grad: BaseTensor | None
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

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._dims[0]

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
        return bool((self._array() == (x._array() if isinstance(x, BaseTensor) else x)).any())

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

    # --- gradients ---

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back to it."""
        self._value_now()
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._require(wanted)

    def _require(self, wanted: bool) -> None:
        if not self.is_leaf:
            if not wanted:
                raise RuntimeError("only the flag of a leaf can be changed; detach() gives a tensor without gradient")
            return
        if wanted and self.dtype.kind != "f":
            raise RuntimeError(f"only floating-point tensors can require gradients, this one has dtype {self.dtype}")
        if wanted != (self._edge is not None):
            self._edge = Edge(Leaf(self), 0) if wanted else None

    @property
    def stop_gradient(self) -> bool:
        """The opposite of ``requires_grad``."""
        return not self.requires_grad

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._require(not stop)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self._require(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user rather than by recorded operations."""
        self._value_now()
        return self._edge is None or isinstance(self._edge.record, Leaf)

    @property
    def grad_fn(self) -> Step | None:
        """The operation that made it; None for a leaf."""
        return None if self.is_leaf or self._edge is None else self._edge.record

    @property
    def grad(self) -> Any:
        """The gradient collected so far, None if there is none."""
        return self._grad

    @grad.setter
    def grad(self, new: Any) -> None:
        if new is not None and not isinstance(new, BaseTensor):
            raise TypeError(f"a gradient is a tensor or None, got {type(new).__name__}")
        if new is not None and new._dims != self._dims:
            raise RuntimeError(f"the gradient of a tensor of shape {self._dims} has that shape, got {new._dims}")
        self._grad = new

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

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook`` with the whole gradient on its way back; what it returns, unless None, goes on instead."""
        self._value_now()
        if self._edge is None:
            raise RuntimeError("cannot register a hook on a tensor that does not require grad")
        step, index = self._edge
        step.hooks = step.hooks if step.hooks is not None else {}
        hooks = step.hooks.setdefault(index, {})
        hooks[key := next(_handles)] = hook
        return RemovableHandle(hooks, key)

    def retain_grad(self) -> None:
        """Keep the gradient in ``grad`` although this is no leaf."""
        self._value_now()
        if self._edge is None:
            raise RuntimeError("cannot retain the gradient of a tensor that does not require grad")
        step, index = self._edge
        if not isinstance(step, Leaf):
            step.kept = step.kept if step.kept is not None else {}
            step.kept[index] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        if self._edge is None or isinstance(self._edge.record, Leaf):
            return False
        kept = (self._edge.record.kept or {}).get(self._edge.index)
        return kept is not None and kept() is self

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


__all__ = ["SLOT", "BaseTensor", "Cotangent", "RemovableHandle", "View", "apply", "as_value", "call", "restored"]
