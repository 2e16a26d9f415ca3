"""Graph -> Graph where a cheap operand of several batched nests is made for each of them.

Such a nest runs with its neighbours, a row of the batch at a time (``bands``). What is made for it alone then needs
memory for one row only, while an operand that it shares with a nest far away would travel through memory whole.
"""

from __future__ import annotations

import collections

from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, make
from symgrad.ir.op import Nest
from symgrad.lower.rows import rows_of
from symgrad.lower.schedule import MOVED, costs, operand_source
from symgrad.lower.shapes import memory_of
from symgrad.ops.pointwise import copy

_OPERAND = "operand"


def operands_apart(graph: Graph) -> Graph:
    """Give each batched nest cheap operands of its own, where several share one."""
    nodes = graph.nodes()
    uses = collections.Counter(s for n in nodes for s in _sources(n))
    if all(count == 1 for count in uses.values()):
        return graph
    cost = costs(nodes, rows_of(nodes))
    shared = {s for s, count in uses.items() if count > 1 and s.op.name != "reshape" and _is_cheap(s, cost[s])}
    env: dict[Node, Node] = {}
    for number, n in enumerate(nodes):
        args = [env[a] for a in n.args]
        for k, s in enumerate(_sources(n)):
            if s in shared:
                own = copy(env[s], tag=(_OPERAND, number, k))
                args[k] = own if n.args[k] is s else make(n.args[k].op, own, **dict(n.args[k].attrs))
        same = all(a is b for a, b in zip(args, n.args, strict=True))
        env[n] = n if same else make(n.op, *args, **dict(n.attrs))
    return Graph(graph.params, tuple(env[r] for r in graph.results))


def _sources(n: Node) -> list[Node]:
    """What a batched nest reads whole rows of."""
    nest = n.op.lower
    if not isinstance(nest, Nest) or not nest.by_rows(n.ndim):
        return []
    return [operand_source(nest, k, a) for k, a in enumerate(n.args)]


def _is_cheap(n: Node, cost: int) -> bool:
    return not memory_of(n) and 0 < cost <= MOVED
