"""Graph -> Program: buffers for arguments, results and temporaries, and one nest of loops for each group."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from symgrad.ir.graph import Graph, size_parameters
from symgrad.ir.loops import Block, Buffer, Fail, Failure, Program, Stmt, Var
from symgrad.ir.node import CONSTANT, Node
from symgrad.ir.op import Index, Nest, Place
from symgrad.ir.types import DType, Shape, TensorType, product
from symgrad.lower.expand import expand
from symgrad.lower.memory import Lifetime, plan
from symgrad.lower.nests import NestWriter, loop_over
from symgrad.lower.schedule import Group, Schedule, memory_of, nest_operand, reads, root, schedule
from symgrad.ops.pointwise import copy


@dataclass
class Lowering:
    """State of one lowering; the ``NestBuilder`` of nests."""

    graph: Graph
    plan: Schedule
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    scratch: dict[str, Buffer] = field(default_factory=dict)
    failures: dict[Failure, int] = field(default_factory=dict)
    counter: itertools.count[int] = field(default_factory=itertools.count)
    born: dict[str, int] = field(default_factory=dict)
    step: int = 0

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
    graph = distinct_results(expand(graph))
    low = Lowering(graph, schedule(graph))
    for k, p in enumerate(graph.params):
        low.buffers[p] = Buffer(f"a{k}", p.dtype, product(p.shape), "input")
    for k, r in enumerate(graph.results):
        low.buffers[root(r)] = Buffer(f"r{k}", r.dtype, product(r.shape), "output")
    _name_the_rest(low)
    body: list[Stmt] = []
    for low.step, group in enumerate(low.plan.groups):
        body.extend(_nest(low, group) if group.tasks[0].alone else NestWriter(group, low.place, low.fresh).write())
    return _assemble(low, name, tuple(body))


def _name_the_rest(low: Lowering) -> None:
    temps = itertools.count()
    constants = itertools.count()
    for n in low.graph.nodes():
        if n in low.buffers:
            continue
        if n.op is CONSTANT and n.shape:
            low.buffers[n] = Buffer(f"c{next(constants)}", n.dtype, product(n.shape), "constant", data=n.attr("data"))
        elif n in low.plan.stored:
            low.buffers[n] = Buffer(f"t{next(temps)}", n.dtype, product(n.shape), "temp")


def _nest(low: Lowering, group: Group) -> Block:
    (task,) = group.tasks
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
    for step, group in enumerate(low.plan.groups):
        for t in group.tasks:
            own = low.buffers[t.node].name
            first.setdefault(own, step)
            for n in (t.node, *(d for d, _ in reads(t, low.plan.stored))):
                last[low.buffers[n].name] = step
    every = [*temps, *low.scratch.values()]
    return [Lifetime(b.name, b.elements * b.dtype.bytes, first[b.name], last[b.name]) for b in every]

