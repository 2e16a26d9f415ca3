"""Groups in order -> bands of groups that run together, a block of rows at a time, so that rows stay in cache.

Groups fit into one band when their outermost loops are equal and each reads what the others wrote only in the row at
hand. What is written and read in one band alone needs memory for one block of rows only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from symgrad.ir.loops import DIV, MAX, Apply, Expr, const_index, extent
from symgrad.ir.node import Node
from symgrad.ir.op import Nest
from symgrad.ir.types import Shape, Size, product
from symgrad.lower.schedule import Group, Schedule, Task, is_operand, nest_operand, nest_operands, operand_source, owner
from symgrad.lower.shapes import axis_below, few, memory_of, root

BLOCK = 4096  # elements of the widest array in a block of rows: 32 kilobytes of f64


@dataclass(eq=False)
class Band:
    """Groups that share their rows; one alone runs as it is. ``local`` are the nodes that only live within a block."""

    groups: list[Group] = field(default_factory=list)
    local: frozenset[Node] = frozenset()

    @property
    def tasks(self) -> list[Task]:
        return [t for g in self.groups for t in g.tasks]

    @property
    def width(self) -> Size:
        """At least the elements of the widest row."""
        widths = {product(_full_shape(t)[1:]): None for t in self.tasks}
        numbers = [w for w in widths if isinstance(w, int)]
        total: Size = max([1, *numbers])
        for w in widths:
            total = total if isinstance(w, int) else total + w
        return total

    def room(self, n: Node) -> Size:
        """Elements that a local node needs: rows in a block times elements in a row."""
        row, width = product(n.shape[1:]), self.width
        if isinstance(row, int) and isinstance(width, int):
            return max(1, BLOCK // width) * row
        return row + BLOCK


def _full_shape(t: Task) -> Shape:
    return t.value.shape


def block_rows(width: Size) -> Expr:
    """Rows of at most ``width`` elements in a block."""
    if isinstance(width, int):
        return const_index(max(1, BLOCK // width))
    return Apply(MAX, (Apply(DIV, (const_index(BLOCK), Apply(MAX, (extent(width), const_index(1))))), const_index(1)))


def banded(plan: Schedule, results: tuple[Node, ...]) -> list[Band]:
    """Put each group into the first band that it may join; what is made for one nest goes where that goes."""
    bands: list[Band] = []
    at: dict[Node, int] = {}
    waiting: dict[Node, Group] = {}
    for g in plan.groups:
        if is_operand(g.tasks[0].node):
            waiting[g.tasks[0].node] = g
            continue
        own = [waiting.pop(d) for t in g.tasks for d in rows_read(t, plan.stored) if d in waiting]
        first = 0
        for t in (t for h in (*own, g) for t in h.tasks):
            for d, aligned in rows_read(t, plan.stored).items():
                if d in at:
                    first = max(first, at[d] + (not aligned or not _by_rows(d, bands[at[d]])))
        together = (h for h in range(first, len(bands)) if all(_fits(bands[h], x) for x in (*own, g)))
        k = next(together, len(bands))
        if k == len(bands):
            bands.append(Band())
        bands[k].groups += [*own, g]
        at.update((t.node, max(k, at.get(t.node, 0))) for h in (*own, g) for t in h.tasks)
    assert not waiting, "an operand was made for a nest that does not run"
    outside = {root(r) for r in results}
    for k, band in enumerate(bands):
        band.local = _local(k, bands, plan.stored, outside) if len(band.groups) > 1 else frozenset()
    return bands


def _fits(band: Band, g: Group) -> bool:
    groups = [*band.groups, g]
    if any(h.tasks[0].whole or not h.space or few(h.space[:1]) for h in groups):
        return False
    return all(t.space[0] == g.space[0] for h in groups for t in h.tasks)


def _by_rows(d: Node, band: Band) -> bool:
    """Whether the rows of a node are finished one after another, at the rows of the band."""
    mine = [t for t in band.tasks if t.node is d]
    return not mine[0].whole and all(0 in t.kept and t.starts[:1] == (0,) for t in mine)


def _local(k: int, bands: list[Band], stored: frozenset[Node], outside: set[Node]) -> frozenset[Node]:
    band = bands[k]
    local = {t.node for t in band.tasks if t.node not in outside and _by_rows(t.node, band)}
    for j, other in enumerate(bands):
        for t in other.tasks:
            reads = rows_read(t, stored, through_reshape=False)
            local -= {d for d in reads if j != k or not reads[d]}
            local -= {t.node} if j != k else set()
    return frozenset(local)


def rows_read(task: Task, stored: frozenset[Node], through_reshape: bool = True) -> dict[Node, bool]:
    """Stored nodes that a task reads, each with whether it is only read in the row of the outermost loop.

    Without ``through_reshape`` a node that is read as a reshape of it counts as read elsewhere.
    """
    if task.whole:
        return {m: False for m in map(owner, nest_operands(task.node)) if m in stored}
    if task.alone:
        return _operands_read(task.node, stored)
    out: dict[Node, bool] = {}
    seen: set[tuple[Node, int | None]] = set()
    start = 0 if task.space else None
    todo = _below(task.node, start) if task.value is task.node else [(task.value, start)]
    while todo:
        n, axis = todo.pop()
        if owner(n) is not n:
            out[owner(n)] = False
        if (n, axis) in seen or memory_of(n):
            continue
        seen.add((n, axis))
        base = root(n)
        if base in stored:
            same = axis == 0 if base is n else through_reshape and _row_of_root(n, axis) == 0
            out[base] = out.get(base, True) and same
            continue
        todo += _below(n, axis)
    return out


def _operands_read(n: Node, stored: frozenset[Node]) -> dict[Node, bool]:
    """Of a nest over a batch; an operand that is a reshape counts as read elsewhere."""
    assert isinstance(n.op.lower, Nest)
    out: dict[Node, bool] = {}
    for k, a in enumerate(n.args):
        base = nest_operand(n.op.lower, k, a)
        if owner(base) in stored:
            out[owner(base)] = out.get(owner(base), True) and operand_source(n.op.lower, k, a) is base
    return out


def _below(n: Node, axis: int | None) -> list[tuple[Node, int | None]]:
    return [(a, None if axis is None else axis_below(n, k, axis)) for k, a in enumerate(n.args)]


def _row_of_root(n: Node, axis: int | None) -> int | None:
    while n.op.name == "reshape" and axis is not None:
        axis = axis_below(n, 0, axis)
        n = n.args[0]
    return axis
