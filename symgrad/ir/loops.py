"""The Program: what machines run. Buffers, loops and scalar statements; no tensors, no derivatives.

Semantics. Every expression is a scalar of the dtype it names. Integer arithmetic wraps; ``i64`` is the type of
indices. Float arithmetic is IEEE; only an ``Apply`` with ``reassoc`` may be reordered (the one step of a
reduction). Both arms of a ``Choose`` are evaluated, so an arm must be safe to evaluate: a load there needs an index
in range. ``Let`` binds once and is visible to the end of its block; ``Declare``/``Assign`` make a mutable scalar.
Buffers do not overlap unless they are the same buffer. Statements run in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from symgrad.ir.types import DType, Size, TensorType, boolean, i64


@dataclass(frozen=True, slots=True)
class ScalarFn:
    """One scalar instruction or function, with its spelling for each printer.

    ``llvm`` maps a dtype kind (``f i u b``, or ``*`` for any) of the operands to an instruction (``"fadd"``,
    ``"icmp slt"``, ``"fcmp olt"``), an intrinsic overloaded on its operand type (``"@llvm.sqrt"``), a function of the
    C library (``"libm exp"``: ``exp`` for f64, ``expf`` for f32), ``"not"``, or ``"neg"`` for integers. ``c`` is a
    format with positional fields; ``{f}`` in it stands for the libm suffix of the dtype. A comparison or predicate
    yields ``boolean``.
    """

    name: str
    llvm: tuple[tuple[str, str], ...]
    c: str
    predicate: bool = False

    def llvm_for(self, dtype: DType) -> str | None:
        return next((s for kind, s in self.llvm if kind in (dtype.kind, "*")), None)


def fn(name: str, c: str, *, predicate: bool = False, **llvm: str) -> ScalarFn:
    """A ScalarFn from keywords: ``f=, i=, u=, b=`` per kind, ``any=`` for every kind."""
    return ScalarFn(name, tuple(("*" if k == "any" else k, v) for k, v in llvm.items()), c, predicate)


# The arithmetic that index expressions and loop bounds are made of; other functions live beside their primitives.
ADD = fn("add", "({0} + {1})", f="fadd", i="add", u="add", b="or")
SUB = fn("sub", "({0} - {1})", f="fsub", i="sub", u="sub")
MUL = fn("mul", "({0} * {1})", f="fmul", i="mul", u="mul", b="and")
DIV = fn("div", "({0} / {1})", f="fdiv", i="sdiv", u="udiv")  # integers: truncates; guard the zero divisor
REM = fn("rem", "({0} % {1})", i="srem", u="urem")  # integers: sign of the dividend
MIN = fn("min", "({0} < {1} ? {0} : {1})", i="@llvm.smin", u="@llvm.umin")
MAX = fn("max", "({0} > {1} ? {0} : {1})", i="@llvm.smax", u="@llvm.umax")
LT = fn("lt", "({0} < {1})", predicate=True, f="fcmp olt", i="icmp slt", u="icmp ult", b="icmp ult")
LE = fn("le", "({0} <= {1})", predicate=True, f="fcmp ole", i="icmp sle", u="icmp ule", b="icmp ule")
EQ = fn("eq", "({0} == {1})", predicate=True, f="fcmp oeq", any="icmp eq")
NE = fn("ne", "({0} != {1})", predicate=True, f="fcmp une", any="icmp ne")
AND = fn("and", "({0} & {1})", i="and", u="and", b="and")
OR = fn("or", "({0} | {1})", i="or", u="or", b="or")
NOT = fn("not", "(!{0})", b="not")


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; ``value`` is a Python bool, int or float (inf and nan allowed)."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Extent:
    """The run-time value of a size, as i64."""

    size: Size

    @property
    def dtype(self) -> DType:
        return i64


@dataclass(frozen=True, slots=True)
class Var:
    """A name bound by ``Let``, ``For`` (i64) or ``Declare``; unique in its Program."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """``buffer[index]``, index counted in elements."""

    buffer: str
    index: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of operands of one dtype."""

    fn: ScalarFn
    args: tuple[Expr, ...]
    reassoc: bool = False
    dtype: DType = field(init=False, repr=False, compare=False)  # kept, since chains are thousands deep

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", boolean if self.fn.predicate else self.args[0].dtype)


