"""Roots and powers."""

from __future__ import annotations

import math
from fractions import Fraction

from symgrad.codegen.elementary.builder import Ops, Value
from symgrad.codegen.elementary.constants import split
from symgrad.codegen.elementary.exponential import exp_hl, scale2
from symgrad.codegen.elementary.logarithm import log_split


def cbrt(o: Ops, x: Value) -> Value:
    """x = 2^(3q+j) m', m = 2^j m' in [1/2, 4), by float arithmetic on the exponent
    (no integer /3).  w ~ m^(-1/3) from a degree-5 polynomial, then division-free
    series steps in e = 1 - m w^3; y = m w^2 gets one Newton correction on the
    residual y^3 - m computed with fma."""
    P = o.P
    a = o.abs(x)
    sub = a.lt(P.tiny)
    up = 54 if o.prec == 64 else 24  # a multiple of 3
    b = o.bits(o.sel(sub, a * 2.0**up, a))
    big = 2.0**P.mantissa
    e = o.flt((b >> P.mantissa) | P.bits_of(P.big)) - (big + P.bias)
    t = o.fma(e, o.c(1.0 / 3.0), o.c(P.magic))
    j = o.fma(t - P.magic, o.c(-3.0), e)  # -1, 0 or 1
    m = o.flt((b & P.mask) | P.one) * o.sel(j.gt(0.5), o.c(2.0), o.sel(j.lt(-0.5), o.c(0.5), o.c(1.0)))
    w = o.horner(o.coefficients("rcbrt"), m)
    mw = m * w
    d = o.fma(-mw, w * w, o.c(1.0))
    w = o.fma(w * d, o.horner([1 / 3, 2 / 9, 14 / 81], d), w)
    if o.prec == 64:
        d = o.fma(-(m * w), w * w, o.c(1.0))
        w = o.fma(w * d, o.horner([1 / 3, 2 / 9], d), w)
    w2 = w * w
    y = m * w2
    h, l = o.twoprod(y, y)
    p, pe = o.twoprod(h, y)
    res = (p - m) + o.fma(l, y, pe)
    y = o.fma(-res, w2 * (1.0 / 3.0), y)  # 1/(3 y^2) = w^2/3
    r = y * o.pow2(t)
    r = r * o.sel(sub, o.c(2.0 ** (-up // 3)), o.c(1.0))
    r = o.sel((a.gt(0.0) & a.lt(math.inf)).inv(), x, r)
    return o.copysign(r, x)


def _log_dd(o: Ops, ax: Value) -> tuple[Value, Value]:
    """log(ax) as hi+lo with ~2^-65 relative error (f64).  s = f/(2+f) as a
    two-term quotient; 2s + (2/3)s^3 carried in double-double, the rest single."""
    P = o.P
    k, m = log_split(o, ax)
    f = m - 1.0
    d = f + 2.0  # m+1
    dl = (2.0 - d) + f
    y = 1.0 / d
    sh = f * y
    sl = o.fma(-sh, dl, o.fma(-sh, d, f)) * y
    zh = sh * sh
    zl = o.fma(sh, sh, -zh) + 2.0 * (sh * sl)
    # c3 = 2/3 (hi+lo) + zh*L3 ;  total = 2s + s*z*c3
    L = zh * o.poly("log3", zh)
    a, b = split(Fraction(2, 3), P.digits, P.digits)
    ch, cl = o.fast2sum(o.c(a), L)
    cl = cl + b
    uh, ul = o.twoprod(zh, sh)  # s^3
    ul = ul + o.fma(zh, sl, zl * sh)
    th, tl = o.twoprod(uh, ch)
    tl = tl + o.fma(uh, cl, ul * ch)
    h, l = o.fast2sum(sh + sh, th)
    l = l + ((sl + sl) + tl)
    kl = k * P.ln2h
    hi, lo = o.fast2sum(kl, h)
    lo = lo + o.fma(k, o.c(P.ln2l), l)
    # ln2h+ln2l leaves 2^-94 relative; fine
    return o.fast2sum(hi, lo)


def pow(o: Ops, x: Value, y: Value) -> Value:
    """exp(y log|x|) with log in double-double.  C99 special cases fall out of
    log 0 = -inf, log inf = inf, NaN wherever possible; three selects remain."""
    P = o.P
    ax, ay = o.abs(x), o.abs(y)
    lh, ll = _log_dd(o, ax)
    lh = o.sel(ax.nlt(math.inf), ax, lh)  # inf, NaN
    lh = o.sel(ax.eq(0.0), o.c(-math.inf), lh)
    ph = y * lh
    pl = o.fma(y, ll, o.fma(y, lh, -ph))
    out = ph.gt(P.exp_high) | ph.lt(P.exp_low)
    ph = o.clamp_lo(o.clamp_hi(ph, P.exp_high), P.exp_low)
    pl = o.sel(out, o.c(0.0), pl)  # inf - inf above
    ey, el, t = exp_hl(o, ph, pl)
    r = scale2(o, ey + el, t)
    # u holds y's unit bit in its last place while |y| < 2^(mb+1)
    big = 2.0**P.mantissa
    u = o.sel(ay.lt(big), ay + big, ay)
    isint = ay.ge(big) | (u - big).eq(ay)
    flip = (o.bits(u) << (o.prec - 1)) & o.bits(x)  # sign of x if y is odd
    flip = o.sel(isint & ay.lt(2 * big), flip, o.i(0))
    r = o.flt(o.bits(r) ^ flip)
    r = o.sel(x.lt(0.0) & isint.inv() & ax.lt(math.inf), o.c(math.nan), r)
    one = x.eq(1.0) | y.eq(0.0) | (ax.eq(1.0) & ay.eq(math.inf))
    return o.sel(one, o.c(1.0), r)
