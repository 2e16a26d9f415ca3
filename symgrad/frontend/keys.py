"""What stands between the brackets of ``x[…]`` -> one entry per axis: spans, index arrays, masks, new axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.lengths import TracedSize, size_of
from symgrad.frontend.lines import located, with_line
from symgrad.frontend.masked import Masked, no_length
from symgrad.frontend.tracer import Tracer, contains_traced, value
from symgrad.frontend.tracing import constant_value, is_known
from symgrad.ir.node import SIZE, Node, constant, splat
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import Shape, Size, boolean, i64
from symgrad.ops.pointwise import as_dtype


@dataclass(frozen=True, slots=True)
class Span:
    """``size`` positions along an axis from ``start``; ``drops`` for an integer, which drops the axis."""

    start: Size
    size: Size
    step: int = 1
    drops: bool = False

    def covers(self, n: Size) -> bool:
        """Whether this is the whole of an axis, perhaps backwards."""
        return self.size == n and ((self.step == 1 and self.start == 0) or (self.step == -1 and self.start == n - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Integer positions along one axis: a plain array, or a node. Out of a known mask: for axes of its length only."""

    value: Node | np.ndarray[Any, Any]
    length: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Bools that say which elements of the next axes are selected, known when the code runs."""

    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """``size`` positions from a traced one."""

    start: Node
    size: Size


Key = None | Span | Array | Mask | Window
_VALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
    "are valid indices"
)


def parsed(shape: Shape, key: Any, *, keep_masks: bool = False) -> tuple[list[Key], bool]:
    """The entries of a key for an array of ``shape``, ellipsis filled in; and whether it has an ellipsis."""
    items: list[Any] = []
    for raw in key if isinstance(key, tuple) else (key,):
        items += _resolved(raw, keep_masks)
    used = sum(width(i) for i in items)
    if used > len(shape):
        raise IndexError(
            with_line(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
        )
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError(with_line("an index can only have a single ellipsis ('...')"))
    at = dots[0] if dots else len(items)
    items[at : at + len(dots)] = [slice(None)] * (len(shape) - used)
    out: list[Key] = []
    axis = 0
    for item in items:
        out.append(item if item is None or isinstance(item, Array | Mask) else _span(item, shape[axis], axis))
        axis += width(item)
    return out, bool(dots)


def width(item: Any) -> int:
    """How many axes an entry takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.value.ndim if isinstance(item, Mask) else 1


def _resolved(raw: Any, keep_masks: bool) -> list[Any]:
    """An entry as None, Ellipsis, a slice, a size, an Array or a Mask; a known mask is an array per axis."""
    if raw is None or raw is Ellipsis or type(raw) is slice:
        return [raw]
    if type(raw) is Masked:
        raise no_length("indexing by a selection")
    if type(raw) is Tracer or (isinstance(raw, list | tuple) and contains_traced(raw)):
        return _of_node(value(raw), keep_masks)
    if isinstance(raw, bool | np.bool_):
        raise located(UnsupportedError("indexing by a single bool is not supported"))
    if type(raw) is TracedSize or isinstance(raw, int | np.integer):
        return [size_of(raw)]
    if isinstance(raw, list | tuple | np.ndarray) or hasattr(type(raw), "__array__"):
        array = np.asarray(raw)
        return _of_array(
            array.astype(np.intp) if not array.size and isinstance(raw, list | tuple) else array, keep_masks
        )
    if hasattr(type(raw), "__index__"):
        return [int(raw.__index__())]
    raise IndexError(with_line(_VALID))


def _of_node(n: Node, keep_masks: bool) -> list[Any]:
    if n.op is SIZE:
        return [n.attr("size")]
    known = constant_value(n, pin_sizes=False)
    if known is not None:
        return _of_array(known, keep_masks)
    if n.dtype == boolean:
        return [Mask(n)]
    if n.dtype.is_float:
        raise _not_integers(n.shape)
    return [Array(n)]


