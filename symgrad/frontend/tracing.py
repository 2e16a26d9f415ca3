"""The trace under way in this thread, and the table of functions that traced values know.

A ``Trace`` knows the values of those parameters that stand for Python numbers. Where Python needs one of them itself
(an axis, a shape), ``pin`` gives it and notes that the trace holds for that value only.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from symgrad.errors import SymgradError, TraceError
from symgrad.frontend.lines import located, where
from symgrad.ir.graph import Graph, evaluate, map_attribute, size_parameters, topological
from symgrad.ir.node import CONSTANT, PARAM, SIZE, Node, TupleType, set_locator
from symgrad.ir.op import Region
from symgrad.ir.sizes import current

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy function or ufunc -> the same for traced values
REDUCTIONS: dict[Any, Any] = {  # ufunc -> the function that its ``reduce`` is
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}


def implements(*numpy_functions: Any) -> Callable[[F], F]:
    """Declare a function as the meaning of NumPy functions (or of ``(ufunc, method)``) on traced values."""

    def enter(function: F) -> F:
        for f in numpy_functions:
            FUNCTIONS[f] = function
        return function

    return enter


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply ``function``; its errors carry the user's line."""
    try:
        return function(*args, **kwargs)
    except SymgradError as e:
        raise e.at(where()) from None


@dataclass(eq=False)
class Trace:
    """``known``: the values of parameters that stand for Python numbers; ``pins``: those that Python needed.

    ``truths``: the conditions on such numbers that Python asked for, and their answers. ``labels``: names that
    the user's functions give to values, where they are asked for. ``stabilize``: naive forms may be replaced by stable
    ones. ``flag``: what the last check gave on, in the graph at hand (None: there was none). ``texts``: values that
    were formatted, numbered. ``handlers``: what surrounding ``except`` clauses catch; ``refused``: the error when one
    would have to.
    """

    known: dict[Node, Any] = field(default_factory=dict)
    pins: dict[Node, Any] = field(default_factory=dict)
    truths: dict[Node, bool] = field(default_factory=dict)
    labels: dict[Node, str] = field(default_factory=dict)
    stabilize: bool = True
    flag: Node | None = None
    texts: dict[Any, int] = field(default_factory=dict)
    handlers: list[Callable[[], Any]] = field(default_factory=list)
    refused: SymgradError | None = None

    def decide(self, node: Node) -> bool | None:
        """The truth of ``node``, which the trace then holds for only; None when it is not known."""
        found = _evaluated(node, self.known)
        if found is None:
            return None
        return self.truths.setdefault(node, bool(found.item()))

    def pin(self, node: Node) -> Any:
        """The value of ``node``, a Python number or an array; TraceError when it depends on anything not known."""
        found = _evaluated(node, self.known)
        if found is None:
            raise located(
                TraceError(
                    "Python needs the value of a traced number here, which is known only when the compiled code runs"
                )
            )
        self.pins.update((n, self.known[n]) for n in topological([node]) if n.op is PARAM)
        return found.item() if found.ndim == 0 else found


def constant_value(node: Node, *, pin_sizes: bool = True) -> np.ndarray[Any, Any] | None:
    """The value of a node that depends on constants only, else None; on sizes as well if these may be pinned."""
    return _evaluated(node, {}, pin_sizes)


def is_known(node: Node) -> bool:
    """Whether ``pin`` would give the value of ``node``."""
    return _evaluable(node, current_trace().known, True)


def _evaluated(node: Node, known: Mapping[Node, Any], pin_sizes: bool = True) -> np.ndarray[Any, Any] | None:
    if not _evaluable(node, known, pin_sizes):
        return None
    values: dict[Node, Any] = {n: np.asarray(v, n.dtype.numpy) for n, v in known.items()}
    with np.errstate(all="ignore"):
        for n in topological([node]):
            if n not in values:
                attrs = {k: map_attribute(v, current().pin) for k, v in n.attrs}
                regions = (evaluate,) if isinstance(n.op.lower, Region) else ()
                out = n.op.numpy(*regions, *(values[a] for a in n.args), **attrs)
                values[n] = out if isinstance(n.type, TupleType) else np.asarray(out, n.dtype.numpy)
    return values[node]  # type: ignore[no-any-return]  # filled above


