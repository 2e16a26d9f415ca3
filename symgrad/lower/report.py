"""What the lowering decided, in words: passes over memory, what each computes and keeps, and why."""

from __future__ import annotations

import collections

from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, TupleType
from symgrad.ir.op import Scalar
from symgrad.ir.types import Shape
from symgrad.lower.bands import Band
from symgrad.lower.program import planned
from symgrad.lower.schedule import Schedule, Task
from symgrad.lower.turns import is_shared


def decisions(graph: Graph, *, workers: int = 1) -> list[str]:
    """A line for each pass, in the order in which they run, and one below it for each thing that it keeps."""
    graph, plan, bands = planned(graph)
    counts = collections.Counter(a for n in graph.nodes() for a in n.args)
    lines: list[str] = []
    for k, band in enumerate(bands, 1):
        lines.append(f"{k}. {_pass(band, workers)}")
        kept = {t.node: t for t in band.tasks}
        lines += [f"   {_kept(n, t, band, plan)}" for n, t in kept.items()]
    scalars = [n for n in graph.nodes() if isinstance(n.op.lower, Scalar) and n not in plan.stored and n.ndim]
    again = [n for n in scalars if counts[n] > 1]
    if again:
        lines.append(f"read more than once and not kept: {_names(again)}")
    return lines


def _pass(band: Band, workers: int) -> str:
    first = band.tasks[0]
    if first.alone and len(band.groups) == 1:
        return f"{first.node.op.name}, by statements of its own"
    spaces = dict.fromkeys(_extents(g.space) for g in band.groups)
    what = "no loop" if list(spaces) == [""] else f"loops over {' and '.join(s or 'nothing' for s in spaces)}"
    blocks = f", {len(band.groups)} in turn for each block of rows" if len(band.groups) > 1 else ""
    shared = f", shared by up to {workers} threads" if is_shared(band, workers) else ""
    return f"{what}{blocks}{shared}"


def _extents(space: Shape) -> str:
    return " x ".join(map(str, space))


def _kept(n: Node, t: Task, band: Band, plan: Schedule) -> str:
    place = "for a block of rows" if n in band.local else "in memory"
    types = ", ".join(map(str, n.type.items)) if isinstance(n.type, TupleType) else str(n.type)
    unrolled = ", its last axes written out" if t.pinned else ""
    return f"{n.op.name} {types} {place}: {plan.why[n]}{unrolled}"


def _names(nodes: list[Node]) -> str:
    counted = collections.Counter(n.op.name for n in nodes)
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in sorted(counted.items()))
