"""Groups of tasks -> loop nests of scalar statements.

A value at an index is found by walking the graph from the task down to memory: views rewrite the index, pointwise
primitives become scalar statements, each bound once at the outermost loop level where its operands exist. A loop whose
body reads under conditions on its index is split into head, interior and tail, with no conditions in the interior.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from symgrad.ir.loops import (
    ADD,
    AND,
    LE,
    LT,
    MAX,
    MIN,
    Apply,
    Assign,
    Block,
    Choose,
    Const,
    Declare,
    Expr,
    Extent,
    For,
    If,
    Let,
    Load,
    Stmt,
    Var,
    add,
    const_index,
    extent,
    offset,
    operands,
)
from symgrad.ir.node import CONSTANT, SIZE, Node, literal
from symgrad.ir.op import Generate, Index, InRange, Leaf, Piece, Place, Scalar, View
from symgrad.ir.types import DType, Shape, Size, boolean, i64
from symgrad.lower.schedule import Group, Task, root

Request = tuple[Node, Index]
Walk = Generator[Request, Expr, Expr]
Fresh = Callable[[str, DType], Var]
SPLIT_LEVELS = 2  # innermost loops that are split; each one trebles the code


class _Missing(Exception):
    """A view needs a value of one of its arguments (a computed index) that is not there yet."""

    def __init__(self, request: Request) -> None:
        self.request = request


@dataclass
class Scope:
    """One loop level: what is already computed there, and its statements so far."""

    values: dict[Request, Expr] = field(default_factory=dict)
    bound: dict[Expr, Var] = field(default_factory=dict)
    statements: list[Stmt] = field(default_factory=list)


@dataclass
class Bounds:
    """What the body asks about one loop variable: lower bounds, and upper bounds (excluded)."""

    lows: dict[Size, None] = field(default_factory=dict)
    highs: dict[Size, None] = field(default_factory=dict)


@dataclass
class NestWriter:
    """Writes one group. ``places`` gives the memory of a node, if it has any; ``fresh`` makes variables."""

    group: Group
    places: Callable[[Node], Place | None]
    fresh: Fresh
    variables: list[Var] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    level: dict[Var, int] = field(default_factory=dict)
    bounds: dict[int, Bounds] = field(default_factory=dict)
    interior: set[int] = field(default_factory=set)
    accumulators: dict[Task, Var] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = {t.node for t in self.group.tasks if t.value is t.node}
        self.buffers = {self.place(t).buffer for t in self.group.tasks}

    def write(self) -> Block:
        """The statements of the group."""
        self._learn_bounds()
        depth = len(self.group.space)
        self.interior = {k for k in range(depth) if k not in self.bounds}
        self.scopes = [Scope()]
        self._loops(0)
        return (*self._initial_fills(), *self.scopes[0].statements)

    def place(self, t: Task) -> Place:
        place = self.places(t.node)
        assert place is not None, t.node
        return place

    def _learn_bounds(self) -> None:
        """Build the body once as the interior of all loops, to learn which bounds that takes for granted."""
        depth = len(self.group.space)
        self.variables = [self.fresh("i", i64) for _ in range(depth)]
        self.level = {v: k + 1 for k, v in enumerate(self.variables)}
        self.interior = set(range(depth))
        self.scopes = [Scope() for _ in range(depth + 1)]
        self.accumulators = {t: self.fresh("acc", t.node.dtype) for t in self.group.tasks if _in_register(t)}
        for t in self.group.tasks:
            self._task(t)
        split = [k for k in range(depth) if k in self.bounds][-SPLIT_LEVELS:]
        self.interior = set()
        self.bounds = {k: b if k in split else Bounds() for k, b in self.bounds.items()}

    # --- loops ---

    def _loops(self, k: int) -> None:
        """The loops from level ``k`` inwards, into the current scope."""
        scope = self.scopes[-1]
        ending = [t for t in self.accumulators if t.node.ndim == k]
        for t in ending:
            self.accumulators[t] = acc = self.fresh("acc", t.node.dtype)
            scope.statements.append(Declare(acc, _start(t)))
        if k == len(self.group.space):
            for t in self.group.tasks:
                self._task(t)
        else:
            for start, stop, inside in self._segments(k):
                self._one_loop(k, start, stop, inside)
        for t in ending:
            scope.statements.append(self.place(t).store(self.accumulators[t], *self.variables[: t.node.ndim]))

    def _segments(self, k: int) -> list[tuple[Expr, Expr, bool]]:
        stop = extent(self.group.space[k])
        asked = self.bounds.get(k)
        if asked is None or not (asked.lows or asked.highs):
            return [(const_index(0), stop, asked is None)]
        zero: Expr = const_index(0)
        low = functools.reduce(lambda a, b: Apply(MAX, (a, b)), map(extent, asked.lows), zero)
        high = functools.reduce(lambda a, b: Apply(MIN, (a, b)), map(extent, asked.highs), stop)
        first, last = self.fresh("first", i64), self.fresh("last", i64)
        statements = self.scopes[-1].statements
        statements.append(Let(first, Apply(MIN, (low, stop)) if asked.lows else const_index(0)))
        statements.append(Let(last, Apply(MAX, (first, high)) if asked.highs else stop))
        head = [(const_index(0), first, False)] if asked.lows else []
        tail = [(last, stop, False)] if asked.highs else []
        return [*head, (first, last, True), *tail]

    def _one_loop(self, k: int, start: Expr, stop: Expr, inside: bool) -> None:
        was_inside = k in self.interior
        (self.interior.add if inside else self.interior.discard)(k)
        v = self.fresh("i", i64)
        self.variables[k], self.level[v] = v, len(self.scopes)
        self.scopes.append(Scope())
        self._loops(k + 1)
        body = tuple(self.scopes.pop().statements)
        (self.interior.add if was_inside else self.interior.discard)(k)
        self.scopes[-1].statements.append(For(v, start, stop, body))

    # --- tasks ---

    def _task(self, t: Task) -> None:
        index: Index = tuple(self.variables)
        zipped = zip(index, t.space, self.group.space, strict=True)
        condition = self._all([InRange(i, const_index(0), extent(size)) for i, size, full in zipped if size != full])
        value = self.value(t.value, _guarded(index, condition))
        statement = self._result(t, index, value)
        self.scopes[-1].statements.append(statement if condition is None else If(condition, (statement,)))

    def _result(self, t: Task, index: Index, value: Expr) -> Stmt:
        if t.fold is None:
            at = tuple(_shifted(i, s) for i, s in zip(index, t.starts, strict=True))
            return self.place(t).store(value, *at)
        if t in self.accumulators:
            acc = self.accumulators[t]
            return Assign(acc, Apply(t.fold.fn, (acc, value), reassoc=t.fold.fn is ADD and t.node.dtype.is_float))
        at = tuple(i for k, i in enumerate(index) if k not in t.node.attr("axes"))
        return self.place(t).store(Apply(t.fold.fn, (self.place(t).load(*at), value)), *at)

    def _initial_fills(self) -> Block:
        """Starting values of reductions that are accumulated in memory."""
        out: list[Stmt] = []
        for t in self.group.tasks:
            if t.fold is not None and t not in self.accumulators:
                fill = functools.partial(self.place(t).store, _start(t))
                out.extend(loop_over(t.node.shape, functools.partial(_one_store, fill), self.fresh))
        return tuple(out)

    # --- values ---

    def value(self, node: Node, index: Index) -> Expr:
        """The scalar of ``node`` at ``index``; iterative, since chains of nodes may be long."""
        answer = self._known((node, index))
        stack = [] if answer is not None else [((node, index), self._walk(node, index))]
        while stack:
            request, walk = stack[-1]
            try:
                wanted = next(walk) if answer is None else walk.send(answer)
            except StopIteration as done:
                stack.pop()
                answer = self._remember(request, done.value)
                continue
            answer = self._known(wanted)
            if answer is None:
                stack.append((wanted, self._walk(*wanted)))
        assert answer is not None
        return answer

    def _known(self, request: Request) -> Expr | None:
        for scope in reversed(self.scopes):
            if (found := scope.values.get(request)) is not None:
                return found
        return None

    def _remember(self, request: Request, value: Expr) -> Expr:
        level = max(self._depth(e) for e in (value, *request[1]))
        self.scopes[level].values[request] = value
        return value

    def _walk(self, node: Node, index: Index) -> Walk:
        place = None if root(node) in self.own else self.places(node)
        if place is not None:
            return self.bind(place.load(*index))
        match node.op.lower:
            case Leaf():
                return self._leaf(node)
            case Generate(value=generate):
                return self.bind(generate(index, **dict(node.attrs)))
            case Scalar(fn=function, build=build):
                args = []
                for a in node.args:
                    args.append((yield (a, index)))
                if function is not None:
                    return self.bind(Apply(function, tuple(args)))
                assert build is not None
                return self.bind(build(*args, **dict(node.attrs)))
            case View():
                return (yield from self._view(node, index))
            case _:
                raise AssertionError(f"{node.op.name} has no memory")

    def _leaf(self, node: Node) -> Expr:
        if node.op is SIZE:
            return extent(node.attr("size"))
        assert node.op is CONSTANT, node.op.name
        return Const(literal(node).item(), node.dtype)

    def _view(self, node: Node, index: Index) -> Walk:
        pieces = yield from self._pieces(node, index)
        value: Expr | None = None
        exhaustive = not node.op.fills
        for piece in reversed(pieces):
            condition = self._all(piece.when)
            at = tuple(self._compact(i) for i in _guarded(piece.index, condition))
            here = yield (node.args[piece.arg], at)
            if condition is None or (value is None and exhaustive):
                value = here
            else:
                rest = Const(False if node.dtype == boolean else 0, node.dtype) if value is None else value
                value = self.bind(Choose(condition, here, rest))
        assert value is not None
        return value

    def _pieces(self, node: Node, index: Index) -> Generator[Request, Expr, tuple[Piece, ...]]:
        view, types = node.op.lower, tuple(a.type for a in node.args)
        assert isinstance(view, View)

        def read(k: int, at: Index) -> Expr:
            found = self._known((node.args[k], at))
            if found is None:
                raise _Missing((node.args[k], at))
            return found

        while True:
            try:
                pieces: tuple[Piece, ...] = view.pieces(index, read, types, **dict(node.attrs))
                return pieces
            except _Missing as missing:
                request = missing.request
            yield request

    def _compact(self, e: Expr) -> Expr:
        """Indices that are more than a variable plus a constant as variables, so that equal ones are computed once."""
        return e if isinstance(offset(e)[0], Var | Const) else self.bind(e)

    def bind(self, e: Expr) -> Expr:
        """``e`` as a variable, at the outermost level where its operands exist."""
        if isinstance(e, Var | Const | Extent):
            return e
        for scope in reversed(self.scopes):
            if (found := scope.bound.get(e)) is not None:
                return found
        level = self._depth(e)
        v = self.fresh("v", e.dtype)
        self.level[v] = level
        self.scopes[level].bound[e] = v
        self.scopes[level].statements.append(Let(v, e))
        return v

    def _depth(self, e: Expr) -> int:
        match e:
            case Var():
                return self.level[e]
            case Const() | Extent():
                return 0
            case Load() if e.buffer in self.buffers:
                return len(self.scopes) - 1
        return max((self._depth(o) for o in operands(e)), default=0)

    # --- conditions ---

    def _all(self, when: Sequence[InRange | Expr]) -> Expr | None:
        """The conjunction of conditions; None when all are known to hold here."""
        parts: list[Expr] = [p for w in when for p in (self._open(w) if isinstance(w, InRange) else [w])]
        return self.bind(functools.reduce(lambda a, b: Apply(AND, (a, b)), parts)) if parts else None

    def _open(self, w: InRange) -> list[Expr]:
        """The parts of a condition that are not known here; bounds on loop variables are noted for the split."""
        base, shift = offset(w.value)
        low, high = _size(w.low), _size(w.high)
        if not isinstance(base, Var) or base not in self.variables or low is None or high is None:
            return [Apply(LE, (w.low, w.value)), Apply(LT, (w.value, w.high))]
        k = self.variables.index(base)
        below, above = not _surely_le(low - shift, 0), not _surely_le(self.group.space[k], high - shift)
        if k in self.interior:
            if below:
                self.bounds.setdefault(k, Bounds()).lows[low - shift] = None
            if above:
                self.bounds.setdefault(k, Bounds()).highs[high - shift] = None
            return []
        lower: list[Expr] = [Apply(LE, (w.low, w.value))] if below else []
        upper: list[Expr] = [Apply(LT, (w.value, w.high))] if above else []
        return lower + upper


def _one_store(store: Callable[..., Stmt], index: Index) -> Block:
    return (store(*index),)


def _guarded(index: Index, condition: Expr | None) -> Index:
    """An index that stays in range where ``condition`` is false."""
    if condition is None:
        return index
    zero = const_index(0)
    return tuple(i if i == zero else Choose(condition, i, zero) for i in index)


def _shifted(i: Expr, start: Size) -> Expr:
    return add(i, extent(start))


def _size(e: Expr) -> Size | None:
    match e:
        case Const():
            return int(e.value)
        case Extent():
            return e.size
    return None


def _surely_le(a: Size, b: Size) -> bool:
    difference = b - a
    return difference >= 0 if isinstance(difference, int) else all(c > 0 for _, c in difference.terms)


def _start(t: Task) -> Const:
    assert t.fold is not None
    return Const(t.fold.start(t.node.dtype), t.node.dtype)


def _in_register(t: Task) -> bool:
    """Whether a reduction runs over trailing axes, so that its accumulator is a scalar."""
    return t.fold is not None and tuple(sorted(t.node.attr("axes"))) == tuple(range(t.node.ndim, len(t.space)))


def loop_over(shape: Shape, body: Callable[[Index], Block], fresh: Fresh) -> Block:
    """Loops over all indices of ``shape``, the last axis innermost."""
    index = tuple(fresh("i", i64) for _ in shape)
    out = body(index)
    for v, size in reversed(list(zip(index, shape, strict=True))):
        out = (For(v, const_index(0), extent(size), out),)
    return out

