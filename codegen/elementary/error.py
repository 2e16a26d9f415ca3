"""erf and erfc."""

from __future__ import annotations

from symgrad.codegen.elementary.builder import Ops, Value
from symgrad.codegen.elementary.exponential import exp_hl, scale2


def erf(o: Ops, x: Value) -> Value:
    """|x| < 1: x + x P(x^2);  above: 1 - exp(-G(|x|-c)), G = -log erfc.
    The tail only has to be accurate relative to 1, so its error is weighted by
    erfc in the fit and shrinks at run time by the same factor (0.157 at 1)."""
    a = o.abs(x)
    z = x * x
    small = o.fma(x, o.poly("erf", z), x)
    c, hi = (1.5, 6.0) if o.prec == 64 else (1.5, 4.0)
    ac = o.clamp_lo(o.clamp_hi(a, hi), 1.0)
    g = o.poly("erft", ac - c)
    y, yl, t = exp_hl(o, -g, None)
    y = y + yl
    big = o.copysign(1.0 - y * o.pow2(t), x)
    return o.sel(a.lt(1.0), small, big)


def erfc(o: Ops, x: Value) -> Value:
    """|x| < 1/2: 1 - erf(x) (compensated);  else exp(-x^2) Q(t)/(1+2|x|) with
    t = (|x|-4)/(|x|+4) (Shepherd & Laframboise 1981), x^2 as hi+lo; x < 0: 2 - .
    One division serves both 1/(|x|+4) and 1/(1+2|x|); Q, the quotient and the
    exponential are all carried as hi+lo so only the last product rounds."""
    a = o.abs(x)
    e = x * o.poly("erf", x * x)  # erf = x + e
    s, sl = o.fast2sum(o.c(1.0), -x)
    small = s + (sl - e)
    hi = 27.5 if o.prec == 64 else 10.5
    ac = o.clamp_lo(o.clamp_hi(a, hi), 0.45)
    u = ac + 4.0
    v = o.fma(ac, o.c(2.0), o.c(1.0))
    vl = o.fma(ac, o.c(2.0), 1.0 - v)  # v + vl = 1 + 2a exactly
    y = 1.0 / (u * v)
    ru = y * v  # ~1/u
    rv = y * u  # ~1/v
    n = ac - 4.0
    t = n * ru
    t = o.fma(o.fma(-t, u, n), ru, t)
    cs = o.coefficients("erfcx")
    Qh, Ql = o.fast2sum(o.c(cs[0]), t * o.horner(cs[1:], t))
    Ql = Ql + o.coefficients("erfcx_lo")[0]
    w = Qh * rv
    wl = (o.fma(-w, v, Qh) + o.fma(-w, vl, Ql)) * rv
    zh, zl = o.twoprod(ac, ac)
    eh, el, t2 = exp_hl(o, -zh, -zl)
    p = o.fma(eh, w, o.fma(el, w, eh * wl))
    m = scale2(o, p, t2)
    m = o.sel(x.lt(0.0), 2.0 - m, m)
    return o.sel(a.lt(0.5), small, m)
