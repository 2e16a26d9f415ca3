"""Graph -> Program: buffers for arguments, results and temporaries, and loops for each band of groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from symgrad.ir.graph import Graph, size_parameters
from symgrad.ir.loops import (
    Block,
    Buffer,
    Declare,
    Expr,
    Extent,
    Fail,
    Failure,
    For,
    Program,
    Site,
    Stmt,
    Var,
    add,
    const_index,
    extent,
    mul,
    sub,
)
from symgrad.ir.node import CONSTANT, GET, Node, TupleType
from symgrad.ir.op import Index, Nest, Place, Region
from symgrad.ir.types import DType, Shape, Size, TensorType, i64, map_size, product, size_named, size_names
from symgrad.lower.bands import Band, banded
from symgrad.lower.expand import expand
from symgrad.lower.literals import with_literals
from symgrad.lower.memory import Lifetime, column_of, plan
from symgrad.lower.nests import loop_over
from symgrad.lower.operands import operands_apart
from symgrad.lower.pack import pack
from symgrad.lower.rebuild import map_block
from symgrad.lower.regions import CAPACITY, TAPE_FULL, measured, region_block
from symgrad.lower.registers import in_registers
from symgrad.lower.rows import rows_first
from symgrad.lower.schedule import Schedule, Task, nest_operands, operand_source, reads, schedule
from symgrad.lower.shapes import memory_of, root
from symgrad.lower.together import together
from symgrad.lower.turns import band_block, is_shared
from symgrad.lower.values import Memory
from symgrad.ops.pointwise import copy


@dataclass
class Whole:
    """What all graphs of one program share: names, failures, scratch memory, and lengths born at run time."""

    scratch: dict[str, tuple[Buffer, int]] = field(default_factory=dict)
    failures: dict[Failure, int] = field(default_factory=dict)
    counter: itertools.count[int] = field(default_factory=itertools.count)
    constants: dict[str, Buffer] = field(default_factory=dict)
    trips: dict[str, Var] = field(default_factory=dict)
    step: int = 0  # of the outermost graph
    blas: bool = True


@dataclass
class Lowering:
    """State of the lowering of one graph; the ``NestBuilder`` of nests and the ``Writer`` of regions."""

    graph: Graph
    plan: Schedule
    bands: list[Band]
    whole: Whole
    given: dict[Node, Place] = field(default_factory=dict)  # memory from outside
    several: dict[Node, list[Place]] = field(default_factory=dict)  # results of primitives with several
    kept: dict[Node, list[Buffer]] = field(default_factory=dict)  # the memory of these
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    step: int = 0
    row: Expr | None = None  # the first row of the block at hand
    worker: Expr | None = None  # whose block it is, where threads share rows
    workers: int = 1
    columns: dict[Node, Size] = field(default_factory=dict)  # temporaries whose last axes come first in memory

    def fresh(self, prefix: str, dtype: DType) -> Var:
        return Var(f"{prefix}{next(self.whole.counter)}", dtype)

    def temp(self, type: TensorType) -> Place:
        return Place(self.scratch(type.dtype, product(type.shape)).name, type)

    def scratch(self, dtype: DType, elements: Size) -> Buffer:
        """Memory for the present step of the outermost graph."""
        name = f"s{len(self.whole.scratch)}"
        self.whole.scratch[name] = Buffer(name, dtype, elements, "temp"), self.whole.step
        return self.whole.scratch[name][0]

    def fail(self, exception: str, message: str) -> Stmt:
        failures = self.whole.failures
        return Fail(failures.setdefault(Failure(exception, message), len(failures) + 1))

    def fail_at(self, site: Site, values: Sequence[Place]) -> Stmt:
        failures, kept = self.whole.failures, tuple((v.buffer, v.type) for v in values)
        return Fail(failures.setdefault(Failure(site.exception, site.message, site, kept), len(failures) + 1))

    def born(self, trips: str) -> Var:
        return self.whole.trips.setdefault(trips, Var(trips, i64))

    def result_places(self, n: Node) -> list[Place]:
        return self.several[n]

    def block(self, graph: Graph, given: dict[Node, Place], results: list[Place]) -> Block:
        return lower_block(self.whole, graph, given, results)

    def loop(self, shape: Shape, body: Callable[[Index], Block]) -> Block:
        return loop_over(shape, body, self.fresh)

    def place(self, n: Node) -> Place | None:
        """The memory of a node: its own, or that of what it is a reshape of."""
        base = root(n)
        if base.op is GET:
            one: Place = self.several[base.args[0]][base.attr("index")]
            return replace(one, type=n.type)
        if (found := self.given.get(base)) is not None:
            return replace(found, type=n.type)
        buffer = self.buffers.get(base)
        return None if buffer is None else Place(buffer.name, n.type)

    def memory(self, n: Node) -> Memory | None:
        """How loops reach the memory of a node."""
        place = self.place(n)
        if place is None:
            return None
        if n in self.bands[self.step].local:
            return Memory(self._own(place, n), row=self.row)
        column = self.columns.get(n)
        return Memory(place) if column is None else Memory(place, self.plan.rows.tail(n), column=column)

    def _own(self, place: Place, n: Node) -> Place:
        """Memory for a block of rows: a worker's own."""
        if self.worker is None:
            return place
        return replace(place, base=mul(self.worker, extent(self.bands[self.step].room(n))))

    def nest(self, n: Node, rows: tuple[Expr, Expr]) -> Block:
        """A nest over a batch, for some rows of it."""
        row = self.fresh("row", i64)
        return (For(row, *rows, _nest(self, n, lambda m: self._row_of(m, row))),)

    def _row_of(self, n: Node, row: Expr) -> Place:
        """The memory of one row of a node."""
        place = self.must_place(n)
        if root(n) in self.bands[self.step].local:
            assert self.row is not None
            place, row = self._own(place, root(n)), sub(row, self.row)
        rest = n.shape[1:]
        at = add(place.base, mul(row, extent(product(rest))))
        return Place(place.buffer, place.type.with_shape(rest), at)

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


