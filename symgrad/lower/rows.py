"""Which trailing axes have no loops: short rows are written out, and so are rows whose elements depend on each other.

A computation a row at a time, such as what ``vmap`` makes of a function of a few numbers, becomes one loop over the
rows whose body is the whole function: nothing is stored between its steps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from symgrad.ir.graph import Graph, rewrite
from symgrad.ir.node import Node, make
from symgrad.ir.op import Fold, Scalar, View
from symgrad.ir.types import Shape, TensorType
from symgrad.lower.shapes import axis_below, few, loops, repeats, small_tail, widens, written_out

WIDE = 32  # elements of a row up to which rows that mix their elements are written out
MOST = 4096  # elements of a row of all nodes together up to which this is done


@dataclass(frozen=True)
class Rows:
    """Questions about loops whose answers depend on what else a graph computes. ``mixed`` are nodes written out whole
    rows at a time."""

    mixed: frozenset[Node] = frozenset()

    def tail(self, n: Node) -> int:
        """How many trailing axes of a node are written out."""
        if n in self.mixed:
            return n.ndim - 1
        return small_tail(n.shape) if isinstance(n.type, TensorType) else 0

    def looped(self, n: Node) -> Shape:
        """The axes of a node that have loops."""
        return n.shape[: n.ndim - self.tail(n)] if isinstance(n.type, TensorType) else ()

    def written_out(self, n: Node) -> bool:
        """Whether a node is a reduction of so few elements that it is computed where it is used."""
        return written_out(n) or (n in self.mixed and isinstance(n.op.lower, Fold))

    def loops(self, n: Node) -> bool:
        """Whether a node is a reduction with loops of its own."""
        return loops(n) and n not in self.mixed

    def repeats(self, n: Node) -> bool:
        return repeats(n, self.tail(n))

    def widens(self, n: Node) -> bool:
        return widens(n, self.tail(n))


def rows_first(graph: Graph) -> Graph:
    """Reductions over all rows and along them in two steps, where rows are written out: along them first."""
    while True:
        mixed = rows_of(graph.nodes()).mixed
        split = rewrite(graph, functools.partial(_in_two, mixed))
        if split.results == graph.results:
            return graph
        graph = split


def _in_two(mixed: frozenset[Node], n: Node) -> Node:
    if not isinstance(n.op.lower, Fold) or n.args[0] not in mixed or 0 not in n.attr("axes"):
        return n
    tail = tuple(a for a in n.attr("axes") if a)
    return make(n.op, make(n.op, n.args[0], axes=tail), axes=(0,)) if tail else n


def rows_of(nodes: Iterable[Node]) -> Rows:
    """Find the groups of nodes with equal first axes, linked row by row, that mix the elements of long rows."""
    parent: dict[Node, Node] = {}

    def find(n: Node) -> Node:
        while parent[n] is not n:
            parent[n] = n = parent[parent[n]]
        return n

    order = [n for n in nodes if _is_row_by_row(n)]
    for n in order:
        parent[n] = n
        for k, a in enumerate(n.args):
            if a in parent and axis_below(n, k, 0) == 0:
                parent[find(a)] = find(n)
    members: dict[Node, list[Node]] = {}
    for n in order:
        members.setdefault(find(n), []).append(n)
    mixed = [m for m in members.values() if any(map(_mixes, m)) and sum(map(_width, m)) <= MOST]
    return Rows(frozenset(n for m in mixed for n in m))


def _is_row_by_row(n: Node) -> bool:
    """Whether a node is computed from the same row of its operands alone, and its rows have few elements."""
    if (
        not isinstance(n.type, TensorType)
        or not n.ndim
        or not n.args
        or few(n.shape[:1])
        or 0 in n.shape
        or not few(n.shape[1:], WIDE)
    ):
        return False
    lower = n.op.lower
    if isinstance(lower, Fold):
        return 0 not in n.attr("axes") and few((n.args[0].shape[k] for k in n.attr("axes")), WIDE)
    if isinstance(lower, Scalar):
        return True
    return isinstance(lower, View) and all(
        not a.ndim or axis_below(n, k, 0) == 0 or n.op.name == "broadcast" for k, a in enumerate(n.args)
    )


def _mixes(n: Node) -> bool:
    """Whether elements of long rows change their places within the row."""
    if n.op.name not in ("slice", "place", "concatenate", "transpose"):
        return False
    rows = (n, *n.args)
    return all(few(m.shape[1:], WIDE) for m in rows) and any(small_tail(m.shape) < m.ndim - 1 for m in rows)


def _width(n: Node) -> int:
    return math.prod(s for s in n.shape[1:] if isinstance(s, int))
