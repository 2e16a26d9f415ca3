"""Functions traced into regions: the graphs inside ``cond`` and ``loop``.

What a region reads from outside is found when its graph is closed, and becomes an operand. Nodes made inside belong to
the region: they are computed there and nowhere else, so that what is not run cannot do harm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.errors import TraceError
from symgrad.frontend.tracer import Tracer, value, wrap
from symgrad.frontend.tracing import current_trace
from symgrad.frontend.tree import TreeDef, flatten, unflatten
from symgrad.ir.graph import Graph, substitute
from symgrad.ir.node import CONSTANT, PARAM, SIZE, Node, param, region_scope
from symgrad.ir.sizes import current, same_shape, shown
from symgrad.ir.types import DType, Size, TensorType, boolean, f64, i64, promote
from symgrad.ops import pointwise as p
from symgrad.ops.control import cond, results_of
from symgrad.ops.kinds import number
from symgrad.ops.loop import Layout, loop, new_trips
from symgrad.ops.views import reshape
from symgrad.passes.stabilise import stabilise

Function = Callable[..., Any]
MOST_ROUNDS = 4  # tracings of a body until its state keeps its dtypes


@dataclass(eq=False)
class Region:
    """A region while it is traced: its parameters, the nodes made in it, and the leaves that its function gave."""

    params: tuple[Node, ...]
    table: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    leaves: list[Any] = field(default_factory=list)
    tree: TreeDef | None = None

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function whose nodes belong to the region."""
        with region_scope(self.table):
            return function()

    def trace(self, function: Callable[[], Any]) -> Region:
        """Run the user's function and keep its leaves, as tracers."""

        def leaves() -> tuple[list[Any], TreeDef]:
            found, tree = flatten(function())
            return [_traced(x) for x in found], tree

        self.leaves, self.tree = self.run(leaves)
        return self


def _traced(x: Any) -> Any:
    if isinstance(x, str | bytes):
        raise TraceError(f"a {type(x).__name__} cannot be the result of a compiled branch or loop")
    return wrap(value(x), weak=is_weak(x))


def is_weak(x: Any) -> bool:
    return x.weak if type(x) is Tracer else type(x) in (bool, int, float)


def close(regions: Sequence[Region], results: Sequence[Sequence[Node]]) -> tuple[list[Graph], list[Node]]:
    """Graphs of the regions, what they read from outside being further parameters of all; and what that is."""
    outer: dict[Node, None] = {}
    for r, nodes in zip(regions, results, strict=True):
        inside = {*(n for n in r.table.values() if n.op is not PARAM), *r.params}  # captures may be met first in here
        for n in _reached(nodes, inside):
            outer[n] = None
    graphs = []
    for r, nodes in zip(regions, results, strict=True):
        stand_ins = {n: param(n.type) for n in outer}
        graph = Graph((*r.params, *stand_ins.values()), tuple(substitute(list(nodes), dict(stand_ins))))
        graphs.append(stabilise(graph) if current_trace().stabilize else graph)
    return graphs, list(outer)


def _reached(roots: Sequence[Node], inside: set[Node]) -> list[Node]:
    """The outer nodes that a region reads itself: the first ones on every way down."""
    out: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n in inside:
            stack.extend(n.args)
        elif n.op not in (CONSTANT, SIZE):
            out[n] = None
    return sorted(out, key=lambda n: n.serial)


# --- types of arms and states ----------------------------------------------------------------------------------------


def predicate_of(x: Any, what: str) -> Node:
    """A 0-d bool; the truth of a number is whether it is not zero. TraceError for an array of several elements."""
    node = value(x)
    if node.shape:
        if not all(current().same(s, 1) for s in node.shape):
            raise TraceError(
                f"{what} is an array of shape {shown(node.shape)}: use np.any or np.all to make one truth of it"
            )
        node = reshape(node, shape=())
    return node if node.dtype == boolean else p.ne(node, number(0, node.dtype))


def common_dtype(*kinds: tuple[DType, bool]) -> DType:
    """NumPy's promotion, in which weak values adapt to strong ones."""
    strong = [d for d, weak in kinds if not weak]
    soft = [d for d, weak in kinds if weak]
    if not strong:
        return promote(*soft)
    out = promote(*strong)
    for d in soft:
        if d.is_float and not out.is_float:
            return f64
        if d.kind in "iu" and out == boolean:
            out = i64
    return out


# --- cond ------------------------------------------------------------------------------------------------------------


def branch(test: Any, then: Function, otherwise: Function, *, names: Sequence[str] = (), what: str = "a branch") -> Any:
    """The results of one of two functions without arguments, chosen when the program runs."""
    arms = [Region(()).trace(f) for f in (then, otherwise)]
    left, right = arms
    if left.tree != right.tree:
        raise TraceError(f"the arms of {what} give different structures: {left.tree} and {right.tree}")
    assert left.tree is not None
    return unflatten(left.tree, joined(test, arms, (left.leaves, right.leaves), names=names, what=what))


def joined(
    test: Any, arms: Sequence[Region], leaves: tuple[Sequence[Any], Sequence[Any]], *, names: Sequence[str], what: str
) -> list[Tracer]:
    """The leaves of one of two arms that have been traced, in dtypes that serve both."""
    predicate = predicate_of(test, f"the condition of {what}")
    kinds = [
        _joined(a, b, names[k] if k < len(names) else "", what) for k, (a, b) in enumerate(zip(*leaves, strict=True))
    ]
    dtypes = [d for d, _ in kinds]
    results = [r.run(functools.partial(_cast, given, dtypes)) for r, given in zip(arms, leaves, strict=True)]
    graphs, captured = close(arms, results)
    out = results_of(cond(predicate, *captured, then=graphs[0], otherwise=graphs[1]))
    return [wrap(n, weak=w) for n, (_, w) in zip(out, kinds, strict=True)]


