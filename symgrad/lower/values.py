"""A node at an index -> a scalar expression, and the statements before it at each loop level.

The graph is walked down to memory: views rewrite the index, pointwise primitives become scalar statements, each bound
once at the outermost loop level where its operands exist.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace

from symgrad.ir.loops import (
    AND,
    LE,
    LT,
    Apply,
    Assign,
    Block,
    Choose,
    Const,
    Declare,
    Expr,
    Extent,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    add,
    const_index,
    mul,
    offset,
    operands,
    sub,
)
from symgrad.ir.loops import extent as size_of
from symgrad.ir.node import CONSTANT, SIZE, Node, literal
from symgrad.ir.op import Fold, Generate, Index, InRange, Leaf, Piece, Place, Scalar, View
from symgrad.ir.types import DType, Shape, Size
from symgrad.lower.literals import folded, padding
from symgrad.lower.shapes import root

Request = tuple[Node, Index]
Walk = Generator[Request, Expr, Expr]
Fresh = Callable[[str, DType], Var]


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a node lies: a place, with rows counted from ``row`` on, or by columns: the last ``tail`` axes come first,
    and each of their elements has ``column`` elements of its own."""

    place: Place
    tail: int = 0
    row: Expr | None = None
    column: Size = 0

    def load(self, index: Index) -> Load:
        return Load(self.place.buffer, self._at(index), self.place.type.dtype)

    def store(self, value: Expr, index: Index) -> Store:
        return Store(self.place.buffer, self._at(index), value)

    def _at(self, index: Index) -> Expr:
        if self.row is not None:
            index = (sub(index[0], self.row), *index[1:])
        if not self.tail:
            return self.place.flat(index)
        cut, shape = len(index) - self.tail, self.place.type.shape
        lead = replace(self.place, type=self.place.type.with_shape(shape[:cut]))
        tail = Place("", self.place.type.with_shape(shape[cut:]))
        return add(lead.flat(index[:cut]), mul(tail.flat(index[cut:]), size_of(self.column)))


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
class Values:
    """The values of one nest.

    ``memory`` gives the memory of a node, if it has any to read; ``changing`` are the buffers that the nest itself
    writes. ``interior`` are the loops inside which conditions hold; what they were is noted in ``bounds``.
    """

    space: Shape
    memory: Callable[[Node], Memory | None]
    own: frozenset[Node]
    changing: frozenset[str]
    fresh: Fresh
    variables: list[Var] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    level: dict[Var, int] = field(default_factory=dict)
    bounds: dict[int, Bounds] = field(default_factory=dict)
    interior: set[int] = field(default_factory=set)

    def of(self, node: Node, index: Index) -> Expr:
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
        level = max([self._depth(value), *map(self._depth, request[1])])
        self.scopes[level].values[request] = value
        return value

    def _walk(self, node: Node, index: Index) -> Walk:
        if node.op is CONSTANT and all(isinstance(i, Const) for i in index):
            return Const(literal(node)[tuple(i.value for i in index if isinstance(i, Const))].item(), node.dtype)
        memory = None if root(node) in self.own else self.memory(node)
        if memory is not None:
            return self.bind(memory.load(index))
        match node.op.lower:
            case Leaf():
                return _leaf(node)
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
            case Fold():
                return (yield from self._short_fold(node, index))
            case _:
                raise AssertionError(f"{node.op.name} has no memory")

    def _short_fold(self, node: Node, index: Index) -> Walk:
        """A reduction of few elements, one after another."""
        fold, (x,), axes = node.op.lower, node.args, node.attr("axes")
        assert isinstance(fold, Fold)
        ranges = [range(s) for k in axes if isinstance(s := x.shape[k], int)]
        total: Expr | None = None
        for position in itertools.product(*ranges):
            rest, here = iter(index), dict(zip(axes, position, strict=True))
            at = tuple(const_index(here[k]) if k in here else next(rest) for k in range(x.ndim))
            element = yield (x, at)
            total = element if total is None else self.bind(Apply(fold.fn, (total, element)))
        return total if total is not None else Const(fold.start(node.dtype), node.dtype)

    def _view(self, node: Node, index: Index) -> Walk:
        pieces = yield from self._pieces(node, index)
        zero = padding(node.dtype)
        value: Expr | None = None
        for piece in reversed(pieces):
            arg = node.args[piece.arg]
            if 0 in arg.shape:
                continue
            condition = self.all_of(piece.when)
            if isinstance(condition, Const):
                if not condition.value:
                    continue
                condition = None
            moved = [not _as_it_is(i, s, index, node.shape) for i, s in zip(piece.index, arg.shape, strict=True)]
            at = tuple(self._compact(i) for i in piece.index)
            if condition is None:
                value = yield (arg, at)
            elif all(isinstance(s, int) for s in arg.shape):
                safe = tuple(self._compact(_safe(i, condition)) if m else i for i, m in zip(at, moved, strict=True))
                here = yield (arg, safe)
                value = self.bind(Choose(condition, here, zero if value is None else value))
            else:
                # A source that may be empty has no safe index.
                value = self._begin(node.dtype, zero if value is None else value)
                here = yield (arg, self.enter(at, moved))
                block = (*self.leave(), Assign(value, here))
                self.scopes[-1].statements.append(If(condition, block))
        return zero if value is None else value

    def _begin(self, dtype: DType, value: Expr) -> Var:
        """A mutable scalar at the innermost level."""
        v = self.fresh("v", dtype)
        self.level[v] = len(self.scopes) - 1
        self.scopes[-1].statements.append(Declare(v, value))
        return v

    def enter(self, index: Index, renamed: Sequence[bool]) -> Index:
        """Begin a level for what is computed under a condition only; what is at the new index stays in it."""
        self.scopes.append(Scope())
        out: list[Expr] = []
        for i, rename in zip(index, renamed, strict=True):
            if not rename:
                out.append(i)
                continue
            v = self.fresh("k", i.dtype)
            self.level[v] = len(self.scopes) - 1
            self.scopes[-1].statements.append(Let(v, i))
            out.append(v)
        return tuple(out)

    def leave(self) -> Block:
        """End the level that ``enter`` began; its statements."""
        return tuple(self.scopes.pop().statements)

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
        e = folded(e)
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
                return self.level.get(e, 0)  # variables of loops around the nest exist at every level
            case Const() | Extent():
                return 0
            case Load() if e.buffer in self.changing:
                return len(self.scopes) - 1
        return max((self._depth(o) for o in operands(e)), default=0)

    # --- conditions ---

    def all_of(self, when: Sequence[InRange | Expr]) -> Expr | None:
        """The conjunction of conditions; None when all are known to hold here."""
        parts: list[Expr] = [p for w in when for p in (self._open(w) if isinstance(w, InRange) else [w])]
        return self.bind(functools.reduce(lambda a, b: Apply(AND, (a, b)), parts)) if parts else None

    def _open(self, w: InRange) -> list[Expr]:
        """The parts of a condition that are not known here; bounds on loop variables are noted for the split."""
        base, shift = offset(w.value)
        low, high = _size(w.low), _size(w.high)
        if low is None or high is None:
            return [Apply(LE, (w.low, w.value)), Apply(LT, (w.value, w.high))]
        if isinstance(base, Const):
            out: list[Expr] = [] if _surely_le(low, shift) else [Apply(LE, (w.low, w.value))]
            return out if _surely_le(shift + 1, high) else [*out, Apply(LT, (w.value, w.high))]
        if not isinstance(base, Var) or base not in self.variables:
            return [Apply(LE, (w.low, w.value)), Apply(LT, (w.value, w.high))]
        k = self.variables.index(base)
        below, above = not _surely_le(low - shift, 0), not _surely_le(self.space[k], high - shift)
        if k in self.interior:
            if below:
                self.bounds.setdefault(k, Bounds()).lows[low - shift] = None
            if above:
                self.bounds.setdefault(k, Bounds()).highs[high - shift] = None
            return []
        lower: list[Expr] = [Apply(LE, (w.low, w.value))] if below else []
        upper: list[Expr] = [Apply(LT, (w.value, w.high))] if above else []
        return lower + upper


def _leaf(node: Node) -> Expr:
    if node.op is SIZE:
        return size_of(node.attr("size"))
    assert node.op is CONSTANT, node.op.name
    return Const(literal(node).item(), node.dtype)


def _safe(i: Expr, condition: Expr) -> Expr:
    """An index that is in range of what is not empty where ``condition`` is false."""
    return Choose(condition, i, const_index(0))


def _as_it_is(i: Expr, size: Size, index: Index, shape: Shape) -> bool:
    """Whether an index of an argument is in range as one of the index above, along an axis of the same size."""
    return i == const_index(0) or any(i == j and size == s for j, s in zip(index, shape, strict=True))


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
