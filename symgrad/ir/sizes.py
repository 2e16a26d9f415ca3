"""What one trace assumes about symbolic sizes: hints, merged names, and guards to be checked at every call.

While a function is traced for free sizes, each name has a *hint*: its length in the call at hand, or a stand-in for
ahead-of-time specs. A question that the polynomials cannot answer is answered by the hints and recorded as a guard;
a later call for which a guard fails is traced again. Two names that must agree are merged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from symgrad.errors import ShapeError
from symgrad.ir.types import Dim, Shape, Size, evaluate_size, map_size, size_named, size_names

Relation = Literal["==", "!=", "<="]


@dataclass(frozen=True, slots=True)
class Guard:
    """``left relation right`` must hold of the actual lengths."""

    left: Size
    relation: Relation
    right: Size

    def holds(self, values: Mapping[str, int]) -> bool:
        a, b = evaluate_size(self.left, values), evaluate_size(self.right, values)
        match self.relation:
            case "==":
                return a == b
            case "!=":
                return a != b
            case "<=":
                return a <= b

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@dataclass
class Sizes:
    """Assumptions of one trace. ``assume_equal`` is False for specs, where different names are different sizes."""

    hints: dict[str, int] = field(default_factory=dict)
    assume_equal: bool = True
    guards: dict[Guard, None] = field(default_factory=dict)
    merged: dict[str, Size] = field(default_factory=dict)

    def canonical(self, size: Size) -> Size:
        """``size`` in terms of the names that were not merged into others."""
        if not self.merged or not isinstance(size, Dim):
            return size
        while (out := map_size(size, self._root)) != size:
            size = out
        return size

    def _root(self, name: str) -> Size:
        from_name = self.merged.get(name)
        return size_named(name) if from_name is None else from_name

    def same(self, a: Size, b: Size) -> bool:
        """Whether two sizes agree; merges or guards them when only the hints say so."""
        if a == b:
            return True
        a, b = self.canonical(a), self.canonical(b)
        if isinstance(a - b, int):
            return bool(a == b)
        if not (size_names(a) | size_names(b)) <= self.hints.keys():
            return False
        if self.value(a) != self.value(b):
            self.guards[Guard(a, "!=", b)] = None
            return False
        if not self.assume_equal:
            return False
        self.guards[Guard(a, "==", b)] = None
        self._merge(a, b)
        return True

    def le(self, a: Size, b: Size) -> bool:
        """Whether ``a <= b``, guarded when only the hints say so."""
        a, b = self.canonical(a), self.canonical(b)
        difference = b - a
        if isinstance(difference, int):
            return difference >= 0
        if all(c >= 0 for _, c in difference.terms):
            return True  # sizes are never negative
        if self.value(a) <= self.value(b):
            self.guards[Guard(a, "<=", b)] = None
            return True
        self.guards[Guard(b + 1, "<=", a)] = None
        return False

    def pin(self, size: Size) -> int:
        """The number behind a size that Python needs as an int; the program then holds for that number only."""
        size = self.canonical(size)
        if isinstance(size, int):
            return size
        value = self.value(size)
        self.guards[Guard(size, "==", value)] = None
        self._merge(size, value)
        return value

    def pinned_to_one(self, size: Size) -> bool:
        """Whether a computed size is one in this call, where it would broadcast; then it is pinned."""
        if isinstance(size, int) or not size_names(size) <= self.hints.keys() or self.value(size) != 1:
            return False
        return self.pin(size) == 1

    def value(self, size: Size) -> int:
        try:
            return evaluate_size(size, self.hints)
        except KeyError as e:
            raise ShapeError(f"the size {size} is not known here") from e

    def _merge(self, a: Size, b: Size) -> None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Dim) and (name := _single(x)) is not None and name not in size_names(y):
                self.merged[name] = y
                return


def _single(size: Dim) -> str | None:
    (monomial, c), *rest = size.terms
    return monomial[0] if not rest and c == 1 and len(monomial) == 1 and isinstance(monomial[0], str) else None


_local = threading.local()


def current() -> Sizes:
    """The assumptions of the trace or compilation under way in this thread; outside any, nothing is assumed."""
    found = getattr(_local, "sizes", None)
    return found if found is not None else Sizes(assume_equal=False)


@contextmanager
def assuming(sizes: Sizes) -> Iterator[Sizes]:
    """Make ``sizes`` the current assumptions of this thread."""
    before = getattr(_local, "sizes", None)
    _local.sizes = sizes
    try:
        yield sizes
    finally:
        _local.sizes = before


def shown(shape: Shape) -> str:
    """A shape as the user knows it: actual lengths where a call is at hand, names for specs."""
    sizes = current()
    known = sizes.assume_equal
    parts = [str(sizes.value(s) if known and isinstance(s, Dim) else s) for s in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def broadcast_shapes(*shapes: Shape, what: str = "broadcast") -> Shape:
    """NumPy's broadcasting. ShapeError gives the shapes."""
    if all(s == shapes[0] for s in shapes[1:]):
        return shapes[0] if shapes else ()
    sizes, out = current(), []
    rank = max((len(s) for s in shapes), default=0)
    for k in range(-rank, 0):
        size: Size = 1
        for s in shapes:
            if len(s) < -k or s[k] == 1:
                continue
            if size == 1 or sizes.pinned_to_one(size):
                size = s[k]
            elif sizes.pinned_to_one(s[k]):
                continue
            elif not sizes.same(size, s[k]):
                raise ShapeError(f"{what}: shapes {' and '.join(shown(s) for s in shapes)} do not broadcast")
            elif isinstance(s[k], int):
                size = s[k]
        out.append(size)
    return tuple(out)


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes agree, size by size."""
    return a == b or (len(a) == len(b) and all(current().same(x, y) for x, y in zip(a, b, strict=True)))