def lower(graph: Graph, name: str, *, flags: int = 0, workers: int = 1, blas: bool = True) -> Program:
    """The Program of ``graph``, whose buffers are its params, then its results but for the last ``flags``.

    These are computed, and not given out: what they say, the status says. Up to ``workers`` threads share its loops.
    Without ``blas`` its products of matrices are loops.
    """
    low = _begun(Whole(blas=blas), graph)
    low.workers = workers
    for k, p in enumerate(low.graph.params):
        low.buffers[p] = Buffer(f"a{k}", p.dtype, product(p.shape), "input")
    for k, r in enumerate(low.graph.results[: len(graph.results) - flags]):
        low.buffers[root(r)] = Buffer(f"r{k}", r.dtype, product(r.shape), "output")
    _name_the_rest(low, _temporaries(low))
    return _assemble(low, name, _written(low, outermost=True))


def lower_block(whole: Whole, graph: Graph, given: dict[Node, Place], results: list[Place]) -> Block:
    """The statements of a graph inside another, on memory that is given."""
    low = _begun(whole, graph)
    low.given = {**given, **{root(r): place for r, place in zip(low.graph.results, results, strict=True)}}
    _name_the_rest(low, None)
    return _written(low, outermost=False)


def planned(graph: Graph) -> tuple[Graph, Schedule, list[Band]]:
    """The graph as it is lowered, what of it is stored, and the bands that run, in order."""
    low = _begun(Whole(), graph)
    return low.graph, low.plan, low.bands


def _begun(whole: Whole, graph: Graph) -> Lowering:
    graph = distinct_results(operands_apart(rows_first(pack(with_literals(expand(graph, blas=whole.blas))))))
    plan = schedule(graph)
    return Lowering(graph, plan, banded(plan, graph.results), whole)


def _written(low: Lowering, *, outermost: bool) -> Block:
    body: list[Stmt] = []
    for step, band in enumerate(low.bands):
        low.step = step
        if outermost:
            low.whole.step = step
        first = band.tasks[0]
        alone = first.alone and len(band.groups) == 1 and not is_shared(band, low.workers)
        body.extend(_alone(low, first) if alone else band_block(low, band, low.workers))
    return tuple(body)


def _temporaries(low: Lowering) -> Iterator[str]:
    return (f"t{k}" for k in itertools.count())


def _name_the_rest(low: Lowering, names: Iterator[str] | None) -> None:
    """Memory for what is stored; in an inner graph (without names) it lives as long as the outer step."""
    room = {n: _room(low, band, n) for band in low.bands for n in band.local}

    def memory(dtype: DType, elements: Size) -> Buffer:
        if names is None:
            return low.scratch(dtype, elements)
        return Buffer(next(names), dtype, elements, "temp")

    whole = _seen_whole(low)
    for n in low.graph.nodes():
        if n in low.buffers or n in low.given:
            continue
        if n.op is CONSTANT and n.shape:
            name = f"c{len(low.whole.constants)}"
            low.buffers[n] = Buffer(name, n.dtype, product(n.shape), "constant", data=n.attr("data"))
            low.whole.constants[name] = low.buffers[n]
        elif isinstance(n.type, TupleType) and n in low.plan.stored:
            made = [memory(t.dtype, product(t.shape)) for t in n.type.items]
            low.several[n] = [Place(b.name, t) for b, t in zip(made, n.type.items, strict=True)]
            low.kept[n] = made
        elif n in low.plan.stored:
            low.buffers[n] = memory(n.dtype, room[n] if n in room else _elements(low, n, whole))


