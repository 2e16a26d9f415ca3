"""Graph -> Program: buffers for arguments, results and temporaries, and loops for each band of groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from symgrad.ir.graph import Graph, size_parameters
from symgrad.ir.loops import (
    ADD,
    DIV,
    MAX,
    MIN,
    MUL,
    Apply,
    Block,
    Buffer,
    Expr,
    Fail,
    Failure,
    For,
    Let,
    Program,
    Stmt,
    Var,
    const_index,
    extent,
)
from symgrad.ir.node import CONSTANT, Node
from symgrad.ir.op import Index, Nest, Place
from symgrad.ir.types import DType, Shape, Size, TensorType, i64, product
from symgrad.lower.bands import BLOCK, Band, banded
from symgrad.lower.expand import expand
from symgrad.lower.memory import Lifetime, plan
from symgrad.lower.nests import NestWriter, loop_over
from symgrad.lower.pack import pack
from symgrad.lower.schedule import Schedule, Task, nest_operand, nest_operands, reads, schedule
from symgrad.lower.shapes import memory_of, root, small_tail
from symgrad.lower.values import Memory
from symgrad.ops.pointwise import copy


@dataclass
class Lowering:
    """State of one lowering; the ``NestBuilder`` of nests."""

    graph: Graph
    plan: Schedule
    bands: list[Band]
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    scratch: dict[str, Buffer] = field(default_factory=dict)
    failures: dict[Failure, int] = field(default_factory=dict)
    counter: itertools.count[int] = field(default_factory=itertools.count)
    born: dict[str, int] = field(default_factory=dict)
    step: int = 0
    row: Expr | None = None  # the first row of the block at hand
    seen_whole: frozenset[Node] = frozenset()  # nodes whose memory is read as that of a reshape, or by a nest

    def fresh(self, prefix: str, dtype: DType) -> Var:
        return Var(f"{prefix}{next(self.counter)}", dtype)

    def temp(self, type: TensorType) -> Place:
        name = f"s{len(self.scratch)}"
        self.scratch[name] = Buffer(name, type.dtype, product(type.shape), "temp")
        self.born[name] = self.step
        return Place(name, type)

    def fail(self, exception: str, message: str) -> Stmt:
        code = self.failures.setdefault(Failure(exception, message), len(self.failures) + 1)
        return Fail(code)

    def loop(self, shape: Shape, body: Callable[[Index], Block]) -> Block:
        return loop_over(shape, body, self.fresh)

    def place(self, n: Node) -> Place | None:
        """The memory of a node: its own, or that of what it is a reshape of."""
        buffer = self.buffers.get(root(n))
        return None if buffer is None else Place(buffer.name, n.type)

    def memory(self, n: Node) -> Memory | None:
        """How loops reach the memory of a node."""
        place = self.place(n)
        if place is None:
            return None
        if n in self.bands[self.step].local:
            return Memory(place, row=self.row)
        tail = self._tail(n)
        if not tail:
            return Memory(place)
        cut = n.ndim - tail
        return Memory(Place(place.buffer, n.type.with_shape((*n.shape[cut:], *n.shape[:cut]))), tail)

    def _tail(self, n: Node) -> int:
        """Axes that come first in memory, of temporaries with short rows: so loops run along memory."""
        if n not in self.buffers or self.buffers[n].kind != "temp" or n in self.seen_whole:
            return 0
        tail = small_tail(n.shape)
        return tail if tail < n.ndim else 0

    def must_place(self, n: Node) -> Place:
        place = self.place(n)
        assert place is not None, n
        return place


def distinct_results(graph: Graph) -> Graph:
    """Results that are arguments, literals or parts of the same memory become copies."""
    taken: set[Node] = set()
    out = []
    for k, r in enumerate(graph.results):
        base = root(r)
        if memory_of(base) or not base.args or base in taken:
            r = copy(r, tag=k)
        taken.add(root(r))
        out.append(r)
    return Graph(graph.params, tuple(out))


def lower(graph: Graph, name: str) -> Program:
    """The Program of ``graph``, whose buffers are its params, then its results."""
    graph = distinct_results(pack(expand(graph)))
    groups = schedule(graph)
    low = Lowering(graph, groups, banded(groups, graph.results))
    for k, p in enumerate(graph.params):
        low.buffers[p] = Buffer(f"a{k}", p.dtype, product(p.shape), "input")
    for k, r in enumerate(graph.results):
        low.buffers[root(r)] = Buffer(f"r{k}", r.dtype, product(r.shape), "output")
    _name_the_rest(low)
    body: list[Stmt] = []
    for step, band in enumerate(low.bands):
        low.step, first = step, band.tasks[0]
        body.extend(_nest(low, first) if first.alone else _band(low, band))
    return _assemble(low, name, tuple(body))


def _name_the_rest(low: Lowering) -> None:
    room = {n: band.room(n) for band in low.bands for n in band.local}
    temps = itertools.count()
    constants = itertools.count()
    for n in low.graph.nodes():
        if n in low.buffers:
            continue
        if n.op is CONSTANT and n.shape:
            low.buffers[n] = Buffer(f"c{next(constants)}", n.dtype, product(n.shape), "constant", data=n.attr("data"))
        elif n in low.plan.stored:
            low.buffers[n] = Buffer(f"t{next(temps)}", n.dtype, room.get(n, product(n.shape)), "temp")
    whole = {root(n) for n in low.graph.nodes() if n.op.name == "reshape"}
    for t in (t for band in low.bands for t in band.tasks if t.alone):
        whole.update((t.node, *nest_operands(t.node)))
    low.seen_whole = frozenset(whole)


def _band(low: Lowering, band: Band) -> Block:
    """A group alone, or blocks of rows in which each group takes its turn."""
    if len(band.groups) == 1:
        writer = NestWriter(band.groups[0], low.memory, low.fresh)
        body = writer.write()
        return (*writer.before, *body, *writer.after)
    count, rows = extent(band.groups[0].space[0]), low.fresh("rows", i64)
    block, low_row, high_row = (low.fresh(name, i64) for name in ("block", "low", "high"))
    low.row = low_row
    writers = [NestWriter(g, low.memory, low.fresh, (low_row, high_row)) for g in band.groups]
    body = tuple(s for w in writers for s in w.write())
    blocks = Apply(DIV, (Apply(ADD, (count, Apply(ADD, (rows, const_index(-1))))), rows))
    turn = (
        Let(low_row, Apply(MUL, (block, rows))),
        Let(high_row, Apply(MIN, (Apply(ADD, (low_row, rows)), count))),
        *body,
    )
    return (
        *(s for w in writers for s in w.before),
        Let(rows, _rows(band.width)),
        For(block, const_index(0), blocks, turn),
        *(s for w in writers for s in w.after),
    )


def _rows(width: Size) -> Expr:
    """Rows of at most ``width`` elements in a block."""
    if isinstance(width, int):
        return const_index(max(1, BLOCK // width))
    return Apply(MAX, (Apply(DIV, (const_index(BLOCK), Apply(MAX, (extent(width), const_index(1))))), const_index(1)))


def _nest(low: Lowering, task: Task) -> Block:
    nest = task.node.op.lower
    assert isinstance(nest, Nest)
    places, swapped = [], []
    for k, a in enumerate(task.node.args):
        base = nest_operand(nest, k, a)
        swapped.append(root(a) is not base)
        places.append(low.must_place(a.args[0] if swapped[-1] else a))
    extra = {"swapped": tuple(swapped)} if nest.transposable else {}
    return nest.build(low, low.must_place(task.node), *places, **dict(task.node.attrs), **extra)


def _assemble(low: Lowering, name: str, body: Block) -> Program:
    temps = [b for b in low.buffers.values() if b.kind == "temp"]
    offsets, total = plan(_lifetimes(low, temps))
    final = [
        Buffer(b.name, b.dtype, b.elements, b.kind, offsets.get(b.name, 0), b.data)
        for b in [*low.buffers.values(), *low.scratch.values()]
    ]
    order = {"input": 0, "output": 1, "constant": 2, "temp": 3}
    final.sort(key=lambda b: (order[b.kind], int(b.name[1:])))
    return Program(name, size_parameters(low.graph), tuple(final), body, total, tuple(low.failures))


def _lifetimes(low: Lowering, temps: list[Buffer]) -> list[Lifetime]:
    first: dict[str, int] = dict(low.born)
    last: dict[str, int] = dict(low.born)
    for step, band in enumerate(low.bands):
        for t in band.tasks:
            own = low.buffers[t.node].name
            first.setdefault(own, step)
            for n in (t.node, *(d for d, _ in reads(t, low.plan.stored))):
                last[low.buffers[n].name] = step
    every = [*temps, *low.scratch.values()]
    return [Lifetime(b.name, b.elements * b.dtype.bytes, first.get(b.name, 0), last.get(b.name, 0)) for b in every]
