"""Graph -> groups of tasks: which values are stored, and which are computed in one loop nest.

Stored are results, reductions, what a nest of its own reads or writes, and values too dear to compute again where
they are used twice at different times or places. Everything else is recomputed inside the loops that need it.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from symgrad.ir.graph import Graph
from symgrad.ir.node import CONSTANT, GET, Node
from symgrad.ir.op import Fold, Generate, Leaf, Nest, Region, Scalar, View
from symgrad.ir.types import Dim, Shape, Size
from symgrad.lower.pack import is_packed
from symgrad.lower.rows import Rows, rows_of
from symgrad.lower.shapes import axis_below, memory_of, root, swapped_source
from symgrad.ops.check import holds_checks
from symgrad.ops.pointwise import MAXIMUM, MINIMUM, copy

DEAR = 18  # from this cost on a value is stored rather than computed twice: one elementary function
MOVED = 5  # from this cost on a value is stored rather than computed again for each index of an outer axis


@dataclass(frozen=True, eq=False)
class Task:
    """Compute ``value`` over ``space`` into the memory of ``node``, from ``starts`` on (a part of a concatenation).

    ``pinned`` are the indices along the last axes of ``value`` that have no loops: there is a task for each.
    """

    node: Node
    value: Node
    space: Shape
    starts: Shape
    pinned: tuple[int, ...] = ()

    @property
    def fold(self) -> Fold | None:
        """The reduction this task is, if it is one; ``value`` is then what is reduced."""
        lower = self.node.op.lower
        return lower if isinstance(lower, Fold) and self.value is not self.node else None

    @property
    def alone(self) -> bool:
        return isinstance(self.node.op.lower, Nest | Region)

    @property
    def whole(self) -> bool:
        """Whether it runs on whole arrays: neither in loops of the schedule, nor for a row of a batch at a time."""
        lower = self.node.op.lower
        return self.alone and not (isinstance(lower, Nest) and lower.by_rows(self.node.ndim))

    @property
    def kept(self) -> tuple[int, ...]:
        """The loops that are axes of the node, and not reduced over."""
        reduced = () if self.fold is None else self.node.attr("axes")
        return tuple(k for k in range(len(self.space)) if k not in reduced)


@dataclass(eq=False)
class Group:
    """Tasks that share one loop nest; a task in ``Nest`` form stands alone."""

    space: Shape
    tasks: list[Task] = field(default_factory=list)


@dataclass(frozen=True)
class Schedule:
    """Groups in order, and the nodes that have memory (reshapes of them share it), each with the reason why."""

    groups: tuple[Group, ...]
    stored: frozenset[Node]
    rows: Rows
    why: Mapping[Node, str] = field(default_factory=dict)


def is_operand(n: Node) -> bool:
    """Whether a node was made for one nest."""
    return n.op is copy and isinstance(n.attr("tag"), tuple)


def nest_operand(op: Nest, position: int, n: Node) -> Node:
    """The node that must be in memory for an argument of a nest."""
    return root(operand_source(op, position, n))


def operand_source(op: Nest, position: int, n: Node) -> Node:
    """An argument of a nest, or the matrix that it is the transpose of, where the nest can take that."""
    source = swapped_source(n) if position in op.transposable else None
    return n if source is None else source


def nest_operands(n: Node) -> list[Node]:
    """The nodes that must be in memory for a nest or a region."""
    lower = n.op.lower
    return [nest_operand(lower, k, a) if isinstance(lower, Nest) else root(a) for k, a in enumerate(n.args)]


def owner(n: Node) -> Node:
    """The node whose task computes ``n``: results of a primitive with several belong to it."""
    return n.args[0] if n.op is GET else n


def schedule(graph: Graph) -> Schedule:
    """Decide storage, then group tasks greedily into nests."""
    nodes = _checks_first(graph.nodes())
    rows = rows_of(nodes)
    stored = _stored(graph, nodes, rows)
    tasks = [t for n in nodes if n in stored for t in _tasks(n, rows)]
    return Schedule(tuple(_grouped(tasks, set(stored), rows)), frozenset(stored), rows, stored)


def _checks_first(nodes: list[Node]) -> list[Node]:
    """Nodes with checks, each with what it needs, before all others: what follows may never end, or end the call."""
    out: dict[Node, None] = {}
    for n in filter(holds_checks, nodes):
        needed, stack = set[Node](), [n]
        while stack:
            m = stack.pop()
            if m not in out and m not in needed:
                needed.add(m)
                stack.extend(m.args)
        out.update(dict.fromkeys(sorted(needed, key=lambda m: m.serial)))
    out.update(dict.fromkeys(nodes))
    return list(out)


def _tasks(n: Node, rows: Rows) -> list[Task]:
    if isinstance(n.op.lower, Region):
        return [Task(n, n, (), ())]
    if n.op.name != "concatenate" or n in rows.mixed:
        return _pinned(n, n.args[0] if rows.loops(n) else n, (0,) * n.ndim, rows)
    out, start, axis = [], 0, n.attr("axis")  # type: tuple[list[Task], Size, int]
    for a in n.args:
        out += _pinned(n, a, tuple(start if k == axis else 0 for k in range(n.ndim)), rows)
        start = start + a.shape[axis]
    return out


def _pinned(n: Node, value: Node, starts: Shape, rows: Rows) -> list[Task]:
    """One task, or one for each index along the last axes that are written out."""
    if isinstance(n.op.lower, Nest):
        return [Task(n, value, value.shape, starts)]
    longer = len(rows.looped(value))
    tail = itertools.product(*(range(s) for s in value.shape[longer:] if isinstance(s, int)))
    return [Task(n, value, value.shape[:longer], starts, pinned) for pinned in tail]


def _space(n: Node, rows: Rows) -> Shape:
    return () if isinstance(n.op.lower, Region) else rows.looped(n.args[0] if rows.loops(n) else n)


def costs(nodes: list[Node], rows: Rows) -> dict[Node, int]:
    """Roughly the work to compute one element of a node from memory."""
    cost: dict[Node, int] = {}
    for n in nodes:
        match n.op.lower:
            case Fold() if rows.written_out(n):
                cost[n] = min(_elements(n) * (1 + cost[n.args[0]]), 1 << 20)
            case Leaf() | Fold() | Nest() | Generate() | Region():
                cost[n] = 1
            case Scalar(cost=own):
                cost[n] = min(own + sum(cost[a] for a in n.args if a.op is not CONSTANT), 1 << 20)
            case View():
                cost[n] = max(cost[a] for a in n.args) + (0 if n.op.name in ("broadcast", "transpose") else 1)
            case _:
                raise AssertionError(f"{n.op.name} should have been expanded")
    return cost


def _elements(n: Node) -> int:
    """How many elements a reduction that is written out takes together."""
    return math.prod(s for k in n.attr("axes") if isinstance(s := n.args[0].shape[k], int))


def _stored(graph: Graph, nodes: list[Node], rows: Rows) -> dict[Node, str]:
    """What has memory, and why."""
    stored = {root(r): "a result" for r in graph.results if not memory_of(root(r))}
    users = collections.Counter(a for n in nodes for a in n.args)
    for n in nodes:
        match n.op.lower:
            case Fold() if rows.loops(n):
                stored.setdefault(n, "a reduction")
                if n.op.lower.fn in (MAXIMUM, MINIMUM) and users[n.args[0]] > 1 and not _exact(n.args[0]):
                    stored.setdefault(root(n.args[0]), "compared with its extremum, to the bit")
            case Nest() | Region():
                stored.setdefault(n, "made by statements of its own")
                for m in nest_operands(n):
                    if not memory_of(m):
                        stored.setdefault(m, f"read by {n.op.name} as a whole")
            case _:
                pass
    cost, stage = costs(nodes, rows), _stages(nodes, rows)
    places: dict[Node, set[tuple[object, ...]]] = {n: set() for n in nodes}
    far: set[Node] = set()
    wide: set[Node] = set()
    for n in reversed(nodes):
        inside = n in rows.mixed
        if n not in stored and _worth_storing(n, places[n], n in far, n in wide, cost[n], inside):
            stored.setdefault(root(n), _reason(n, places[n], n in far, inside))
        here = {(_space(n, rows), stage[n] - _waits(n, rows), None)} if n in stored else places[n]
        for a in n.args:
            moved = n.op.name in ("slice", "place", "concatenate", "gather") and not inside
            places[a].update((s, t, n.serial if moved else v) for s, t, v in here)
        if rows.repeats(n):
            far.add(n.args[0])
        if rows.widens(n):
            wide.add(n.args[0])
    return stored


def _stages(nodes: list[Node], rows: Rows) -> dict[Node, int]:
    """How many reductions or nests of their own lie below a node: what must have finished before."""
    stage: dict[Node, int] = {}
    for n in nodes:
        below = max((stage[a] for a in n.args), default=0)
        stage[n] = below + _waits(n, rows)
    return stage


def _waits(n: Node, rows: Rows) -> bool:
    """Whether a node is complete only when loops of its own are done."""
    return rows.loops(n) or isinstance(n.op.lower, Nest | Region)


def _exact(n: Node) -> bool:
    """Whether computing a value again surely gives the same, however multiplications and additions are contracted."""
    while isinstance(n.op.lower, View) and len(n.args) == 1:
        n = n.args[0]
    return memory_of(n) or not n.dtype.is_float


def _worth_storing(n: Node, places: set[tuple[object, ...]], far: bool, wide: bool, cost: int, inside: bool) -> bool:
    if memory_of(root(n)) or isinstance(n.op.lower, Leaf | Generate):
        return False
    if n.op.name == "concatenate" and not inside:
        return True
    if n.ndim == 0:
        return len(places) > 1 and cost > 4 * DEAR
    if is_packed(n) or (far and cost >= MOVED):
        return True
    return (wide or len(places) > 1) and cost >= DEAR


def _reason(n: Node, places: set[tuple[object, ...]], far: bool, inside: bool) -> str:
    """Why ``_worth_storing`` says so."""
    if n.op.name == "concatenate" and not inside:
        return "joined of parts"
    if far:
        return "cheaper to keep than to compute for each index of an outer axis"
    return "dear, and read at several times or places" if len(places) > 1 else "dear, and read by several elements"


# --- grouping --------------------------------------------------------------------------------------------------------


def reads(task: Task, stored: frozenset[Node] | set[Node], rows: Rows) -> list[tuple[Node, bool]]:
    """Stored nodes that a task reads, each with whether it is only read at the index of the loops at hand."""
    out: dict[Node, bool] = {}
    if task.alone:
        return [(m, False) for m in map(owner, nest_operands(task.node)) if m in stored]
    here: tuple[int | None, ...] = tuple(range(len(task.space)))
    own = task.value is task.node
    todo = _below(task.node, here) if own else [(task.value, here if task.fold is not None else _lost(here))]
    seen: set[tuple[Node, tuple[int | None, ...]]] = set()
    while todo:
        a, axes = todo.pop()
        if (a, axes) in seen:
            continue
        seen.add((a, axes))
        base = root(a)
        if base in stored:
            while a is not base:
                ((a, axes),) = _below(a, axes)
            out[base] = out.get(base, True) and axes == tuple(range(len(rows.looped(base))))
            continue
        todo += _below(a, axes)
    return list(out.items())


def _below(n: Node, axes: tuple[int | None, ...]) -> list[tuple[Node, tuple[int | None, ...]]]:
    """The operands of a node, with the axes of them that are read at the index of each loop."""
    return [(a, tuple(None if k is None else axis_below(n, p, k) for k in axes)) for p, a in enumerate(n.args)]


def _lost(axes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return (None,) * len(axes)


def _grouped(tasks: list[Task], stored: set[Node], rows: Rows) -> list[Group]:
    groups: list[Group] = []
    at: dict[Node, int] = {}
    for t in tasks:
        alone, first = t.alone, 0
        for d, same in reads(t, stored, rows):
            waits = alone or not same or _waits(d, rows) or (d.op.name == "concatenate" and d not in rows.mixed)
            first = max(first, at.get(d, -1) + waits)
        k = next((k for k in range(first, len(groups)) if not alone and _fits(groups[k], t)), None)
        if k is None:
            k = len(groups)
            groups.append(Group(t.space))
        groups[k].tasks.append(t)
        groups[k].space = _joined(groups[k].space, t.space)
        at[t.node] = max(k, at.get(t.node, 0))
    return groups


def _fits(group: Group, task: Task) -> bool:
    if is_operand(task.node) or is_operand(group.tasks[0].node):
        return group.tasks[0].node is task.node  # all of it together, and nothing else
    if group.tasks[0].alone or len(group.space) != len(task.space):
        return False
    if group.space == task.space:
        return True
    whole = all(not t.kept for t in [*group.tasks, task] if t.fold is not None)
    return whole and all(_close(a, b) for a, b in zip(group.space, task.space, strict=True))


def _close(a: Size, b: Size) -> bool:
    """Whether two extents differ by a small constant, so that one loop with peeled ends serves both."""
    difference = a - b
    if not isinstance(difference, int):
        return False
    return difference == 0 or (abs(difference) <= 2 and (isinstance(a, Dim) or a >= 8))


def _joined(a: Shape, b: Shape) -> Shape:
    """The larger of close extents."""
    return tuple(y if _less(x, y) else x for x, y in zip(a, b, strict=True))


def _less(a: Size, b: Size) -> bool:
    difference = b - a
    return isinstance(difference, int) and difference > 0
