"""The ahead-of-time compiler: a C library with the gradient inside, that needs no Python, no symgrad, no compiler."""

from __future__ import annotations

import hashlib
import inspect
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.aot import companions, header
from symgrad.codegen.llvm.library import Entry, Library, Machine, archive, machine, optimised
from symgrad.errors import ExportError, UnsupportedError
from symgrad.frontend.compiled import Compiled
from symgrad.frontend.leaves import as_spec
from symgrad.frontend.trace import Traced
from symgrad.frontend.tree import flatten
from symgrad.ir.graph import Graph, inline
from symgrad.ir.loops import Failure
from symgrad.ir.node import Node, constant
from symgrad.ir.sizes import assuming
from symgrad.ir.types import TensorType
from symgrad.lower.program import lower
from symgrad.lower.regions import CAPACITY, TAPE_FULL
from symgrad.passes.regions import tidy
from symgrad.passes.simplify import simplify

USUAL = ("header", "object", "static", "shared", "pkgconfig", "cmake", "python")
KINDS = (*USUAL, "llvm", "bitcode", "asm")
RESERVED = ("workspace", "workspace_bytes")
WORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "class",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "new",
        "operator",
        "private",
        "public",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "typedef",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
    ]
)  # of C and C++
SUFFIX = {"jit": "", "value_and_grad": "_vag", "grad": "_grad", "hessian": "_hess"}
SUFFIX |= dict.fromkeys(("jacobian", "jacrev", "jacfwd"), "_jac")


@dataclass(frozen=True)
class Exported:
    """What was written: files by kind, and why a kind was left out."""

    files: dict[str, Path]
    skipped: dict[str, str]


def export(
    compiled: Compiled,
    path: str | os.PathLike[str],
    specs: Sequence[Any],
    *,
    name: str | None = None,
    emit: Sequence[str] | None = None,
    target: str | None = None,
    cpu: str | None = None,
    trips: int = 1024,
) -> Exported:
    """Write the library of a function for arguments of the types ``specs`` into the folder ``path``.

    ``emit`` replaces the usual kinds of files (``USUAL``); ``target`` is an LLVM triple, ``cpu`` a processor or
    ``"native"``, ``trips`` how many trips of a loop that ends by itself the usual workspace has room for.
    Nothing is left there when it fails. ExportError: a name, kind, target or type that cannot be.
    """
    kinds = tuple(emit) if emit is not None else USUAL
    unknown = [k for k in kinds if k not in KINDS]
    if unknown:
        raise ExportError(f"cannot emit {', '.join(unknown)}; there are {', '.join(KINDS)}")
    own = name or compiled.__name__
    if not own.isidentifier() or not own.isascii():
        raise ExportError(f"{own!r} is not a name in C; give one by name=")
    made_for = machine(target, cpu)
    interface, library = _library(compiled, own, specs, trips)
    return _Writer(Path(path), own, library, interface, made_for, required=emit is not None).write(kinds)


def library_of(compiled: Compiled, name: str, specs: Sequence[Any]) -> Library:
    """The library of a function for arguments of the types ``specs``."""
    return _library(compiled, name, specs, 1024)[1]


def _library(compiled: Compiled, name: str, specs: Sequence[Any], trips: int) -> tuple[header.Interface, Library]:
    from symgrad import __version__

    if compiled.transform not in SUFFIX:
        raise UnsupportedError(f"{compiled.__name__}: only functions, gradients, Jacobians and Hessians are exported")
    parameters = [p.name for p in inspect.signature(compiled.__wrapped__).parameters.values()]
    given = [as_spec(s) for s in specs]
    if len(given) != len(parameters):
        raise ExportError(
            f"{name} takes {len(parameters)} arguments ({', '.join(parameters)}), {len(given)} were given"
        )
    leaves, tree = flatten((tuple(given), {}))
    traced = compiled.trace(leaves, tree, free=False, specs=True)
    with assuming(traced.sizes):
        graph = tidy(simplify(tidy(_closed(traced, name))))
        program = lower(graph, "entry", flags=traced.flags, blas=False)
    sizes = tuple(dict.fromkeys(d for s in given for d in s.dims if isinstance(d, str)))
    capacity = CAPACITY if CAPACITY in program.sizes else ""
    born = set(program.sizes) - {*sizes, capacity}
    if born:
        raise UnsupportedError(f"{name}: lengths that are known only when it runs are not exported yet")
    guards = tuple((g.left, str(g.relation), g.right) for g in traced.sizes.guards)
    entry = Entry(f"{name}{SUFFIX[compiled.transform]}", program, sizes, capacity, trips, Failure(*TAPE_FULL), guards)
    text = "\n".join([str(graph), *map(str, given), __version__])
    source = hashlib.sha256(text.encode()).hexdigest()[:16]
    types = [TensorType(r.dtype, r.shape) for r in graph.results[: len(entry.buffers("output"))]]
    outputs = list(zip(_output_names(compiled, traced, parameters), types, strict=True))
    _check_names({"argument": parameters, "length": sizes, "output": [n for n, _ in outputs], "parameter": RESERVED})
    interface = header.Interface(name, entry, list(zip(parameters, given, strict=True)), outputs, __version__, source)
    return interface, Library(entry, name, __version__, source)


