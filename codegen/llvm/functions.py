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


def lanes_for(count: int, dtype: DType) -> int:
    """The lanes of the vector function that takes ``count`` operands, or the first of more."""
    lanes = LANES[8 * dtype.bytes]
    return next((k for k in lanes if k >= count), lanes[-1])


def wide_symbol(function: str, lanes: int) -> str:
    """The version of a function (``symbol``) for several operands at once."""
    return f"{function}.x{lanes}"


def definitions(symbols: Iterable[str], *, vector: bool) -> tuple[str, set[str]]:
    """Text that defines functions named by ``symbol`` or ``wide_symbol``, and the declarations that it needs.

    ``vector``: some calls are in loops, where the vectoriser may want rare ways for several lanes at once.
    """
    used = [(name, int(bits[1:]), int(wide[0][1:]) if wide else 1) for _, name, bits, *wide in _split(symbols)]
    rare = [(name, bits, lanes) for name, bits, lanes in used if name in TURNED]
    text = [_function(name, bits, lanes) for name, bits, lanes in used]
    needed = {
        f"declare {type_name(b)} {rare_name(n, b)}({type_name(b)}, {type_name(b)}) {PURE}" for n, b, k in rare if k == 1
    }
    tests = {(n, b, k) for n, b, k in rare if k > 1}
    if vector and (scalar := [(n, b) for n, b, k in rare if k == 1]):
        # Unused functions would be dropped before the vectoriser looks for them.
        every = [(n, b, k) for n, b in scalar for k in LANES[b]]
        kept = [f"ptr {rare_name(n, b)}.v{k}" for n, b, k in every]
        text.append(f"{KEPT} = appending global [{len(kept)} x ptr] [{', '.join(kept)}]")
        tests.update(every)
    if tests:
        text += [_test(n, b, k) for n, b, k in sorted(tests)]
        text.append('!99999999 = !{!"branch_weights", i32 1, i32 100000}')
        needed |= {_walk_declaration(n, b, k) for n, b, k in tests}
    joined = "\n".join(text)
    return joined, needed | declarations(joined)


def _split(symbols: Iterable[str]) -> list[list[str]]:
    return [s.split(".") for s in sorted(symbols)]


def _walk_declaration(name: str, bits: int, k: int) -> str:
    v = f"<{k} x {type_name(bits)}>"
    return f"declare {v} {rare_name(name, bits)}.walk{k}({v}, {v}) cold {PURE}"


def declarations(text: str) -> set[str]:
    """Those of the intrinsics that bodies call."""
    return {
        _declaration(n, b, k)
        for n in _INTRINSICS
        for b in LANES
        for k in (1, *LANES[b])
        if f"@llvm.{_INTRINSICS[n]}.{_suffix(b, k)}(" in text
    }


def _declaration(operation: str, bits: int, lanes: int) -> str:
    kind, name = type_name(bits, lanes), _INTRINSICS[operation]
    count = {"fma": 3, "copysign": 2}.get(operation, 1)
    return f"declare {kind} @llvm.{name}.{_suffix(bits, lanes)}({', '.join([kind] * count)})"


def type_name(bits: int, lanes: int = 1) -> str:
    return _of("double" if bits == 64 else "float", lanes)


def _of(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _suffix(bits: int, lanes: int) -> str:
    return f"f{bits}" if lanes == 1 else f"v{lanes}f{bits}"


@functools.cache
def _function(name: str, bits: int, lanes: int) -> str:
    kind, function = type_name(bits, lanes), f"@sgm.{name}.f{bits}"
    names = [f"%x{k}" for k in range(ARITY[name])]
    lines, (result,) = instructions(definition(name, bits), names, "v", lanes)
    function = function if lanes == 1 else wide_symbol(function, lanes)
    head = f"define internal {kind} {function}({', '.join(f'{kind} {x}' for x in names)}) {PURE} {{"
    return "\n".join([head, *lines, f"  ret {kind} {result}", "}"])


def instructions(body: Body, arguments: list[str], prefix: str, lanes: int = 1) -> tuple[list[str], list[str]]:
    """The lines of a body and its results, for one operand or as many as there are lanes."""
    lines: list[str] = []
    registers: list[str] = []
    for k, i in enumerate(body.instructions):
        if i.operation == "constant":
            registers.append(_constant(i, body.bits, lanes))
        elif i.operation == "argument":
            registers.append(arguments[int(i.value or 0)])
        else:
            registers.append(f"%{prefix}{k}")
            operand_kind = body.instructions[i.operands[0]].kind
            rhs = _rhs(i, operand_kind, [registers[p] for p in i.operands], body.bits, lanes)
            lines.append(f"  %{prefix}{k} = {rhs}")
    return lines, [registers[r] for r in body.results]


def _constant(i: Instruction, bits: int, lanes: int) -> str:
    if i.kind == "float":
        assert isinstance(i.value, float)
        literal, kind = float_literal(i.value, f64 if bits == 64 else f32), type_name(bits)
    else:
        literal, kind = str(i.value), f"i{bits}"
    return literal if lanes == 1 else f"splat ({kind} {literal})"


def _rhs(i: Instruction, operand_kind: str, args: list[str], bits: int, lanes: int) -> str:
    f, n, b = type_name(bits, lanes), _of(f"i{bits}", lanes), _of("i1", lanes)
    kind = {"float": f, "int": n, "bool": b}[i.kind]
    of = {"float": f, "int": n, "bool": b}[operand_kind]
    match i.operation:
        case "neg":
            return f"fneg {f} {args[0]}"
        case "not":
            return f"xor {b} {args[0]}, {'true' if lanes == 1 else 'splat (i1 true)'}"
        case "select":
            return f"select {b} {args[0]}, {kind} {args[1]}, {kind} {args[2]}"
        case "bits":
            return f"bitcast {f} {args[0]} to {n}"
        case "float":
            return f"bitcast {n} {args[0]} to {f}"
        case "rare":
            base = rare_name(str(i.value), bits)
            if lanes > 1:
                return f"call {f} {base}.v{lanes}({f} {args[0]}, {f} {args[1]})"
            variants = ",".join(f"_ZGV_LLVM_N{k}vv_{base[1:]}({base[1:]}.v{k})" for k in LANES[bits])
            return f'call {f} {base}({f} {args[0]}, {f} {args[1]}) "{_VARIANTS}"="{variants}"'
        case operation if operation in _INTRINSICS:
            called = f"@llvm.{_INTRINSICS[operation]}.{_suffix(bits, lanes)}"
            return f"call {f} {called}({', '.join(f'{f} {a}' for a in args)})"
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
