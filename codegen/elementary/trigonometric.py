"""sin, cos, tan: Cody and Waite with fma as far as ``turn_limit``; beyond it a rare call."""

from __future__ import annotations

from symgrad.codegen.elementary.builder import Body, Ops, Value


def trig_reduce(o: Ops, x: Value) -> tuple[Value, Value, Value]:
    """x = k pi/2 + rh + rl for |x| <= turn_limit.
    With fma, r1 = x - k*P1 is EXACT for full-width P1: it is a multiple of
    ulp(P1) and below 1.  p = k*P2 is a two-term product, k*P3 closes the tail;
    Fast2Sum(r1, -p) is exact since r1 is a multiple of ulp(p)."""
    P = o.P
    P1, P2, P3 = P.half_pi
    t = o.fma(x, o.c(P.per_half_pi), o.c(P.magic))
    k = t - P.magic
    r1 = o.fma(k, o.c(-P1), x)
    p = k * P2
    pe = o.fma(k, o.c(P2), -p)
    rh = r1 - p
    rl = ((r1 - rh) - p) - o.fma(k, o.c(P3), pe)
    return o.bits(t), rh, rl


def sincos_kernel(o: Ops, rh: Value, rl: Value) -> tuple[Value, Value, Value, Value]:
    """sin and cos of rh + rl, each as an unevaluated sum."""
    z = rh * rh
    w = o.fma(z, o.c(-0.5), o.c(1.0))
    sl = o.fma(rh * z, o.poly("sin", z), rl * w)
    wl = o.fma(z, o.c(-0.5), 1.0 - w)
    cl = wl + o.fma(z * z, o.poly("cos", z), -(rh * rl))
    return rh, sl, w, cl


def trig_finish(o: Ops, what: str, q: Value, rh: Value, rl: Value) -> Value:
    """sin, cos or tan from the quadrant and the reduced argument."""
    odd = (q & 1).ne(0)
    s1, s2, c1, c2 = sincos_kernel(o, rh, rl)
    if what == "tan":
        sh, sl = o.fast2sum(s1, s2)
        ch, cl = o.fast2sum(c1, c2)
        nh, nl = o.sel(odd, ch, sh), o.sel(odd, cl, sl)
        dh, dl = o.sel(odd, sh, ch), o.sel(odd, sl, cl)
        y = 1.0 / dh
        v = nh * y
        v = o.fma(o.fma(-v, dh, nh) + o.fma(-v, dl, nl), y, v)
        return o.flt(o.bits(v) ^ ((q << (o.prec - 1)) & o.P.sign))
    sn, cs = s1 + s2, c1 + c2
    if what == "sin":
        v = o.sel(odd, cs, sn)
    else:
        v = o.sel(odd, sn, cs)
        q = q + 1
    return o.flt(o.bits(v) ^ ((q << (o.prec - 2)) & o.P.sign))


def _trig(o: Ops, x: Value, what: str) -> Value:
    """The fast way everywhere; a rare call replaces what is beyond turn_limit."""
    q, rh, rl = trig_reduce(o, x)
    v = trig_finish(o, what, q, rh, rl)
    if what != "cos":
        v = o.sel(x.eq(0.0), x, v)  # keeps -0
    return o.rare(what, x, v)


def sin(o: Ops, x: Value) -> Value:
    return _trig(o, x, "sin")


def cos(o: Ops, x: Value) -> Value:
    return _trig(o, x, "cos")


def tan(o: Ops, x: Value) -> Value:
    """sin/cos (odd quadrant: -cos/sin) of the reduced argument, each as hi+lo,
    with one residual step after the division."""
    return _trig(o, x, "tan")


def definition_of_turned(name: str) -> Body:
    """sin, cos or tan from a quadrant (argument 0) and a reduced f64 argument in two parts (arguments 1 and 2)."""
    o = Ops(64)
    q, high, low = o.argument(0, "int"), o.argument(1), o.argument(2)
    return o.body(trig_finish(o, name, q, high, low))