@dataclass(frozen=True, slots=True)
class Choose:
    """``then if condition else otherwise``, without a branch."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.then.dtype)


@dataclass(frozen=True, slots=True)
class Convert:
    """A cast as C does it; float to int truncates and saturates (nan gives 0), to bool compares with zero."""

    value: Expr
    dtype: DType


Expr = Const | Extent | Var | Load | Apply | Choose | Convert


@dataclass(frozen=True, slots=True)
class Let:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class LetAll:
    """``Let`` each of ``vars`` be ``fn`` of the operand of its place: what a machine may compute side by side."""

    vars: tuple[Var, ...]
    fn: ScalarFn
    operands: tuple[Expr, ...]

    def lets(self) -> tuple[Let, ...]:
        """The same one by one."""
        return tuple(Let(v, Apply(self.fn, (e,))) for v, e in zip(self.vars, self.operands, strict=True))


@dataclass(frozen=True, slots=True)
class Declare:
    """A mutable scalar with its first value."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    """``for var in range(start, stop)``; no iteration when ``start >= stop``."""

    var: Var
    start: Expr
    stop: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class Parallel:
    """``body`` for each ``var`` in range(count), in any order, up to ``workers`` of them at the same time.

    Those that run at the same time have different numbers ``worker`` in range(workers). The body hands things out
    through memory only, each turn through its own: it assigns no variable from outside, and does not fail.
    """

    var: Var
    worker: Var
    count: Expr
    workers: int
    body: Block


@dataclass(frozen=True, slots=True)
class While:
    """Run ``head``, leave when ``condition`` is false, run ``body``, again."""

    head: Block
    condition: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class Address:
    """``&buffer[index]``."""

    buffer: str
    index: Expr


@dataclass(frozen=True, slots=True)
class ByReference:
    """A pointer to a temporary that holds ``value`` (Fortran's way of passing scalars); ``dtype`` may be i32."""

    value: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Text:
    """A pointer to a constant C string."""

    value: str


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of an external void function by its C name, such as ``cblas`` or LAPACK routines."""

    name: str
    args: tuple[Address | ByReference | Text, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    """Leave the function with a status; index into ``Program.failures`` plus one."""

    code: int


Stmt = Let | LetAll | Declare | Assign | Store | For | Parallel | While | If | Extern | Fail
Block = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Contiguous memory of ``elements``; a temp lies ``offset`` bytes into the workspace; a constant has data."""

    name: str
    dtype: DType
    elements: Size
    kind: Literal["input", "output", "temp", "constant"]
    offset: Size = 0
    data: bytes = b""


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """A place in the user's program that may end the call; ``make`` gives its exception from values of the program."""

    exception: str
    message: str
    make: Callable[[Sequence[Any]], BaseException]

    def __str__(self) -> str:
        return f"{self.exception}({self.message!r})"


@dataclass(frozen=True, slots=True)
class Failure:
    """What a status means: the Python exception to raise and its message, or how its ``site`` makes it.

    ``values`` are the temporaries in which the program leaves what that takes, with their types.
    """

    exception: str
    message: str
    site: Site | None = None
    values: tuple[tuple[str, TensorType], ...] = ()


@dataclass(frozen=True)
class Program:
    """One native function ``int32 name(void **buffers, const int64 *sizes, char *workspace)``.

    ``buffers`` passes the pointers of inputs, then outputs, in the order of ``Program.buffers``; ``sizes`` the values
    of ``Program.sizes``; ``workspace`` has ``workspace_bytes`` bytes, aligned to 64. Returns 0, or a failure's number.
    """

    name: str
    sizes: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    body: Block
    workspace_bytes: Size = 0
    failures: tuple[Failure, ...] = field(default=())

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)


