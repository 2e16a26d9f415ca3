"""Graph -> Graph where short rows that an outer loop reads again and again are copied first.

The copy is a temporary; there each column lies in one piece (``Memory.tail``), so that inner loops run along memory.
"""

from __future__ import annotations

from symgrad.ir.graph import Graph, rewrite
from symgrad.ir.node import Node
from symgrad.lower.shapes import memory_of, repeats, small_tail
from symgrad.ops.kinds import remake
from symgrad.ops.pointwise import copy

PACKED = "packed"


def pack(graph: Graph) -> Graph:
    """Copy arguments and literals that are broadcast along an outer axis and have short rows."""

    def emit(n: Node) -> Node:
        if n.op.name != "broadcast" or not repeats(n, small_tail(n.shape)):
            return n
        (x,) = n.args
        return remake(n, copy(x, tag=PACKED)) if memory_of(x) and 0 < small_tail(x.shape) < x.ndim else n

    return rewrite(graph, emit)


def is_packed(n: Node) -> bool:
    return n.op is copy and bool(n.attr("tag") == PACKED)
