"""``check``: end the call when a condition holds, with an exception made of values of the program.

Checks form a chain. Each takes a flag and gives it on, so that what Python would have met first fails first; graphs in
branches and loops take the flag in and give it back, and a graph that holds checks has it as a result. Nothing but
checks depends on a flag, so derivatives leave them out, and a chain that is asked for is whole. A flag that is set
blocks: that is how lanes of a batch that do not take a branch, or have left a loop, pass by the checks in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.graph import Graph, graphs_of
from symgrad.ir.loops import AND, NOT, Apply, Block, If, Site
from symgrad.ir.node import PARAM, Node, make, param
from symgrad.ir.op import Index, Nest, NestBuilder, Op, Place, register
from symgrad.ir.types import Size, TensorType, boolean
from symgrad.ops.pointwise import and_, not_, or_, select
from symgrad.ops.views import batched, broadcast, to_front, transpose

Lanes = tuple[tuple[int, ...], ...]


def _infer(blocked: TensorType, failing: TensorType, *values: TensorType, site: Site, lanes: Lanes) -> TensorType:
    assert blocked == failing and blocked.dtype == boolean and len(lanes) == len(values)
    return blocked


def _numpy(blocked: Any, failing: Any, *values: Any, site: Site, lanes: Lanes) -> Any:
    for ix in np.argwhere(failing & ~blocked):
        raise site.make([np.asarray(v[tuple(ix[a] for a in axes)]) for v, axes in zip(values, lanes, strict=True)])
    return blocked


def _build(
    b: NestBuilder, out: Place, blocked: Place, failing: Place, *values: Place, site: Site, lanes: Lanes
) -> Block:
    inner = [v.type.with_shape(v.type.shape[len(axes) :]) for v, axes in zip(values, lanes, strict=True)]
    left = [b.temp(t) for t in inner]
    fail = b.fail_at(site, left)

    def at(ix: Index) -> Block:
        def left_behind(k: int) -> Block:
            lead = tuple(ix[a] for a in lanes[k])
            return b.loop(inner[k].shape, lambda jx: (left[k].store(values[k].load(*lead, *jx), *jx),))

        hit = Apply(AND, (failing.load(*ix), Apply(NOT, (blocked.load(*ix),))))
        then = (*(s for k in range(len(values)) for s in left_behind(k)), fail)
        return If(hit, then), out.store(blocked.load(*ix), *ix)

    return b.loop(out.type.shape, at)


def _batch(size: Size, args: Any, dims: Any, *, site: Site, lanes: Lanes) -> tuple[Node, int]:
    """The lanes come first; a value that is the same in all of them stays one."""
    blocked, failing = (batched(size, a, d) for a, d in zip(args[:2], dims[:2], strict=True))
    values = [a if d is None else to_front(a, d) for a, d in zip(args[2:], dims[2:], strict=True)]
    up = [tuple(a + 1 for a in axes) for axes in lanes]
    new = tuple(axes if d is None else (0, *axes) for axes, d in zip(up, dims[2:], strict=True))
    return check(blocked, failing, *values, site=site, lanes=new), 0


_EXAMPLE = Site("ValueError", "", lambda values: ValueError())

check: Op = register(
    Op(
        name="check",
        doc="The first operand, a flag. Where the second holds and the flag is not set, the call ends at ``site``.",
        infer=_infer,
        numpy=_numpy,
        lower=Nest(_build),
        constant=True,
        batch=_batch,
        examples=lambda: [
            (
                (np.array([True, False]), np.zeros(2, bool), np.zeros((2, 3))),
                {"site": _EXAMPLE, "lanes": ((0,),)},
            )
        ],
    )
)


def holds_checks(n: Node) -> bool:
    """Whether a node may end the call at a check, its own or one in a graph inside."""
    return n.op is check or any(holds_checks(m) for g in graphs_of(n) for m in g.nodes())


def flags_of(graphs: Sequence[Graph]) -> set[int]:
    """The positions of the parameters that are flags in any of these graphs, which have the same parameters."""
    return {k for g in graphs for flags in [_flags(g)] for k, q in enumerate(g.params) if q in flags}


def _flags(graph: Graph) -> set[Node]:
    """The parameters whose flags checks take in, in this graph or in those inside."""
    todo: list[Node] = []
    for n in graph.nodes():
        if n.op is check:
            todo.append(n.args[0])
        elif n.op.name == "cond":
            todo += [n.args[1 + k] for k in flags_of(graphs_of(n))]
        elif n.op.name == "loop":
            todo += [n.args[k - 1] for k in flags_of([n.attr("body")]) if _is_operand(n, k)]
    found: set[Node] = set()
    while todo:
        n = todo.pop()
        if n.op is PARAM:
            found.add(n)
        elif n.op in (or_, broadcast, transpose):  # as made by ``blocking`` and batching
            todo.append(n.args[0])
        elif n.op is select:
            todo += n.args[1:]
    return found


def _is_operand(loop: Node, parameter: int) -> bool:
    """Whether a parameter of a loop's body stands for an operand as it is, and is no index or slice."""
    layout = loop.attr("layout")
    return bool(0 < parameter <= layout.carry or parameter > layout.carry + layout.xs)


def blockable(graph: Graph) -> Graph:
    """The graph with one more parameter. Where it holds nothing ends the call: no check, index or endless loop."""
    block = param(TensorType(boolean))
    env = {q: or_(q, block) for q in _flags(graph)}
    for n in graph.nodes():
        if n not in env:
            env[n] = _blocked(n, [env[a] for a in n.args], block)
    return Graph((*graph.params, block), tuple(env[r] for r in graph.results))


def _blocked(n: Node, args: list[Node], block: Node) -> Node:
    attrs = dict(n.attrs)
    if n.op.name == "checked_index":
        x, *before = args
        here = broadcast(block, shape=x.shape, axes=())
        return make(n.op, x, *(or_(b, here) for b in before or [here]), **attrs)
    if n.op.name == "cond" and any(map(_may_end, graphs_of(n))):
        arms = {k: blockable(g) for k, g in attrs.items()}
        return make(n.op, *args, block, **arms)
    if n.op.name == "loop" and (attrs["condition"] is not None or _may_end(attrs["body"])):
        return make(n.op, *args, block, **{**attrs, **_blocked_loop(attrs["body"], attrs["condition"])})
    return n if all(a is b for a, b in zip(args, n.args, strict=True)) else make(n.op, *args, **attrs)


def _blocked_loop(body: Graph, condition: Graph | None) -> dict[str, Graph | None]:
    """The graphs of a loop that ends at once where its last operand holds."""
    if condition is None:
        return {"body": blockable(body)}
    block = param(TensorType(boolean))
    test = Graph((*condition.params, block), (and_(condition.results[0], not_(block)),))
    return {"body": blockable(body), "condition": test}


def _may_end(graph: Graph) -> bool:
    """Whether there is anything in a graph, or in those inside, that blocking it changes."""
    return any(
        n.op is check
        or n.op.name == "checked_index"
        or (n.op.name == "loop" and n.attr("condition") is not None)
        or any(map(_may_end, graphs_of(n)))
        for n in graph.nodes()
    )
