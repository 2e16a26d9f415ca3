"""Recorded operations -> native programs: values that are pending until somebody reads one.

Operations go into one pending ``Segment``. What has been recorded is known by a ``State``: a node of a tree whose
branches are "this operation on the values at these positions". Recording what was recorded before walks down that tree
by one look-up for each operation: nothing is built or hashed again, and a program that was compiled for the values
still in use when a state was reached is found there. A value is immutable: in-place operations make new ones.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from symgrad.compiler import compile_graph
from symgrad.errors import TraceError
from symgrad.frontend.lines import is_internal
from symgrad.frontend.tracing import tracing
from symgrad.ir.graph import Graph, topological
from symgrad.ir.node import PARAM, Node, constant, param
from symgrad.ir.types import TensorType, dtype_of
from symgrad.tensor.calls import NativeCall
from symgrad.tensor.operations import Operation, apart, applied, operation
from symgrad.tensor.values import Value

LONG = 600  # a segment of so many values is cut at the next turn of the loop that records it
LONGEST = 1500  # and here in any case
MOST_STATES = 300_000
MADE_IN_TRACE = -1  # the position of a value that is a constant of the trace under way


class CacheInfo(NamedTuple):
    """``misses`` counts programs built or loaded, ``compiled`` those of them that had to be compiled."""

    hits: int
    misses: int
    currsize: int
    compiled: int


class State:
    """What has been recorded so far in a segment, with what may come next."""

    __slots__ = ("next", "nodes", "operation", "present", "programs")

    def __init__(self, nodes: tuple[Node, ...], operation: Operation | None) -> None:
        self.nodes = nodes
        self.operation: Any = operation
        self.present: tuple[bool, ...] = ()  # of a route: which of its results there are
        self.next: dict[Any, State] = {}
        self.programs: dict[tuple[int, ...], NativeCall] = {}


class Segment:
    """Values recorded since the last cut: ``values[k]`` is at position k, ``inputs`` are those that came as arrays."""

    __slots__ = ("inputs", "site", "state", "values")

    def __init__(self) -> None:
        self.state = _root
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.site: Any = None


_root = State((), None)
_lock = threading.RLock()
_acquire, _release = _lock.acquire, _lock.release  # half the time of a with
_segment = Segment()
_counts = {"hits": 0, "misses": 0, "compiled": 0, "states": 0}


def record(function: Any, operands: Sequence[Value]) -> tuple[tuple[Value, ...], Operation | None]:
    """The results of an operation, or of a function of traced arrays, on values.

    Inside a trace it is applied at once, and the operation is None.
    """
    if tracing():
        return _apply_traced(function, operands), None
    with _lock:
        segment = _segment
        if len(segment.values) >= LONG:
            segment = _cut_if_due(function)
        # loops written out: this is the cost of an operation
        positions = []
        for v in operands:
            if v.segment is not segment:
                _enter(segment, v)
            positions.append(v.position)
        key = (function, *positions)
        state = segment.state.next.get(key)
        if state is None:
            state = _extend(segment, key, function)
        segment.state = state
        values = segment.values
        nodes = state.nodes
        if len(nodes) == 1:
            out = Value(None, segment, len(values), nodes[0])
            values.append(out)
            return (out,), state.operation
        outs = tuple(Value(None, segment, len(values) + k, n) for k, n in enumerate(nodes))
        values.extend(outs)
        return outs, state.operation


def record_simple(function: Any, a: Value, b: Value | None = None) -> tuple[Value, Operation]:
    """``record`` of a function of one or two values outside of a trace that gives one: the common case, written out."""
    _acquire()
    try:
        segment = _segment
        values = segment.values
        if len(values) >= LONG:
            segment = _cut_if_due(function)
            values = segment.values
        if a.segment is not segment:
            _enter(segment, a)
        if b is None:
            key: tuple[Any, ...] = (function, a.position)
        else:
            if b.segment is not segment:
                _enter(segment, b)
            key = (function, a.position, b.position)
        state = segment.state.next.get(key)
        if state is None:
            state = _extend(segment, key, function)
        segment.state = state
        out = Value(None, segment, len(values), state.nodes[0])
        values.append(out)
        return out, state.operation
    finally:
        _release()


def pending() -> Segment:
    """The segment that operations are recorded in."""
    return _segment


def record_route(key: tuple[object, ...], run: Callable[[], list[Value | None]]) -> list[Value | None]:
    """The results of ``run``, which records operations, as one step named ``key``; it runs the first time only.

    ``key`` and what has been recorded determine what ``run`` does, unless it brings in values from elsewhere.
    """
    with _lock:
        segment = _segment
        state = segment.state.next.get(key)
        if state is None:
            before, count, inputs = segment.state, len(segment.values), len(segment.inputs)
            results = run()
            if _segment is not segment or len(segment.inputs) != inputs:
                return results
            state = before.next[key] = State(tuple(v.node for v in results if v is not None), None)
            state.present = tuple(v is not None for v in results)
            _counts["states"] += 1
            del segment.values[count:]  # the steps of the way are known by nobody else
        segment.state = state
        out: list[Value | None] = []
        nodes = iter(state.nodes)
        for here in state.present:
            out.append(Value(None, segment, len(segment.values), next(nodes)) if here else None)
            if here:
                segment.values.append(out[-1])  # type: ignore[arg-type]  # it is there
        return out


def _enter(segment: Segment, v: Value) -> None:
    """An array as an input of the segment."""
    kind = v.kind
    if kind is None:
        if v.pending:
            raise v.error or RuntimeError("the value of a traced tensor is known only when the compiled code runs")
        kind = v.kind = (v.array.dtype, v.array.shape)
    state = segment.state.next.get(kind)
    if state is None:
        state = segment.state.next[kind] = State((param(TensorType(dtype_of(v.dtype), v.shape)),), None)
        _counts["states"] += 1
    segment.state = state
    values = segment.values
    v.segment = segment
    v.position = len(values)
    v.node = state.nodes[0]
    values.append(v)
    segment.inputs.append(v)


def _extend(segment: Segment, key: tuple[Any, ...], function: Any) -> State:
    """A branch that was not taken before."""
    operands = [segment.values[k] for k in key[1:]]
    nodes = [v.node for v in operands]
    if type(function) is Operation:
        step = function
    else:
        step = operation(function, tuple(n.type for n in nodes), tuple(v.weak for v in operands))
    with apart():
        state = segment.state.next[key] = State(tuple(step.applied(nodes)), step)
    _counts["states"] += 1
    return state


def _apply_traced(function: Any, operands: Sequence[Value]) -> tuple[Value, ...]:
    nodes = [_node_in_trace(v) for v in operands]
    if type(function) is Operation:
        return tuple(Value(node=n) for n in function.applied(nodes))
    results, _ = applied(function, nodes, tuple(v.weak for v in operands))
    return tuple(Value(node=n) for n in results)


def _node_in_trace(v: Value) -> Node:
    if v.pending:
        node: Node = v.node
        return node
    if v.position != MADE_IN_TRACE and not v.weak:
        raise TraceError("a tensor from outside is used in a compiled function: pass it in as an argument")
    return constant(v.own_array())


# --- running ---------------------------------------------------------------------------------------------------------


def array_of(v: Value) -> Any:
    """The array of a value; the pending program is run if need be. It belongs to the value: never change it."""
    if v.array is None:
        with _lock:
            if v.pending and v.error is None:
                if v.segment is not _segment:
                    raise RuntimeError("the value of a traced tensor is known only when the compiled code runs")
                run_pending(v)
            if v.error is not None:
                raise v.error
            return v.own_array()
    return v.array


def run_pending(wanted: Value | None = None) -> None:
    """Compute what is pending and still in use, and begin a new segment.

    What fails keeps its error, which is raised when it is read; at once unless some other value is ``wanted``.
    """
    global _segment
    with _lock:
        segment = _segment
        values = segment.values
        live = tuple([k for k, n in enumerate(_references(values)) if n > _UNUSED and values[k].pending])
        errors = _run(segment, live) if live else []
        segment.values, segment.inputs = [], []
        if _counts["states"] > MOST_STATES:
            _root.next.clear()
            _counts["states"] = 0
        _segment = Segment()
        if errors and wanted is None:
            raise errors[0]


def _references(values: list[Value]) -> list[int]:
    return list(map(sys.getrefcount, values))


_UNUSED = _references([Value()])[0]  # of a value that only the segment refers to


def _run(segment: Segment, live: tuple[int, ...]) -> list[Exception]:
    """Compute values at some positions; where that fails, all but the ones that fail."""
    results = [segment.values[k] for k in live]
    try:
        program = segment.state.programs.get(live)
        if program is None:
            program = segment.state.programs[live] = _compile(segment, live)
        else:
            _counts["hits"] += 1
        program([segment.inputs[k] for k in program.inputs], results)
    except Exception as e:
        if len(live) > 1:
            half = len(live) // 2
            return _run(segment, live[:half]) + _run(segment, live[half:])
        results[0].error, results[0].segment = e, None
        return [e]
    return []


def _compile(segment: Segment, live: tuple[int, ...]) -> NativeCall:
    results = tuple(segment.values[k].node for k in live)
    used = {n for n in topological(results) if n.op is PARAM}
    inputs = tuple(k for k, v in enumerate(segment.inputs) if v.node in used)
    graph = Graph(tuple(segment.inputs[k].node for k in inputs), results)
    executable = compile_graph(graph, "tensors")
    _counts["misses"] += 1
    _counts["compiled"] += executable.native.compiled
    return NativeCall(executable, inputs)


def cache_info() -> CacheInfo:
    """Programs run that were there, programs made, programs kept, programs compiled."""
    with _lock:
        kept = _counts["misses"]
        return CacheInfo(_counts["hits"], _counts["misses"], kept, _counts["compiled"])


def _cut_if_due(function: Any) -> Segment:
    """Cut a long segment where the loop that records it comes round, so that all its segments are alike."""
    segment = _segment
    site = (function, *_site())
    if segment.site is None:
        segment.site = site
    if site == segment.site or len(segment.values) >= LONGEST:
        run_pending()
        _segment.site = site
    return _segment


def _site() -> tuple[Any, int]:
    """The instruction of the user's program that is at work."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return (None, 0) if frame is None else (id(frame.f_code), frame.f_lasti)
