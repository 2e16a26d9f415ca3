"""Primitives that run graphs -> branches and loops of statements.

The state of a loop lies in the memory of its results; a trip computes the next state beside it and copies it over.
Slices of what is scanned, and what each trip gives, are parts of whole arrays. A while loop keeps what its trips give
in room for ``capacity`` trips, a size that the caller chooses: when it is used up, the call ends with ``TapeFull``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from symgrad.ir.graph import Graph
from symgrad.ir.loops import (
    ADD,
    DIV,
    LE,
    MUL,
    SUB,
    Apply,
    Assign,
    Block,
    Declare,
    Expr,
    Extent,
    For,
    If,
    Let,
    Stmt,
    Var,
    While,
    add,
    const_index,
    extent,
    mul,
)
from symgrad.ir.node import Node
from symgrad.ir.op import Index, Place
from symgrad.ir.types import (
    Dim,
    DType,
    FloorDiv,
    Shape,
    Size,
    TensorType,
    boolean,
    i64,
    product,
    size_named,
    size_names,
)
from symgrad.ops.loop import Layout

CAPACITY = "capacity"
TAPE_FULL = ("TapeFull", "the tape of a while loop is full")


class Writer(Protocol):
    """What a region asks of the lowering that it is part of."""

    def fresh(self, prefix: str, dtype: DType) -> Var:
        """A variable of an unused name."""

    def temp(self, type: TensorType) -> Place:
        """Memory for the length of the region."""

    def fail(self, exception: str, message: str) -> Stmt:
        """A statement that ends the call with a status."""

    def loop(self, shape: Shape, body: Callable[[Index], Block]) -> Block:
        """Loops over all indices of a shape."""

    def must_place(self, n: Node) -> Place:
        """The memory of an operand."""

    def result_places(self, n: Node) -> list[Place]:
        """The memory of the results of a primitive with several."""

    def block(self, graph: Graph, given: dict[Node, Place], results: list[Place]) -> Block:
        """The statements of an inner graph, from the memory of its parameters to that of its results."""

    def born(self, trips: str) -> Var:
        """The variable that holds the number of trips of a loop."""


def region_block(w: Writer, n: Node) -> Block:
    """The statements of a ``cond`` or a ``loop``."""
    return _cond(w, n) if n.op.name == "cond" else _loop(w, n)


def _cond(w: Writer, n: Node) -> Block:
    predicate, *operands = (w.must_place(a) for a in n.args)
    results = w.result_places(n)
    arms = [
        w.block(g, dict(zip(g.params, operands, strict=True)), results) for g in (n.attr("then"), n.attr("otherwise"))
    ]
    test = w.fresh("test", boolean)
    return Let(test, predicate.load()), If(test, arms[0], arms[1])


def _loop(w: Writer, n: Node) -> Block:
    layout: Layout = n.attr("layout")
    body: Graph = n.attr("body")
    carry, _, consts = layout.operands([w.must_place(a) for a in n.args])
    state, ys = layout.results(w.result_places(n))
    begin = tuple(s for source, target in zip(carry, state, strict=True) for s in copied(w, source, target))
    if n.attr("condition") is None:
        return (*begin, *_counted(w, n, body, state, ys))
    k, alive, index = w.fresh("k", i64), w.temp(TensorType(boolean)), w.temp(TensorType(i64))
    test: Graph = n.attr("condition")
    given = dict(zip(test.params, (index, *state, *consts), strict=True))
    head = (index.store(k), *w.block(test, given, [alive]))
    one_more = Assign(k, Apply(ADD, (k, const_index(1))))
    step = (*_room(w, k, ys), *_trip(w, n, body, k, state, ys), one_more)
    return *begin, Declare(k, const_index(0)), While(head, alive.load(), step), Assign(w.born(n.attr("trips")), k)


def _counted(w: Writer, n: Node, body: Graph, state: list[Place], ys: list[Place]) -> Block:
    k, length = w.fresh("k", i64), extent(n.attr("length"))
    if not n.attr("reverse"):
        return (For(k, const_index(0), length, _trip(w, n, body, k, state, ys)),)
    at = w.fresh("at", i64)
    down = Let(at, Apply(SUB, (length, Apply(ADD, (k, const_index(1))))))
    return (For(k, const_index(0), length, (down, *_trip(w, n, body, at, state, ys))),)


def _room(w: Writer, k: Expr, ys: list[Place]) -> Block:
    """End the call when there is no room for what this trip gives."""
    if not ys:
        return ()
    return (If(Apply(LE, (extent(size_named(CAPACITY)), k)), (w.fail(*TAPE_FULL),)),)


def _trip(w: Writer, n: Node, body: Graph, at: Expr, state: list[Place], ys: list[Place]) -> Block:
    """One trip: the next state is computed beside the present one, then copied over it."""
    layout: Layout = n.attr("layout")
    _, xs, consts = layout.operands([w.must_place(a) for a in n.args])
    index, carry, slices, const_params = layout.params(body)
    number = w.temp(TensorType(i64))
    given = {index: number, **dict(zip(carry, state, strict=True)), **dict(zip(const_params, consts, strict=True))}
    given |= {q: _slice(x, at) for q, x in zip(slices, xs, strict=True)}
    after, given_ys = layout.results(body.results)
    moved = [k for k, r in enumerate(after) if r is not carry[k]]
    following = [w.temp(state[k].type) for k in moved]
    targets = [*following, *(_slice(y, at) for y in ys)]
    inner = w.block(Graph(body.params, (*(after[k] for k in moved), *given_ys)), given, targets)
    copies = tuple(s for k, new in zip(moved, following, strict=True) for s in copied(w, new, state[k]))
    return number.store(at), *inner, *copies


def _slice(whole: Place, at: Expr) -> Place:
    """One part of an array along its first axis."""
    part = whole.type.with_shape(whole.type.shape[1:])
    return Place(whole.buffer, part, add(whole.base, mul(at, extent(product(part.shape)))))


def copied(w: Writer, source: Place, target: Place) -> Block:
    if source == target:
        return ()
    return w.loop(target.type.shape, lambda ix: (target.store(source.load(*ix), *ix),))


# --- sizes born at run time ------------------------------------------------------------------------------------------


def measured(size: Size, born: dict[str, Var]) -> Expr:
    """A size as an expression, in which lengths that are born at run time are variables."""
    if not size_names(size) & born.keys():
        return extent(size)
    assert isinstance(size, Dim)
    total: Expr = const_index(0)
    for monomial, c in size.terms:
        term: Expr = const_index(c)
        for atom in monomial:
            match atom:
                case str():
                    factor: Expr = born[atom] if atom in born else Extent(size_named(atom))
                case FloorDiv():
                    factor = Apply(DIV, (measured(atom.num, born), measured(atom.den, born)))
            term = factor if term == const_index(1) else Apply(MUL, (term, factor))
        total = add(total, term)
    return total
