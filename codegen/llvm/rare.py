"""The rare ways of sin, cos and tan: arguments beyond the reach of three-term reduction, lane by lane.

A library for each function and precision, compiled when the first program that may need it is loaded, and kept.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from symgrad.codegen.elementary import definition_of_turned
from symgrad.codegen.elementary.builder import PRECISIONS
from symgrad.codegen.elementary.constants import PI
from symgrad.codegen.llvm.functions import LANES, PURE, declarations, far, instructions, rare_name, type_name
from symgrad.codegen.llvm.scalars import float_literal
from symgrad.ir.types import f64

_NAME = re.compile(r"sgm_rare_(\w+)_f(32|64)")


def wanted(declared: Iterable[str]) -> set[tuple[str, int]]:
    """The functions and precisions whose rare ways are among the declared names."""
    found = (_NAME.match(name) for name in declared)
    return {(m[1], int(m[2])) for m in found if m}


def exports(name: str, bits: int) -> tuple[str, ...]:
    base = rare_name(name, bits)[1:]
    return base, *(f"{base}.walk{k}" for k in LANES[bits])


@functools.cache
def module(name: str, bits: int) -> str:
    """The scalar that repairs what is out of range, and its vector versions."""
    f, base = type_name(bits), rare_name(name, bits)
    limit = far(bits)
    lines, (result,) = instructions(definition_of_turned(name), ["%q", "%rh", "%rl"], "w")
    wide = "%x" if bits == 64 else "%xd"
    widen = [] if bits == 64 else ["  %xd = fpext float %x to double"]
    narrow = [] if bits == 64 else ["  %narrow = fptrunc double %r to float"]
    out = [
        f"define {f} {base}({f} %x, {f} %usual) {PURE} {{",
        f"  %a = call {f} @llvm.fabs.f{bits}({f} %x)",
        f"  %far = fcmp ogt {f} %a, {limit}",
        "  br i1 %far, label %slow, label %done",
        "slow:",
        *widen,
        f"  %rr = call {{i64, double, double}} @sgm_remainder(double {wide})",
        "  %q = extractvalue {i64, double, double} %rr, 0",
        "  %rh = extractvalue {i64, double, double} %rr, 1",
        "  %rl = extractvalue {i64, double, double} %rr, 2",
        *lines,
        f"  %nan = fsub double {wide}, {wide}",  # of infinity; else 0
        f"  %r = fadd double {result}, %nan",
        *narrow,
        f"  ret {f} {'%r' if bits == 64 else '%narrow'}",
        "done:",
        f"  ret {f} %usual",
        "}",
    ]
    text = "\n".join([_remainder(), *out, *(_walk(base, f, k) for k in LANES[bits])])
    return "\n".join([text, *sorted(declarations(text))])


def _walk(base: str, f: str, k: int) -> str:
    v = f"<{k} x {f}>"
    return f"""define {v} {base}.walk{k}({v} %x, {v} %usual) {PURE} {{
  br label %walk
walk:
  %i = phi i32 [ 0, %0 ], [ %i2, %walk ]
  %v = phi {v} [ %usual, %0 ], [ %v2, %walk ]
  %xe = extractelement {v} %x, i32 %i
  %ue = extractelement {v} %usual, i32 %i
  %re = call {f} {base}({f} %xe, {f} %ue)
  %v2 = insertelement {v} %v, {f} %re, i32 %i
  %i2 = add i32 %i, 1
  %end = icmp eq i32 %i2, {k}
  br i1 %end, label %done, label %walk
done:
  ret {v} %v2
}}"""


@functools.cache
def _remainder() -> str:
    """@sgm_remainder(x) = quadrant, high, low of x modulo pi/2 for large x (Payne and Hanek).

    x = M 2**e. 192 bits of 2/pi from where the product stops being a multiple of 4, times M, give the quadrant and
    a fraction of 128 bits; it is normalised, and multiplied by pi/2 in two parts.
    """
    words = 22
    digits = int(2 / PI * (1 << 64 * (words - 1)))
    table = [0, *((digits >> 64 * (words - 2 - k)) & (1 << 64) - 1 for k in range(words - 1))]
    high, low = (float_literal(c, f64) for c in PRECISIONS[64].half_pi[:2])
    shrink = float_literal(2.0**-64, f64)
    return f"""@sgm.two_over_pi = internal constant [{words} x i64] [{", ".join(f"i64 {w}" for w in table)}]
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i128 @llvm.ctlz.i128(i128, i1)
declare i128 @llvm.abs.i128(i128, i1)
define internal {{i64, double, double}} @sgm_remainder(double %x) {PURE} {{
  %b = bitcast double %x to i64
  %eb = lshr i64 %b, 52
  %ee = and i64 %eb, 2047
  %m0 = and i64 %b, {(1 << 52) - 1}
  %M = or i64 %m0, {1 << 52}
  %pos = add i64 %ee, {64 - 1075 - 2}
  %w = lshr i64 %pos, 6
  %sh = and i64 %pos, 63
  %a0 = getelementptr inbounds i64, ptr @sgm.two_over_pi, i64 %w
  %a1 = getelementptr inbounds i64, ptr %a0, i64 1
  %a2 = getelementptr inbounds i64, ptr %a0, i64 2
  %a3 = getelementptr inbounds i64, ptr %a0, i64 3
  %t0 = load i64, ptr %a0
  %t1 = load i64, ptr %a1
  %t2 = load i64, ptr %a2
  %t3 = load i64, ptr %a3
  %w2 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %sh)
  %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %sh)
  %w0 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %sh)
  %Mx = zext i64 %M to i128
  %x0 = zext i64 %w0 to i128
  %x1 = zext i64 %w1 to i128
  %x2 = zext i64 %w2 to i128
  %q0 = mul i128 %x0, %Mx
  %q1 = mul i128 %x1, %Mx
  %q2 = mul i128 %x2, %Mx
  %q2s = shl i128 %q2, 64
  %q0s = lshr i128 %q0, 64
  %s1 = add i128 %q1, %q2s
  %R = add i128 %s1, %q0s
  %low = trunc i128 %q0 to i64
  %lowt = lshr i64 %low, 62
  %lowx = zext i64 %lowt to i128
  %Rs = shl i128 %R, 2
  %F = or i128 %Rs, %lowx
  %top = lshr i128 %R, 126
  %qq = trunc i128 %top to i64
  %neg = icmp slt i128 %F, 0
  %nz = zext i1 %neg to i64
  %q = add i64 %qq, %nz
  %A = call i128 @llvm.abs.i128(i128 %F, i1 false)
  %n = call i128 @llvm.ctlz.i128(i128 %A, i1 false)
  %As = shl i128 %A, %n
  %hi128 = lshr i128 %As, 64
  %hi = trunc i128 %hi128 to i64
  %lo = trunc i128 %As to i64
  %hh = and i64 %hi, -2048
  %hl = and i64 %hi, 2047
  %hd = uitofp i64 %hh to double
  %ld0 = uitofp i64 %hl to double
  %lo2 = uitofp i64 %lo to double
  %lo3 = fmul double %lo2, {shrink}
  %ld = fadd double %ld0, %lo3
  %ni = trunc i128 %n to i64
  %se = sub i64 {1023 - 64}, %ni
  %sb = shl i64 %se, 52
  %xs = and i64 %b, {1 << 63}
  %sc0 = or i64 %sb, %xs
  %ns = shl i64 %nz, 63
  %sc1 = xor i64 %sc0, %ns
  %sc = bitcast i64 %sc1 to double
  %h = fmul double %hd, %sc
  %l = fmul double %ld, %sc
  %ph = fmul double %h, {high}
  %nph = fneg double %ph
  %pe = call double @llvm.fma.f64(double %h, double {high}, double %nph)
  %pe2 = call double @llvm.fma.f64(double %h, double {low}, double %pe)
  %pl = call double @llvm.fma.f64(double %l, double {high}, double %pe2)
  %xneg = icmp slt i64 %b, 0
  %qn = sub i64 0, %q
  %qf = select i1 %xneg, i64 %qn, i64 %q
  %r0 = insertvalue {{i64, double, double}} poison, i64 %qf, 0
  %r1 = insertvalue {{i64, double, double}} %r0, double %ph, 1
  %r2 = insertvalue {{i64, double, double}} %r1, double %pl, 2
  ret {{i64, double, double}} %r2
}}"""
