"""Elementary functions as internal LLVM functions, one for each that a module uses.

The rare way of sin, cos and tan is an opaque scalar call in the body. Its vector versions are named by
``vector-function-abi-variant``: the vectoriser takes them, the inliner puts their test whether any lane needs the
rare way into the loop afterwards. What they call then is in a library of its own (rare.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from symgrad.codegen.elementary import ARITY, Body, Instruction, definition
from symgrad.codegen.elementary.builder import PRECISIONS
from symgrad.codegen.llvm.scalars import float_literal
from symgrad.ir.types import DType, f32, f64

KEPT = "@llvm.compiler.used"
_VARIANTS = "vector-function-abi-variant"
PURE = "nounwind willreturn memory(none)"
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "lshr"}
_ORDERED = {"lt": "olt", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une", "nlt": "uge"}
_INTEGERS = {"eq": "eq", "ne": "ne"}
_INTRINSICS = {"fma": "fma", "abs": "fabs", "sqrt": "sqrt", "copysign": "copysign"}
TURNED = ("sin", "cos", "tan")
LANES = {64: (2, 4, 8), 32: (4, 8, 16)}


def symbol(spelling: str | None, dtype: DType) -> str:
    """The function that stands for ``"libm name"``, or nothing where the C library's is called."""
    name = (spelling or "").removeprefix("libm ")
    return f"@sgm.{name}.f{8 * dtype.bytes}" if dtype.is_float and f"libm {name}" == spelling and name in ARITY else ""


def definitions(symbols: Iterable[str], *, vector: bool) -> tuple[str, set[str]]:
    """Text that defines functions named by ``symbol``, and the declarations that it needs.

    ``vector``: some calls are in loops, where the vectoriser may want rare ways for several lanes at once.
    """
    used = [(name, int(bits[1:])) for _, name, bits in (s.split(".") for s in sorted(symbols))]
    rare = [(name, bits) for name, bits in used if name in TURNED]
    text = [_function(name, bits) for name, bits in used]
    needed = {f"declare {type_name(b)} {rare_name(n, b)}({type_name(b)}, {type_name(b)}) {PURE}" for n, b in rare}
    if rare and vector:
        text += [_test(n, b, k) for n, b in rare for k in LANES[b]]
        text.append('!99999999 = !{!"branch_weights", i32 1, i32 100000}')
        # Unused functions would be dropped before the vectoriser looks for them.
        kept = [f"ptr {rare_name(n, b)}.v{k}" for n, b in rare for k in LANES[b]]
        text.append(f"{KEPT} = appending global [{len(kept)} x ptr] [{', '.join(kept)}]")
        needed |= {_walk_declaration(n, b, k) for n, b in rare for k in LANES[b]}
    joined = "\n".join(text)
    return joined, needed | declarations(joined)


def _walk_declaration(name: str, bits: int, k: int) -> str:
    v = f"<{k} x {type_name(bits)}>"
    return f"declare {v} {rare_name(name, bits)}.walk{k}({v}, {v}) cold {PURE}"


def declarations(text: str) -> set[str]:
    """Those of the intrinsics that bodies call."""
    return {_declaration(n, b) for n in _INTRINSICS for b in LANES if f"@llvm.{_INTRINSICS[n]}.f{b}(" in text}


def _declaration(operation: str, bits: int) -> str:
    kind, name = type_name(bits), _INTRINSICS[operation]
    count = {"fma": 3, "copysign": 2}.get(operation, 1)
    return f"declare {kind} @llvm.{name}.f{bits}({', '.join([kind] * count)})"


def type_name(bits: int) -> str:
    return "double" if bits == 64 else "float"


@functools.cache
def _function(name: str, bits: int) -> str:
    kind = type_name(bits)
    names = [f"%x{k}" for k in range(ARITY[name])]
    lines, (result,) = instructions(definition(name, bits), names, "v")
    head = f"define internal {kind} @sgm.{name}.f{bits}({', '.join(f'{kind} {x}' for x in names)}) {PURE} {{"
    return "\n".join([head, *lines, f"  ret {kind} {result}", "}"])


