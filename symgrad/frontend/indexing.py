"""NumPy's indexing -> slices, reshapes, gathers and scatters.

A key becomes a ``Plan`` in two steps: the *part*, a rectangle of the array in which integers drop and ``None`` adds
axes, and within it index arrays or a traced mask. The same plan reads, and writes a new value into the old array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.keys import Array, Key, Mask, Span, Window, parsed, width
from symgrad.frontend.lines import located, with_line
from symgrad.frontend.masked import Masked, no_length
from symgrad.frontend.tracer import Tracer, implements, value, view_of, wrap
from symgrad.ir.node import Node, constant, literal, size_node
from symgrad.ir.sizes import broadcast_shapes, current, shown
from symgrad.ir.types import Shape, Size, boolean, i64
from symgrad.ops import indexing
from symgrad.ops import pointwise as p
from symgrad.ops.folds import kept
from symgrad.ops.kinds import broadcast_to, number
from symgrad.ops.running import iota
from symgrad.ops.views import broadcast, inverse, place, reshape, slice_, transpose


@dataclass(frozen=True)
class Plan:
    """What a key selects of an array of one shape.

    ``spans`` cut each axis; ``part`` is the shape after integers drop axes and None adds some. ``indices`` of one shape
    read the part along ``axes``; their own axes stand at ``front`` of the result. A ``mask`` covers ``axes``.
    """

    spans: tuple[Span, ...]
    part: Shape
    axes: tuple[int, ...] = ()
    indices: tuple[Node, ...] = ()
    mask: Node | None = None
    front: int = 0

    @property
    def lead(self) -> int:
        """How many axes the index arrays have."""
        return self.indices[0].ndim if self.indices else 0

    @property
    def is_view(self) -> bool:
        return not self.lead and self.mask is None

    def read(self, x: Node) -> Node:
        """The selected elements."""
        y = self.read_part(x)
        if not self.indices:
            return y
        return moved(indexing.gather(y, *self.indices, axes=self.axes), self.from_gathered())

    def write(self, x: Node, new: Node) -> Node:
        """``x`` with the selected elements replaced."""
        if not self.indices:
            return self.write_part(x, new)
        front = moved(new, inverse(self.from_gathered()))
        return self.write_part(x, indexing.scatter_set(self.read_part(x), front, *self.indices, axes=self.axes))

    def from_gathered(self) -> tuple[int, ...]:
        """The permutation that takes the axes of index arrays from the very front to their place."""
        lead, rest = self.lead, len(self.part) - len(self.axes)
        others = [lead + k for k in range(rest)]
        return (*others[: self.front], *range(lead), *others[self.front :])

    def result(self) -> Shape:
        """The shape of what is selected."""
        rest = [self.part[k] for k in kept(len(self.part), self.axes)]
        return (*rest[: self.front], *(self.indices[0].shape if self.indices else ()), *rest[self.front :])

    def read_part(self, x: Node) -> Node:
        if not all(s.covers(n) and s.step == 1 for s, n in zip(self.spans, x.shape, strict=True)):
            starts, sizes, steps = ([getattr(s, name) for s in self.spans] for name in ("start", "size", "step"))
            x = slice_(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        return x if x.shape == self.part else reshape(x, shape=self.part)

    def write_part(self, x: Node, new: Node) -> Node:
        sizes = tuple(s.size for s in self.spans)
        if new.shape != sizes:
            new = reshape(new, shape=sizes)
        starts, steps = tuple(s.start for s in self.spans), tuple(s.step for s in self.spans)
        if all(s.covers(n) for s, n in zip(self.spans, x.shape, strict=True)):
            backwards = any(s != 1 for s in steps)
            return slice_(new, starts=starts, sizes=sizes, steps=steps) if backwards else new
        inside = place(
            broadcast(number(True, boolean), shape=sizes, axes=()), shape=x.shape, starts=starts, steps=steps
        )
        return p.select(inside, place(new, shape=x.shape, starts=starts, steps=steps), x)


def moved(n: Node, perm: Sequence[int]) -> Node:
    perm = tuple(perm)
    return n if perm == tuple(range(n.ndim)) else transpose(n, perm=perm)


# --- keys -> plans ---------------------------------------------------------------------------------------------------


def opened(x: Tracer, key: Any, *, keep_masks: bool = False) -> tuple[Tracer, Plan, bool]:
    """The array and the plan of a key, and whether the key has an ellipsis; windows are views opened beforehand."""
    items, ellipsis = parsed(x.node.shape, key, keep_masks=keep_masks)
    axis = 0
    for k, item in enumerate(items):
        if isinstance(item, Window):
            x, items[k] = _window(x, axis, item), Span(0, item.size)
        axis += width(item)
    return x, plan_of(x.node.shape, items), ellipsis


def _window(x: Tracer, axis: int, window: Window) -> Tracer:
    """``x`` at positions that follow each other along an axis; IndexError where they leave it."""
    n, ndim = x.node.shape[axis], x.ndim
    start = p.select(p.lt(window.start, 0), size_node(n), window.start)
    index = indexing.checked_index(start + iota(size=window.size), size=n, axis=axis)
    perm = (*range(1, axis + 1), 0, *range(axis + 1, ndim))

    def read(base: Node) -> Node:
        return moved(indexing.gather(base, index, axes=(axis,)), perm)

    def write(base: Node, new: Node) -> Node:
        return indexing.scatter_set(base, moved(new, inverse(perm)), index, axes=(axis,))

    return view_of(x, read, write)


def plan_of(shape: Shape, items: list[Key]) -> Plan:
    """The plan of the entries of a key."""
    spans: list[Span] = []
    part: list[Size] = []
    arrays: list[tuple[int, Node]] = []  # axis of the part, index
    mask: Node | None = None
    mask_axes: tuple[int, ...] = ()
    for item in items:
        axis = len(spans)
        match item:
            case None:
                part.append(1)
            case Span():
                spans.append(item)
                if not item.drops:
                    part.append(item.size)
            case Array():
                if item.length is not None:
                    check_length(item.length, shape[axis], axis)
                arrays.append((len(part), index_node(item.value, shape[axis], axis)))
                spans.append(Span(0, shape[axis]))
                part.append(shape[axis])
            case Mask():
                if mask is not None:
                    raise located(
                        UnsupportedError("an array is indexed by two traced masks at once: combine them with &")
                    )
                mask, mask_axes = item.value, tuple(range(len(part), len(part) + item.value.ndim))
                for k, length in enumerate(mask.shape):
                    check_length(length, shape[axis + k], axis + k)
                spans += [Span(0, s) for s in shape[axis : axis + mask.ndim]]
                part += shape[axis : axis + mask.ndim]
    if mask is not None and any(n.shape for _, n in arrays):
        raise located(UnsupportedError("an array is indexed by a traced mask and an index array at once"))
    return _plan(items, tuple(spans), tuple(part), arrays, mask, mask_axes)


def _plan(
    items: list[Key],
    spans: tuple[Span, ...],
    part: Shape,
    arrays: list[tuple[int, Node]],
    mask: Node | None,
    mask_axes: tuple[int, ...],
) -> Plan:
    front = _front(items, mask is not None or any(n.shape for _, n in arrays))
    if mask is not None:
        if arrays:
            raise located(
                UnsupportedError("an array is indexed by a traced mask and a traced integer at once: index twice")
            )
        return Plan(spans, part, mask_axes, (), mask, front)
    if not arrays:
        return Plan(spans, part)
    try:
        lead = broadcast_shapes(*(n.shape for _, n in arrays))
    except ShapeError:
        shapes = " ".join(shown(n.shape) for _, n in arrays)
        message = f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        raise IndexError(with_line(message)) from None
    return Plan(spans, part, tuple(a for a, _ in arrays), tuple(broadcast_to(n, lead) for _, n in arrays), None, front)


def _front(items: list[Key], advanced: bool) -> int:
    """Where NumPy puts the axes of index arrays: where they were when they stand together, else in front."""
    if not advanced:
        return 0
    pointing = [isinstance(i, Array | Mask) or (isinstance(i, Span) and i.drops) for i in items]
    first, last = pointing.index(True), len(pointing) - 1 - pointing[::-1].index(True)
    return first if all(pointing[first : last + 1]) else 0


def check_length(mask: Size, size: Size, axis: int) -> None:
    """A mask fits axes of its own lengths only."""
    if not current().same(mask, size):
        raise IndexError(
            with_line(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {shown((size,))[1:-2]} "
                f"but size of corresponding boolean axis is {shown((mask,))[1:-2]}"
            )
        )


def index_node(index: Node | np.ndarray[Any, Any], size: Size, axis: int = 0) -> Node:
    """Positions in range along an axis of ``size``: known ones are checked now, others when the code runs."""
    if isinstance(index, Node):
        known = literal(index)
        if known is None:
            n = p.as_dtype(index, i64)
            return n if in_range(n, size) else indexing.checked_index(n, size=size, axis=axis)
        return _known_positions(known.astype(np.int64), size, axis)
    return _known_positions(index.astype(np.int64), size, axis)


def _known_positions(index: np.ndarray[Any, Any], size: Size, axis: int) -> Node:
    if not index.size:
        return constant(index)
    low, high, sizes = int(index.min()), int(index.max()), current()
    for bad, fits in ((high, high < 0 or sizes.le(high + 1, size)), (low, low >= 0 or sizes.le(-low, size))):
        if not fits:
            raise out_of_bounds(bad, size, axis)
    if isinstance(size, int):
        return constant(np.where(index < 0, index + size, index))
    return constant(index) if low >= 0 else constant(index) + constant((index < 0).astype(np.int64)) * size_node(size)


def out_of_bounds(index: Size, size: Size, axis: int) -> IndexError:
    shown_index, shown_size = (shown((s,))[1:-2] for s in (index, size))
    return IndexError(with_line(f"index {shown_index} is out of bounds for axis {axis} with size {shown_size}"))


def in_range(n: Node, size: Size) -> bool:
    """Whether positions were made so that they are in range."""
    while n.op.name in ("broadcast", "reshape", "transpose", "slice", "gather"):
        n = n.args[0]
    match n.op.name:
        case "iota" | "checked_index":
            return bool(n.attr("size") == size)
        case "argsort":
            return bool(n.args[0].shape[-1] == size)
        case "argmax" | "argmin":
            return bool(n.args[0].shape[n.attr("axis")] == size)
        case _:
            return False


def gather_axes(x: Node, indices: Sequence[Node], axes: Sequence[int]) -> Node:
    """``x`` at index nodes along ``axes``: their common shape first, then the other axes. Indices are checked."""
    checked = [index_node(i, x.shape[a], a) for i, a in zip(indices, axes, strict=True)]
    shape = broadcast_shapes(*(i.shape for i in checked))
    return indexing.gather(x, *(broadcast_to(i, shape) for i in checked), axes=tuple(axes))


# --- reading ---------------------------------------------------------------------------------------------------------


@implements("getitem")
def getitem(x: Tracer, key: Any) -> Any:
    """``x[key]``: a view for slices and integers, a NumPy scalar where every axis has an integer, else a copy."""
    if x.weak:
        raise TypeError(with_line(f"'{x.__class__.__name__}' object is not subscriptable"))
    x, plan, ellipsis = opened(x, key)
    if plan.mask is not None:
        return _selection(x, plan)
    if not plan.is_view or (not plan.result() and not ellipsis):
        return wrap(plan.read(x.node))
    return view_of(x, plan.read, plan.write)


def _selection(x: Tracer, plan: Plan) -> Masked:
    if plan.front:
        raise no_length("a traced mask after a slice")
    assert plan.mask is not None
    y = plan.read_part(x.node)
    return Masked(wrap(moved(y, _mask_first(plan)), fixed=False), wrap(plan.mask, fixed=False))


def _mask_first(plan: Plan) -> tuple[int, ...]:
    return (*plan.axes, *kept(len(plan.part), plan.axes))


# --- writing ---------------------------------------------------------------------------------------------------------


@implements("setitem")
def setitem(x: Tracer, key: Any, new: Any) -> None:
    """``x[key] = new``."""
    if x.weak or x.fixed:
        raise TypeError(with_line(f"'{x.__class__.__name__}' object does not support item assignment"))
    x, plan, _ = opened(x, key, keep_masks=not isinstance(key, tuple) and not _ndim(new))
    old = x.node
    if plan.mask is not None:
        x.assign(_write_masked(plan, old, new))
        return
    x.assign(plan.write(old, fitted(value(new, old.dtype), plan.result())))


def _ndim(x: Any) -> int:
    return 1 if isinstance(x, list | tuple) else getattr(x, "ndim", 0)


def fitted(n: Node, shape: Shape) -> Node:
    """A value as what is assigned to: leading unit axes go, others broadcast."""
    lead = max(n.ndim - len(shape), 0)
    message = f"could not broadcast input array from shape {shown(n.shape)} into shape {shown(shape)}"
    if any(s != 1 for s in n.shape[:lead]):
        raise ValueError(with_line(message))
    if lead:
        n = reshape(n, shape=n.shape[lead:])
    for s, t in zip(n.shape, shape[len(shape) - n.ndim :], strict=True):
        if s != 1 and not current().same(s, t):
            raise ValueError(with_line(message))
    return broadcast_to(n, shape)


def _write_masked(plan: Plan, x: Node, new: Any) -> Node:
    assert plan.mask is not None
    y = plan.read_part(x)
    return plan.write_part(x, p.select(_full_mask(plan), _masked_value(plan, y, new), y))


def _full_mask(plan: Plan) -> Node:
    assert plan.mask is not None
    return plan.mask if plan.mask.shape == plan.part else broadcast(plan.mask, shape=plan.part, axes=plan.axes)


def _masked_value(plan: Plan, y: Node, new: Any) -> Node:
    """What is assigned to a selection, spread over the whole part."""
    first = _mask_first(plan)
    if type(new) is Masked:
        if plan.front or new.mask.node is not plan.mask:
            raise no_length("assigning a selection by another mask")
        front = value(new.value, y.dtype)
        return moved(fitted(front, tuple(y.shape[k] for k in first)), inverse(first))
    n = value(new, y.dtype)
    rest = [y.shape[k] for k in first[len(plan.axes) :]]
    n = reshape(n, shape=(*(1,) * (len(rest) + 1 - n.ndim), *n.shape)) if n.ndim <= len(rest) else n
    if n.ndim > len(rest) + 1 or n.shape[plan.front] != 1:
        raise no_length("assigning an array to a selection")
    n = fitted(reshape(n, shape=(*n.shape[: plan.front], *n.shape[plan.front + 1 :])), tuple(rest))
    return broadcast(n, shape=y.shape, axes=first[len(plan.axes) :])


@implements((np.add, "at"))
def add_at(x: Tracer, key: Any, new: Any) -> None:
    """``x[key] += new`` with repeated positions adding up."""
    x, plan, _ = opened(x, key)
    old = x.node
    y = plan.read_part(old)
    if plan.mask is not None:
        x.assign(plan.write_part(old, p.select(_full_mask(plan), y + _masked_value(plan, y, new), y)))
        return
    n = fitted(value(new, old.dtype), plan.result())
    if plan.indices:
        front = moved(n, inverse(plan.from_gathered()))
        n = indexing.scatter_add(front, *plan.indices, shape=y.shape, axes=plan.axes)
    x.assign(plan.write_part(old, y + n))


@implements((np.subtract, "at"))
def subtract_at(x: Tracer, key: Any, new: Any) -> None:
    add_at(x, key, wrap(-value(new, x.node.dtype)))
