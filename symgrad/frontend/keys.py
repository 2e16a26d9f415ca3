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
from symgrad.frontend.tracing import constant_value
from symgrad.ir.node import SIZE, Node, constant
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import Shape, Size, boolean


@dataclass(frozen=True, slots=True)
class Span:
    """``size`` positions along an axis from ``start``; ``drops`` for an integer, which drops the axis."""

    start: Size
    size: Size
    step: int = 1
    drops: bool = False

    def covers(self, n: Size) -> bool:
        """Whether this is the whole of an axis, perhaps backwards."""
        return self.size == n and (self.step == 1 and self.start == 0 or self.step == -1 and self.start == n - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Integer positions along one axis: a plain array, or a node. Out of a known mask: for axes of its length only."""

    value: Node | np.ndarray[Any, Any]
    length: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Bools that say which elements of the next axes are selected, known when the code runs."""

    value: Node


Key = None | Span | Array | Mask
_VALID = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"


def parsed(shape: Shape, key: Any, *, keep_masks: bool = False) -> tuple[list[Key], bool]:
    """The entries of a key for an array of ``shape``, ellipsis filled in; and whether it has an ellipsis."""
    items: list[Any] = []
    for raw in key if isinstance(key, tuple) else (key,):
        items += _resolved(raw, keep_masks)
    used = sum(_width(i) for i in items)
    if used > len(shape):
        raise IndexError(with_line(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed"))
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError(with_line("an index can only have a single ellipsis ('...')"))
    at = dots[0] if dots else len(items)
    items[at : at + len(dots)] = [slice(None)] * (len(shape) - used)
    out: list[Key] = []
    axis = 0
    for item in items:
        out.append(item if item is None or isinstance(item, Array | Mask) else _span(item, shape[axis], axis))
        axis += _width(item)
    return out, bool(dots)


def _width(item: Any) -> int:
    """How many axes an entry takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.value.ndim if isinstance(item, Mask) else 1


def _resolved(raw: Any, keep_masks: bool) -> list[Any]:
    """An entry as None, Ellipsis, a slice, a size, an Array or a Mask; a known mask is as many arrays as it has axes."""
    if raw is None or raw is Ellipsis or type(raw) is slice:
        return [raw]
    if type(raw) is TracedSize or type(raw) is int or type(raw) is not Tracer and isinstance(raw, np.integer):
        return [size_of(raw)]
    if type(raw) is Masked:
        raise no_length("indexing by a selection")
    if isinstance(raw, bool | np.bool_) and type(raw) is not Tracer:
        raise located(UnsupportedError("indexing by a single bool is not supported"))
    if type(raw) is Tracer or isinstance(raw, list | tuple) and contains_traced(raw):
        return _of_node(value(raw), keep_masks)
    if isinstance(raw, list | tuple | np.ndarray) or hasattr(type(raw), "__array__"):
        array = np.asarray(raw)
        return _of_array(array.astype(np.intp) if not array.size and isinstance(raw, list | tuple) else array, keep_masks)
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
        return [Mask(constant(array))] if keep_masks else [Array(i, array.shape[k]) for k, i in enumerate(array.nonzero())]
    if array.dtype.kind not in "iu":
        raise _not_integers(array.shape)
    return [Array(array)] if array.ndim else [int(array)]


def _not_integers(shape: Shape) -> IndexError:
    return IndexError(with_line("arrays used as indices must be of integer (or boolean) type" if shape else _VALID))


def _span(item: Any, n: Size, axis: int) -> Span:
    if type(item) is slice:
        return slice_span(item, n)
    sizes = current()
    negative = not sizes.le(0, item)
    at = item + n if negative else item
    if not (sizes.le(0, at) if negative else sizes.le(at + 1, n)):
        raise IndexError(with_line(f"index {shown((item,))[1:-2]} is out of bounds for axis {axis} with size {shown((n,))[1:-2]}"))
    return Span(at, 1, 1, drops=True)


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
