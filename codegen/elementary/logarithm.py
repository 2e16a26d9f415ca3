"""Logarithms: x = 2**k m with m about 1, s = f/(2+f), an artanh series in s*s."""

from __future__ import annotations

import math

from symgrad.codegen.elementary.builder import Ops, Value
from symgrad.codegen.elementary.constants import LN2, LN10, split


def log_split(o: Ops, x: Value) -> tuple[Value, Value]:
    """x = 2^k m, m in [sqrt(1/2), sqrt 2), subnormals included; k as a float.
    k comes from a logical shift or-ed into 2^mant (no sitofp, no ashr)."""
    P = o.P
    sub = x.lt(P.tiny)
    up = P.mantissa + 2
    xs = o.sel(sub, x * 2.0**up, x)
    ix = o.bits(xs) + (P.one - P.root_half)
    big = 2.0**P.mantissa
    k = o.flt((ix >> P.mantissa) | P.bits_of(P.big)) - o.sel(sub, o.c(big + P.bias + up), o.c(big + P.bias))
    m = o.flt((ix & P.mask) + P.root_half)
    return k, m


def log_special(o: Ops, x: Value, res: Value) -> Value:
    res = o.sel(x.nlt(math.inf), x, res)  # +inf, NaN
    res = o.sel(x.lt(0.0), o.c(math.nan), res)
    return o.sel(x.eq(0.0), o.c(-math.inf), res)


def log_parts(o: Ops, k: Value, f: Value, fl: Value | None = None) -> tuple[Value, Value]:
    """k ln2 + log(1+f): returns hi, lo.  s = f/(2+f);
    log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2))   (the fdlibm arrangement)."""
    P = o.P
    s = f / (f + 2.0)
    z = s * s
    R = z * o.poly("log", z)
    hf = f * 0.5
    v = o.fma(-hf, f, s * o.fma(hf, f, R))
    kl = k * P.ln2h  # exact
    hi = kl + f
    lo = (kl - hi) + f
    v = o.fma(k, o.c(P.ln2l), v)
    if fl is not None:  # + fl/(1+f), 3 digits do
        v = o.fma(fl, o.horner([1.0, -2.0, 2.0, -2.0], s), v)
    return hi, lo + v


def log(o: Ops, x: Value) -> Value:
    k, m = log_split(o, x)
    hi, lo = log_parts(o, k, m - 1.0)
    return log_special(o, x, hi + lo)


def _log_base(o: Ops, x: Value, base: int) -> Value:
    """log_base(x): exact k for base 2; (hi+lo) * (ch+cl) otherwise."""
    P = o.P
    k, m = log_split(o, x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    R = z * o.poly("log", z)
    hf = f * 0.5
    v = o.fma(-hf, f, s * o.fma(hf, f, R))  # log1p(f) = f + v
    h, l = o.fast2sum(f, v)
    ch, cl = split(1 / (LN2 if base == 2 else LN10), P.digits, P.digits)
    ph, pl = o.twoprod(h, o.c(ch))
    pl = o.fma(l, o.c(ch), o.fma(h, o.c(cl), pl))
    if base == 2:
        kh = k
    else:
        a, b = split(LN2 / LN10, P.short, P.digits)
        kh, kl2 = k * a, b
        pl = o.fma(k, o.c(kl2), pl)
    hi = kh + ph
    lo = ((kh - hi) + ph) + pl
    return log_special(o, x, hi + lo)


def log2(o: Ops, x: Value) -> Value:
    return _log_base(o, x, 2)


def log10(o: Ops, x: Value) -> Value:
    return _log_base(o, x, 10)


def log1p_sum(o: Ops, x: Value, xl: Value | None = None, twice: Value | None = None) -> Value:
    """log(1 + x + xl), of twice that where the condition ``twice`` holds; no special values.

    u + c = 1 + x exactly; c is folded in as c 2**-k."""
    P = o.P
    u, c = o.twosum(o.c(1.0), x)
    if xl is not None:
        c = c + xl
    ix = o.bits(u) + (P.one - P.root_half)
    exponent = ix >> P.mantissa
    k = o.flt(exponent | P.bits_of(P.big)) - (P.big + P.bias)
    m = o.flt((ix & P.mask) + P.root_half)
    # 2^-k has the exponent field bias - k. It may wrap for large x, where c is dropped.
    scale = o.flt((o.i(2 * P.bias) - (exponent & ((1 << (o.prec - P.mantissa)) - 1))) << P.mantissa)
    fl = o.sel(x.gt(2.0 ** (P.mantissa + 4)), o.c(0.0), c * scale)
    if twice is not None:
        k = o.sel(twice, k + 1.0, k)
    hi, lo = log_parts(o, k, m - 1.0, fl)
    return hi + lo


def log1p(o: Ops, x: Value) -> Value:
    res = log1p_sum(o, x)
    res = o.sel(x.nlt(math.inf), x, res)
    res = o.sel(x.lt(-1.0), o.c(math.nan), res)
    res = o.sel(x.eq(-1.0), o.c(-math.inf), res)
    return o.copysign(res, x)
