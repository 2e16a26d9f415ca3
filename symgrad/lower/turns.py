"""Bands -> statements: a group alone, blocks of rows in which groups take turns, or chunks of rows that threads share.

How rows are cut into chunks depends on lengths and the number of workers alone. A reduction over rows has a partial
result for each chunk; these are added in order, so that a result does not depend on who did what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from symgrad.ir.loops import (
    ADD,
    DIV,
    LT,
    MAX,
    MIN,
    MUL,
    Apply,
    Assign,
    Block,
    Buffer,
    Choose,
    Const,
    Declare,
    Expr,
    For,
    Let,
    Load,
    Parallel,
    Stmt,
    Store,
    Var,
    add,
    const_index,
    extent,
    mul,
    post_order,
    roots,
    statements,
)
from symgrad.ir.node import Node
from symgrad.ir.op import Fold
from symgrad.ir.types import DType, Size, i64, product
from symgrad.lower.bands import Band, block_rows
from symgrad.lower.nests import NestWriter
from symgrad.lower.shapes import few
from symgrad.lower.values import Memory

CHUNKS = 8  # for each worker: one that is held up leaves little to wait for
CHUNKS_OF_ARRAYS = 2  # where a chunk has an array of partial results
SMALL = 512  # elements that are never shared
WORTH = 50_000  # scalar operations from which a loop is shared, some 10 to 20 microseconds
_FUNCTION = 20  # operations in an elementary function
_LINE = 16  # elements: partial results of two chunks do not share a line of the cache


class Host(Protocol):
    """What the lowering gives to its bands."""

    row: Expr | None
    worker: Expr | None

    def fresh(self, prefix: str, dtype: DType) -> Var: ...

    def memory(self, n: Node) -> Memory | None: ...

    def scratch(self, dtype: DType, elements: Size) -> Buffer: ...

    def nest(self, n: Node, rows: tuple[Expr, Expr]) -> Block: ...


def is_shared(band: Band, workers: int) -> bool:
    """Whether threads may share the rows of a band."""
    first = band.groups[0]
    if workers == 1 or first.tasks[0].whole or not first.space or few(first.space[:1]):
        return False
    return not all(few(g.space, SMALL) for g in band.groups)


def band_block(host: Host, band: Band, workers: int) -> Block:
    """The statements of a band, for up to ``workers`` threads."""
    if is_shared(band, workers):
        return _Shared(host, band, workers).block()
    if len(band.groups) > 1:
        return _blocks(host, band, None, lambda n: None)
    writer = NestWriter(band.groups[0], host.memory, host.fresh)
    body = writer.write()
    return (*writer.before, *body, *writer.after)


def _blocks(host: Host, band: Band, rows: tuple[Expr, Expr] | None, partial: Callable[[Node], Memory | None]) -> Block:
    """Blocks of the band's rows, or of those in a range, in which each group takes its turn."""
    start, stop = rows or (const_index(0), extent(band.groups[0].space[0]))
    step, block, low, high = (host.fresh(name, i64) for name in ("rows", "block", "low", "high"))
    host.row = low
    writers: list[NestWriter] = []
    body: list[Stmt] = []
    for g in band.groups:
        if g.tasks[0].alone:
            body += host.nest(g.tasks[0].node, (low, high))
            continue
        writers.append(NestWriter(g, host.memory, host.fresh, (low, high), partial=partial))
        body += writers[-1].write()
    turn = (
        Let(low, add(start, Apply(MUL, (block, step)))),
        Let(high, Apply(MIN, (Apply(ADD, (low, step)), stop))),
        *body,
    )
    count = stop if rows is None else Apply(ADD, (stop, mul(start, const_index(-1))))
    return (
        *(s for w in writers for s in w.before),
        Let(step, block_rows(band.width)),
        For(block, const_index(0), _quotient_up(count, step), turn),
        *(s for w in writers for s in w.after),
    )


def _quotient_up(a: Expr, b: Expr) -> Expr:
    return Apply(DIV, (Apply(ADD, (a, Apply(ADD, (b, const_index(-1))))), b))


@dataclass
class _Partial:
    """The results of a reduction over the rows of each chunk, ``stride`` elements apart."""

    node: Node
    whole: Memory
    buffer: str
    stride: Size
    elements: Size

    def memory(self, chunk: Expr) -> Memory:
        place = replace(self.whole.place, buffer=self.buffer, base=mul(chunk, extent(self.stride)))
        return replace(self.whole, place=place)


