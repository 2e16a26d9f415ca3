"""Forward mode: tangents of arguments -> tangents of results, appended to the same graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.autodiff.rules import Linear, pushforward
from symgrad.ir.graph import Graph, dependents
from symgrad.ir.node import GET, Node, TupleType, param
from symgrad.ir.op import Region
from symgrad.ops.kinds import filled


def push(results: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Linear | None]) -> list[Node | None]:
    """Tangents of ``results``, None where they do not depend on ``wrt``."""
    moving = ((w, t) for w, t in zip(wrt, tangents, strict=True) if t is not None and w.dtype.is_float)
    known: dict[Node, Linear] = dict(moving)
    tuples: dict[Node, Sequence[Linear | None]] = {}
    for n in dependents(results, wrt):
        if isinstance(n.type, TupleType):
            assert n.op.jvp is not None
            values = tuple(known[a].value if a in known else None for a in n.args)
            transform = (push_nodes,) if isinstance(n.op.lower, Region) else ()
            out: Any = n.op.jvp(*transform, values, n, *n.args, **dict(n.attrs))  # one per result
            tuples[n] = [None if t is None else Linear(t) for t in out]
            continue
        t = tuples[n.args[0]][n.attr("index")] if n.op is GET else pushforward(n, [known.get(a) for a in n.args])
        if t is not None:
            known[n] = t
    return [known[r].value if r in known else None for r in results]


def push_nodes(results: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> list[Node | None]:
    """``push`` without masks, for the graphs inside primitives."""
    return push(results, wrt, [Linear(t) for t in tangents])


def jvp(graph: Graph) -> Graph:
    """(params, tangents of the params) -> (results, tangents of the results)."""
    seeds = tuple(param(p.type) for p in graph.params)
    out = push(graph.results, graph.params, [Linear(s) for s in seeds])
    return Graph((*graph.params, *seeds), (*graph.results, *filled(out, graph.results)))
