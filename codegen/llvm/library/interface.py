"""Program -> LLVM IR of the C functions of a library.

An entry takes sizes, pointers to inputs and outputs (an output may be null: not wanted), a workspace and its bytes. It
returns a status: 0, one of ``STATUS``, or what the program ends with, counted on from there; then outputs are as they
were. Nothing is allocated, and there is no state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from symgrad.codegen.llvm.emit import emit
from symgrad.codegen.llvm.extents import Extents
from symgrad.codegen.llvm.scalars import memory_type
from symgrad.ir.loops import Buffer, Failure, Program
from symgrad.ir.types import Size

STATUS = (
    "success",
    "a size is negative",
    "the workspace is too small",
    "a pointer that is needed is null",
    "a size is one that the function does not take",
)
_MEMCPY = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
_HOLDS = {"==": "eq", "!=": "ne", "<=": "sle"}
FULL = "the workspace is too small for so many trips of a loop"
ABI = 1
_MOST = 1 << 40  # trips
ALIGNMENT = 64


@dataclass(frozen=True)
class Entry:
    """A function ``name`` of a library; ``sizes`` are its leading parameters, in order.

    ``capacity`` is the size of the program that says how many trips of a while loop the workspace has room for, and
    ``trips`` how many the usual workspace has; ``full`` is the failure of a loop that runs longer. ``guards`` are
    relations that must hold of the sizes.
    """

    name: str
    program: Program
    sizes: tuple[str, ...]
    capacity: str = ""
    trips: int = 1024
    full: Failure | None = None
    guards: tuple[tuple[Size, str, Size], ...] = ()

    def buffers(self, kind: str) -> list[Buffer]:
        return [b for b in self.program.buffers if b.kind == kind]

    @property
    def messages(self) -> tuple[str, ...]:
        """What each status means."""
        ends = (FULL if f == self.full else f"{f.exception}: {f.message}" for f in self.program.failures)
        return (*STATUS, *ends)

    def room(self) -> Size:
        """Bytes of workspace: temporaries, a place for each output that is not wanted, and room to align them."""
        total: Size = _aligned(self.program.workspace_bytes)
        for b in self.buffers("output"):
            total = total + _aligned(b.elements * b.dtype.bytes)
        return total + ALIGNMENT


def _aligned(size: Size) -> Size:
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True)
class Library:
    """What one object holds: an entry, and functions that tell of it. ``source`` is a hash of what it was made from."""

    entry: Entry
    prefix: str
    version: str
    source: str

    @property
    def symbols(self) -> tuple[str, ...]:
        name = self.entry.name
        told = ("strerror", "abi_version", "version", "source_hash")
        rooms = (f"{name}_workspace", f"{name}_workspace_trips") if self.entry.capacity else (f"{name}_workspace",)
        return (name, *rooms, *(f"{self.prefix}_{t}" for t in told))

    @property
    def messages(self) -> tuple[str, ...]:
        """By status."""
        return self.entry.messages

    def text(self) -> str:
        """The module; its target is left to whoever compiles it."""
        inner = f"sgk.{self.entry.name}"
        module = emit(replace(self.entry.program, name=inner))
        head = f"define i32 @{inner}("
        assert module.count(head) == 1
        module = module.replace(head, f"define internal i32 @{inner}(")
        return "\n".join([module, self._workspace(), self._entry(inner), self._strerror(), *self._strings(), ""])

    def _size_parameters(self) -> list[str]:
        return [f"i64 %{_local(s)}" for s in self.entry.sizes]

    def _extents(self, lines: list[str], trips: str = "%trips") -> Extents:
        known = {s: f"%{_local(s)}" for s in self.entry.sizes}
        if self.entry.capacity:
            known[self.entry.capacity] = trips
        return Extents((), lines, known)

    def _workspace(self) -> str:
        """The function that gives the bytes; where they depend on trips, one for any number and one for the usual."""
        e, lines, sizes = self.entry, list[str](), self._size_parameters()
        total = self._extents(lines).register(e.room())
        body = ["entry:", *lines, f"  ret i64 {total}", "}"]
        if not e.capacity:
            return "\n".join([f"define i64 @{e.name}_workspace({', '.join(sizes)}) nounwind {{", *body])
        any_number = f"define i64 @{e.name}_workspace_trips({', '.join([*sizes, 'i64 %trips'])}) nounwind {{"
        usual = f"define i64 @{e.name}_workspace({', '.join(sizes)}) nounwind {{"
        call = f"  %bytes = call i64 @{e.name}_workspace_trips({', '.join([*sizes, f'i64 {e.trips}'])})"
        return "\n".join([any_number, *body, usual, "entry:", call, "  ret i64 %bytes", "}"])

    def _guarded(self) -> list[str]:
        """Lines that go to ``sized`` where all relations hold, else to ``unfit``."""
        lines: list[str] = []
        extents = Extents((), lines, {s: f"%{_local(s)}" for s in self.entry.sizes}, prefix="g")
        holds = "true"
        for k, (left, relation, right) in enumerate(self.entry.guards):
            a, b = extents.register(left), extents.register(right)
            lines += [f"  %holds{k} = icmp {_HOLDS[relation]} i64 {a}, {b}", f"  %all{k} = and i1 {holds}, %holds{k}"]
            holds = f"%all{k}"
        return [*lines, f"  br i1 {holds}, label %sized, label %unfit"]

    def _capacity(self, sizes: str) -> list[str]:
        """Lines that find how many trips the bytes have room for, by halving."""
        comma = ", " if sizes else ""
        return f"""  br label %halve
