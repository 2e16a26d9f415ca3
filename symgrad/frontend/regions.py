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
from symgrad.frontend.raising import current_flag, goes_on
from symgrad.frontend.tracer import Tracer, value, wrap
from symgrad.frontend.tracing import current_trace
from symgrad.frontend.tree import TreeDef, flatten, unflatten
from symgrad.ir.graph import Graph, substitute
from symgrad.ir.node import CONSTANT, PARAM, SIZE, Node, param, region_scope, splat
from symgrad.ir.sizes import current, same_shape, shown
from symgrad.ir.types import DType, Size, TensorType, boolean, f64, i64, promote
from symgrad.ops import pointwise as p
from symgrad.ops.check import check
from symgrad.ops.control import cond, results_of
from symgrad.ops.kinds import number
from symgrad.ops.loop import Layout, loop, new_trips
from symgrad.ops.views import reshape
from symgrad.passes.stabilise import stabilise

Function = Callable[..., Any]
MOST_ROUNDS = 4  # tracings of a body until its state keeps its dtypes


@dataclass(eq=False)
class Region:
    """A region while it is traced: its parameters, the nodes made in it, and the leaves that its function gave.

    ``entry`` stands for the flag that its checks take from outside, ``flag`` is what the last one gives on.
    """

    params: tuple[Node, ...]
    table: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    leaves: list[Any] = field(default_factory=list)
    tree: TreeDef | None = None
    entry: Node = field(default_factory=lambda: param(TensorType(boolean)))
    flag: Node = field(init=False)

    def __post_init__(self) -> None:
        self.flag = self.entry

    @property
    def checked(self) -> bool:
        """Whether there are checks in it."""
        return self.flag is not self.entry

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function whose nodes and checks belong to the region."""
        trace = current_trace()
        outside, trace.flag = trace.flag, self.flag
        try:
            with region_scope(self.table):
                return function()
        finally:
            self.flag, trace.flag = trace.flag, outside

    def trace(self, function: Callable[[], Any]) -> Region:
        """Run the user's function and keep its leaves, as tracers."""

        def leaves() -> tuple[list[Any], TreeDef]:
            found, tree = flatten(function())
            return [_traced(x) for x in found], tree

        self.leaves, self.tree = self.run(leaves)
        return self

    def tried(self, function: Callable[[], Any]) -> bool:
        """``trace``, and whether the function gives a result at all."""
        results: list[Any] = []
        if not self.run(lambda: goes_on(lambda: results.append(function()))):
            return False
        self.trace(results.pop)
        return True


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
    left, right = arms = [Region(()), Region(())]
    if not left.tried(then):
        only_checks(predicate_of(test, f"the condition of {what}"), left)
        return otherwise()
    if not right.tried(otherwise):
        only_checks(p.not_(predicate_of(test, f"the condition of {what}")), right)
        return then()
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
    flags: list[Node] = []
    if any(r.checked for r in arms):
        flags = [current_flag()]
        for r, given in zip(arms, results, strict=True):
            r.params = (r.entry,)
            given.append(r.flag)
    graphs, captured = close(arms, results)
    out = results_of(cond(predicate, *flags, *captured, then=graphs[0], otherwise=graphs[1]))
    if flags:
        current_trace().flag = out.pop()
    return [wrap(n, weak=w) for n, (_, w) in zip(out, kinds, strict=True)]


def only_checks(predicate: Node, arm: Region) -> None:
    """The checks of an arm that is left by an exception, under its condition."""
    last, inside = arm.flag, set(arm.table.values())
    if last.op is check and last.args[0] is arm.entry and inside.isdisjoint(last.args[2:]):
        both = p.and_(predicate, last.args[1]) if splat(last.args[1]) is not True else predicate
        current_trace().flag = check(current_flag(), both, *last.args[2:], **dict(last.attrs))
    else:
        joined(wrap(predicate), (arm, Region(())), ([], []), names=(), what="a branch")


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
            region.params = (index, *carry, *([region.entry] if region.checked else []), *slices)
            ran = _assembled(steps, state, region, (after, ys, ys_tree))
            return _checked_before(steps, body, init, names=names, what=what) if ran is None else ran
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


def _checked_before(steps: Steps, body: Function, init: Any, *, names: Sequence[str], what: str) -> Ran:
    """A loop in whose test there are checks: it is made before the loop, and at the end of each trip for the next."""
    test = steps.test
    assert test is not None

    def truth(index: Any, state: Any) -> Any:
        return wrap(predicate_of(test(index, state), "the condition of a loop"), weak=True)

    def trip(index: Any, state: Any, slices: list[Any]) -> Any:
        after, ys = body(index, state[0], slices)
        return (after, truth(index + 1, after)), ys

    first = truth(wrap(number(0, i64), weak=True), init)
    again = Steps(test=lambda index, state: state[1], xs=steps.xs, reverse=steps.reverse)
    ran = run_loop(again, trip, (init, first), names=names, what=what)
    return Ran(ran.state[0], ran.ys, ran.ys_tree)


def _assembled(steps: Steps, state: State, region: Region, given: tuple[list[Any], list[Any], TreeDef]) -> Ran | None:
    """The loop; None when there are checks in its test."""
    after, ys, ys_tree = given
    flags = [region.flag] if region.checked else []

    def nodes() -> list[Node]:
        return [*_cast(after, [n.dtype for n in state.nodes]), *flags, *map(value, ys)]

    regions, results = [region], [region.run(nodes)]
    if steps.test is not None:
        test = steps.test
        index, carry = param(TensorType(i64)), state.params()
        region = Region((index, *carry)).trace(lambda: test(wrap(index, weak=True), state.tracers(carry)))
        if region.checked:
            return None
        region.params = (index, *carry, *([region.entry] if flags else []))
        regions.append(region)
        results.append([region.run(lambda: predicate_of(region.leaves[0], "the condition of a loop"))])
    graphs, captured = close(regions, results)
    node = loop(
        *state.nodes,
        *([current_flag()] if flags else []),
        *steps.xs,
        *captured,
        body=graphs[0],
        condition=graphs[1] if len(graphs) > 1 else None,
        length=steps.length,
        trips=new_trips(),
        layout=Layout(len(state.nodes) + len(flags), len(steps.xs)),
        reverse=steps.reverse,
    )
    out = results_of(node)
    count = len(state.nodes)
    if flags:
        current_trace().flag = out.pop(count)
    return Ran(state.tracers(out[:count]), out[count:], ys_tree)
