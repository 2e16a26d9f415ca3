"""Graph -> Graph in primitives that lower directly: expansions in place, rules and stops erased."""

from __future__ import annotations

from symgrad.ir.graph import Graph, rewrite
from symgrad.ir.node import GET, Node, TupleType
from symgrad.ir.op import Expand


def expand(graph: Graph) -> Graph:
    """Replace primitives declared by expansion, and results of custom rules by their primal values."""
    done: dict[Node, Node] = {}

    def emit(n: Node) -> Node:
        if n.op is GET and isinstance(n.args[0].type, TupleType):
            primal: Node = n.args[0].args[n.attr("index")]
            return primal
        if n.op.name == "stop_gradient":
            return n.args[0]
        if not isinstance(n.op.lower, Expand):
            return n
        if n not in done:
            built = n.op.lower.build(*n.args, **dict(n.attrs))
            done[n] = expand(Graph((), (built,))).results[0]
        return done[n]

    return rewrite(graph, emit)
