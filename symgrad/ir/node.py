"""Nodes: immutable, interned values of a Graph. Equal nodes are one object, so sharing costs nothing.

A node is always newer than its operands: sorting by ``serial`` is a topological order.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import SourceLine, SymgradError
from symgrad.ir.op import Leaf, Op, register
from symgrad.ir.types import DType, Shape, Size, TensorType, dtype_of, i64

Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type of a primitive with several results, read with ``get``."""

    items: tuple[TensorType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


class Node:
    """One value: a primitive applied to nodes. Made by ``make`` only."""

    __slots__ = ("__weakref__", "args", "attrs", "op", "serial", "type", "where")

    op: Op
    args: tuple[Node, ...]
    attrs: Attrs
    type: Any
    serial: int
    where: SourceLine | None

    def attr(self, name: str) -> Any:
        return next(v for k, v in self.attrs if k == name)

    @property
    def shape(self) -> Shape:
        shape: Shape = self.type.shape
        return shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        dtype: DType = self.type.dtype
        return dtype

    def __repr__(self) -> str:
        return f"%{self.serial}: {self.type} = {self.op.name}"

    def __add__(self, other: Any) -> Node:
        return ARITHMETIC["add"](self, other)

    def __radd__(self, other: Any) -> Node:
        return ARITHMETIC["add"](other, self)

    def __sub__(self, other: Any) -> Node:
        return ARITHMETIC["sub"](self, other)

    def __rsub__(self, other: Any) -> Node:
        return ARITHMETIC["sub"](other, self)

    def __mul__(self, other: Any) -> Node:
        return ARITHMETIC["mul"](self, other)

    def __rmul__(self, other: Any) -> Node:
        return ARITHMETIC["mul"](other, self)

    def __truediv__(self, other: Any) -> Node:
        return ARITHMETIC["div"](self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return ARITHMETIC["div"](other, self)

    def __neg__(self) -> Node:
        return ARITHMETIC["neg"](self)


ARITHMETIC: dict[str, Callable[..., Node]] = {}  # filled by symgrad.ops.pointwise, which lies above

_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_serial = itertools.count()
_local = threading.local()


def make(op: Op, *args: Node, **attrs: Any) -> Node:
    """The node of ``op`` applied to ``args``; errors carry the user's line when one is known."""
    pairs = tuple(sorted(attrs.items())) if attrs else ()
    key = (op, args, pairs)
    scopes: list[dict[tuple[Any, ...], Node]] | None = getattr(_local, "scopes", None)
    found = _interned.get(key) if not scopes else _found_in(scopes, key)
    if found is not None:
        return found
    locate = getattr(_local, "locate", None)
    try:
        type_ = op.infer(*(a.type for a in args), **attrs)
    except SymgradError as e:
        raise e.at(locate() if locate is not None else None) from None
    n = Node()
    n.op, n.args, n.attrs, n.type = op, args, pairs, type_
    n.serial = next(_serial)
    n.where = locate() if locate is not None else next((a.where for a in args if a.where is not None), None)
    (_interned if not scopes else scopes[-1])[key] = n
    return n


def _found_in(scopes: list[dict[tuple[Any, ...], Node]], key: tuple[Any, ...]) -> Node | None:
    found = next((scope[key] for scope in reversed(scopes) if key in scope), None)
    return _interned.get(key) if found is None else found


@contextmanager
def region_scope(table: dict[tuple[Any, ...], Node]) -> Iterator[None]:
    """Nodes made inside belong to a region: they are kept in its ``table`` and not found again outside it."""
    scopes = _local.__dict__.setdefault("scopes", [])
    scopes.append(table)
    try:
        yield
    finally:
        scopes.pop()


def innermost_region() -> dict[tuple[Any, ...], Node] | None:
    """The table of the region whose nodes are being made; None outside all."""
    scopes: list[dict[tuple[Any, ...], Node]] = getattr(_local, "scopes", [])
    return scopes[-1] if scopes else None


def fresh_serial() -> int:
    """A number that is used once in this process."""
    return next(_serial)


def set_locator(locate: Callable[[], SourceLine | None] | None) -> Callable[[], SourceLine | None] | None:
    """Install the function that finds the user's current line in this thread; returns the one before."""
    before = getattr(_local, "locate", None)
    _local.locate = locate
    return before


def _no_value(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a leaf is looked up, not computed")


PARAM = register(
    Op(
        name="param",
        doc="An argument of a Graph; ``id`` makes each one unique.",
        infer=lambda *, type, id: type,
        numpy=_no_value,
        lower=Leaf(),
        constant=True,
    )
)
CONSTANT = register(
    Op(
        name="constant",
        doc="A literal array: its bytes in row-major order, so that 0.0 and -0.0, 1 and True stay apart.",
        infer=lambda *, type, data: type,
        numpy=lambda *, type, data: np.frombuffer(data, type.dtype.numpy).reshape(type.shape),
        lower=Leaf(),
        constant=True,
    )
)
SIZE = register(
    Op(
        name="size",
        doc="A size as an i64 value.",
        infer=lambda *, size: TensorType(i64),
        numpy=lambda *, size: np.int64(size),
        lower=Leaf(),
        constant=True,
    )
)
GET = register(
    Op(
        name="get",
        doc="One result of a primitive that has several.",
        infer=lambda t, *, index: t.items[index],
        numpy=lambda t, *, index: t[index],
        lower=Leaf(),
        constant=True,
    )
)


def param(type: TensorType) -> Node:
    """A fresh parameter."""
    return make(PARAM, type=type, id=next(_serial))


def constant(value: Any, dtype: DType | None = None) -> Node:
    """A literal from anything NumPy makes an array of."""
    array = np.asarray(value, None if dtype is None else dtype.numpy)
    type_ = TensorType(dtype_of(array.dtype), array.shape)
    return make(CONSTANT, type=type_, data=np.ascontiguousarray(array, type_.dtype.numpy).tobytes())


def size_node(size: Size) -> Node:
    """A size as a value: a constant when it is a number."""
    return constant(size, i64) if isinstance(size, int) else make(SIZE, size=size)


def literal(n: Node) -> Any:
    """The NumPy array of a constant node, or None."""
    if n.op is not CONSTANT:
        return None
    return np.frombuffer(n.attr("data"), n.dtype.numpy).reshape(n.shape)


def splat(n: Node) -> float | int | bool | None:
    """The one value of a 0-d constant, seen through broadcasts and reshapes; None when there is none."""
    while n.op.name in ("broadcast", "reshape"):
        n = n.args[0]
    if n.op is not CONSTANT or n.shape:
        return None
    return literal(n).item()  # type: ignore[no-any-return]  # NumPy scalars
