"""Signature and Program -> LLVM IR of a function with CPython's vectorcall signature that runs the program's kernel.

Everything is looked at before anything is made, and what was made is noted in slots: from any point on, a jump to
``undo`` drops it and leaves the call to the next path, which is the Python one in the end. So nothing here raises, and
a kernel that reports a failure is run again by the path that knows how to raise it.
"""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.codegen.llvm import scalars
from symgrad.codegen.llvm.call import layout, pool, support
from symgrad.codegen.llvm.call.signature import (
    ArrayLeaf,
    Attribute,
    Built,
    Cell,
    Check,
    Entry,
    Exactly,
    Given,
    Item,
    NumberLeaf,
    OfType,
    Python,
    Read,
    Result,
    Sequence,
    Signature,
    Value,
)
from symgrad.codegen.llvm.call.support import CAPACITY, FIRST_OBJECT, HITS, KERNEL, NEXT, TABLE
from symgrad.codegen.llvm.call.work import iterations
from symgrad.codegen.llvm.extents import Extents
from symgrad.ir.loops import Program
from symgrad.ir.types import DType, product

BRIEF = 8192  # iterations below which others do not get to run meanwhile: about 20 microseconds


def emit_path(signature: Signature, program: Program, name: str, places: int) -> str:
    """The module: the function ``name`` and its table of ``places`` objects."""
    return _Emitter(signature, program, places).module(name)


