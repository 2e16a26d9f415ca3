"""Program -> LLVM IR as text: one function ``i32 @name(ptr buffers, ptr sizes, ptr workspace)``.

Loops have a phi and are rotated, mutable scalars are allocas of the entry block, each size and each buffer's address
is computed once there. An expression is emitted once a scope: by object, and by equal instruction text; what reads
memory or a mutable scalar is shared only until the next statement that may write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from symgrad.codegen.llvm import functions, scalars, threads
from symgrad.codegen.llvm.aliasing import AliasScopes
from symgrad.codegen.llvm.extents import Extents
from symgrad.errors import UnsupportedError
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
from symgrad.ir.types import DType, i64

_PURE = -1
_SMALL = 1 << 31
_INLINED = 100  # calls of elementary functions, of about 50 instructions each


def emit(program: Program) -> str:
    """The module of ``program``; the target triple is left to whoever compiles it."""
    return _Emitter(program).module()


def symbol(name: str) -> str:
    """A global's name, quoted where LLVM asks for it."""
    if re.fullmatch(r"[A-Za-z_.][\w.]*", name, re.ASCII):
        return f"@{name}"
    escaped = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escape(c.encode()) for c in name)
    return f'@"{escaped}"'


def _escape(data: bytes) -> str:
    return "".join(map(_ESCAPES.__getitem__, data))


_ESCAPES = [f"\\{n:02X}" for n in range(256)]


@dataclass
class _Module:
    """What the functions of one module share."""

    alias: AliasScopes
    declarations: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    inlined: int = 0
    parts: list[str] = field(default_factory=list)