def _cast(leaves: Sequence[Any], dtypes: Sequence[DType]) -> list[Node]:
    return [p.as_dtype(value(x), d) for x, d in zip(leaves, dtypes, strict=True)]


def _joined(a: Any, b: Any, name: str, what: str) -> tuple[DType, bool]:
    """The dtype of a result of both arms, and whether it stands for a Python number."""
    m, n = value(a), value(b)
    if not same_shape(m.shape, n.shape):
        of = f" of {name}" if name else ""
        raise TraceError(
            f"the arms of {what} give different shapes{of}: {shown(m.shape)} and {shown(n.shape)}; give both one shape"
        )
    return common_dtype((m.dtype, is_weak(a)), (n.dtype, is_weak(b))), is_weak(a) and is_weak(b)


# --- loops -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class State:
    """The carry of a loop: nodes, and which stand for Python numbers."""

    nodes: list[Node]
    weak: list[bool]
    tree: TreeDef

    def tracers(self, nodes: Sequence[Node]) -> Any:
        """Nodes in the structure of the state."""
        return unflatten(self.tree, [wrap(n, weak=w) for n, w in zip(nodes, self.weak, strict=True)])

    def params(self) -> list[Node]:
        return [param(n.type) for n in self.nodes]


@dataclass(frozen=True, eq=False)
class Steps:
    """How a loop goes on: ``length`` trips, or while ``test(index, state)``; ``xs`` are read one slice a trip."""

    length: Size | None = None
    test: Function | None = None
    xs: tuple[Node, ...] = ()
    reverse: bool = False


@dataclass(frozen=True, eq=False)
class Ran:
    """What a loop leaves: the last state, and what each trip gave besides, stacked."""

    state: Any
    ys: list[Node]
    ys_tree: TreeDef

    def stacked(self) -> Any:
        return unflatten(self.ys_tree, [wrap(y) for y in self.ys])


def run_loop(steps: Steps, body: Function, init: Any, *, names: Sequence[str] = (), what: str = "a loop") -> Ran:
    """``body(index, state, slices) -> (state, ys)``, again and again.

    The state may change its dtype, which is then promoted from the start. TraceError names a variable that changes its
    shape.
    """
    leaves, tree = flatten(init)
    state = State([value(x) for x in leaves], [is_weak(x) for x in leaves], tree)
    for _ in range(MOST_ROUNDS):
        index, carry = param(TensorType(i64)), state.params()
        slices = [param(x.type.with_shape(x.shape[1:])) for x in steps.xs]
        region = Region((index, *carry, *slices))
        region.trace(functools.partial(_trip, body, state, index, carry, slices))
        after, ys, ys_tree = _split(region, state, what)
        new = _promoted(state, after, names, what)
        if new is None:
            return _assembled(steps, state, region, (after, ys, ys_tree))
        state = new
    raise TraceError(f"the state of {what} changes its dtypes again and again")


def _trip(body: Function, state: State, index: Node, carry: list[Node], slices: list[Node]) -> Any:
    return body(wrap(index, weak=True), state.tracers(carry), [wrap(s) for s in slices])


def _split(region: Region, state: State, what: str) -> tuple[list[Any], list[Any], TreeDef]:
    assert region.tree is not None
    out = unflatten(region.tree, region.leaves)
    if not isinstance(out, tuple) or len(out) != 2:
        raise TraceError(f"the body of {what} must give two things: its state and what it gives besides")
    after, tree = flatten(out[0])
    if tree != state.tree:
        raise TraceError(f"the state of {what} changes its structure, from {state.tree} to {tree}")
    return (after, *flatten(out[1]))


def _promoted(state: State, after: Sequence[Any], names: Sequence[str], what: str) -> State | None:
    """The state to start with when the body gives other dtypes; None when it need not change."""
    nodes, weak = [], []
    for k, (n, w, x) in enumerate(zip(state.nodes, state.weak, after, strict=True)):
        new = value(x)
        if not same_shape(new.shape, n.shape):
            name = names[k] if k < len(names) else f"part {k} of the state"
            raise TraceError(
                f"{name} changes its shape in {what}, from {shown(n.shape)} to {shown(new.shape)}; "
                "give it its final shape before the loop"
            )
        nodes.append(p.as_dtype(n, common_dtype((n.dtype, w), (new.dtype, is_weak(x)))))
        weak.append(w and is_weak(x))
    same = weak == state.weak and all(a is b for a, b in zip(nodes, state.nodes, strict=True))
    return None if same else State(nodes, weak, state.tree)


def _assembled(steps: Steps, state: State, region: Region, given: tuple[list[Any], list[Any], TreeDef]) -> Ran:
    after, ys, ys_tree = given

    def nodes() -> list[Node]:
        return [*_cast(after, [n.dtype for n in state.nodes]), *map(value, ys)]

    regions, results = [region], [region.run(nodes)]
    if steps.test is not None:
        test = steps.test
        index, carry = param(TensorType(i64)), state.params()
        region = Region((index, *carry)).trace(lambda: test(wrap(index, weak=True), state.tracers(carry)))
        regions.append(region)
        results.append([region.run(lambda: predicate_of(region.leaves[0], "the condition of a loop"))])
    graphs, captured = close(regions, results)
    node = loop(
        *state.nodes,
        *steps.xs,
        *captured,
        body=graphs[0],
        condition=graphs[1] if len(graphs) > 1 else None,
        length=steps.length,
        trips=new_trips(),
        layout=Layout(len(state.nodes), len(steps.xs)),
        reverse=steps.reverse,
    )
    out = results_of(node)
    count = len(state.nodes)
    return Ran(state.tracers(out[:count]), out[count:], ys_tree)
