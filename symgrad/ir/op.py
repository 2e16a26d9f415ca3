"""The declaration of a primitive: everything the compiler knows about it, in one record.

Arrays are positional, attributes keyword-only. ``partials`` and ``vjp``/``jvp`` are written with the operators of
``Node`` and with other primitives, so that every derivative can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from symgrad.ir.loops import Block, Const, Expr, Load, ScalarFn, Site, Stmt, Store, Var, add, extent, mul
from symgrad.ir.types import DType, Shape, TensorType, i64, product

if TYPE_CHECKING:
    from symgrad.ir.node import Node

Index = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class InRange:
    """``low <= value < high``, the condition under which a view reads; loops are split so that it holds inside."""

    value: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Piece:
    """A view reads argument ``arg`` at ``index`` where all of ``when`` hold; elsewhere the next piece, then zero."""

    arg: int
    index: Index
    when: tuple[InRange | Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Scalar:
    """Lowering of a pointwise primitive: one scalar function, or ``build`` from the scalars of its arguments."""

    fn: ScalarFn | None = None
    build: Callable[..., Expr] | None = None
    cost: int = 1


@dataclass(frozen=True, slots=True)
class View:
    """Lowering by index map: ``pieces(index, read, types, **attrs)``; ``read(k, index)`` is a scalar of argument k."""

    pieces: Callable[..., tuple[Piece, ...]]


@dataclass(frozen=True, slots=True)
class Generate:
    """Lowering of a value that is a function of its index alone: ``value(index, **attrs)``."""

    value: Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class Fold:
    """Lowering of a reduction over ``axes``: start from ``start(dtype)``, combine with ``fn``."""

    fn: ScalarFn
    start: Callable[[DType], bool | int | float]


@dataclass(frozen=True, slots=True)
class Place:
    """A contiguous array in memory, from element ``base`` of a buffer on: what a ``Nest`` reads and writes."""

    buffer: str
    type: TensorType
    base: Expr = field(default_factory=lambda: Const(0, i64))

    def flat(self, index: Index) -> Expr:
        """The element at row-major ``index``."""
        out = self.base
        for k, i in enumerate(index):
            out = add(out, mul(i, extent(product(self.type.shape[k + 1 :]))))
        return out

    def load(self, *index: Expr) -> Load:
        return Load(self.buffer, self.flat(index), self.type.dtype)

    def store(self, value: Expr, *index: Expr) -> Store:
        return Store(self.buffer, self.flat(index), value)


class NestBuilder(Protocol):
    """What a ``Nest`` may ask of the lowering that runs it."""

    def fresh(self, prefix: str, dtype: DType) -> Var:
        """A variable of an unused name."""

    def temp(self, type: TensorType) -> Place:
        """Scratch memory for the length of the nest."""

    def fail(self, exception: str, message: str) -> Stmt:
        """A statement that ends the call with a Python exception."""

    def fail_at(self, site: Site, values: Sequence[Place]) -> Stmt:
        """A statement that ends the call with the exception that a place of the user's program makes of values."""

    def loop(self, shape: Shape, body: Callable[[Index], Block]) -> Block:
        """Loops over all indices of ``shape``, the last axis innermost."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Lowering by statements of its own: ``build(builder, out, args, **attrs)`` over ``Place``s.

    Arguments whose position is in ``transposable`` may come with their last two axes swapped, told by ``swapped``.
    All but the last ``batched`` axes, where that is given, are batch axes of the result and of all arguments alike.
    """

    build: Callable[..., Block]
    transposable: tuple[int, ...] = ()
    batched: int | None = None

    def by_rows(self, ndim: int) -> bool:
        """Whether the first axis of a result of so many axes is a batch axis."""
        return self.batched is not None and ndim > self.batched


@dataclass(frozen=True, slots=True)
class Expand:
    """Lowering into other primitives: ``build(*args, **attrs)`` gives the replacement."""

    build: Callable[..., Node]


@dataclass(frozen=True, slots=True)
class Region:
    """Lowering of a primitive that runs graphs among its attributes; it has several results.

    Its rules take the transform for these graphs as their first argument: ``numpy(evaluate, *args, **attrs)``,
    ``vjp(pull, cts, y, *args, **attrs)``, ``jvp(push, tangents, y, *args, **attrs)`` and
    ``batch(batch, size, args, axes, **attrs)``; a missing cotangent is None.
    """


@dataclass(frozen=True, slots=True)
class Leaf:
    """A parameter, a constant or another value that exists without computation."""


Lowering = Scalar | View | Generate | Fold | Nest | Expand | Region | Leaf


@dataclass(frozen=True, slots=True)
class Sample:
    """Where tests may evaluate and differentiate a primitive: an interval for each argument (the last one repeats)."""

    intervals: tuple[tuple[float, float], ...] = ((-2.0, 2.0),)

    def of(self, arg: int) -> tuple[float, float]:
        return self.intervals[min(arg, len(self.intervals) - 1)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """One primitive.

    ``infer(*types, **attrs)`` gives the type and raises ShapeError or DTypeError. ``numpy(*arrays, **attrs)`` is the
    meaning. Derivatives, one of: ``partials(y, *args)`` for pointwise ones (both modes follow; None where zero);
    ``vjp(ct, y, *args, **attrs)`` with ``linear=True`` (forward mode applies the primitive to the tangents) or with
    ``jvp(tangents, y, *args, **attrs)``; ``constant=True``, an explicit claim that the derivative is zero.
    ``batch(size, args, axes, **attrs)`` gives the primitive under ``vmap`` and the batch axis of its result; pointwise
    ones need none.
    How masks move: ``structural`` primitives only move and add elements, so their derivative rules take masks (bools)
    as they take adjoints (all ``linear`` ones do); one that may leave elements of its argument unread has
    ``covers=False``, one that makes zeros of its own has ``fills=True``. ``carry(mask, y, *args, **attrs)`` is the way
    of others.
    """

    name: str
    doc: str
    infer: Callable[..., Any]
    numpy: Callable[..., Any]
    lower: Lowering
    sympy: str | Callable[..., Any] | None = None
    partials: Callable[..., tuple[Any, ...]] | None = None
    masks: Callable[..., tuple[Node | None, ...]] | None = None
    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    linear: bool = False
    structural: bool = False
    covers: bool = True
    fills: bool = False
    carry: Callable[..., tuple[Node | None, ...]] | None = None
    constant: bool = False
    batch: Callable[..., tuple[Any, Any]] | None = None
    prepare: Callable[..., tuple[Node, ...]] | None = None
    sample: Sample = Sample()
    examples: Callable[[], list[tuple[tuple[Any, ...], dict[str, Any]]]] | None = None

    def __call__(self, *args: Any, **attrs: Any) -> Node:
        from symgrad.ir.node import make

        nodes = self.prepare(*args) if self.prepare is not None else args
        return make(self, *nodes, **attrs)

    def __repr__(self) -> str:
        return self.name


REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Enter a primitive into the registry that tests and tools run over."""
    if op.name in REGISTRY:
        raise ValueError(f"primitive {op.name} is declared twice")
    if not (op.partials or op.vjp or op.constant or isinstance(op.lower, Leaf | Expand) or op.sympy):
        raise ValueError(f"primitive {op.name} has no derivative; say constant=True if it is zero")
    REGISTRY[op.name] = op
    return op