class _Shared:
    """A band whose rows threads share."""

    def __init__(self, host: Host, band: Band, workers: int) -> None:
        self.host, self.band, self.workers = host, band, workers
        folds = {t.node: None for t in band.tasks if t.fold is not None and 0 not in t.kept}
        arrays = any(not few(n.shape) for n in folds)
        self.most = workers * (CHUNKS_OF_ARRAYS if arrays else CHUNKS)
        self.partials = {n: self._partial(n) for n in folds}

    def _partial(self, n: Node) -> _Partial:
        whole = self.host.memory(n)
        assert whole is not None, n
        assert whole.row is None, n
        elements = product(n.shape) if not whole.tail else product(n.shape[n.ndim - whole.tail :]) * whole.column
        stride = (elements + (_LINE - 1)) // _LINE * _LINE
        return _Partial(n, whole, self.host.scratch(n.dtype, stride * self.most).name, stride, elements)

    def block(self) -> Block:
        host = self.host
        rows = extent(self.band.groups[0].space[0])
        names = ("pieces", "share", "chunks", "chunk", "worker", "from", "to")
        pieces, share, chunks, chunk, worker, start, stop = (host.fresh(name, i64) for name in names)
        host.worker = worker
        body = self._rows((start, stop), chunk)
        host.worker = None
        is_worth = Apply(LT, (const_index(WORTH), self._work(body)))
        turn = (
            Let(start, Apply(MUL, (chunk, share))),
            Let(stop, Apply(MIN, (Apply(ADD, (start, share)), rows))),
            *body,
        )
        return (
            Let(pieces, Choose(is_worth, const_index(self.most), const_index(1))),
            Let(share, Apply(MAX, (_quotient_up(rows, pieces), const_index(1)))),
            Let(chunks, _quotient_up(rows, share)),
            Parallel(chunk, worker, chunks, self.workers, turn),
            *(s for p in self.partials.values() for s in self._combined(p, chunks)),
        )

    def _rows(self, rows: tuple[Var, Var], chunk: Var) -> Block:
        def partial(n: Node) -> Memory | None:
            return self.partials[n].memory(chunk) if n in self.partials else None

        if len(self.band.groups) > 1 or self.band.tasks[0].alone:
            return _blocks(self.host, self.band, rows, partial)
        writer = NestWriter(self.band.groups[0], self.host.memory, self.host.fresh, rows, partial=partial)
        body = writer.write()
        return (*writer.before, *body, *writer.after)

    def _work(self, body: Block) -> Expr:
        """About how many scalar operations a call runs in the band."""
        spaces = {product(g.space): None for g in self.band.groups}
        dearest = max((_operations(s.body) for s in statements(body) if isinstance(s, For)), default=1)
        total: Expr = const_index(0)
        for size in spaces:
            total = add(total, extent(size))
        return Apply(MUL, (total, const_index(max(1, dearest))))

    def _combined(self, p: _Partial, chunks: Expr) -> Block:
        fold = p.node.op.lower
        assert isinstance(fold, Fold)
        at, chunk, acc = self.host.fresh("i", i64), self.host.fresh("chunk", i64), self.host.fresh("acc", p.node.dtype)
        where: Expr = const_index(0) if p.elements == 1 else at
        piece = Load(p.buffer, add(mul(chunk, extent(p.stride)), where), p.node.dtype)
        place = p.whole.place
        block: Block = (
            Declare(acc, Const(fold.start(p.node.dtype), p.node.dtype)),
            For(chunk, const_index(0), chunks, (Assign(acc, Apply(fold.fn, (acc, piece))),)),
            Store(place.buffer, add(place.base, where), acc),
        )
        return block if p.elements == 1 else (For(at, const_index(0), extent(p.elements), block),)


def _operations(block: Block) -> int:
    """Scalar operations of the statements directly in a block."""
    seen = {id(e): e for s in block if not isinstance(s, For) for root in roots(s) for e in post_order(root)}
    return sum(_FUNCTION if _is_function(e) else 1 for e in seen.values() if isinstance(e, Apply))


def _is_function(e: Apply) -> bool:
    return any(spelling.startswith("libm") for _, spelling in e.fn.llvm)
