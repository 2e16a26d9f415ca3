"""Spelling of scalars in LLVM IR: types, literals, conversions and the right-hand side of one scalar function.

Everything here maps operands that are already text (registers or literals) to text. A bool is ``i1`` in registers
and ``i8`` in memory. Float operations carry ``contract`` and, where a Program allows it, ``reassoc nsz``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from symgrad.errors import UnsupportedError
from symgrad.ir.loops import ScalarFn
from symgrad.ir.types import DType

_EXTRA = {"@llvm.abs": "i1 false", "@llvm.ctlz": "i1 false", "@llvm.cttz": "i1 false"}  # INT_MIN and 0 are defined
_LIBM_ATTRIBUTES = "memory(none) nounwind willreturn"


def register_type(dtype: DType) -> str:
    if dtype.is_float:
        return "double" if dtype.bytes == 8 else "float"
    return "i1" if dtype.kind == "b" else f"i{8 * dtype.bytes}"


def memory_type(dtype: DType) -> str:
    return "i8" if dtype.kind == "b" else register_type(dtype)


def suffix(dtype: DType) -> str:
    """What an overloaded intrinsic appends for the type: ``f64``, ``i32``, ``i1``."""
    return f"f{8 * dtype.bytes}" if dtype.is_float else register_type(dtype)


def literal(value: bool | int | float, dtype: DType) -> str:
    """An exact literal; integers wrap into the dtype."""
    if dtype.is_float:
        return float_literal(float(value), dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    bits = 8 * dtype.bytes
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def float_literal(value: float, dtype: DType) -> str:
    # LLVM writes a float as the bits of the double of the same value.
    if dtype.bytes == 4:
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def convert(value: str, source: DType, target: DType) -> tuple[str, str]:
    """The right-hand side that converts, and the declaration it needs (or an empty string)."""
    old, new = register_type(source), register_type(target)
    if target.kind == "b":
        zero = literal(0, source)
        return f"fcmp une {old} {value}, {zero}" if source.is_float else f"icmp ne {old} {value}, {zero}", ""
    if source.is_float and target.is_float:
        return f"{'fpext' if target.bytes > source.bytes else 'fptrunc'} {old} {value} to {new}", ""
    if source.is_float:
        name = f"@llvm.fpto{'si' if target.kind == 'i' else 'ui'}.sat.{suffix(target)}.{suffix(source)}"
        return f"call {new} {name}({old} {value})", f"declare {new} {name}({old})"
    if target.is_float and source.kind == "b":
        # A masked move; LLVM's widening of bools and conversion from there takes three times as long.
        return f"select i1 {value}, {new} {literal(1.0, target)}, {new} {literal(0.0, target)}", ""
    if target.is_float:
        return f"{'sitofp' if source.kind == 'i' else 'uitofp'} {old} {value} to {new}", ""
    if target.bytes < source.bytes:
        return f"trunc {old} {value} to {new}", ""
    return f"{'sext' if source.kind == 'i' else 'zext'} {old} {value} to {new}", ""


def is_noop(source: DType, target: DType) -> bool:
    """Whether converting leaves the register as it is."""
    return source == target or (source.kind in "iu" and target.kind in "iu" and source.bytes == target.bytes)


def apply(fn: ScalarFn, args: Sequence[str], dtype: DType, flags: str) -> tuple[str, str]:
    """The right-hand side of ``fn`` on operands of ``dtype``, and the declaration it needs (or an empty string)."""
    spelling = fn.llvm_for(dtype)
    if spelling is None:
        raise UnsupportedError(f"{fn.name} has no LLVM instruction for {dtype}")
    kind, result = register_type(dtype), register_type(dtype) if not fn.predicate else "i1"
    fast = f"{flags} " if dtype.is_float and flags else ""
    if spelling.startswith("@"):
        name, _, extra = spelling.partition(" ")
        extra = extra or _EXTRA.get(name, "")
        name = f"{name}.{suffix(dtype)}"
        passed = ", ".join([*(f"{kind} {a}" for a in args), *([extra] if extra else [])])
        formal = ", ".join([kind] * len(args) + ([extra.split()[0]] if extra else []))
        return f"call {fast}{result} {name}({passed})", f"declare {result} {name}({formal})"
    if spelling.startswith("libm "):
        name = "@" + spelling[5:] + ("f" if dtype.bytes == 4 else "")
        passed = ", ".join(f"{kind} {a}" for a in args)
        formal = ", ".join([kind] * len(args))
        return f"call {fast}{result} {name}({passed})", f"declare {result} {name}({formal}) {_LIBM_ATTRIBUTES}"
    if spelling == "not":
        return f"xor {kind} {args[0]}, {'true' if kind == 'i1' else '-1'}", ""
    if spelling == "neg":
        return f"sub {kind} 0, {args[0]}", ""
    if spelling == "fneg":
        return f"fneg {fast}{kind} {args[0]}", ""
    opcode, _, condition = spelling.partition(" ")
    modifier = f"{fast}{condition} " if opcode == "fcmp" else f"{condition} " if condition else fast
    return f"{opcode} {modifier}{kind} {args[0]}, {args[1]}", ""
