"""Inverse trigonometric functions."""

from __future__ import annotations

import math

from symgrad.codegen.elementary.builder import Ops, Value
from symgrad.codegen.elementary.logarithm import log1p_sum


def _atan01(o: Ops, q: Value) -> tuple[Value, Value]:
    z = q * q
    p = o.poly("atan", z, keep=5)  # alternating: cancels at z = 1
    return q, (q * z) * p


def atan(o: Ops, x: Value) -> Value:
    a = o.abs(x)
    inv = a.gt(1.0)
    q = o.sel(inv, 1.0 / a, a)
    h, l = _atan01(o, q)
    ph, pl = o.P.half_pi[:2]
    bh = ph - h
    bl = ((ph - bh) - h) + (pl - l)
    return o.copysign(o.sel(inv, bh + bl, h + l), x)


def atan2(o: Ops, y: Value, x: Value) -> Value:
    """q = min/max with a residual-corrected quotient; octant by selects.
    Exponent spread: min is scaled up when max is huge/tiny so 1/max is safe."""
    P = o.P
    ay, ax = o.abs(y), o.abs(x)
    swap = ay.gt(ax)
    mn = o.sel(swap, ax, ay)
    mx = o.sel(swap, ay, ax)
    q = mn / mx
    both0 = mx.eq(0.0)
    bothinf = mn.eq(math.inf)
    q = o.sel(both0, o.c(0.0), o.sel(bothinf, o.c(1.0), q))
    h, l = _atan01(o, q)
    ph, pl = P.half_pi[:2]
    Ph, Pl = P.pi
    xneg = (o.bits(x) & P.sign).ne(0)
    # swap: pi/2 - a (x>=0) or pi/2 + a; no swap: a or pi - a
    base_h = o.sel(swap, o.c(ph), o.sel(xneg, o.c(Ph), o.c(0.0)))
    base_l = o.sel(swap, o.c(pl), o.sel(xneg, o.c(Pl), o.c(0.0)))
    minus = swap ^ xneg
    hh, ll = o.sel(minus, -h, h), o.sel(minus, -l, l)
    bh = base_h + hh
    bl = ((base_h - bh) + hh) + (base_l + ll)
    r = bh + bl
    r = o.sel(x.ne(x) | y.ne(y), x + y, r)
    return o.copysign(r, y)


def _asin_core(o: Ops, x: Value) -> tuple[Value, Value, Value, Value]:
    """a < 1/2: a + a z R(z), z = a^2;  a >= 1/2: with z = (1-a)/2 (exact),
    s = sqrt z = sh + sl, asin a = pi/2 - 2 (sh + sl + s z R(z))."""
    a = o.abs(x)
    big = a.gt(0.5)
    z = o.sel(big, o.fma(a, o.c(-0.5), o.c(0.5)), a * a)
    sh = o.sel(big, o.sqrt(z), a)
    # sqrt residual / (2 sh): reciprocal not needed to more than a few bits, but a
    # division is the portable choice; sh > 0 unless a = 1
    sl = o.sel(big & z.gt(0.0), o.fma(-sh, sh, z) / (sh + sh), o.c(0.0))
    return a, big, sh, o.fma(sh * z, o.poly("asin", z), sl)


def asin(o: Ops, x: Value) -> Value:
    _, big, h, l = _asin_core(o, x)
    ph, pl = o.P.half_pi[:2]
    b = ph - (h + h)
    bl = ((ph - b) - (h + h)) + (pl - (l + l))
    return o.copysign(o.sel(big, b + bl, h + l), x)


def acos(o: Ops, x: Value) -> Value:
    _, big, h, l = _asin_core(o, x)
    P = o.P
    ph, pl = P.half_pi[:2]
    neg = x.lt(0.0)
    # small: pi/2 - asin x;  big: 2 asin(s) or pi - 2 asin(s)
    g = o.sel(big, h + h, o.sel(neg, h, -h))
    gl = o.sel(big, l + l, o.sel(neg, l, -l))
    bneg = big & neg
    g = o.sel(bneg, -g, g)
    gl = o.sel(bneg, -gl, gl)
    k = o.sel(big, o.sel(neg, o.c(2.0), o.c(0.0)), o.c(1.0))
    b = k * ph
    s, e = o.twosum(b, g)
    return s + (e + o.fma(k, o.c(pl), gl))


def _root(o: Ops, h: Value, l: Value) -> tuple[Value, Value]:
    """sqrt(h + l) in two parts; 0 for 0."""
    s = o.sqrt(h)
    sl = (o.fma(-s, s, h) + l) / (s + s)
    return s, o.sel(h.gt(0.0), sl, o.c(0.0))


def asinh(o: Ops, x: Value) -> Value:
    """log1p(a + a^2/(1 + sqrt(1 + a^2))), a = |x|, every part as hi+lo; log(2a) for large a."""
    P = o.P
    a = o.abs(x)
    large = a.gt(2.0 ** (P.digits // 2 + 4))
    b = o.sel(large, o.c(1.0), a)  # nothing overflows
    p, pl = o.twoprod(b, b)
    t, tl = o.twosum(o.c(1.0), p)
    s, sl = _root(o, t, tl + pl)
    d, dl = o.twosum(o.c(1.0), s)
    dl = dl + sl
    g = p / d
    gl = ((o.fma(-g, d, p) + pl) - g * dl) / d
    w, wl = o.fast2sum(b, g)
    v, vl = o.twosum(a, o.c(-1.0))
    res = log1p_sum(o, o.sel(large, v, w), o.sel(large, vl, wl + gl), large)
    return o.copysign(o.sel(a.nlt(math.inf), a, res), x)


def acosh(o: Ops, x: Value) -> Value:
    """log1p(t + sqrt(2t + t^2)), t = x - 1, as asinh."""
    P = o.P
    large = x.gt(2.0 ** (P.digits // 2 + 4))
    t, tl = o.twosum(o.sel(large, o.c(2.0), x), o.c(-1.0))
    p, pl = o.twoprod(t, t)
    h, l = o.twosum(t + t, p)
    s, sl = _root(o, h, l + o.fma(tl + tl, t + 1.0, pl))
    w, wl = o.twosum(t, s)
    v, vl = o.twosum(x, o.c(-1.0))
    res = log1p_sum(o, o.sel(large, v, w), o.sel(large, vl, wl + (sl + tl)), large)
    res = o.sel(x.nlt(math.inf), x, res)
    return o.sel(x.lt(1.0), o.c(math.nan), res)


def atanh(o: Ops, x: Value) -> Value:
    """log1p(2a/(1 - a))/2, a = |x|, the quotient as hi+lo."""
    a = o.abs(x)
    d, dl = o.twosum(o.c(1.0), -a)
    n = a + a
    q = n / d
    ql = o.fma(-q, dl, o.fma(-q, d, n)) / d
    res = log1p_sum(o, q, ql) * 0.5
    res = o.sel(a.lt(2.0 ** -(o.P.digits // 2 + 2)), a, res)
    res = o.sel(a.eq(1.0), o.c(math.inf), res)
    return o.copysign(o.sel(a.gt(1.0), o.c(math.nan), res), x)
