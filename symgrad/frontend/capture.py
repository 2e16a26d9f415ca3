"""What a traced function reads from outside: hidden inputs of the program, or guards on it.

Arrays and numbers become inputs that are read again at each call. Functions, modules, strings and other objects must be
the same at each call, else the function is traced again. Values are remembered by how they were reached: a global, a
closure cell, an attribute or an item of something reached before.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symgrad.frontend.leaves import Input, enter
from symgrad.frontend.tracer import Tracer, argument, is_traced
from symgrad.frontend.tracing import current_trace
from symgrad.ir.sizes import current

Key = tuple[Any, ...]
FIXED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, np.ufunc)


@dataclass(frozen=True, eq=False, slots=True)
class Reach:
    """A way to a value outside: ``read()`` follows it again.

    ``owner`` is the reach of what has the attribute or item; of others the namespace, the cell, or the value itself.
    """

    key: Key
    read: Callable[[], Any]
    owner: Any = None

    def attribute(self, name: str) -> Reach:
        return Reach((*self.key, "attribute", name), lambda: getattr(self.read(), name), self)

    def item(self, key: Any) -> Reach:
        return Reach((*self.key, "item", key), lambda: self.read()[key], self)

    def __str__(self) -> str:
        """As it is written: ``scale``, ``self.layers[0].w``."""
        named = self.key[0] in ("global", "cell")
        name, steps = (str(self.key[2]), self.key[3:]) if named else (self.key[0], self.key[2:])
        pairs = zip(steps[::2], steps[1::2], strict=True)
        return name + "".join(f".{step}" if kind == "attribute" else f"[{step!r}]" for kind, step in pairs)


def global_reach(namespace: dict[str, Any], name: str) -> Reach:
    return Reach(("global", id(namespace), name), lambda: namespace[name], namespace)


def cell_reach(cell: types.CellType, name: str) -> Reach:
    return Reach(("cell", id(cell), name), lambda: cell.cell_contents, cell)


def constant_reach(value: Any) -> Reach:
    return Reach(("object", id(value)), lambda: value, value)


@dataclass(frozen=True, eq=False, slots=True)
class Same:
    """A check for the object itself."""

    value: Any

    def __call__(self, now: Any) -> bool:
        return now is self.value


@dataclass(frozen=True, eq=False, slots=True)
class Equal:
    """A check for what is equal to a value and of its type."""

    value: Any

    def __call__(self, now: Any) -> bool:
        return type(now) is type(self.value) and bool(now == self.value)


@dataclass(frozen=True, eq=False, slots=True)
class OfKind:
    """A check for the type; with a ``length``, also for that."""

    kind: type
    length: int | None = None

    def __call__(self, now: Any) -> bool:
        if type(now) is not self.kind:
            return False
        return self.length is None or len(now) == self.length  # type: ignore[arg-type]  # only sequences have one


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """``holds()`` says whether what was read from outside is still what the program was made for."""

    reach: Reach
    check: Callable[[Any], bool]

    def holds(self) -> bool:
        try:
            return self.check(self.reach.read())
        except (AttributeError, LookupError, ValueError, NameError):
            return False


@dataclass(eq=False)
class Recorder:
    """What one trace reads from outside. ``free``: lengths of captured arrays are named sizes."""

    free: bool
    inputs: dict[Key, tuple[Reach, Input]] = field(default_factory=dict)
    guards: dict[Key, Guard] = field(default_factory=dict)
    seen: dict[Key, Seen] = field(default_factory=dict)
    reached: dict[int, tuple[Reach, Any]] = field(default_factory=dict)
    objects: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)  # with their attributes at first sight
    containers: list[Copied] = field(default_factory=list)

    def value(self, reach: Reach, value: Any) -> Any:
        """What traced code sees in place of a value read from outside."""
        found = self.seen.get(reach.key)
        if found is None:
            found = self.seen[reach.key] = Seen(reach, value, self._enter(reach, value))
        return found.inside

    def variable(self, reach: Reach, value: Any) -> Any:
        """The same for a global or a closure variable, which the traced code may have rebound."""
        found = self.seen.get(reach.key)
        return value if found is not None and found.outside is not value else self.value(reach, value)

    def rebound(self, owner: Any, name: str) -> bool:
        """Whether the traced code has stored into an attribute of an object from outside."""
        found = self.objects.get(id(owner))
        if found is None or found[0] is not owner:
            return False
        return vars(owner).get(name) is not found[1].get(name)

    def _enter(self, reach: Reach, value: Any) -> Any:
        kind = type(value)
        if is_numeric(value):
            return self._input(reach, value)
        if kind in (list, tuple, dict) or (issubclass(kind, tuple) and hasattr(kind, "_make")):
            return self._container(reach, value)
        if hasattr(value, "__self__") and hasattr(value, "__func__"):  # a new object each time it is read
            function = value.__func__
            self._guard(reach, lambda now: getattr(now, "__func__", None) is function)
        elif isinstance(value, EQUAL) or value is None:
            self._guard(reach, Equal(value))
        elif isinstance(value, set | frozenset):
            members = frozenset(value)
            self._guard(reach, lambda now: type(now) is kind and now == members)
        elif type(value) is not Tracer:
            self._guard(reach, _same_object(value, kind is type or _is_same_again(reach, value)))
        self.know(value, reach)
        return value

    def _input(self, reach: Reach, value: Any) -> Tracer:
        entered = enter(value, current(), free=self.free)
        self.inputs[reach.key] = reach, entered
        if entered.weak:
            current_trace().known[entered.param] = value
        return argument(entered.param, weak=entered.weak)

    def _container(self, reach: Reach, value: Any) -> Any:
        """A container of its own, of what its items are in the trace."""
        kind = type(value)
        self._guard(reach, _like(value))
        if kind is dict:
            out: Any = {k: self.value(reach.item(k), v) for k, v in value.items()}
        else:
            items = [self.value(reach.item(k), v) for k, v in enumerate(value)]
            out = kind(items) if kind in (list, tuple) else kind._make(items)
        self.reached[id(out)] = reach, out
        if kind in (list, dict):
            self.containers.append(Copied(reach, value, out, out.copy()))
        return out

    def _guard(self, reach: Reach, check: Callable[[Any], bool]) -> None:
        self.guards[reach.key] = Guard(reach, check)

    def reach_of(self, owner: Any) -> Reach | None:
        """How an object was reached, if it was."""
        found = self.reached.get(id(owner))
        return found[0] if found is not None and found[1] is owner else None

    def know(self, owner: Any, reach: Reach | None = None) -> None:
        """Make an object a root: its attributes are read from outside."""
        if id(owner) in self.reached:
            return
        self.reached[id(owner)] = reach or constant_reach(owner), owner
        if _is_instance(owner):
            self.objects[id(owner)] = owner, dict(vars(owner))

    def know_same(self, owner: Any, reach: Reach) -> None:
        """Make an object a root for which any object of its type may stand."""
        self._guard(reach, _same_object(owner, isinstance(owner, type)))
        self.know(owner, reach)

    def settle(self) -> str | None:
        """Carry plain changes to containers out; say where a traced value was stored outside, and undo that."""
        out = None
        for c in self.containers:
            if _leads_to_traced([x for x in _values(c.inside) if not any(x is y for y in _values(c.before))]):
                out = f"a {type(c.inside).__name__}"
            elif not _same_items(c.inside, c.before):
                c.write_back()
                self._guard(c.reach, _like(c.outside))
        for owner, before in self.objects.values():
            now = vars(owner)
            for name in [k for k, v in now.items() if _leads_to_traced(v) and before.get(k, owner) is not v]:
                out = f"attribute {name!r} of a {type(owner).__name__}"
                _set_back(now, name, before)
        return out


@dataclass(frozen=True, eq=False, slots=True)
class Seen:
    """A value outside and what stands for it; the reach keeps alive what keys name by id."""

    reach: Reach
    outside: Any
    inside: Any


@dataclass(frozen=True, eq=False, slots=True)
class Copied:
    """A list or dict outside, the copy that the traced code works on, and what the copy was at first."""

    reach: Reach
    outside: Any
    inside: Any
    before: Any

    def write_back(self) -> None:
        """Give the container outside the items of the copy."""
        known = {id(new): old for new, old in zip(_values(self.before), _values(self.outside), strict=True)}
        if isinstance(self.outside, dict):
            items = {k: known.get(id(v), v) for k, v in self.inside.items()}
            self.outside.clear()
            self.outside.update(items)
        else:
            self.outside[:] = [known.get(id(v), v) for v in self.inside]


def _values(container: Any) -> list[Any]:
    return list(container.values() if isinstance(container, dict) else container)


def _like(container: Any) -> Callable[[Any], bool]:
    """A check for containers of the same kind, keys and length."""
    kind = type(container)
    if kind is dict:
        keys = list(container)
        return lambda now: type(now) is dict and list(now) == keys
    return OfKind(kind, len(container))


EQUAL = (bool, str, bytes, complex, np.dtype, np.generic, range, slice)


UNSEEN = [
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__"),
    *("__rpow__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__matmul__", "__rmatmul__", "__neg__"),
    *("__pos__", "__abs__", "__invert__", "__and__", "__or__", "__xor__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__len__", "__iter__", "__next__", "__contains__", "__bool__", "__float__", "__int__", "__index__", "__array__"),
    "__enter__",
]  # methods that Python calls by itself: what they read of the object is not seen


def _same_object(value: Any, identical: bool) -> Callable[[Any], bool]:
    """A check for the object itself, or for its type; where Python calls methods by itself, also for its state."""
    kind = type(value)
    if not _is_instance(value) or not any(isinstance(getattr(kind, name, None), types.FunctionType) for name in UNSEEN):
        return Same(value) if identical else OfKind(kind)
    state = _state(value)
    return lambda now: (now is value if identical else type(now) is kind) and _state(now) == state


def _state(value: Any, within: tuple[int, ...] = ()) -> Hashable:
    """What can be compared of a value: the contents of arrays and containers, the attributes of objects."""
    if id(value) in within:
        return within.index(id(value))
    within = (*within, id(value))
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), tuple(_state(v, within) for v in value)
    if isinstance(value, dict):
        return dict, tuple((k, _state(v, within)) for k, v in value.items())
    if isinstance(value, (float, int, *EQUAL)):
        return type(value), value
    if _is_instance(value):
        return type(value), tuple((k, _state(v, within)) for k, v in vars(value).items())
    return id(value)


def _is_same_again(reach: Reach, value: Any) -> bool:
    """Whether reading gives the same object, and not a new one as some properties do."""
    try:
        return reach.read() is value
    except (AttributeError, LookupError, ValueError):
        return False


def is_numeric(value: Any) -> bool:
    """Whether a captured value is an input: an array or number of a dtype that programs have."""
    kind = type(value)
    if kind is float or kind is int:
        return True
    numeric = (isinstance(value, np.generic) and not isinstance(value, np.bool_)) or kind is np.ndarray
    return numeric and value.dtype.kind in "fiub"


def _is_instance(value: Any) -> bool:
    return (
        hasattr(type(value), "__dict__")
        and isinstance(getattr(value, "__dict__", None), dict)
        and not isinstance(value, (*FIXED, types.MethodType))
    )


def _same_items(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(a[k] is b[k] for k in a)
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _leads_to_traced(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_leads_to_traced, value))
    return any(map(_leads_to_traced, value.values())) if type(value) is dict else is_traced(value)


def _set_back(attributes: dict[str, Any], name: str, before: dict[str, Any]) -> None:
    if name in before:
        attributes[name] = before[name]
    else:
        del attributes[name]


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