def const_index(value: int) -> Const:
    return Const(value, i64)


def add(a: Expr, b: Expr) -> Expr:
    """``a + b`` of indices in the form ``x + c``: constant sizes are folded and stand on the right."""
    if isinstance(a, Const | Extent) and isinstance(b, Const | Extent):
        return extent(_size(a) + _size(b))
    if isinstance(a, Const | Extent):
        a, b = b, a
    if isinstance(b, Const | Extent) and _size(b) == 0:
        return a
    match a, b:
        case (Apply(args=(x, (Const() | Extent()) as c)), Const() | Extent()) if a.fn is ADD:
            return add(x, add(c, b))
        case (Apply(args=(x, (Const() | Extent()) as c)), _) if a.fn is ADD:
            return add(add(x, b), c)
        case (_, Apply(args=(x, (Const() | Extent()) as c))) if b.fn is ADD:
            return add(add(a, x), c)
    return Apply(ADD, (a, b))


def _size(e: Const | Extent) -> Size:
    return e.size if isinstance(e, Extent) else int(e.value)


def offset(e: Expr) -> tuple[Expr, Size]:
    """``e`` as ``x + size``."""
    match e:
        case Const() | Extent():
            return Const(0, i64), _size(e)
        case Apply(args=(x, (Const() | Extent()) as c)) if e.fn is ADD:
            return x, _size(c)
    return e, 0


def mul(a: Expr, b: Expr) -> Expr:
    """``a * b`` of indices, folded where one is zero or one or both are constant sizes."""
    match a, b:
        case (Const(value=0), _) | (_, Const(value=0)):
            return Const(0, i64)
        case (Const(value=1), _):
            return b
        case (_, Const(value=1)):
            return a
        case (Const(), Const()):
            return Const(a.value * b.value, i64)
        case (Extent(), Extent()):
            return extent(a.size * b.size)
        case (Extent(), Const()):
            return extent(a.size * int(b.value))
        case (Const(), Extent()):
            return extent(b.size * int(a.value))
    return Apply(MUL, (a, b))


def sub(a: Expr, b: Expr) -> Expr:
    """``a - b`` of indices."""
    return add(a, mul(b, const_index(-1))) if isinstance(b, Const | Extent) else Apply(SUB, (a, b))


def extent(size: Size) -> Expr:
    """A size as an index expression."""
    return Const(size, i64) if isinstance(size, int) else Extent(size)


def operands(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly below ``e``."""
    match e:
        case Const() | Extent() | Var():
            return ()
        case Load():
            return (e.index,)
        case Apply():
            return e.args
        case Choose():
            return (e.condition, e.then, e.otherwise)
        case Convert():
            return (e.value,)


def post_order(e: Expr) -> Iterator[Expr]:
    """Every expression object in ``e`` once, operands first."""
    seen: set[int] = set()
    stack = [e]
    while stack:
        top = stack[-1]
        waiting = [] if id(top) in seen else [o for o in operands(top) if id(o) not in seen]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top


def roots(s: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a statement, in the order in which they are evaluated."""
    match s:
        case Let() | Declare() | Assign():
            return (s.value,)
        case LetAll():
            return s.operands
        case Store():
            return (s.value, s.index)
        case For():
            return (s.start, s.stop)
        case Parallel():
            return (s.count,)
        case While() | Fail():
            return ()
        case If():
            return (s.condition,)
        case Extern():
            return tuple(a.index if isinstance(a, Address) else a.value for a in s.args if not isinstance(a, Text))
        case _:
            assert_never(s)


def statements(block: Block) -> Iterator[Stmt]:
    """All statements of a block, outer ones first."""
    for s in block:
        yield s
        match s:
            case For() | Parallel():
                yield from statements(s.body)
            case While():
                yield from statements(s.head)
                yield from statements(s.body)
            case If():
                yield from statements(s.then)
                yield from statements(s.otherwise)
            case _:
                pass
