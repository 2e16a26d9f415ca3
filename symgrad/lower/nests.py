"""Groups of tasks -> loop nests of scalar statements.

A loop whose body reads under conditions on its index is split into head, interior and tail, with no conditions in the
interior. Reductions over the innermost loops have scalar accumulators; others accumulate in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from symgrad.ir.loops import (
    ADD,
    DIV,
    MAX,
    MIN,
    Apply,
    Assign,
    Block,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Stmt,
    Var,
    add,
    const_index,
    extent,
    mul,
    statements,
    sub,
)
from symgrad.ir.node import Node
from symgrad.ir.op import Index, InRange
from symgrad.ir.types import Shape, i64
from symgrad.lower.schedule import Group, Task
from symgrad.lower.shapes import few
from symgrad.lower.values import Bounds, Fresh, Memory, Scope, Values
from symgrad.ops.pointwise import MAXIMUM, MINIMUM

SPLIT_LEVELS = 2  # innermost loops that are split; each one trebles the code
# Statements of an innermost loop -> rows that it takes at once, where there are sums over rows or along them.
LANES = ((12, 4), (64, 2))
_REORDERED = (ADD, MAXIMUM, MINIMUM)  # reductions in any order of floats; which zero is the larger is left open


@dataclass
class NestWriter:
    """Writes one group, or its part for the rows from ``rows[0]`` to ``rows[1]`` of the outermost loop.

    ``before`` and ``after`` surround all parts; ``memory`` gives the memory of a node, if it has any, ``partial`` that
    of a reduction over rows where these are only some of them.
    """

    group: Group
    memory: Callable[[Node], Memory | None]
    fresh: Fresh
    rows: tuple[Expr, Expr] | None = None
    before: Block = ()
    after: Block = ()
    partial: Callable[[Node], Memory | None] = lambda n: None
    accumulators: dict[tuple[Task, Var | None], Var] = field(default_factory=dict)
    lanes: tuple[Var, ...] = ()
    jammed: int = 0  # rows that the innermost loop takes at once
    values: Values = field(init=False)

    def write(self) -> Block:
        """The statements of the group, or of one part of it."""
        self._surround()
        own = frozenset(t.node for t in self.group.tasks if t.value is t.node)
        changing = frozenset(self._target(t).place.buffer for t in self.group.tasks)
        depth = len(self.group.space)
        self.values = Values(self.group.space, self.memory, own, changing, self.fresh)
        self.values.interior = set(range(depth))
        body = self._attempt()
        asked = self.values.bounds
        if asked:  # it took for granted what does not hold at the ends of loops: again, with loops split there
            split = [k for k in range(depth) if k in asked][-SPLIT_LEVELS:]
            self.values.bounds = {k: b if k in split else Bounds() for k, b in asked.items()}
            self.values.interior = {k for k in range(depth) if k not in asked}
            granted = self._granted()
            body = self._attempt()
            assert self._granted() == granted, "a loop takes for granted what it was not split for"
        self.jammed = self._rows_at_once(body)
        return self._attempt() if self.jammed else body

    def _granted(self) -> dict[int, tuple[int, int]]:
        """How many bounds each loop is split at."""
        return {k: (len(b.lows), len(b.highs)) for k, b in self.values.bounds.items()}

    def _rows_at_once(self, body: Block) -> int:
        """How many rows the innermost loop should take, for sums over rows or along them that are cheap; 0 for one."""
        row = len(self.group.space) - 2
        if row < 0 or few(self.group.space[row : row + 1]) or self.values.bounds.keys() & {row, row + 1}:
            return 0
        if all({row, row + 1} <= set(t.kept) for t in self.group.tasks):
            return 0
        inner = [s for s in statements(body) if isinstance(s, For) and not any(isinstance(b, For) for b in s.body)]
        if any(_is_dear(b) for s in inner for b in s.body):
            return 0
        longest = max((len(s.body) for s in inner), default=0)
        return next((lanes for most, lanes in LANES if longest <= most), 0)

    def _attempt(self) -> Block:
        self.values.scopes = [Scope()]
        self.values.variables = [self.fresh("i", i64) for _ in self.group.space]
        self.values.level = {} if self.rows is None else {v: 0 for v in self.rows if isinstance(v, Var)}
        self._loops(0)
        return (*self._fills(whole=False), *self.values.scopes[0].statements)

    def _target(self, t: Task) -> Memory:
        memory = self.partial(t.node) or self.memory(t.node)
        assert memory is not None, t.node
        return memory

    # --- reductions ---

    def _surround(self) -> None:
        """Accumulators that live through all rows: begun before, stored after."""
        for t in self.group.tasks:
            if t.fold is not None and not t.kept:
                self.accumulators[t, None] = acc = self.fresh("acc", t.node.dtype)
                self.before += (Declare(acc, _start(t)),)
                self.after += (self._target(t).store(acc, self._result_index(t, ())),)
        self.before += self._fills(whole=True)

    def _fills(self, whole: bool) -> Block:
        """Starting values of reductions that are accumulated in memory; ``whole`` of those over the outermost axis."""
        out: list[Stmt] = []
        for t in self.group.tasks:
            if t.fold is None or _in_register(t) or whole != (0 not in t.kept):
                continue
            at = [self.fresh("i", i64) for _ in t.kept]
            block: Block = (self._target(t).store(_start(t), self._result_index(t, tuple(at))),)
            for v, k in reversed(list(zip(at, t.kept, strict=True))):
                start, stop = self.rows if self.rows and k == 0 else (const_index(0), extent(t.space[k]))
                block = (For(v, start, stop, block),)
            out.extend(block)
        return tuple(out)

    def _result_index(self, t: Task, loops: Index) -> Index:
        """The index of a reduction's result for those of the loops that are kept."""
        reduced = t.node.attr("axes")
        tail = [const_index(i) for k, i in enumerate(t.pinned, len(t.space)) if k not in reduced]
        return (*loops, *tail)

    # --- loops ---

    def _loops(self, k: int) -> None:
        """The loops from level ``k`` inwards, into the current scope."""
        scope = self.values.scopes[-1]
        ending = [t for t in self.group.tasks if t.kept and len(t.kept) == k and _in_register(t)]
        for t in ending:
            for lane in self._each_lane(k):
                self.accumulators[t, lane] = acc = self.fresh("acc", t.node.dtype)
                scope.statements.append(Declare(acc, _start(t)))
        if k == len(self.group.space):
            for lane in self._each_lane(k):
                for t in self.group.tasks:
                    self._task(t, lane)
        else:
            for start, stop, inside in self._segments(k):
                if self.jammed and k == len(self.group.space) - 2:
                    start = self._lanes_loop(k, start, stop)
                self._one_loop(k, start, stop, inside)
        for t in ending:
            for lane in self._each_lane(k):
                at = self._result_index(t, tuple(self.values.variables[:k]))
                scope.statements.append(self._target(t).store(self.accumulators[t, lane], at))

    def _each_lane(self, k: int) -> Iterator[Var | None]:
        """The rows that run together below their loop, each being the row of the values in turn."""
        row = len(self.group.space) - 2
        if not self.lanes or k <= row:
            yield None
            return
        for lane in self.lanes:
            self.values.variables[row] = lane
            yield lane

    def _lanes_loop(self, k: int, start: Expr, stop: Expr) -> Expr:
        """The loop over whole bundles of rows; where the rows that are left begin."""
        values, scope = self.values, self.values.scopes[-1]
        bundles, bundle, rest = (self.fresh(name, i64) for name in ("bundles", "bundle", "rest"))
        scope.statements.append(Let(bundles, Apply(DIV, (sub(stop, start), const_index(self.jammed)))))
        self.lanes = tuple(self.fresh("i", i64) for _ in range(self.jammed))
        values.level.update((v, len(values.scopes)) for v in (bundle, *self.lanes))
        values.scopes.append(Scope())
        first = add(mul(bundle, const_index(self.jammed)), start)
        values.scopes[-1].statements += [Let(v, add(first, const_index(n))) for n, v in enumerate(self.lanes)]
        self._loops(k + 1)
        body = tuple(values.scopes.pop().statements)
        self.lanes = ()
        scope.statements.append(For(bundle, const_index(0), bundles, body))
        scope.statements.append(Let(rest, add(mul(bundles, const_index(self.jammed)), start)))
        return rest

    def _segments(self, k: int) -> list[tuple[Expr, Expr, bool]]:
        """Start and stop of the loops that level ``k`` is split into, with whether it is the interior."""
        start, stop = self.rows if self.rows and k == 0 else (const_index(0), extent(self.group.space[k]))
        asked = self.values.bounds.get(k)
        if asked is None or not (asked.lows or asked.highs):
            return [(start, stop, asked is None)]
        low = functools.reduce(lambda a, b: Apply(MAX, (a, b)), map(extent, asked.lows), start)
        high = functools.reduce(lambda a, b: Apply(MIN, (a, b)), map(extent, asked.highs), stop)
        first, last = self.fresh("first", i64), self.fresh("last", i64)
        scope = self.values.scopes[-1]
        scope.statements.append(Let(first, Apply(MIN, (low, stop)) if asked.lows else start))
        scope.statements.append(Let(last, Apply(MAX, (first, high)) if asked.highs else stop))
        head = [(start, first, False)] if asked.lows else []
        tail = [(last, stop, False)] if asked.highs else []
        return [*head, (first, last, True), *tail]

    def _one_loop(self, k: int, start: Expr, stop: Expr, inside: bool) -> None:
        interior, scopes = self.values.interior, self.values.scopes
        was_inside = k in interior
        (interior.add if inside else interior.discard)(k)
        v = self.fresh("i", i64)
        self.values.variables[k], self.values.level[v] = v, len(scopes)
        scopes.append(Scope())
        self._loops(k + 1)
        body = tuple(scopes.pop().statements)
        (interior.add if was_inside else interior.discard)(k)
        scopes[-1].statements.append(For(v, start, stop, body))

    # --- tasks ---

    def _task(self, t: Task, lane: Var | None) -> None:
        values, index = self.values, tuple(self.values.variables)
        open_axes = [size != full for size, full in zip(t.space, self.group.space, strict=True)]
        zipped = zip(index, t.space, open_axes, strict=True)
        condition = values.all_of([InRange(i, const_index(0), extent(size)) for i, size, is_open in zipped if is_open])
        if condition is None:
            values.scopes[-1].statements.append(self._result(t, lane, index))
            return
        inner = values.enter(index, open_axes)
        result = self._result(t, lane, inner)
        block = (*values.leave(), result)
        values.scopes[-1].statements.append(If(condition, block))

    def _result(self, t: Task, lane: Var | None, index: Index) -> Stmt:
        value = self.values.of(t.value, (*index, *map(const_index, t.pinned)))
        if t.fold is None:
            full = (*index, *map(const_index, t.pinned))
            return self._target(t).store(value, tuple(add(i, extent(s)) for i, s in zip(full, t.starts, strict=True)))
        acc = self.accumulators.get((t, lane)) or self.accumulators.get((t, None))
        if acc is not None:
            return Assign(
                acc, Apply(t.fold.fn, (acc, value), reassoc=t.fold.fn in _REORDERED and t.node.dtype.is_float)
            )
        at = self._result_index(t, tuple(index[k] for k in t.kept))
        target = self._target(t)
        return target.store(Apply(t.fold.fn, (target.load(at), value)), at)


def _is_dear(s: Stmt) -> bool:
    """Whether a statement calls a function of the C library."""
    if not isinstance(s, Let) or not isinstance(s.value, Apply):
        return False
    return any(spelling.startswith("libm") for _, spelling in s.value.fn.llvm)


def _start(t: Task) -> Const:
    assert t.fold is not None
    return Const(t.fold.start(t.node.dtype), t.node.dtype)


def _in_register(t: Task) -> bool:
    """Whether a reduction runs over the innermost loops, so that its accumulator is a scalar."""
    return t.fold is not None and t.kept == tuple(range(len(t.kept)))


def loop_over(shape: Shape, body: Callable[[Index], Block], fresh: Fresh) -> Block:
    """Loops over all indices of ``shape``, the last axis innermost."""
    index = tuple(fresh("i", i64) for _ in shape)
    out = body(index)
    for v, size in reversed(list(zip(index, shape, strict=True))):
        out = (For(v, const_index(0), extent(size), out),)
    return out
