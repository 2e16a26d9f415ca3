"""What a traced function reads from outside: hidden inputs of the program, or guards on it.

Arrays and numbers become inputs that are read again at each call. Functions, modules, strings and other objects must be
the same at each call, else the function is traced again. Values are remembered by how they were reached: a global, a
closure cell, an attribute or an item of something reached before.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symgrad.frontend.leaves import Input, enter
from symgrad.frontend.tracer import Tracer, wrap
from symgrad.frontend.tracing import current_trace
from symgrad.ir.sizes import current

Key = tuple[Any, ...]
FIXED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, np.ufunc)


@dataclass(frozen=True, eq=False, slots=True)
class Reach:
    """A way to a value outside: ``read()`` follows it again."""

    key: Key
    read: Callable[[], Any]

    def attribute(self, name: str) -> Reach:
        return Reach((*self.key, "attribute", name), lambda: getattr(self.read(), name))

    def item(self, key: Any) -> Reach:
        return Reach((*self.key, "item", key), lambda: self.read()[key])


def global_reach(namespace: dict[str, Any], name: str) -> Reach:
    return Reach(("global", id(namespace), name), lambda: namespace[name])


def cell_reach(cell: types.CellType) -> Reach:
    return Reach(("cell", id(cell)), lambda: cell.cell_contents)


def constant_reach(value: Any) -> Reach:
    return Reach(("object", id(value)), lambda: value)


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """``holds()`` says whether what was read from outside is still what the program was made for."""

    reach: Reach
    check: Callable[[Any], bool]

    def holds(self) -> bool:
        try:
            return self.check(self.reach.read())
        except (AttributeError, KeyError, IndexError, ValueError, NameError):
            return False


@dataclass(eq=False)
class Recorder:
    """What one trace reads from outside. ``free``: lengths of captured arrays are named sizes."""

    free: bool
    inputs: dict[Key, tuple[Reach, Input]] = field(default_factory=dict)
    guards: dict[Key, Guard] = field(default_factory=dict)
    seen: dict[Key, Any] = field(default_factory=dict)
    reached: dict[int, tuple[Reach, Any]] = field(default_factory=dict)

    def value(self, reach: Reach, value: Any) -> Any:
        """What traced code sees in place of a value read from outside."""
        if reach.key in self.seen:
            return self.seen[reach.key]
        out = self._enter(reach, value)
        self.seen[reach.key] = out
        return out

    def _enter(self, reach: Reach, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray and value.dtype.kind in "fiub" or kind in (float, int) or isinstance(value, np.generic):
            return self._input(reach, value)
        if kind in (list, tuple, dict) and value and _all_numeric(value):
            return self._container(reach, value)
        if isinstance(value, FIXED):
            self._guard(reach, lambda now: now is value)
        elif value is None or isinstance(value, bool | str | bytes | np.dtype):
            self._guard(reach, lambda now: type(now) is kind and bool(now == value))
        elif not isinstance(value, types.MethodType | Tracer):
            self._guard(reach, lambda now: now is value)
        self.reached[id(value)] = reach, value
        return value

    def _input(self, reach: Reach, value: Any) -> Tracer:
        entered = enter(value, current(), free=self.free)
        self.inputs[reach.key] = reach, entered
        if entered.weak:
            current_trace().known[entered.param] = value
        tracer = wrap(entered.param, weak=entered.weak)
        tracer.readonly = True
        return tracer

    def _container(self, reach: Reach, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            keys = list(value)
            self._guard(reach, lambda now: type(now) is dict and list(now) == keys)
            return {k: self.value(reach.item(k), v) for k, v in value.items()}
        count = len(value)
        self._guard(reach, lambda now: type(now) is kind and len(now) == count)
        return kind(self.value(reach.item(k), v) for k, v in enumerate(value))

    def _guard(self, reach: Reach, check: Callable[[Any], bool]) -> None:
        self.guards[reach.key] = Guard(reach, check)

    def reach_of(self, owner: Any) -> Reach | None:
        """How an object was reached, if it was."""
        found = self.reached.get(id(owner))
        return found[0] if found is not None and found[1] is owner else None

    def know(self, owner: Any) -> None:
        """Make an object a root: its attributes are read from outside."""
        self.reached.setdefault(id(owner), (constant_reach(owner), owner))


def _all_numeric(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(_all_numeric(v) for v in value.values())
    if kind in (list, tuple):
        return all(_all_numeric(v) for v in value)
    return kind in (float, int) or isinstance(value, np.generic) or (kind is np.ndarray and value.dtype.kind in "fiub")


_local = threading.local()


def recorder() -> Recorder | None:
    """The recorder of the trace under way in this thread."""
    return getattr(_local, "recorder", None)


@contextmanager
def recording(r: Recorder) -> Iterator[Recorder]:
    before = getattr(_local, "recorder", None)
    _local.recorder = r
    try:
        yield r
    finally:
        _local.recorder = before