class _Emitter:
    """The state of one function being written. Expressions in, registers out; statements append to ``body``.

    A part of a function that threads share is a function of its own, by an emitter with the same module.
    """

    def __init__(self, program: Program, module: _Module | None = None) -> None:
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.shared = module or _Module(AliasScopes(program))
        self.alias, self.declarations, self.globals = self.shared.alias, self.shared.declarations, self.shared.globals
        self.entry: list[str] = []
        self.body: list[str] = []
        self.block = "entry"
        self.count = 0
        self.functions = self.shared.functions
        self.depth = 0
        self.extents = Extents(program.sizes, self.entry)
        self.addresses: dict[str, str] = {}
        # What is computed already: by object (int) or by text -> register and the epoch in which it holds.
        self.known: dict[int | str, tuple[str, int]] = {}
        self.added: list[list[int | str]] = [[]]
        self.epoch = 0
        self.values: dict[str, str] = {}
        self.slots: dict[str, str] = {}
        self.affine: set[str] = set()  # index registers that are sums of loop counters times sizes: these never wrap

    def module(self) -> str:
        for b in self.program.buffers:
            self.addresses[b.name] = self.base(b)
        if not self.statements(self.program.body):
            self.body.append("  ret i32 0")
        name = symbol(self.program.name)
        parameters = "ptr noalias readonly %buffers, ptr noalias readonly %sizes, ptr noalias align 64 %workspace"
        lines = [f"define i32 {name}({parameters}) nounwind {{", "entry:", *self.entry, *self.body, "}"]
        defined, needed = functions.definitions(self.functions, vector=self.shared.inlined > 0)
        for line in needed:
            self.declare(line)
        declared = [self.declarations[k] for k in sorted(self.declarations)]
        return "\n".join([*self.globals, *lines, *self.shared.parts, defined, *declared, *self.alias.lines(), ""])

    # -- text ------------------------------------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"{re.sub(r'[^A-Za-z0-9_]', '_', hint)}.{self.count}"

    def set(self, rhs: str, hint: str = "v") -> str:
        register = f"%{self.fresh(hint)}"
        self.body.append(f"  {register} = {rhs}")
        return register

    def label(self, name: str) -> None:
        self.body.append(f"{name}:")
        self.block = name

    def declare(self, line: str) -> None:
        if not line:
            return
        name = line[line.index("@") : line.index("(")]
        if name[1:] == self.program.name or self.declarations.setdefault(name, line) != line:
            raise UnsupportedError(f"{self.program.name}: C function {name[1:]} has two meanings; rename the program")

    def remember(self, key: int | str, register: str, epoch: int) -> str:
        self.known[key] = (register, epoch)
        self.added[-1].append(key)
        return register

    def recall(self, key: int | str) -> str | None:
        found = self.known.get(key)
        return found[0] if found and found[1] in (_PURE, self.epoch) else None

    def pure(self, rhs: str) -> str:
        """The register of an instruction that depends on registers alone."""
        return self.recall(rhs) or self.remember(rhs, self.set(rhs), _PURE)

    def scoped(self, emit_block: Callable[[], bool]) -> bool:
        self.added.append([])
        ended = emit_block()
        for key in self.added.pop():
            self.known.pop(key, None)
        return ended

    # -- buffers ---------------------------------------------------------------------------------------------------

    def base(self, b: Buffer) -> str:
        """The address of element 0, computed in the entry block."""
        register = f"%{self.fresh(b.name)}"
        if b.kind == "constant":
            name = f"@const.{len(self.globals)}"
            self.globals.append(f"{name} = private unnamed_addr constant {_bytes(b.data)}, align 64")
            return name
        if b.kind == "temp":
            offset = self.extents.register(b.offset)
            self.entry.append(f"  {register} = getelementptr inbounds i8, ptr %workspace, i64 {offset}")
            return register
        place = [x.name for k in ("input", "output") for x in self.program.buffers if x.kind == k].index(b.name)
        self.entry.append(f"  {register}.at = getelementptr inbounds ptr, ptr %buffers, i64 {place}")
        self.entry.append(f"  {register} = load ptr, ptr {register}.at, align 8, !invariant.load !1")
        return register

    def address(self, buffer: str, index: Expr) -> str:
        at = self.value(index)
        base, kind = self.addresses[buffer], scalars.memory_type(self.buffers[buffer].dtype)
        return base if at == "0" else self.pure(f"getelementptr inbounds {kind}, ptr {base}, i64 {at}")

    def load(self, e: Load) -> tuple[str, int]:
        dtype, pointer = self.buffers[e.buffer].dtype, self.address(e.buffer, e.index)
        metadata = self.alias.of(e.buffer)
        rhs = f"load {scalars.memory_type(dtype)}, ptr {pointer}, align {dtype.bytes}{metadata}"
        epoch = _PURE if "!invariant.load" in metadata else self.epoch
        register = self.recall(rhs) or self.remember(rhs, self.set(rhs), epoch)
        return (self.pure(f"icmp ne i8 {register}, 0") if dtype.kind == "b" else register), epoch

    def store(self, buffer: str, index: Expr, value: Expr) -> None:
        dtype, stored = self.buffers[buffer].dtype, self.value(value)
        if dtype.kind == "b":
            stored = self.pure(f"zext i1 {stored} to i8")
        pointer, metadata = self.address(buffer, index), self.alias.of(buffer)
        self.body.append(f"  store {scalars.memory_type(dtype)} {stored}, ptr {pointer}, align {dtype.bytes}{metadata}")
        self.epoch += 1

    # -- expressions -----------------------------------------------------------------------------------------------

    def value(self, e: Expr) -> str:
        """The register or literal of ``e``; iterative, since a chain may be thousands deep."""
        stack = [e]
        while stack:
            top = stack[-1]
            if isinstance(top, Const | Extent | Var) or self.recall(id(top)):
                stack.pop()
                continue
            waiting = [o for o in operands(top) if not isinstance(o, Const | Extent | Var) and not self.recall(id(o))]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            self.remember(id(top), *self.compute(top))
        return self.leaf(e)[0]

    def leaf(self, e: Expr) -> tuple[str, int]:
        """The register and epoch of what needs no further operands."""
        match e:
            case Const():
                return scalars.literal(e.value, e.dtype), _PURE
            case Extent():
                register = self.extents.register(e.size)
                self.affine.add(register)
                return register, _PURE
            case Var():
                if e.name in self.values:
                    return self.values[e.name], _PURE
                rhs = f"load {scalars.register_type(e.dtype)}, ptr {self.slots[e.name]}"
                return self.recall(rhs) or self.remember(rhs, self.set(rhs), self.epoch), self.epoch
            case _:
                return self.known[id(e)]

    def compute(self, e: Expr) -> tuple[str, int]:
        """Emit the instruction of an inner expression; its operands are known."""
        if isinstance(e, Load):
            return self.load(e)
        parts = [self.leaf(o) for o in operands(e)]
        args, epoch = [p[0] for p in parts], max(p[1] for p in parts)
        match e:
            case Apply():
                return self.apply(e, args), epoch
            case Choose():
                kind = scalars.register_type(e.dtype)
                return self.pure(f"select i1 {args[0]}, {kind} {args[1]}, {kind} {args[2]}"), epoch
            case Convert():
                return self.converted(args[0], e.value.dtype, e.dtype), epoch
            case _:
                raise AssertionError(e)

    def converted(self, register: str, source: DType, target: DType) -> str:
        if scalars.is_noop(source, target):
            return register
        rhs, declaration = scalars.convert(register, source, target)
        self.declare(declaration)
        return self.pure(rhs)

    def apply(self, e: Apply, args: list[str]) -> str:
        dtype = e.args[0].dtype
        function = functions.symbol(e.fn.llvm_for(dtype), dtype)
        if function:
            return self.elementary(function, dtype, args)
        flags = "reassoc nsz contract" if e.reassoc else "contract"
        rhs, declaration = scalars.apply(e.fn, args, dtype, flags)
        self.declare(declaration)
        opcode = rhs.partition(" ")[0]
        if dtype != i64 or opcode not in ("add", "sub", "mul") or not self.never_wraps(opcode, e.args, args):
            return self.pure(rhs)
        register = self.pure(rhs.replace(opcode, f"{opcode} nsw", 1))
        self.affine.add(register)
        return register

    def elementary(self, function: str, dtype: DType, args: list[str]) -> str:
        """A call of our own function: inlined in loops, so that they vectorise, and elsewhere left a call."""
        self.functions.add(function)
        kind = scalars.register_type(dtype)
        rhs = f"call {kind} {function}({', '.join(f'{kind} {a}' for a in args)})"
        inline = self.depth > 0 and self.shared.inlined < _INLINED
        known = self.recall(rhs)
        if known:
            return known
        self.shared.inlined += inline
        return self.remember(rhs, self.set(f"{rhs} {'alwaysinline' if inline else 'noinline'}"), _PURE)

    def side_by_side(self, s: LetAll) -> None:
        """A function of several operands, in vectors of them where it is one of ours."""
        dtype = s.vars[0].dtype
        function = functions.symbol(s.fn.llvm_for(dtype), dtype)
        if not function:
            self.statements(s.lets())
            return
        lanes = functions.lanes_for(len(s.vars), dtype)
        for first in range(0, len(s.vars), lanes):
            part = [self.value(e) for e in s.operands[first : first + lanes]]
            results = self.wide(function, dtype, part, lanes)
            self.values.update((v.name, r) for v, r in zip(s.vars[first : first + lanes], results, strict=True))

    def wide(self, function: str, dtype: DType, operands: list[str], lanes: int) -> list[str]:
        """One call for several operands; lanes that are left over take the last of them."""
        kind = scalars.register_type(dtype)
        vector, packed = f"<{lanes} x {kind}>", "poison"
        for k, operand in enumerate([*operands, *[operands[-1]] * (lanes - len(operands))]):
            packed = self.set(f"insertelement {vector} {packed}, {kind} {operand}, i32 {k}")
        name = functions.wide_symbol(function, lanes)
        self.functions.add(name)
        result = self.set(f"call {vector} {name}({vector} {packed}) noinline")
        return [self.set(f"extractelement {vector} {result}, i32 {k}") for k in range(len(operands))]

    def never_wraps(self, opcode: str, exprs: tuple[Expr, ...], args: list[str]) -> bool:
        """Sums of loop counters times sizes: what indices are made of. Other integers may wrap."""
        pairs = zip(exprs, args, strict=True)
        if not all(a in self.affine or (isinstance(x, Const) and abs(x.value) < _SMALL) for x, a in pairs):
            return False
        return opcode != "mul" or any(isinstance(x, Const | Extent) for x in exprs)

    # -- statements ------------------------------------------------------------------------------------------------

    def statements(self, block: Block) -> bool:
        """Emit a block; True when control never reaches its end."""
        return any(self.statement(s) for s in block)

    def statement(self, s: Stmt) -> bool:
        match s:
            case Let():
                self.values[s.var.name] = self.value(s.value)
            case LetAll():
                self.side_by_side(s)
            case Declare():
                self.slots[s.var.name] = self.slot(s.var.dtype, s.var.name)
                self.assign(s.var, s.value)
            case Assign():
                self.assign(s.var, s.value)
            case Store():
                self.store(s.buffer, s.index, s.value)
            case For():
                self.loop(s)
            case Parallel():
                self.share(s)
            case While():
                return self.repeat(s)
            case If():
                return self.branch(s)
            case Extern():
                self.call(s)
            case Fail():
                self.body.append(f"  ret i32 {s.code}")
                return True
            case _:
                assert_never(s)
        return False

    def slot(self, dtype: DType, hint: str) -> str:
        register = f"%{self.fresh(hint)}"
        self.entry.insert(0, f"  {register} = alloca {scalars.register_type(dtype)}")
        return register

    def assign(self, var: Var, value: Expr) -> None:
        kind, register = scalars.register_type(var.dtype), self.value(value)
        self.body.append(f"  store {kind} {register}, ptr {self.slots[var.name]}")
        self.epoch += 1

    def loop(self, s: For) -> None:
        start, stop = self.value(s.start), self.value(s.stop)
        body, after = self.fresh("loop"), self.fresh("after")
        before, counter = self.block, f"%{self.fresh(s.var.name)}"
        if not (isinstance(s.start, Const) and isinstance(s.stop, Const) and s.start.value < s.stop.value):
            enter = self.pure(f"icmp slt i64 {start}, {stop}")
            self.body.append(f"  br i1 {enter}, label %{body}, label %{after}")
        else:
            self.body.append(f"  br label %{body}")
        self.label(body)
        phi = len(self.body)
        self.body.append("")
        self.values[s.var.name] = counter
        self.affine.add(counter)
        self.epoch += 1
        back = ""
        self.depth += 1
        ended = self.scoped(lambda: self.statements(s.body))
        self.depth -= 1
        if not ended:
            following = self.set(f"add nsw i64 {counter}, 1", f"{s.var.name}_next")
            again = self.set(f"icmp slt i64 {following}, {stop}")
            self.body.append(f"  br i1 {again}, label %{body}, label %{after}")
            back = f", [ {following}, %{self.block} ]"
        self.body[phi] = f"  {counter} = phi i64 [ {start}, %{before} ]{back}"
        self.epoch += 1
        self.label(after)

    # -- loops that threads share ----------------------------------------------------------------------------------

    def share(self, s: Parallel) -> None:
        """The turns of a loop as calls of a function, which finds what it needs in an array of words."""
        count, taken = self.value(s.count), self.taken(s)
        part = f"{self.program.name}.part{len(self.shared.parts)}"
        kinds = ["ptr", "ptr", "ptr", *(scalars.memory_type(v.dtype) for v in taken)]
        values = ["%buffers", "%sizes", "%workspace", *(self.carried(v) for v in taken)]
        words = f"%{self.fresh('words')}"
        self.entry.insert(0, f"  {words} = alloca [{len(kinds)} x i64], align 8")
        for k, (kind, value) in enumerate(zip(kinds, values, strict=True)):
            self.body.append(f"  store {kind} {value}, ptr {self.word(words, k)}")
        calls_blas = any(isinstance(inner, Extern) for inner in statements(s.body))
        share = threads.SHARE_BLAS if calls_blas else threads.SHARE
        self.declare(f"declare void @{share}(ptr, ptr, i64, i64)")
        self.body.append(f"  call void @{share}(ptr {symbol(part)}, ptr {words}, i64 {count}, i64 {s.workers})")
        self.epoch += 1
        self.shared.parts.append("")  # its name is taken
        self.shared.parts[-1] = _Emitter(self.program, self.shared).part(part, s, taken, self.addresses)

    def word(self, words: str, k: int) -> str:
        return self.set(f"getelementptr inbounds i64, ptr {words}, i64 {k}")

    def taken(self, s: Parallel) -> list[Var]:
        """The variables from outside that a shared loop reads."""
        seen = {
            e.name: e for inner in statements(s.body) for r in roots(inner) for e in post_order(r) if isinstance(e, Var)
        }
        return [v for name, v in seen.items() if name in self.values or name in self.slots]

    def carried(self, v: Var) -> str:
        register = self.value(v)
        return self.set(f"zext i1 {register} to i8") if v.dtype.kind == "b" else register

    def part(self, name: str, s: Parallel, taken: list[Var], outside: dict[str, str]) -> str:
        """The function of one turn of a shared loop."""
        for k, pointer in enumerate(("buffers", "sizes", "workspace")):
            self.entry.append(f"  %{pointer}.at = getelementptr inbounds i64, ptr %words, i64 {k}")
            self.entry.append(f"  %{pointer} = load ptr, ptr %{pointer}.at, align 8, !invariant.load !1")
        for b in self.program.buffers:
            self.addresses[b.name] = outside[b.name] if b.kind == "constant" else self.base(b)
        for k, v in enumerate(taken, 3):
            kind, at = scalars.memory_type(v.dtype), self.word("%words", k)
            register = self.set(f"load {kind}, ptr {at}, align 8, !invariant.load !1", v.name)
            self.values[v.name] = self.set(f"icmp ne i8 {register}, 0") if v.dtype.kind == "b" else register
        self.values[s.var.name], self.values[s.worker.name] = "%turn", "%worker"
        self.affine |= {"%turn", "%worker"}
        self.statements(s.body)
        head = f"define internal void {symbol(name)}(ptr noalias readonly %words, i64 %turn, i64 %worker) nounwind {{"
        return "\n".join([head, "entry:", *self.entry, *self.body, "  ret void", "}"])

    def repeat(self, s: While) -> bool:
        head, body, after = self.fresh("while"), self.fresh("do"), self.fresh("after")
        self.body.append(f"  br label %{head}")
        self.label(head)
        self.epoch += 1
        self.depth += 1
        ended = self.scoped(lambda: self.repeat_body(s, head, body, after))
        self.depth -= 1
        self.epoch += 1
        if not ended:
            self.label(after)
        return ended

    def repeat_body(self, s: While, head: str, body: str, after: str) -> bool:
        if self.statements(s.head):
            return True
        self.body.append(f"  br i1 {self.value(s.condition)}, label %{body}, label %{after}")
        self.label(body)
        if not self.statements(s.body):
            self.body.append(f"  br label %{head}")
        return False

    def branch(self, s: If) -> bool:
        then, otherwise, after = self.fresh("then"), self.fresh("else"), self.fresh("after")
        condition = self.value(s.condition)
        target = otherwise if s.otherwise else after
        self.body.append(f"  br i1 {condition}, label %{then}, label %{target}")
        ended = self.arm(then, s.then, after)
        ended &= self.arm(otherwise, s.otherwise, after) if s.otherwise else False
        if not ended:
            self.label(after)
        return ended

    def arm(self, label: str, block: Block, after: str) -> bool:
        self.label(label)
        ended = self.scoped(lambda: self.statements(block))
        if not ended:
            self.body.append(f"  br label %{after}")
        return ended

    # -- external functions ----------------------------------------------------------------------------------------

    def call(self, s: Extern) -> None:
        args = [self.argument(a) for a in s.args]
        self.declare(f"declare void {symbol(s.name)}({', '.join(['ptr'] * len(args))}) nounwind")
        metadata = self.alias.of_call(a.buffer for a in s.args if isinstance(a, Address))
        self.body.append(f"  call void {symbol(s.name)}({', '.join(f'ptr {a}' for a in args)}){metadata}")
        self.epoch += 1

    def argument(self, a: Address | ByReference | Text) -> str:
        match a:
            case Address():
                return self.address(a.buffer, a.index)
            case ByReference():
                value, slot = self.converted(self.value(a.value), a.value.dtype, a.dtype), self.slot(a.dtype, "ref")
                self.body.append(f"  store {scalars.register_type(a.dtype)} {value}, ptr {slot}")
                return slot
            case Text():
                name = f"@text.{len(self.globals)}"
                data = a.value.encode() + b"\0"
                self.globals.append(f"{name} = private unnamed_addr constant {_bytes(data)}")
                return name
            case _:
                assert_never(a)


def _bytes(data: bytes) -> str:
    """An array of bytes as a constant with its type."""
    kind = f"[{len(data)} x i8]"
    return f'{kind} c"{_escape(data)}"' if data.strip(b"\0") else f"{kind} zeroinitializer"
