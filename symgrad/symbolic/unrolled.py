"""Graph -> Graph without regions, to be read: branches as choices, loops of known length step by step."""

from __future__ import annotations

from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, inline
from symgrad.ir.node import GET, Node, constant, make
from symgrad.ir.types import i64
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.loop import Layout
from symgrad.ops.pointwise import select
from symgrad.ops.views import concatenate, reshape, slice_

MOST = 5000  # nodes of all steps of one loop together


def unrolled(graph: Graph) -> Graph:
    """The same function, without ``cond`` and ``loop``.

    UnsupportedError for a loop whose trips are not known before it runs, or whose steps are too many to write down.
    """
    if not any(n.op.name in ("cond", "loop") for n in graph.nodes()):
        return graph
    return _Unroller().graph(graph)


class _Unroller:
    """What has been rebuilt; ``rows`` are the elements along the first axis of what loops stacked."""

    def __init__(self) -> None:
        self.several: dict[Node, list[Node]] = {}
        self.rows: dict[Node, list[Node]] = {}

    def graph(self, graph: Graph) -> Graph:
        done: dict[Node, Node] = {}
        for n in graph.nodes():
            args = [done[a] for a in n.args]
            if n.op.name in ("cond", "loop"):
                written = self.branch if n.op.name == "cond" else self.steps
                self.several[n], done[n] = written(args, **dict(n.attrs)), n
            elif n.op is GET and n.args[0] in self.several:
                done[n] = self.several[n.args[0]][n.attr("index")]
            else:
                same = all(a is b for a, b in zip(args, n.args, strict=True))
                done[n] = n if same else make(n.op, *args, **dict(n.attrs))
        return Graph(graph.params, tuple(done[r] for r in graph.results))

    def branch(self, args: list[Node], *, then: Graph, otherwise: Graph) -> list[Node]:
        predicate, *operands = args
        left, right = (inline(self.graph(g), *operands) for g in (then, otherwise))
        return [
            a if a is b else select(broadcast_to(predicate, a.shape), a, b) for a, b in zip(left, right, strict=True)
        ]

    def steps(
        self,
        args: list[Node],
        *,
        body: Graph,
        condition: Graph | None,
        length: Any,
        trips: str,
        layout: Layout,
        reverse: bool,
    ) -> list[Node]:
        if condition is not None or not isinstance(length, int):
            raise UnsupportedError("a formula of a loop needs to know how often it runs")
        body = self.graph(body)
        if length * len(body.nodes()) > MOST:
            raise UnsupportedError(f"a formula of a loop of {length} steps is too long to read")
        carry, xs, consts = layout.operands(args)
        ys: list[list[Node]] = []
        for at in range(length - 1, -1, -1) if reverse else range(length):
            out = inline(body, constant(at, i64), *carry, *(self.row(x, at) for x in xs), *consts)
            carry, y = layout.results(out)
            ys.append(y)
        if reverse:
            ys.reverse()
        return [*carry, *(self.stacked([y[k] for y in ys]) for k in range(len(ys[0]) if ys else 0))]

    def row(self, x: Node, at: int) -> Node:
        if x in self.rows:
            return self.rows[x][at]
        rest = x.shape[1:]
        part = slice_(x, starts=(at, *(0 for _ in rest)), sizes=(1, *rest), steps=(1,) * x.ndim)
        return reshape(part, shape=rest)

    def stacked(self, rows: list[Node]) -> Node:
        joined = concatenate(*(reshape(r, shape=(1, *r.shape)) for r in rows), axis=0)
        self.rows[joined] = rows
        return joined