def _check_names(kinds: dict[str, Sequence[str]]) -> None:
    """Raise ExportError for a name that C cannot tell from another."""
    seen: dict[str, str] = {}
    for kind, names in kinds.items():
        for name in names:
            if name in WORDS:
                raise ExportError(f"{name} is a word of C: call the {kind} otherwise")
            if name in seen:
                article = "an" if kind == "output" else "a"
                raise ExportError(f"{name} is an {seen[name]} and {article} {kind}: call one otherwise")
            seen[name] = kind


def _closed(traced: Traced, name: str) -> Graph:
    """The graph with what it reads from outside baked in."""
    if traced.pins or traced.truths:
        raise UnsupportedError(f"{name}: Python needs the value of an argument, which a library does not know")
    captured = traced.captured()
    if captured is None:
        raise ExportError(f"{name}: values from outside have changed while it was traced")
    inputs = traced.graph.params[: len(traced.inputs)]
    fixed: list[Node] = [
        constant(np.asarray(value, entered.param.dtype.numpy))
        for value, (_, entered) in zip(captured, traced.captures, strict=True)
    ]
    return Graph(inputs, tuple(inline(traced.graph, *inputs, *fixed)))


def _output_names(compiled: Compiled, traced: Traced, parameters: Sequence[str]) -> list[str]:
    """A name for each result of the program, in its order."""
    firsts = [o.first for o in traced.outputs]
    if any(o.mask >= 0 for o in traced.outputs) or sorted(firsts) != list(range(len(firsts))):
        raise UnsupportedError(f"{compiled.__name__}: only plain arrays and numbers, each given once, are exported")
    named = dict(zip(firsts, _leaf_names(compiled, len(firsts), parameters), strict=True))
    return [named[k] for k in range(len(firsts))]


def _leaf_names(compiled: Compiled, count: int, parameters: Sequence[str]) -> list[str]:
    """Names of the leaves of what the function returns."""
    match compiled.transform:
        case "grad" | "value_and_grad":
            argnums = compiled.settings["argnums"]
            slopes = [f"grad_{parameters[k]}" for k in ((argnums,) if isinstance(argnums, int) else argnums)]
            return [*_numbered("value", count - len(slopes)), *slopes]
        case "jit":
            return _numbered("value", count)
        case _:
            return _numbered(SUFFIX[compiled.transform][1:], count)


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{k}" for k in range(count)]


@dataclass(frozen=True)
class _Writer:
    """Makes files beside the folder, then moves them in."""

    folder: Path
    name: str
    library: Library
    interface: header.Interface
    machine: Machine
    required: bool

    def write(self, kinds: Sequence[str]) -> Exported:
        module = optimised(self.library.text(), self.machine)
        emitted: dict[str, tuple[str, bytes]] = {}
        if {"object", "static", "shared"} & set(kinds):
            emitted["object"] = f"{self.name}.o", self.machine.llvm.emit_object(module)
            emitted["static"] = (
                f"lib{self.name}.a",
                archive(f"{self.name}.o", emitted["object"][1], self.library.symbols),
            )
        emitted["header"] = f"{self.name}.h", self.interface.text().encode()
        emitted["pkgconfig"] = f"{self.name}.pc", companions.pkg_config(self.interface).encode()
        emitted["cmake"] = f"{self.name}-config.cmake", companions.cmake(self.interface).encode()
        emitted["python"] = f"{self.name}.py", companions.python(self.interface).encode()
        emitted["llvm"] = f"{self.name}.ll", str(module).encode()
        emitted["bitcode"] = f"{self.name}.bc", module.as_bitcode()
        if "asm" in kinds:
            emitted["asm"] = f"{self.name}.s", self.machine.llvm.emit_assembly(module).encode()
        skipped: dict[str, str] = {}
        if "shared" in kinds:
            linked = self._linked(emitted["object"][1])
            if isinstance(linked, str):
                if self.required:
                    raise ExportError(linked)
                skipped["shared"] = linked
            else:
                emitted["shared"] = f"lib{self.name}.so", linked
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for kind in kinds:
            if kind not in skipped:
                file, data = emitted[kind]
                (self.folder / file).write_bytes(data)
                files[kind] = self.folder / file
        return Exported(files, skipped)

    def _linked(self, image: bytes) -> bytes | str:
        """A shared library by the system's linker, or why there is none."""
        if self.machine.triple != machine().triple:
            return f"no shared library: the linker of this machine does not link for {self.machine.triple}"
        linker = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if linker is None:
            return "no shared library: there is no linker (cc, gcc or clang)"
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / f"{self.name}.o", Path(folder) / f"lib{self.name}.so"
            source.write_bytes(image)
            soname = f"-Wl,-soname,lib{self.name}.so"
            run = subprocess.run(
                [linker, "-shared", soname, "-o", str(made), str(source), "-lm"], capture_output=True, text=True
            )
            if run.returncode:
                return f"no shared library: {run.stderr.strip().splitlines()[-1] if run.stderr else linker}"
            return made.read_bytes()