def _room(low: Lowering, band: Band, n: Node) -> Size:
    """Elements of what lives within blocks of rows, for each of the workers."""
    return band.room(n) * (low.workers if is_shared(band, low.workers) else 1)


def _seen_whole(low: Lowering) -> set[Node]:
    """Nodes whose memory is read as that of a reshape, or by a nest."""
    whole = {root(n) for n in low.graph.nodes() if n.op.name == "reshape"}
    for t in (t for band in low.bands for t in band.tasks if t.alone):
        whole.update((t.node, *nest_operands(t.node)))
    return whole


def _elements(low: Lowering, n: Node, whole: set[Node]) -> Size:
    """The elements of a temporary. Short rows lie by columns, so that loops run along memory."""
    tail = low.plan.rows.tail(n)
    if not 0 < tail < n.ndim or n in whole:
        return product(n.shape)
    low.columns[n] = column_of(product(n.shape[: n.ndim - tail]), n.dtype)
    return low.columns[n] * product(n.shape[n.ndim - tail :])


def _alone(low: Lowering, task: Task) -> Block:
    """A task with statements of its own: a nest or a region."""
    if isinstance(task.node.op.lower, Region):
        return region_block(low, task.node)
    return _nest(low, task.node, low.must_place)


def _nest(low: Lowering, n: Node, place: Callable[[Node], Place]) -> Block:
    """The statements of a nest on the memory that ``place`` gives."""
    nest = n.op.lower
    assert isinstance(nest, Nest)
    sources = [operand_source(nest, k, a) for k, a in enumerate(n.args)]
    swapped = tuple(a is not source for a, source in zip(n.args, sources, strict=True))
    extra = {"swapped": swapped} if nest.transposable else {}
    return nest.build(low, place(n), *map(place, sources), **dict(n.attrs), **extra)


def _assemble(low: Lowering, name: str, body: Block) -> Program:
    """Offsets for temporaries, and lengths born at run time as variables; their memory has room for ``capacity``."""
    born = low.whole.trips
    temps = [b for b in low.buffers.values() if b.kind == "temp"] + [b for bs in low.kept.values() for b in bs]
    scratch = [b for b, _ in low.whole.scratch.values()]
    every = {
        b.name: replace(b, elements=_with_room(b.elements, born)) for b in [*low.buffers.values(), *temps, *scratch]
    }
    every |= low.whole.constants
    offsets, total = plan([_sized(t, every) for t in _lifetimes(low, temps)])
    final = [replace(b, offset=offsets.get(b.name, 0)) for b in every.values()]
    order = {"input": 0, "output": 1, "constant": 2, "temp": 3}
    final.sort(key=lambda b: (order[b.kind], b.name[0], int(b.name[1:])))
    body = (*(Declare(v, const_index(0)) for v in born.values()), *map_block(body, lambda e: _measured(e, born)))
    sizes = size_parameters(low.graph) + ((CAPACITY,) if _mentions_capacity(total, low) else ())
    return together(in_registers(Program(name, sizes, tuple(final), body, total, tuple(low.whole.failures))))


def _with_room(size: Size, born: dict[str, Var]) -> Size:
    return map_size(size, lambda n: size_named(CAPACITY if n in born else n))


def _measured(e: Expr, born: dict[str, Var]) -> Expr | None:
    return measured(e.size, born) if isinstance(e, Extent) and size_names(e.size) & born.keys() else None


def _mentions_capacity(total: Size, low: Lowering) -> bool:
    return CAPACITY in size_names(total) or Failure(*TAPE_FULL) in low.whole.failures


def _sized(t: Lifetime, buffers: dict[str, Buffer]) -> Lifetime:
    b = buffers[t.name]
    return replace(t, bytes=b.elements * b.dtype.bytes)


def _lifetimes(low: Lowering, temps: list[Buffer]) -> list[Lifetime]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, band in enumerate(low.bands):
        for t in band.tasks:
            for own in _names(low, t.node):
                first.setdefault(own, step)
            for n in (t.node, *(d for d, _ in reads(t, low.plan.stored, low.plan.rows))):
                last.update((name, step) for name in _names(low, n))
    inner = [Lifetime(name, 0, step, step) for name, (_, step) in low.whole.scratch.items()]
    return [Lifetime(b.name, 0, first.get(b.name, 0), last.get(b.name, 0)) for b in temps] + inner


def _names(low: Lowering, n: Node) -> list[str]:
    """The buffers that a stored node fills."""
    return [b.name for b in low.kept[n]] if n in low.kept else [low.buffers[n].name]