def instructions(body: Body, arguments: list[str], prefix: str) -> tuple[list[str], list[str]]:
    """The lines of a body and its results."""
    lines: list[str] = []
    registers: list[str] = []
    for k, i in enumerate(body.instructions):
        if i.operation == "constant":
            registers.append(_constant(i, body.bits))
        elif i.operation == "argument":
            registers.append(arguments[int(i.value or 0)])
        else:
            registers.append(f"%{prefix}{k}")
            operand_kind = body.instructions[i.operands[0]].kind
            rhs = _rhs(i, operand_kind, [registers[p] for p in i.operands], body.bits)
            lines.append(f"  %{prefix}{k} = {rhs}")
    return lines, [registers[r] for r in body.results]


def _constant(i: Instruction, bits: int) -> str:
    if i.kind == "float":
        assert isinstance(i.value, float)
        return float_literal(i.value, f64 if bits == 64 else f32)
    return str(i.value)


def _rhs(i: Instruction, operand_kind: str, args: list[str], bits: int) -> str:
    f, n = type_name(bits), f"i{bits}"
    kind = {"float": f, "int": n, "bool": "i1"}[i.kind]
    of = {"float": f, "int": n, "bool": "i1"}[operand_kind]
    match i.operation:
        case "neg":
            return f"fneg {f} {args[0]}"
        case "not":
            return f"xor i1 {args[0]}, true"
        case "select":
            return f"select i1 {args[0]}, {kind} {args[1]}, {kind} {args[2]}"
        case "bits":
            return f"bitcast {f} {args[0]} to {n}"
        case "float":
            return f"bitcast {n} {args[0]} to {f}"
        case "rare":
            base = rare_name(str(i.value), bits)
            lanes = ",".join(f"_ZGV_LLVM_N{k}vv_{base[1:]}({base[1:]}.v{k})" for k in LANES[bits])
            return f'call {f} {base}({f} {args[0]}, {f} {args[1]}) "{_VARIANTS}"="{lanes}"'
        case operation if operation in _INTRINSICS:
            return f"call {f} @llvm.{_INTRINSICS[operation]}.f{bits}({', '.join(f'{f} {a}' for a in args)})"
        case operation if operation in _ORDERED:
            compare = f"fcmp {_ORDERED[operation]}" if operand_kind == "float" else f"icmp {_INTEGERS[operation]}"
            return f"{compare} {of} {args[0]}, {args[1]}"
        case operation:
            return f"{(_FLOAT if i.kind == 'float' else _INTEGER)[operation]} {kind} {args[0]}, {args[1]}"


def rare_name(name: str, bits: int) -> str:
    return f"@sgm_rare_{name}_f{bits}"


def _test(name: str, bits: int, k: int) -> str:
    """The version for k lanes: the rare way where any of them is far out."""
    base, v, mask = rare_name(name, bits), f"<{k} x {type_name(bits)}>", (1 << (bits - 1)) - 1
    limit = far(bits)
    return f"""define internal {v} {base}.v{k}({v} %x, {v} %usual) alwaysinline {PURE} {{
  %b = bitcast {v} %x to <{k} x i{bits}>
  %m = and <{k} x i{bits}> %b, splat (i{bits} {mask})
  %a = bitcast <{k} x i{bits}> %m to {v}
  %far = fcmp ogt {v} %a, splat ({type_name(bits)} {limit})
  %mask = bitcast <{k} x i1> %far to i{k}
  %any = icmp ne i{k} %mask, 0
  br i1 %any, label %slow, label %done, !prof !99999999
slow:
  %r = call {v} {base}.walk{k}({v} %x, {v} %usual)
  br label %done
done:
  %o = phi {v} [ %usual, %0 ], [ %r, %slow ]
  ret {v} %o
}}"""


def far(bits: int) -> str:
    return float_literal(PRECISIONS[bits].turn_limit, f64)
