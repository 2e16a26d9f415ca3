"""What a ``for`` runs over -> the number of its items, and the item at a traced position.

``range``, ``enumerate``, ``zip`` and ``reversed`` of traced things, which Python's own could not take, are here. Asked
for their items one by one they need numbers, which the trace then holds for only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.frontend.tracer import TracedSize, Tracer, is_traced, tracing, value, wrap


class TracedRange:
    """A ``range`` of traced numbers or of sizes."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any = 1) -> None:
        self.start, self.stop, self.step = start, stop, step

    def now(self) -> range:
        """The numbers themselves."""
        return range(*map(operator.index, (self.start, self.stop, self.step)))

    def __iter__(self) -> Iterator[int]:
        return iter(self.now())

    def __len__(self) -> int:
        return len(self.now())

    def __getitem__(self, key: Any) -> Any:
        return self.now()[key]

    def __contains__(self, x: object) -> bool:
        return x in self.now()

    def __reversed__(self) -> Iterator[int]:
        return reversed(self.now())

    def __repr__(self) -> str:
        return f"range({self.start}, {self.stop}, {self.step})"


@dataclass(frozen=True, eq=False)
class Items:
    """``over``: a range or a traced array; ``item``: what the user's loop gets for each of its numbers or rows."""

    over: Any
    item: Callable[[Any], Any] | None = None

    def stepping(self, body: Callable[[Any], Any]) -> Callable[[Any], Any]:
        item = self.item
        return body if item is None else lambda x: body(item(x))


@dataclass(frozen=True, eq=False)
class Indexed:
    """Something with a length that can be asked for the item at a traced position; ``plain`` gives all, one by one."""

    length: Any
    at: Callable[[Any], Any]
    plain: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.plain()

    def __len__(self) -> int:
        return operator.index(self.length)


def rollable(iterable: Any, short: int) -> Items | None:
    """How to go through something without unrolling it; None for what is short, or made of Python objects."""
    if type(iterable) is TracedRange:
        return Items(iterable)
    indexed = _indexed(iterable)
    if indexed is None or (type(indexed.length) is int and indexed.length <= short):
        return None
    if type(iterable) in (range, Tracer):
        return Items(iterable)
    over = range(indexed.length) if type(indexed.length) is int else TracedRange(0, indexed.length)
    return Items(over, indexed.at)


def _indexed(x: Any) -> Indexed | None:
    """A range, an array, or an enumeration and the like of them, by position."""
    if type(x) is Indexed:
        return x
    if type(x) is range:
        return Indexed(len(x), lambda k: k * x.step + x.start, lambda: iter(x))
    if type(x) is TracedRange:
        return _range_by_position(x)
    if type(x) is Tracer and x.ndim:
        return Indexed(x.shape[0], lambda k: x[k], lambda: iter(x))
    if type(x) is np.ndarray and x.ndim and x.dtype.kind in "biuf":
        return Indexed(len(x), lambda k: wrap(value(x))[k], lambda: iter(x))
    return None


def _range_by_position(x: TracedRange) -> Indexed | None:
    if is_traced(x.step) or type(x.step) is TracedSize:
        return None
    rounded = x.stop - x.start + (x.step - 1 if x.step > 0 else x.step + 1)
    length = rounded if x.step == 1 else rounded // x.step
    return Indexed(length, lambda k: k * x.step + x.start, lambda: iter(x))


def _is_lazy(x: Any) -> bool:
    """Whether iterating over ``x`` would need numbers that are not known, or unroll a long loop."""
    return type(x) in (TracedRange, Indexed, range) or (type(x) in (Tracer, np.ndarray) and _indexed(x) is not None)


# --- Python's functions ----------------------------------------------------------------------------------------------


def range_(*args: Any) -> Any:
    if not any(type(x) in (Tracer, TracedSize) for x in args):
        return range(*args)
    return TracedRange(0, args[0]) if len(args) == 1 else TracedRange(*args)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    inner = _indexed(iterable) if tracing() and _is_lazy(iterable) else None
    if inner is None:
        return enumerate(iterable, start)
    return Indexed(
        inner.length, lambda k: (k + start, inner.at(k)), lambda: enumerate(inner.plain(), operator.index(start))
    )


def zip_(*iterables: Any, strict: bool = False) -> Any:
    parts = [_indexed(x) for x in iterables] if tracing() and iterables and all(map(_is_lazy, iterables)) else [None]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or not all(_same(part.length, found[0].length) for part in found[1:]):
        return zip(*iterables, strict=strict)
    return Indexed(
        found[0].length,
        lambda k: tuple(part.at(k) for part in found),
        lambda: zip(*(part.plain() for part in found), strict=strict),
    )


def reversed_(sequence: Any) -> Any:
    inner = _indexed(sequence) if tracing() and _is_lazy(sequence) else None
    if inner is None:
        return reversed(sequence)
    return Indexed(inner.length, lambda k: inner.at(inner.length - 1 - k), lambda: reversed(list(inner.plain())))


def _same(a: Any, b: Any) -> bool:
    """Whether two lengths are surely equal."""
    return type(a) in (int, TracedSize) and type(b) in (int, TracedSize) and bool(a == b)


CALLEES: dict[Any, Callable[..., Any]] = {range: range_, enumerate: enumerate_, zip: zip_, reversed: reversed_}