halve:
  %low = phi i64 [ 0, %sized ], [ %low2, %halve ]
  %high = phi i64 [ {_MOST}, %sized ], [ %high2, %halve ]
  %sum = add i64 %low, %high
  %sum1 = add i64 %sum, 1
  %middle = lshr i64 %sum1, 1
  %asked = call i64 @{self.entry.name}_workspace_trips({sizes}{comma}i64 %middle)
  %fits = icmp ule i64 %asked, %bytes
  %below = sub i64 %middle, 1
  %low2 = select i1 %fits, i64 %middle, i64 %low
  %high2 = select i1 %fits, i64 %high, i64 %below
  %open = icmp ult i64 %low2, %high2
  br i1 %open, label %halve, label %found
found:
  %need = call i64 @{self.entry.name}_workspace_trips({sizes}{comma}i64 1)""".split("\n")

    def _entry(self, inner: str) -> str:
        """Checks, then the program on arrays of pointers and sizes."""
        e = self.entry
        inputs, outputs = e.buffers("input"), e.buffers("output")
        pointers = [f"ptr %p{k}" for k in range(len(inputs) + len(outputs))]
        parameters = [*self._size_parameters(), *pointers, "ptr %workspace", "i64 %bytes"]
        lines = ["entry:"]
        wrong = "false"
        for k, s in enumerate(e.sizes):
            lines += [f"  %negative{k} = icmp slt i64 %{_local(s)}, 0", f"  %wrong{k} = or i1 {wrong}, %negative{k}"]
            wrong = f"%wrong{k}"
        lines += [f"  br i1 {wrong}, label %negative, label %checked", "negative:", "  ret i32 1", "checked:"]
        lines += [*self._guarded(), "unfit:", "  ret i32 4", "sized:"]
        sizes = ", ".join(self._size_parameters())
        lines += self._capacity(sizes) if e.capacity else [f"  %need = call i64 @{e.name}_workspace({sizes})"]
        lines += ["  %short = icmp ult i64 %bytes, %need", "  %no_room = icmp eq ptr %workspace, null"]
        lines += ["  %small = or i1 %short, %no_room", "  br i1 %small, label %narrow, label %roomy"]
        lines += ["narrow:", "  ret i32 2", "roomy:"]
        missing = "false"
        for k in range(len(inputs)):
            lines += [f"  %null{k} = icmp eq ptr %p{k}, null", f"  %missing{k} = or i1 {missing}, %null{k}"]
            missing = f"%missing{k}"
        lines += [f"  br i1 {missing}, label %absent, label %run", "absent:", "  ret i32 3", "run:"]
        lines += ["  %at = ptrtoint ptr %workspace to i64", f"  %up = add i64 %at, {ALIGNMENT - 1}"]
        lines += [f"  %even = and i64 %up, -{ALIGNMENT}", "  %base = inttoptr i64 %even to ptr"]
        extents = self._extents(lines, "%low2")
        lines += [f"  %buffers = alloca [{max(1, len(pointers))} x ptr], align 8"]
        lines += [f"  %sizes = alloca [{max(1, len(e.program.sizes))} x i64], align 8"]
        offset: Size = _aligned(e.program.workspace_bytes)
        copies_last, copies = bool(e.program.failures), list[str]()  # then a call that fails leaves outputs alone
        for k, b in enumerate([*inputs, *outputs]):
            pointer = f"%p{k}"
            if b.kind == "output":
                lines += [f"  %spare{k} = getelementptr i8, ptr %base, i64 {extents.register(offset)}"]
                lines += [f"  %unwanted{k} = icmp eq ptr %p{k}, null"]
                lines += [f"  %place{k} = select i1 %unwanted{k}, ptr %spare{k}, ptr %p{k}"]
                size = b.elements * b.dtype.bytes
                operands = f"ptr %place{k}, ptr %spare{k}, i64 {extents.register(size)}, i1 false"
                copies.append(f"  call void @llvm.memcpy.p0.p0.i64({operands})")
                pointer, offset = f"%{'spare' if copies_last else 'place'}{k}", offset + _aligned(size)
            lines += [f"  %slot{k} = getelementptr ptr, ptr %buffers, i64 {k}", f"  store ptr {pointer}, ptr %slot{k}"]
        for k, s in enumerate(e.program.sizes):
            lines += [f"  %length{k} = getelementptr i64, ptr %sizes, i64 {k}"]
            length = "%low2" if s == e.capacity else f"%{_local(s)}"
            lines += [f"  store i64 {length}, ptr %length{k}"]
        lines += [f"  %status = call i32 @{inner}(ptr %buffers, ptr %sizes, ptr %base)"]
        lines += ["  %well = icmp eq i32 %status, 0", f"  %shifted = add i32 %status, {len(STATUS) - 1}"]
        lines += ["  br i1 %well, label %copy, label %failed", "failed:", "  ret i32 %shifted", "copy:"]
        lines += [*(copies if copies_last else []), "  ret i32 0", "}"]
        head = f"define i32 @{e.name}({', '.join(parameters)}) nounwind {{"
        return "\n".join([*_MEMCPY[:copies_last], head, *lines])

    def _strerror(self) -> str:
        cases = [f"    i32 {k}, label %case{k}" for k in range(len(self.messages))]
        arms = [f"case{k}:\n  ret ptr @message.{k}" for k in range(len(self.messages))]
        head = f"define ptr @{self.prefix}_strerror(i32 %code) nounwind {{\nentry:"
        switch = ["  switch i32 %code, label %unknown [", *cases, "  ]", "unknown:", "  ret ptr @message.unknown"]
        return "\n".join([head, *switch, *arms, "}"])

    def _strings(self) -> list[str]:
        constants = [_string(f"message.{k}", m) for k, m in enumerate(self.messages)]
        constants.append(_string("message.unknown", "an unknown status"))
        for what, text in (("version", self.version), ("source_hash", self.source)):
            constants.append(_string(f"text.{what}", text))
            constants.append(f"define ptr @{self.prefix}_{what}() nounwind {{\n  ret ptr @text.{what}\n}}")
        constants.append(f"define i32 @{self.prefix}_abi_version() nounwind {{\n  ret i32 {ABI}\n}}")
        return constants


def _local(size: str) -> str:
    return f"n.{size}"


def _string(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    escaped = "".join(f"\\{byte:02X}" for byte in data)
    return f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}"'


def c_type(buffer: Buffer) -> str:
    """How C calls the elements of a buffer."""
    named = {"double": "double", "float": "float"}.get(memory_type(buffer.dtype))
    return named or f"{'u' if buffer.dtype.kind in 'ub' else ''}int{8 * buffer.dtype.bytes}_t"
