"""Python function and arguments -> Traced: a graph with everything needed to call it again.

The inputs of the graph are the numeric leaves of the arguments, then what the function reads from outside. ``free``
gives every length a name; otherwise lengths are numbers and the program is for these lengths only.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import SourceLine, SymgradError, TraceError
from symgrad.frontend.capture import Guard, Reach, Recorder, recording
from symgrad.frontend.leaves import Input, Static, enter, is_callable_object, is_static, lengths
from symgrad.frontend.lengths import TracedSize
from symgrad.frontend.lines import is_internal
from symgrad.frontend.masked import Masked
from symgrad.frontend.raising import ends
from symgrad.frontend.tracer import Tracer, argument, value
from symgrad.frontend.tracing import Trace, activate
from symgrad.frontend.tree import TreeDef, flatten, unflatten
from symgrad.ir.graph import Graph, canonical, evaluate, topological
from symgrad.ir.node import PARAM, Node
from symgrad.ir.sizes import Sizes, assuming
from symgrad.passes.stabilise import rewrites_applied, stabilise

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """One leaf of the results: a value of the program, two of them (values and which to keep), or a Python object."""

    first: int = -1
    mask: int = -1
    static: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """A condition on Python numbers among the inputs, and the answer that the program was made for."""

    condition: Graph
    positions: tuple[int, ...]
    answer: bool

    def holds(self, values: Sequence[Any], sizes: Mapping[str, int]) -> bool:
        given = [
            np.asarray(values[k], n.dtype.numpy) for k, n in zip(self.positions, self.condition.params, strict=True)
        ]
        with np.errstate(all="ignore"):
            (found,) = evaluate(self.condition, *given, sizes=sizes)
        return bool(found.item()) == self.answer


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced call. ``inputs`` are the parameters of numeric leaves, ``captures`` those of values from outside.

    The last ``flags`` results of the graph, one at most, are that of its checks.
    """

    graph: Graph
    flags: int
    sizes: Sizes
    inputs: tuple[Input, ...]
    captures: tuple[tuple[Reach, Input], ...]
    guards: tuple[Guard, ...]
    pins: tuple[tuple[int, Any], ...]
    truths: tuple[Truth, ...]
    outputs: tuple[Output, ...]
    tree: TreeDef
    rewrites: tuple[str, ...]
    labels: Mapping[Node, str]

    @property
    def unchecked(self) -> Graph:
        """The graph without its checks."""
        return Graph(self.graph.params, self.graph.results[: len(self.graph.results) - self.flags])

    def captured(self) -> list[Any] | None:
        """Values from outside as they are now; None when the program was not made for them."""
        if not all(g.holds() for g in self.guards):
            return None
        out = []
        for reach, entered in self.captures:
            try:
                now = reach.read()
            except (AttributeError, LookupError, ValueError, NameError):
                return None
            if not fits(now, entered):
                return None
            out.append(now)
        return out

    def lengths(self, values: Sequence[Any]) -> dict[str, int] | None:
        """Named lengths of these inputs and captures; None when an assumption fails."""
        found: dict[str, int] = {}
        every = (*self.inputs, *(entered for _, entered in self.captures))
        if lengths(every, list(values), found) is None:
            return None
        if any(values[k] != pinned or type(values[k]) is not type(pinned) for k, pinned in self.pins):
            return None
        if not all(g.holds(found) for g in self.sizes.guards):
            return None
        return found if all(t.holds(values, found) for t in self.truths) else None

    def rebuild(self, arrays: Sequence[Array]) -> Any:
        """The user's results: arrays, NumPy scalars for 0-d ones, in the structure the function returns."""
        return unflatten(self.tree, [_output(o, arrays) for o in self.outputs])


def _output(o: Output, arrays: Sequence[Array]) -> Any:
    if o.first < 0:
        return o.static
    a = arrays[o.first]
    return a if o.mask < 0 else a[arrays[o.mask]]


def fits(now: Any, entered: Input) -> bool:
    """Whether a value has the dtype, rank and fixed lengths of an input."""
    type_ = entered.param.type
    if entered.weak:
        return type(now) is (float if type_.dtype.is_float else int)
    if not isinstance(now, np.ndarray | np.generic) or now.ndim != type_.ndim:
        return False
    if now.dtype != type_.dtype.numpy and now.dtype.newbyteorder("=") != type_.dtype.numpy:
        return False
    named = zip(entered.names, now.shape, type_.shape, strict=True)
    return all(length != 1 if name is not None else length == size for name, length, size in named)