def _evaluable(node: Node, known: Mapping[Node, Any], pin_sizes: bool) -> bool:
    """Whether no parameter outside ``known`` (and no symbolic size) is below ``node``; stops at the first."""
    if node.op is CONSTANT:
        return True
    seen, stack = {node}, [node]
    while stack:
        n = stack.pop()
        if n.op is PARAM and n not in known:
            return False
        if any(isinstance(v, Graph) and size_parameters(v) for _, v in n.attrs):
            return False
        if not pin_sizes and (
            n.op is SIZE or (not isinstance(n.type, TupleType) and not all(isinstance(s, int) for s in n.shape))
        ):
            return False
        fresh = [a for a in n.args if a not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return True


class _Local(threading.local):
    trace: Trace | None = None  # an attribute that is not there takes ten times as long to look for


_local = _Local()


def tracing() -> bool:
    """Whether this thread is tracing."""
    return _local.trace is not None


def current_trace() -> Trace:
    """The innermost trace of this thread; outside any, one that knows nothing."""
    found = _local.trace
    return found if found is not None else Trace()


@dataclass(eq=False)
class _Writes:
    """The arrays changed in place in one run of a part, by identity, with what they were before."""

    number: int = field(default_factory=itertools.count(1).__next__)
    log: dict[int, tuple[Any, Node]] = field(default_factory=dict)


def run_number() -> int:
    """Which run of a part of the program is under way; 0 outside all."""
    found: _Writes | None = getattr(_local, "writes", None)
    return 0 if found is None else found.number


def note_write(cell: Any) -> None:
    """Tell the run under way that an array, unless made in it, is about to be changed in place."""
    found: _Writes | None = getattr(_local, "writes", None)
    if found is not None and cell.born != found.number:
        found.log.setdefault(id(cell), (cell, cell.node))


@contextmanager
def holding(objects: Callable[[], Iterable[Any]]) -> Iterator[None]:
    """Say what a caller keeps one reference each to, only to put it back where it was: that is no use of it."""
    held: list[Callable[[], Iterable[Any]]] = _local.__dict__.setdefault("held", [])
    held.append(objects)
    try:
        yield
    finally:
        held.pop()


def in_use(cell: Any) -> bool:
    """Whether the user's function, or anything but those who only hold it, refers to an array.

    An answer of True for one that is not in use does no more than ask for a copy.
    """
    held: list[Callable[[], Iterable[Any]]] = getattr(_local, "held", [])
    ours = 3  # the caller's variable, this argument, and that of getrefcount
    return sys.getrefcount(cell) > ours + sum(x is cell for objects in held for x in objects())


@contextmanager
def watching_writes() -> Iterator[dict[int, tuple[Any, Node]]]:
    """The arrays that are changed in place inside, with what they were before. They are put back at the end."""
    before = getattr(_local, "writes", None)
    writes = _local.writes = _Writes()
    try:
        with holding(lambda: (cell for cell, _ in writes.log.values())):
            yield writes.log
    finally:
        _local.writes = before
        for cell, node in writes.log.values():
            cell.restore(node)


@contextmanager
def activate(trace: Trace) -> Iterator[Trace]:
    """Make ``trace`` the current one and let nodes record the user's lines."""
    before = _local.trace
    locator = set_locator(where)
    _local.trace = trace
    _count(1)
    try:
        yield trace
    finally:
        _count(-1)
        _local.trace = before
        set_locator(locator)


UNDER_WAY = ctypes.c_int64(0)  # traces in all threads: compiled calls are made in Python meanwhile
_lock = threading.Lock()


def _count(change: int) -> None:
    with _lock:
        UNDER_WAY.value += change
