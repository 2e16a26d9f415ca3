"""Function pointers of compiled functions in this process: for C, ctypes, SciPy's LowLevelCallable and numba."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.aot import library_of
from symgrad.codegen.llvm import default_cache, load_text
from symgrad.codegen.llvm.library import Entry, Library
from symgrad.errors import ExportError
from symgrad.frontend.compiled import Compiled
from symgrad.ir.types import evaluate_size


@dataclass(frozen=True, eq=False)
class Pointer:
    """A native function with the interface of an exported library.

    ``call(sizes…, inputs…, outputs…, workspace, bytes)`` is a ctypes function that gives the status;
    ``workspace(**sizes)`` says how many bytes it needs. The code lives as long as ``call``.
    """

    address: int
    call: Any
    entry: Entry

    def workspace(self, **sizes: int) -> int:
        """Bytes for these lengths."""
        known: Mapping[str, int] = {**sizes, self.entry.capacity: self.entry.trips}
        return int(evaluate_size(self.entry.room(), known))


def pointer(compiled: Compiled, specs: Sequence[Any]) -> Pointer:
    """The function for arguments of the types ``specs``, as ``export`` would write it."""
    library = library_of(compiled, "f", specs)
    entry = library.entry
    native = load_text(library.text(), entry.name, cache=default_cache())
    pointers = len(entry.buffers("input")) + len(entry.buffers("output")) + 1
    kinds = [ctypes.c_int64] * len(entry.sizes) + [ctypes.c_void_p] * pointers + [ctypes.c_size_t]
    call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(native.address)
    call.code = native  # type: ignore[attr-defined]  # a reference, for the life of the code
    return Pointer(native.address, call, entry)


NUMBER, POINTER = ctypes.c_double, ctypes.POINTER(ctypes.c_double)
# Signature -> parameters of the IR function, types for ctypes, whether the argument is an array of the length given.
SIGNATURES: dict[str, tuple[str, tuple[Any, ...], bool]] = {
    "double (double)": ("double %x", (NUMBER,), False),
    "double (double, void *)": ("double %x, ptr %data", (NUMBER, ctypes.c_void_p), False),
    "double (int, double *)": ("i32 %n, ptr %x", (ctypes.c_int, POINTER), True),
    "double (int, double *, void *)": ("i32 %n, ptr %x, ptr %data", (ctypes.c_int, POINTER, ctypes.c_void_p), True),
}


def cfunc(compiled: Compiled, signature: str) -> Any:
    """A ctypes function of one of ``SIGNATURES``, of a number or of an array, with a number as its result.

    Where the function raises in Python it gives nan. SciPy's ``LowLevelCallable`` takes it, and so does numba.
    """
    if signature not in SIGNATURES:
        raise ExportError(f"signature {signature!r} is not known; there are {', '.join(SIGNATURES)}")
    parameters, kinds, is_array = SIGNATURES[signature]
    library = library_of(compiled, "f", ["f64[n]" if is_array else "f64"])
    outputs = library.entry.buffers("output")
    if len(outputs) != 1 or outputs[0].elements != 1 or not outputs[0].dtype.is_float or outputs[0].dtype.bytes != 8:
        raise ExportError(f"{compiled.__name__} does not give one number, as {signature} wants")
    name = "sgc.pointer"
    native = load_text(
        f"{library.text()}\n{_adapter(library, name, parameters, is_array)}", name, cache=default_cache()
    )
    call = ctypes.CFUNCTYPE(NUMBER, *kinds)(native.address)
    call.code = native  # type: ignore[attr-defined]  # a reference, for the life of the code
    return call


def _adapter(library: Library, name: str, parameters: str, is_array: bool) -> str:
    """A function of a signature that calls the entry, with a workspace on the stack."""
    entry = library.entry
    sizes = "i64 %length, " if entry.sizes else ""
    given = "i64 %length" if entry.sizes else ""
    length = ["  %length = sext i32 %n to i64"] if is_array else []
    where = "%x" if is_array else "%argument"
    argument = [] if is_array else ["  %argument = alloca double", "  store double %x, ptr %argument"]
    return "\n".join(
        [
            f"define double @{name}({parameters}) nounwind {{",
            *length,
            *argument,
            "  %value = alloca double",
            f"  %bytes = call i64 @{entry.name}_workspace({given})",
            "  %workspace = alloca i8, i64 %bytes, align 64",
            f"  %status = call i32 @{entry.name}({sizes}ptr {where}, ptr %value, ptr %workspace, i64 %bytes)",
            "  %well = icmp eq i32 %status, 0",
            "  %result = load double, ptr %value",
            "  %given = select i1 %well, double %result, double 0x7FF8000000000000",
            "  ret double %given",
            "}",
        ]
    )