def _of_array(array: np.ndarray[Any, Any], keep_masks: bool) -> list[Any]:
    if array.dtype == bool:
        if not array.ndim:
            raise located(UnsupportedError("indexing by a single bool is not supported"))
        return (
            [Mask(constant(array))] if keep_masks else [Array(i, array.shape[k]) for k, i in enumerate(array.nonzero())]
        )
    if array.dtype.kind not in "iu":
        raise _not_integers(array.shape)
    return [Array(array)] if array.ndim else [int(array)]


def _not_integers(shape: Shape) -> IndexError:
    return IndexError(with_line("arrays used as indices must be of integer (or boolean) type" if shape else _VALID))


def _span(item: Any, n: Size, axis: int) -> Span | Window:
    if type(item) is slice:
        return _window(item) if _is_traced(item.start) or _is_traced(item.stop) else slice_span(item, n)
    sizes = current()
    negative = not sizes.le(0, item)
    at = item + n if negative else item
    if not (sizes.le(0, at) if negative else sizes.le(at + 1, n)):
        raise IndexError(
            with_line(f"index {shown((item,))[1:-2]} is out of bounds for axis {axis} with size {shown((n,))[1:-2]}")
        )
    return Span(at, 1, 1, drops=True)


def _is_traced(bound: Any) -> bool:
    """Whether the bound of a slice is a number that only the run knows."""
    return type(bound) is Tracer and bound.node.op is not SIZE and not is_known(bound.node)


def _window(s: slice) -> Window:
    """A slice between traced bounds whose difference is known."""
    if s.start is not None and s.stop is not None and (s.step is None or s.step == 1):
        (first, a), (last, b) = (_offset(value(x)) for x in (s.start, s.stop))
        if first is last and first is not None and not first.shape and not first.dtype.is_float:
            size = b - a if current().le(a, b) else 0
            return Window(as_dtype(value(s.start), i64), size)
    raise located(
        UnsupportedError(
            "the length of this slice is known only when the code runs: use a mask as in "
            "np.where(np.arange(n) < stop, x, 0), or bounds of the form i and i + k"
        )
    )


def _offset(n: Node) -> tuple[Node | None, Size]:
    """A traced integer as one without, and with, a number or length added to it."""
    total: Size = 0
    while n.op.name in ("add", "sub"):
        a, b = n.args
        if (known := _plain(b)) is not None:
            n, total = a, total + (known if n.op.name == "add" else -known)
        elif n.op.name == "add" and (known := _plain(a)) is not None:
            n, total = b, total + known
        else:
            break
    known = _plain(n)
    return (n, total) if known is None else (None, total + known)


def _plain(n: Node) -> Size | None:
    if n.op is SIZE:
        size: Size = n.attr("size")
        return size
    number = splat(n) if not n.shape and not n.dtype.is_float else None
    return None if number is None else int(number)


def slice_span(s: slice, n: Size) -> Span:
    """Python's rule for slices on an axis of ``n``, decided for sizes by the assumptions of the trace."""
    step = 1 if s.step is None else _int(s.step)
    if step == 0:
        raise ValueError(with_line("slice step cannot be zero"))
    forward = step > 0
    first, last = (0, n) if forward else (n - 1, -1)
    if s.start is None and s.stop is None:
        return Span(first, (n + abs(step) - 1) // abs(step), step)
    low, high = (0, n) if forward else (-1, n - 1)
    start = first if s.start is None else _clamped(size_of(s.start), n, low, high)
    stop = last if s.stop is None else _clamped(size_of(s.stop), n, low, high)
    near, far = (start, stop) if forward else (stop, start)
    if not current().le(near, far):
        return Span(0, 0, step)
    return Span(start, (far - near + abs(step) - 1) // abs(step), step)


def _int(x: Any) -> int:
    size = size_of(x)
    return size if isinstance(size, int) else current().pin(size)


def _clamped(bound: Size, n: Size, low: Size, high: Size) -> Size:
    sizes = current()
    if bound == n:
        return high
    if not sizes.le(0, bound):
        bound = bound + n
        return bound if sizes.le(low, bound) else low
    return bound if sizes.le(bound, high) else high