def trace_call(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    tree: TreeDef,
    *,
    free: bool,
    stabilize: bool = True,
    specs: bool = False,
    roots: Sequence[Any] = (),
) -> Traced:
    """Run ``fun`` on tracers for the numeric leaves; errors carry the user's line.

    The attributes of objects in ``roots``, and of callable arguments, are read from outside.
    """
    sizes, trace, recorder = Sizes(assume_equal=not specs), Trace(stabilize=stabilize), Recorder(free)
    with assuming(sizes), activate(trace), recording(recorder):
        for root in (*roots, *(x for x in leaves if is_callable_object(x))):
            recorder.know(root)
        inputs, arguments = _arguments(leaves, sizes, trace, free)
        args, kwargs = unflatten(tree, arguments)
        leaked, given = None, []  # type: tuple[str | None, list[Any]]
        try:
            try:
                ended = ends(lambda: given.append(fun(*args, **kwargs)))
            finally:
                leaked = recorder.settle()
            if trace.refused is not None:
                raise trace.refused
            if leaked is not None:
                raise TraceError(f"{leaked} outside the function would keep a traced value; return the value instead")
            out_leaves, out_tree = flatten(given[0] if ended else None)
            outputs, nodes = _outputs(out_leaves)
            return _finished(trace, recorder, sizes, inputs, outputs, nodes, out_tree)
        except SymgradError as e:
            raise e.at(_user_line(e)) from e.__cause__


def _arguments(leaves: Sequence[Any], sizes: Sizes, trace: Trace, free: bool) -> tuple[list[Input], list[Any]]:
    inputs, arguments = [], []
    for leaf in leaves:
        if is_static(leaf):
            arguments.append(leaf.value if isinstance(leaf, Static) else leaf)
            continue
        entered = enter(leaf, sizes, free=free)
        if entered.weak:
            trace.known[entered.param] = leaf
        inputs.append(entered)
        arguments.append(argument(entered.param, weak=entered.weak))
    return inputs, arguments


def _outputs(leaves: Sequence[Any]) -> tuple[list[Output], list[Node]]:
    outputs, nodes = [], []  # type: tuple[list[Output], list[Node]]
    for leaf in leaves:
        if type(leaf) is Masked:
            outputs.append(Output(len(nodes), len(nodes) + 1))
            nodes += [value(leaf.value), value(leaf.mask)]
        elif type(leaf) in (Tracer, TracedSize) or (
            isinstance(leaf, int | float | np.ndarray | np.generic) and not isinstance(leaf, bool)
        ):
            outputs.append(Output(len(nodes)))
            nodes.append(value(leaf))
        else:
            outputs.append(Output(static=leaf))
    return outputs, nodes


def _finished(
    trace: Trace,
    recorder: Recorder,
    sizes: Sizes,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    nodes: Sequence[Node],
    tree: TreeDef,
) -> Traced:
    captures = tuple(recorder.inputs.values())
    params = (*(i.param for i in inputs), *(entered.param for _, entered in captures))
    flags = [] if trace.flag is None else [trace.flag]
    graph = Graph(params, (*nodes, *flags))
    rewrites = rewrites_applied(graph) if trace.stabilize else []
    if trace.stabilize:
        graph = stabilise(graph)
    known = set(params)
    for n in graph.nodes():
        if n.op is PARAM and n not in known:
            raise TraceError(
                "a traced value left the inner function that it belongs to; return it instead of storing it outside"
            ).at(n.where)
    pins = tuple((params.index(n), v) for n, v in trace.pins.items() if n in known)
    truths = tuple(_truth(n, answer, params) for n, answer in trace.truths.items() if known.issuperset(_params(n)))
    return Traced(
        canonical(graph), len(flags), sizes, tuple(inputs), captures, tuple(recorder.guards.values()), pins, truths,
        tuple(outputs), tree, tuple(rewrites), dict(trace.labels),
    )  # fmt: skip


def _params(node: Node) -> list[Node]:
    return [n for n in topological([node]) if n.op is PARAM]


def _truth(condition: Node, answer: bool, params: Sequence[Node]) -> Truth:
    inputs = tuple(_params(condition))
    return Truth(Graph(inputs, (condition,)), tuple(params.index(n) for n in inputs), answer)


def _user_line(e: BaseException) -> SourceLine | None:
    """The innermost line of the user's code in a traceback."""
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        if not is_internal(frame.filename):
            return SourceLine(frame.filename, frame.lineno or 0, (frame.line or "").strip(), frame.name)
    return None
