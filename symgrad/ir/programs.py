"""Program -> text, Program -> the same Program checked, Program and arrays -> arrays.

The evaluator is the meaning of a Program in plain Python: slow, bounds-checked, memory that was not written reads as
nan or -1. Expressions may share objects and be thousands deep, so that all three walk them without recursion and visit
an object once a statement; blocks nest only as far as loops do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import SymgradError
from symgrad.ir.loops import (
    Address,
    Apply,
    Assign,
    Block,
    Buffer,
    ByReference,
    Choose,
    Const,
    Convert,
    Declare,
    Expr,
    Extent,
    Extern,
    Fail,
    For,
    If,
    Let,
    LetAll,
    Load,
    Parallel,
    Program,
    ScalarFn,
    Stmt,
    Store,
    Text,
    Var,
    While,
    operands,
    post_order,
    roots,
    statements,
)
from symgrad.ir.types import DType, Size, boolean, evaluate_size, i64, size_names

Array = NDArray[Any]


# -- text --------------------------------------------------------------------------------------------------------------


def program_text(program: Program) -> str:
    """Readable pseudo-code. Expressions that a statement uses twice get a name of their own: ``%1``."""
    lines = [f"program {program.name}({', '.join(program.sizes)})"]
    lines += [f"  {b.kind} {b.name}: {b.dtype}[{b.elements}]{_place(b)}" for b in program.buffers]
    if program.workspace_bytes != 0:
        lines.append(f"  workspace {program.workspace_bytes} bytes")
    lines += [f"  failure {n}: {f.exception}: {f.message}" for n, f in enumerate(program.failures, 1)]
    return "\n".join([*lines, "", *_block_text(program.body, ""), ""])


def _place(b: Buffer) -> str:
    return f" at byte {b.offset}" if b.kind == "temp" else ""


def _block_text(block: Block, indent: str) -> list[str]:
    return [line for s in block for line in _statement_text(s, indent)]


def _statement_text(s: Stmt, indent: str) -> list[str]:
    shared: list[str] = []

    def show(e: Expr) -> str:
        return _expression_text(e, shared, indent)

    def nested(head: str, *blocks: list[str]) -> list[str]:
        return [*shared, f"{indent}{head} {{", *(line for block in blocks for line in block), f"{indent}}}"]

    inner = indent + "  "
    match s:
        case Let():
            line = f"{s.var.name}: {s.var.dtype} = {show(s.value)}"
        case LetAll():
            names, values = ", ".join(v.name for v in s.vars), ", ".join(map(show, s.operands))
            line = f"{names}: {s.vars[0].dtype} = {s.fn.name} of each of {values}"
        case Declare():
            line = f"var {s.var.name}: {s.var.dtype} = {show(s.value)}"
        case Assign():
            line = f"{s.var.name} = {show(s.value)}"
        case Store():
            line = f"{s.buffer}[{show(s.index)}] = {show(s.value)}"
        case For():
            return nested(f"for {s.var.name} in {show(s.start)}..{show(s.stop)}", _block_text(s.body, inner))
        case Parallel():
            head = f"parallel for {s.var.name} in 0..{show(s.count)}, {s.worker.name} in 0..{s.workers}"
            return nested(head, _block_text(s.body, inner))
        case While():
            before: list[str] = []
            leave = f"{inner}if not {_expression_text(s.condition, before, inner)} {{ break }}"
            return nested("loop", _block_text(s.head, inner), [*before, leave], _block_text(s.body, inner))
        case If():
            otherwise = [f"{indent}}} else {{", *_block_text(s.otherwise, inner)] if s.otherwise else []
            return nested(f"if {show(s.condition)}", _block_text(s.then, inner), otherwise)
        case Extern():
            line = f"{s.name}({', '.join(_argument_text(a, show) for a in s.args)})"
        case Fail():
            line = f"fail {s.code}"
        case _:
            assert_never(s)
    return [*shared, indent + line]


def _argument_text(a: Address | ByReference | Text, show: Callable[[Expr], str]) -> str:
    match a:
        case Address():
            return f"&{a.buffer}[{show(a.index)}]"
        case ByReference():
            return f"&{a.dtype}({show(a.value)})"
        case Text():
            return repr(a.value)
        case _:
            assert_never(a)


def _expression_text(e: Expr, shared: list[str], indent: str) -> str:
    uses: dict[int, int] = {}
    order = list(post_order(e))
    for node in order:
        for o in operands(node):
            uses[id(o)] = uses.get(id(o), 0) + 1
    text: dict[int, str] = {}
    for node in order:
        written = _node_text(node, [text[id(o)] for o in operands(node)])
        if uses.get(id(node), 0) > 1 and operands(node):
            name = f"%{len(shared) + 1}"
            shared.append(f"{indent}{name} = {written}")
            written = name
        text[id(node)] = written
    return text[id(e)]


def _node_text(e: Expr, args: list[str]) -> str:
    match e:
        case Const():
            return str(e.value)
        case Extent():
            return str(e.size)
        case Var():
            return e.name
        case Load():
            return f"{e.buffer}[{args[0]}]"
        case Apply():
            return _applied_text(e.fn, args)
        case Choose():
            return f"({args[0]} ? {args[1]} : {args[2]})"
        case Convert():
            return f"{e.dtype}({args[0]})"
        case _:
            assert_never(e)


def _applied_text(fn: ScalarFn, args: list[str]) -> str:
    """The C spelling of an operator, ``name(...)`` of anything else."""
    fields = re.findall(r"\{(\w+)\}", fn.c)
    is_operator = fn.c.startswith("(") and fields == [str(n) for n in range(len(args))]
    return fn.c.format(*args) if is_operator else f"{fn.name}({', '.join(args)})"


# -- checks ------------------------------------------------------------------------------------------------------------


def verify_program(program: Program) -> Program:
    """Return ``program`` unchanged; SymgradError names the first rule of ``symgrad.ir.loops`` that it breaks."""
    _Verifier(program).run()
    return program


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.scope: dict[str, tuple[DType, bool]] = {}  # dtype, whether it may be assigned
        self.bound: set[str] = set()

    def require(self, holds: bool, message: str) -> None:
        if not holds:
            raise SymgradError(f"program {self.program.name}: {message}")

    def run(self) -> None:
        self.require(len(self.buffers) == len(self.program.buffers), "two buffers have one name")
        self.require(len(set(self.program.sizes)) == len(self.program.sizes), "two sizes have one name")
        for b in self.program.buffers:
            self.size(b.elements)
            self.size(b.offset)
            if b.kind == "constant":
                self.require(len(b.data) == b.elements * b.dtype.bytes, f"constant {b.name} has {len(b.data)} bytes")
        self.size(self.program.workspace_bytes)
        self.block(self.program.body)

    def size(self, size: Size) -> None:
        missing = size_names(size) - set(self.program.sizes)
        self.require(not missing, f"size {', '.join(sorted(missing))} is not a parameter")

    def bind(self, var: Var, mutable: bool = False) -> None:
        self.require(var.name not in self.bound, f"{var.name} is bound twice")
        self.bound.add(var.name)
        self.scope[var.name] = (var.dtype, mutable)

    def block(self, block: Block, then: Callable[[], None] = lambda: None) -> None:
        """Check a block, and ``then`` what still sees its names."""
        outer = dict(self.scope)
        for s in block:
            self.statement(s)
        then()
        self.scope = outer

    def statement(self, s: Stmt) -> None:
        for e in roots(s):
            self.expression(e)
        match s:
            case Let() | Declare():
                self.typed(s.value, s.var.dtype, s.var.name)
                self.bind(s.var, isinstance(s, Declare))
            case LetAll():
                for let in s.lets():
                    self.statement(let)
            case Assign():
                found = self.scope.get(s.var.name)
                self.require(found == (s.var.dtype, True), f"{s.var.name} is assigned and not a mutable {s.var.dtype}")
                self.typed(s.value, s.var.dtype, s.var.name)
            case Store():
                self.access(s.buffer, s.index)
                self.typed(s.value, self.buffers[s.buffer].dtype, f"what is stored in {s.buffer}")
                self.require(self.buffers[s.buffer].kind != "constant", f"constant {s.buffer} is written")
            case For():
                self.typed(s.start, i64, f"the start of {s.var.name}")
                self.typed(s.stop, i64, f"the stop of {s.var.name}")
                self.require(s.var.dtype == i64, f"loop counter {s.var.name} is {s.var.dtype}")
                outer = dict(self.scope)
                self.bind(s.var)
                self.block(s.body)
                self.scope = outer
            case Parallel():
                self.parallel(s)
            case While():
                self.block(s.head, lambda: self.turn(s))
            case If():
                self.typed(s.condition, boolean, "the condition of an if")
                self.block(s.then)
                self.block(s.otherwise)
            case Extern():
                for a in s.args:
                    if isinstance(a, Address):
                        self.access(a.buffer, a.index)
            case Fail():
                self.require(1 <= s.code <= len(self.program.failures), f"failure {s.code} is not declared")
            case _:
                assert_never(s)

    def parallel(self, s: Parallel) -> None:
        self.typed(s.count, i64, f"the count of {s.var.name}")
        self.require(s.var.dtype == i64 == s.worker.dtype, f"loop counter {s.var.name} is {s.var.dtype}")
        self.require(s.workers >= 1, f"nobody works on {s.var.name}")
        for inner in statements(s.body):
            self.require(not isinstance(inner, Fail), f"the loop over {s.var.name} may end the call")
            self.require(not isinstance(inner, Parallel), f"the loop over {s.var.name} shares turns inside shared ones")
        outer = self.scope
        self.scope = {name: (dtype, False) for name, (dtype, _) in outer.items()}
        self.bind(s.var)
        self.bind(s.worker)
        self.block(s.body)
        self.scope = outer

    def turn(self, s: While) -> None:
        self.expression(s.condition)
        self.typed(s.condition, boolean, "the condition of a while")
        self.block(s.body)

    def access(self, buffer: str, index: Expr) -> None:
        self.require(buffer in self.buffers, f"buffer {buffer} does not exist")
        self.typed(index, i64, f"an index of {buffer}")

    def typed(self, e: Expr, dtype: DType, what: str) -> None:
        self.require(e.dtype == dtype, f"{what} is {e.dtype}, not {dtype}")

    def expression(self, root: Expr) -> None:
        for e in post_order(root):
            match e:
                case Const() | Convert():
                    pass
                case Extent():
                    self.size(e.size)
                case Var():
                    found = self.scope.get(e.name)
                    self.require(found is not None, f"{e.name} is used before it is bound")
                    self.require(found is not None and found[0] == e.dtype, f"{e.name} is not {e.dtype}")
                case Load():
                    self.access(e.buffer, e.index)
                    self.require(self.buffers[e.buffer].dtype == e.dtype, f"a load from {e.buffer} is not {e.dtype}")
                case Apply():
                    names = ", ".join(str(a.dtype) for a in e.args)
                    self.require(len({a.dtype for a in e.args}) == 1, f"operands of {e.fn.name} are {names}")
                case Choose():
                    self.typed(e.condition, boolean, "the condition of a choice")
                    self.typed(e.otherwise, e.then.dtype, "an arm of a choice")
                case _:
                    assert_never(e)


# -- values ------------------------------------------------------------------------------------------------------------


class ProgramFailure(SymgradError):
    """A Program left by ``Fail``."""

    code = 0


def run_program(
    program: Program,
    inputs: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> dict[str, Array]:
    """The outputs, one-dimensional. IndexError for an access out of bounds, ProgramFailure where it fails.

    ``functions`` gives the scalar functions, and the external ones, that are not in ``symgrad.ir.loops``. An external
    one gets the rest of a buffer from an address on, an array of one element for a reference, a str for a text.
    """
    run = _Run(program, inputs, sizes, functions or {})
    with np.errstate(all="ignore"):
        run.block(program.body)
    return {b.name: run.memory[b.name] for b in program.buffers if b.kind == "output"}


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise ZeroDivisionError("integer division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _quotient(a: Any, b: Any) -> Any:
    return a / b if isinstance(a, np.floating) else _wrapped(_divide(int(a), int(b)), a.dtype)


def _rest(a: Any, b: Any) -> Any:
    return _wrapped(int(a) - int(b) * _divide(int(a), int(b)), a.dtype)


def _wrapped(value: int, dtype: np.dtype[Any]) -> Any:
    bits = 8 * dtype.itemsize
    return np.array(value & ((1 << bits) - 1), f"u{dtype.itemsize}").astype(dtype)[()]


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "rem": _rest,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: ~a,
}


class _Run:
    """The memory and names of one evaluation."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Array],
        sizes: Mapping[str, int],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.program, self.sizes = program, sizes
        self.functions = {**functions, **ARITHMETIC}
        self.names: dict[str, Any] = {}
        self.workspace = np.full(evaluate_size(program.workspace_bytes, sizes), 0xFF, np.uint8)
        self.memory = {b.name: self.allocate(b, inputs) for b in program.buffers}

    def allocate(self, b: Buffer, inputs: Mapping[str, Array]) -> Array:
        count, dtype = evaluate_size(b.elements, self.sizes), b.dtype.numpy
        if b.kind == "input":
            flat = np.array(inputs[b.name], dtype).reshape(-1)
            if flat.size != count:
                raise SymgradError(f"input {b.name} has {flat.size} elements, not {count}")
            return flat
        if b.kind == "constant":
            return np.frombuffer(b.data, dtype)
        if b.kind == "output":
            return np.full(count * b.dtype.bytes, 0xFF, np.uint8).view(dtype)
        start = evaluate_size(b.offset, self.sizes)
        stop = start + count * b.dtype.bytes
        if not 0 <= start <= stop <= len(self.workspace):
            raise IndexError(f"{b.name} is bytes {start} to {stop} of a workspace of {len(self.workspace)}")
        return self.workspace[start:stop].view(dtype)

    def place(self, buffer: str, index: Any) -> int:
        if not 0 <= index < len(self.memory[buffer]):
            raise IndexError(f"{buffer}[{index}] of {len(self.memory[buffer])} elements")
        return int(index)

    def block(self, block: Block) -> None:
        for s in block:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        match s:
            case Let() | Declare() | Assign():
                self.names[s.var.name] = self.value(s.value)
            case LetAll():
                self.block(s.lets())
            case Store():
                stored = self.value(s.value)
                self.memory[s.buffer][self.place(s.buffer, self.value(s.index))] = stored
            case For():
                for n in range(int(self.value(s.start)), int(self.value(s.stop))):
                    self.names[s.var.name] = np.int64(n)
                    self.block(s.body)
            case Parallel():
                for n in reversed(range(int(self.value(s.count)))):  # any order must do
                    self.names[s.var.name], self.names[s.worker.name] = np.int64(n), np.int64(n % s.workers)
                    self.block(s.body)
            case While():
                self.block(s.head)
                while self.value(s.condition):
                    self.block(s.body)
                    self.block(s.head)
            case If():
                self.block(s.then if self.value(s.condition) else s.otherwise)
            case Extern():
                self.functions[s.name](*map(self.argument, s.args))
            case Fail():
                failure = ProgramFailure(self.program.failures[s.code - 1].message)
                failure.code = s.code
                raise failure
            case _:
                assert_never(s)

    def argument(self, a: Address | ByReference | Text) -> Any:
        match a:
            case Address():
                index = int(self.value(a.index))
                if not 0 <= index <= len(self.memory[a.buffer]):
                    raise IndexError(f"&{a.buffer}[{index}] of {len(self.memory[a.buffer])} elements")
                return self.memory[a.buffer][index:]
            case ByReference():
                return np.array([self.value(a.value)]).astype(a.dtype.numpy)
            case Text():
                return a.value
            case _:
                assert_never(a)

    def value(self, root: Expr) -> Any:
        known: dict[int, Any] = {}
        for e in post_order(root):
            known[id(e)] = self.node(e, [known[id(o)] for o in operands(e)])
        return known[id(root)]

    def node(self, e: Expr, args: list[Any]) -> Any:
        match e:
            case Const():
                return _constant(e)
            case Extent():
                return np.int64(evaluate_size(e.size, self.sizes))
            case Var():
                return self.names[e.name]
            case Load():
                loaded = self.memory[e.buffer][self.place(e.buffer, args[0])]
                return np.bool_(loaded.view(np.uint8) != 0) if e.dtype == boolean else loaded
            case Apply():
                return np.asarray(self.functions[e.fn.name](*args), e.dtype.numpy)[()]
            case Choose():
                return args[1] if args[0] else args[2]
            case Convert():
                return _converted(args[0], e.dtype)
            case _:
                assert_never(e)


def _constant(e: Const) -> Any:
    return _wrapped(int(e.value), e.dtype.numpy) if e.dtype.kind in "iu" else np.array(e.value, e.dtype.numpy)[()]


def _converted(value: Any, dtype: DType) -> Any:
    if not isinstance(value, np.floating) or dtype.kind not in "iu":
        return np.asarray(value).astype(dtype.numpy)[()]
    limits = np.iinfo(f"{dtype.kind}{dtype.bytes}")
    if np.isnan(value):
        return dtype.numpy.type(0)
    whole = int(value) if np.isfinite(value) else int(limits.max if value > 0 else limits.min)
    return np.array(min(max(whole, int(limits.min)), int(limits.max)), dtype.numpy)[()]