class _Emitter:
    """The state of one function being written."""

    def __init__(self, signature: Signature, program: Program, places: int) -> None:
        self.signature = signature
        self.program = program
        self.places = places  # of the table: objects, then what is remembered of dicts
        self.remembered: dict[tuple[int, int], int] = {}  # dict and name -> the place of the value
        self.entry: list[str] = []
        self.body: list[str] = []
        self.count = 0
        self.slots = 0
        self.held: list[int] = []  # slots of what the call only borrows
        self.lengths: dict[str, str] = {}
        self.numbers = 0
        self.symbols: set[str] = set()
        # Looking up an attribute may run Python code, which may drop what was read before.
        self.holds = any(isinstance(r.source, Attribute) for r in signature.reads)

    def module(self, name: str) -> str:
        inputs = self.arguments()
        extents = self.sizes()
        buffers = self.run(inputs, extents)
        self.finish(buffers)
        size = FIRST_OBJECT + self.places
        start = [f"  %slot.{k} = alloca ptr\n  store ptr null, ptr %slot.{k}" for k in range(self.slots)]
        start.append(f"  %numbers = alloca [{max(1, self.numbers)} x i64]")
        lines = [
            f"@{TABLE} = global [{size} x ptr] zeroinitializer",
            *(f"@{s} = external global i8" for s in sorted(self.symbols)),
            support.RUNTIME,
            support.ARRAYS if uses_pool(self.signature) else "",
            support.ARENA if self.program.workspace_bytes != 0 else "",
            f'define ptr @"{name}"(ptr %self, ptr %args, i64 %nargsf, ptr %names) {{\nentry:',
            *start,
            *self.entry,
            *self.body,
            *self.undo(),
            "}",
            '!0 = !{!"branch_weights", i32 2000, i32 1}',
        ]
        return "\n".join(lines) + "\n"

    # -- text ------------------------------------------------------------------------------------------------------

    def set(self, rhs: str) -> str:
        self.count += 1
        self.body.append(f"  %v{self.count} = {rhs}")
        return f"%v{self.count}"

    def do(self, line: str) -> None:
        self.body.append(f"  {line}")

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}.{self.count}"

    def start(self, label: str) -> None:
        self.body.append(f"{label}:")

    def need(self, condition: str) -> None:
        after = self.label("ok")
        self.do(f"br i1 {condition}, label %{after}, label %undo, !prof !0")
        self.start(after)

    def field(self, pointer: str, offset: int, kind: str = "ptr") -> str:
        place = self.set(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.set(f"load {kind}, ptr {place}")

    def symbol(self, name: str) -> str:
        self.symbols.add(f"py.{name}")
        return f"@py.{name}"

    def thing(self, place: int) -> str:
        return self.set(f"load ptr, ptr {_place(place)}")

    def own(self, register: str) -> int:
        """Note a new reference, or null: from now on ``undo`` drops it."""
        self.do(f"store ptr {register}, ptr %slot.{self.slots}")
        self.slots += 1
        return self.slots - 1

    def owned(self, register: str) -> str:
        """Note a new reference; null is a failure."""
        self.own(register)
        self.need(self.set(f"icmp ne ptr {register}, null"))
        return register

    def hold(self, register: str) -> None:
        """Keep what is only borrowed until the call ends."""
        self.do(f"call void @Py_IncRef(ptr {register})")
        self.held.append(self.own(register))

    def number(self) -> str:
        """Memory for one number."""
        self.numbers += 1
        return self.set(f"getelementptr i64, ptr %numbers, i64 {self.numbers - 1}")

    # -- looking ---------------------------------------------------------------------------------------------------

    def arguments(self) -> dict[int, str]:
        """The address of each input of the program."""
        s = self.signature
        self.do(f"%nargs = and i64 %nargsf, {layout.POSITIONS}")
        if s.fewest == s.most:
            self.need(self.set(f"icmp eq i64 %nargs, {s.most}"))
        else:
            self.need(self.set(f"icmp uge i64 %nargs, {s.fewest}"))
            self.need(self.set(f"icmp ule i64 %nargs, {s.most}"))
        self.need(self.set("icmp eq ptr %names, null"))
        self.need(self.set(f"icmp eq i64 {self.set('load atomic i64, ptr @py.tracing monotonic, align 8')}, 0"))
        found: list[str] = []
        inputs: dict[int, str] = {}
        for read in s.reads:
            register = self.source(read, found)
            found.append(register)
            address = self.check(read, register)
            if read.input is not None:
                inputs[read.input] = address
        return inputs

    def source(self, read: Read, found: list[str]) -> str:
        match read.source:
            case Given() as given:
                return self.given(given)
            case Cell(place):
                register = self.field(self.thing(place), layout.CELL)
            case Entry(mapping, name):
                register = self.value_of(mapping, name)
            case Item(of, index):
                register = self.item(self.signature.reads[of].check, found[of], index)
            case Attribute(of, name):
                attribute = self.set(f"call ptr @PyObject_GetAttr(ptr {found[of]}, ptr {self.thing(name)})")
                self.held.append(self.own(attribute))
                self.need(self.set(f"icmp ne ptr {attribute}, null"))
                return attribute
            case Python(place):
                return self.thing(place)
        self.need(self.set(f"icmp ne ptr {register}, null"))
        if self.holds or (isinstance(read.check, ArrayLeaf) and read.input is not None):
            self.hold(register)
        return register

    def value_of(self, mapping: int, name: int) -> str:
        """A value of a dict, or null. It is looked up again only when the dict has changed."""
        if not layout.dicts_have_versions():
            return self.looked_up(self.thing(mapping), name)
        if (mapping, name) not in self.remembered:
            self.remember(mapping)
        return self.thing(self.remembered[mapping, name])

    def looked_up(self, mapping: str, name: int) -> str:
        return self.set(f"call ptr @PyDict_GetItemWithError(ptr {mapping}, ptr {self.thing(name)})")

    def remember(self, mapping: int) -> None:
        """Bring what the table has of a dict up to date."""
        entries = [r.source for r in self.signature.reads if isinstance(r.source, Entry)]
        names = dict.fromkeys(e.name for e in entries if e.mapping == mapping)
        version = _place(self.places)
        self.remembered |= {(mapping, name): k for k, name in enumerate(names, self.places + 1)}
        self.places += 1 + len(names)
        owner, changed, current = self.thing(mapping), self.label("changed"), self.label("current")
        now = self.field(owner, layout.VERSION, "i64")
        same = self.set(f"icmp eq i64 {self.set(f'load i64, ptr {version}')}, {now}")
        self.do(f"br i1 {same}, label %{current}, label %{changed}, !prof !0")
        self.start(changed)
        for name in names:
            value = self.looked_up(owner, name)
            self.do(f"store ptr {value}, ptr {_place(self.remembered[mapping, name])}")
        self.do(f"store i64 {now}, ptr {version}")  # as it was before, in case looking up ran code that changed it
        self.do(f"br label %{current}")
        self.start(current)

    def given(self, given: Given) -> str:
        place = f"getelementptr ptr, ptr %args, i64 {given.position}"
        if given.default is None:
            return self.set(f"load ptr, ptr {self.set(place)}")
        passed, left_out, after = self.label("passed"), self.label("default"), self.label("argument")
        self.do(f"br i1 {self.set(f'icmp ugt i64 %nargs, {given.position}')}, label %{passed}, label %{left_out}")
        self.start(passed)
        one = self.set(f"load ptr, ptr {self.set(place)}")
        self.do(f"br label %{after}")
        self.start(left_out)
        other = self.thing(given.default)
        self.do(f"br label %{after}")
        self.start(after)
        return self.set(f"phi ptr [ {one}, %{passed} ], [ {other}, %{left_out} ]")

    def item(self, owner: Check, register: str, index: int) -> str:
        assert isinstance(owner, Sequence)
        if owner.kind == "tuple":
            return self.field(register, layout.TUPLE_ITEMS + 8 * index)
        return self.field(self.field(register, layout.LIST_ITEMS), 8 * index)

    def check(self, read: Read, register: str) -> str:
        """Jump away unless the object is as it must be; the address of its contents when it is an input."""
        match read.check:
            case Exactly(place):
                self.need(self.set(f"icmp eq ptr {register}, {self.thing(place)}"))
            case OfType(place):
                self.of_type(register, self.thing(place))
            case Sequence(kind, length, place):
                self.of_type(register, self.symbol(kind) if place is None else self.thing(place))
                self.need(self.set(f"icmp eq i64 {self.field(register, layout.LENGTH, 'i64')}, {length}"))
            case NumberLeaf() as leaf:
                return self.number_of(leaf, register)
            case ArrayLeaf() as leaf:
                return self.array_of(leaf, register)
        return ""

    def of_type(self, register: str, kind: str) -> None:
        self.need(self.set(f"icmp eq ptr {self.field(register, layout.TYPE)}, {kind}"))

    def number_of(self, leaf: NumberLeaf, register: str) -> str:
        memory, bits = self.number(), f"i{8 * leaf.dtype.bytes}"
        if not leaf.python:
            self.of_type(register, self.symbol(f"scalar.{_code(leaf.dtype)}"))
            self.do(f"store {bits} {self.field(register, layout.NUMBER, bits)}, ptr {memory}")
            return memory
        self.of_type(register, self.symbol("float" if leaf.dtype.is_float else "int"))
        if leaf.dtype.is_float:
            value = self.field(register, layout.NUMBER, "double")
        else:
            overflow = self.number()
            value = self.set(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {register}, ptr {overflow})")
            self.need(self.set(f"icmp eq i32 {self.set(f'load i32, ptr {overflow}')}, 0"))
        kind = scalars.register_type(leaf.dtype)
        if leaf.pinned is not None:
            equal = "fcmp oeq" if leaf.dtype.is_float else "icmp eq"
            self.need(self.set(f"{equal} {kind} {value}, {scalars.literal(leaf.pinned, leaf.dtype)}"))
        self.do(f"store {kind} {value}, ptr {memory}")
        return memory

    def array_of(self, leaf: ArrayLeaf, register: str) -> str:
        self.of_type(register, self.symbol("array"))
        descr = self.symbol(f"descr.{_code(leaf.dtype)}")
        self.need(self.set(f"icmp eq ptr {self.field(register, layout.DESCR)}, {descr}"))
        self.need(self.set(f"icmp eq i32 {self.field(register, layout.NDIM, 'i32')}, {len(leaf.shape)}"))
        flags = self.set(f"and i32 {self.field(register, layout.FLAGS, 'i32')}, {layout.PLAIN}")
        self.need(self.set(f"icmp eq i32 {flags}, {layout.PLAIN}"))
        dims = self.field(register, layout.DIMS) if leaf.shape else ""
        for axis, size in enumerate(leaf.shape):
            length = self.field(dims, 8 * axis, "i64")
            known = str(size) if isinstance(size, int) else self.lengths.get(size)
            if known is None:
                self.lengths[str(size)] = length
                self.need(self.set(f"icmp ugt i64 {length}, 1"))
            else:
                self.need(self.set(f"icmp eq i64 {length}, {known}"))
        return register

    def sizes(self) -> Extents:
        """The lengths, once they are as was assumed."""
        capacity = self.set(f"load i64, ptr getelementptr (i8, ptr @{TABLE}, i64 {8 * CAPACITY})")
        extents = Extents(self.program.sizes, self.body, {**self.lengths, self.signature.capacity: capacity})
        for r in self.signature.relations:
            left, right = extents.register(r.left), extents.register(r.right)
            compare = {"==": "eq", "!=": "ne", "<=": "sle"}[r.relation]
            self.need(self.set(f"icmp {compare} i64 {left}, {right}"))
        return extents

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[int, str], extents: Extents) -> list[tuple[Value, str]]:
        """Make the arrays of results and run the kernel; each result with its array, or the memory of its number."""
        made = [(v, self.room(v, extents)) for v in _values(self.signature.result)]
        count, lengths = len(inputs) + len(made), len(self.program.sizes)
        self.entry.append(f"  %buffers = alloca [{max(1, count)} x ptr]\n  %sizes = alloca [{max(1, lengths)} x i64]")
        for k, size in enumerate(self.program.sizes):
            place = self.set(f"getelementptr i64, ptr %sizes, i64 {k}")
            self.do(f"store i64 {extents.known(size)}, ptr {place}")
        checks = {r.input: r.check for r in self.signature.reads if r.input is not None}
        for k in range(len(inputs)):
            is_array = isinstance(checks[k], ArrayLeaf)
            self.buffer(k, self.field(inputs[k], layout.DATA) if is_array else inputs[k])
        for k, (value, place) in enumerate(made, len(inputs)):
            self.buffer(k, self.field(place, layout.DATA) if value.shape else place)
        self.need(self.set(f"icmp eq i32 {self.kernel(extents)}, 0"))
        return made

    def buffer(self, place: int, address: str) -> None:
        at = self.set(f"getelementptr ptr, ptr %buffers, i64 {place}")
        self.do(f"store ptr {address}, ptr {at}")

    def room(self, value: Value, extents: Extents) -> str:
        if not value.shape:
            return self.number()
        self.count += 1
        dims = f"%dims.{self.count}"
        self.entry.append(f"  {dims} = alloca [{len(value.shape)} x i64]")
        for axis, size in enumerate(value.shape):
            length = extents.register(size)
            self.do(f"store i64 {length}, ptr {self.set(f'getelementptr i64, ptr {dims}, i64 {axis}')}")
        kind, number = self.symbol("array"), value.dtype.numpy.num
        start = f"ptr {kind}, i32 {len(value.shape)}, ptr {dims}, i32 {number}"
        if _may_be_large(value):
            total = extents.register(product(value.shape) * value.dtype.bytes)
            return self.owned(self.set(f"call ptr @new_array({start}, i64 {total})"))
        rest = "ptr null, ptr null, i32 0, i32 0, ptr null"
        return self.owned(self.set(f"call ptr @PyArray_New({start}, {rest})"))

    def kernel(self, extents: Extents) -> str:
        """The status of the kernel."""
        workspace = "null"
        if self.program.workspace_bytes != 0:
            size = extents.register(self.program.workspace_bytes)
            workspace = self.set(f"call ptr @arena_take(i64 {size})")
            self.need(self.set(f"icmp ne ptr {workspace}, null"))
        status = self.called(f"call i32 @{KERNEL}(ptr %buffers, ptr %sizes, ptr {workspace})", extents)
        if workspace != "null":
            self.do(f"call void @arena_give(ptr {workspace})")
        return status

    def called(self, call: str, extents: Extents) -> str:
        """Call the kernel; without the interpreter lock when that may take long."""
        work = iterations(self.program)
        if isinstance(work, int) and work < BRIEF:
            return self.set(call)
        if work is None or isinstance(work, int):
            return self.unlocked(call)
        long, brief, after = self.label("long"), self.label("brief"), self.label("ran")
        is_long = self.set(f"icmp sge i64 {extents.register(work)}, {BRIEF}")
        self.do(f"br i1 {is_long}, label %{long}, label %{brief}")
        self.start(long)
        one = self.unlocked(call)
        self.do(f"br label %{after}")
        self.start(brief)
        other = self.set(call)
        self.do(f"br label %{after}")
        self.start(after)
        return self.set(f"phi i32 [ {one}, %{long} ], [ {other}, %{brief} ]")

    def unlocked(self, call: str) -> str:
        state = self.set("call ptr @PyEval_SaveThread()")
        status = self.set(call)
        self.do(f"call void @PyEval_RestoreThread(ptr {state})")
        return status

    # -- results ---------------------------------------------------------------------------------------------------

    def finish(self, made: list[tuple[Value, str]]) -> None:
        """Make every object first, then put them together, which cannot fail."""
        values = iter([place if value.shape else self.boxed(value, place) for value, place in made])
        filling: list[tuple[str, Built, list[str]]] = []
        result = self.built(self.signature.result, values, filling)
        for container, built, parts in filling:
            items = container if built.kind == "tuple" else self.field(container, layout.LIST_ITEMS)
            offset = layout.TUPLE_ITEMS if built.kind == "tuple" else 0
            for k, part in enumerate(parts):
                at = self.set(f"getelementptr i8, ptr {items}, i64 {offset + 8 * k}")
                self.do(f"store ptr {part}, ptr {at}")
        for slot in self.held:
            self.do(f"call void @Py_DecRef(ptr {self.set(f'load ptr, ptr %slot.{slot}')})")
        hits = f"getelementptr (i8, ptr @{TABLE}, i64 {8 * HITS})"
        before = self.set(f"load i64, ptr {hits}")
        self.do(f"store i64 {self.set(f'add i64 {before}, 1')}, ptr {hits}")
        self.do(f"ret ptr {result}")

    def boxed(self, value: Value, memory: str) -> str:
        """A NumPy scalar."""
        if value.dtype.kind == "b":
            true = self.set(f"icmp ne i8 {self.set(f'load i8, ptr {memory}')}, 0")
            known = self.set(f"select i1 {true}, ptr {self.symbol('true')}, ptr {self.symbol('false')}")
            self.do(f"call void @Py_IncRef(ptr {known})")
            return self.owned(known)
        kind = self.symbol(f"scalar.{_code(value.dtype)}")
        scalar = self.owned(self.set(f"call ptr @py.scalar.alloc(ptr {kind}, i64 0)"))
        bits = f"i{8 * value.dtype.bytes}"
        at = self.set(f"getelementptr i8, ptr {scalar}, i64 {layout.NUMBER}")
        self.do(f"store {bits} {self.set(f'load {bits}, ptr {memory}')}, ptr {at}")
        return scalar

    def built(self, result: Result, values: Iterator[str], filling: list[tuple[str, Built, list[str]]]) -> str:
        match result:
            case Value():
                return next(values)
            case Python(place):
                known = self.thing(place)
                self.do(f"call void @Py_IncRef(ptr {known})")
                return self.owned(known)
            case Built():
                new = "PyTuple_New" if result.kind == "tuple" else "PyList_New"
                container = self.owned(self.set(f"call ptr @{new}(i64 {len(result.parts)})"))
                filling.append((container, result, [self.built(p, values, filling) for p in result.parts]))
                return container

    def undo(self) -> list[str]:
        lines = ["undo:"]
        for k in range(self.slots):
            lines += [f"  %made.{k} = load ptr, ptr %slot.{k}", f"  call void @drop(ptr %made.{k})"]
        lines += [
            "  call void @PyErr_Clear()",
            f"  %next = load ptr, ptr getelementptr (i8, ptr @{TABLE}, i64 {8 * NEXT})",
            "  %last = icmp eq ptr %next, null",
            "  br i1 %last, label %python, label %other",
            "other:",
            "  %answer = tail call ptr %next(ptr %self, ptr %args, i64 %nargsf, ptr %names)",
            "  ret ptr %answer",
            "python:",
            "  %given = tail call ptr @slow(ptr %self, ptr %args, i64 %nargsf, ptr %names)",
            "  ret ptr %given",
        ]
        return lines


def uses_pool(signature: Signature) -> bool:
    """Whether some result may be large enough for the pool."""
    return any(map(_may_be_large, _values(signature.result)))


def _may_be_large(value: Value) -> bool:
    size = product(value.shape) * value.dtype.bytes
    return value.shape != () and not (isinstance(size, int) and size < pool.FROM)


def _values(result: Result) -> list[Value]:
    match result:
        case Value():
            return [result]
        case Python():
            return []
        case Built():
            return [v for part in result.parts for v in _values(part)]


def _place(place: int) -> str:
    """The address of a place of the table."""
    return f"getelementptr (i8, ptr @{TABLE}, i64 {8 * (FIRST_OBJECT + place)})"


def _code(dtype: DType) -> str:
    return dtype.numpy.str[1:]
