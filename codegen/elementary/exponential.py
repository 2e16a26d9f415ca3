"""exp and its kin: x = k ln2 + r by two steps of fma, a polynomial in r, and a scaling that rounds once."""

from __future__ import annotations

from symgrad.codegen.elementary.builder import Ops, Value
from symgrad.codegen.elementary.constants import LN2, split


def exp_reduce(o: Ops, x: Value) -> tuple[Value, Value, Value]:
    """x = k ln2 + r + rl, |r| <= ln2/2 (Cody & Waite two-term with fma).
    ln2h has >= 9/12 trailing zero bits, so k*ln2h is exact and r0 is exact."""
    P = o.P
    t = o.fma(x, o.c(P.per_ln2), o.c(P.magic))
    kd = t - P.magic
    r0 = o.fma(kd, o.c(-P.ln2h), x)
    r = o.fma(kd, o.c(-P.ln2l), r0)
    rl = o.fma(kd, o.c(-P.ln2l), r0 - r)
    return t, r, rl


def exp_mant(o: Ops, r: Value, rl: Value) -> tuple[Value, Value]:
    """exp(r+rl) - 1 = qh + ql.  Tail poly degree 9 (f64) / 5 (f32)."""
    w = o.fma(r * r, o.poly("exp", r), rl)
    qh = r + w
    ql = (r - qh) + w
    return qh, ql


def two_scales(o: Ops, t: Value) -> tuple[Value, Value]:
    """s1*s2 = 2^k for every k the exp family can produce: k is cut into
    floor(k/2) and the rest by shifts and a mask on the bits of t = k + magic."""
    P = o.P
    b = o.bits(t)
    top = ((1 << o.prec) - 1) ^ P.mask  # sign and exponent field
    h = (b << (P.mantissa - 1)) & top
    return o.flt(h + P.one), o.flt(((b << P.mantissa) - h) + P.one)


def scale2(o: Ops, y: Value, t: Value) -> Value:
    """y * 2^k in two exact-power steps: the second product is the only one that
    rounds (gradual underflow) or overflows.  (y's exponent is not patched with
    an integer add: a NaN with payload bits would turn into a number.)"""
    s1, s2 = two_scales(o, t)
    return (y * s1) * s2


def exp(o: Ops, x: Value) -> Value:
    """k = rint(x/ln2); exp(r) = 1 + r + r^2 P(r); two-step scaling.
    1 + r is split exactly, the rounding of r itself (1/4 ulp) is accepted.
    Dropping the split too (1 + (r + r^2 P)) saves two more operations and still
    measures 0.97 ulp."""
    P = o.P
    x = o.clamp_lo(o.clamp_hi(x, P.exp_high), P.exp_low)
    t = o.fma(x, o.c(P.per_ln2), o.c(P.magic))
    kd = t - P.magic
    r = o.fma(kd, o.c(-P.ln2l), o.fma(kd, o.c(-P.ln2h), x))
    s = r + 1.0
    y = s + o.fma(r * r, o.poly("exp", r), (1.0 - s) + r)
    return scale2(o, y, t)


def exp2(o: Ops, x: Value) -> Value:
    P = o.P
    lim = 1025.0 if o.prec == 64 else 129.0
    x = o.clamp_lo(o.clamp_hi(x, lim), -lim - P.mantissa - 2)
    t = x + P.magic
    f = x - (t - P.magic)  # exact
    l2h, l2l = split(LN2, P.digits, P.digits)
    r = f * l2h
    rl = o.fma(f, o.c(l2l), o.fma(f, o.c(l2h), -r))
    s = r + 1.0
    y = s + (o.fma(r * r, o.poly("exp", r), (1.0 - s) + r) + rl)
    return scale2(o, y, t)


def expm1_parts(o: Ops, x: Value) -> tuple[Value, Value, Value]:
    """Returns s=2^k (k clamped small), s*qh, s*ql with expm1(x) = (s-1)+s*q."""
    t, r, rl = exp_reduce(o, x)
    qh, ql = exp_mant(o, r, rl)
    s = o.pow2(t)
    return s, s * qh, s * ql


def expm1(o: Ops, x: Value) -> Value:
    """(2^k - 1) + 2^k q by Fast2Sum, done at scale 1/2 so 2^1024 never appears."""
    P = o.P
    lo = -45.0 if o.prec == 64 else -24.0
    y = o.clamp_lo(o.clamp_hi(x, P.exp_high), lo)
    t, r, rl = exp_reduce(o, y)
    # q = r + r^2/2 + r^3(...): the first two terms carried exactly (Fast2Sum and
    # a two-term square), since (2^k-1) + 2^k q cancels for k = 1
    r2, r2l = o.twoprod(r, r)
    qh, e = o.fast2sum(r, r2 * 0.5)
    ql = e + o.fma(r2 * r, o.horner(o.coefficients("exp")[1:], r), o.fma(r2l, o.c(0.5), rl))
    s = o.pow2(t - 1.0)  # 2^(k-1)
    c = s - 0.5
    cl = (s - c) - 0.5  # nonzero once k > mant
    p = s * qh
    hi = c + p
    lo_ = (c - hi) + p
    res = (hi + (lo_ + o.fma(s, ql, cl))) * 2.0
    # r tiny: the doubling/halving would lose subnormal bits
    res = o.sel(o.abs(x).lt(2.0 ** -(P.digits + 1)), x, res)
    return o.copysign(res, x)


def _tanh_abs(o: Ops, a: Value) -> Value:
    """tanh(a) for a >= 0 as E/(E+2), E = expm1(2a) = hi+lo; one division, then
    one residual step with the same reciprocal."""
    a2 = o.clamp_hi(a, 21.0 if o.prec == 64 else 10.0) * 2.0
    s, p, pl = expm1_parts(o, a2)
    c = s - 1.0
    d = s + 1.0
    hi = c + p
    lo = ((c - hi) + p) + pl
    dh = d + p
    dl = ((d - dh) + p) + pl
    y = 1.0 / dh
    q = hi * y
    rem = o.fma(-q, dh, hi) + o.fma(-q, dl, lo)
    # 2^k + 1 stops being exact near saturation; there 1 - 2/(e^2a + 1) is direct
    return o.sel(a.gt(18.0 if o.prec == 64 else 8.0), o.fma(y, o.c(-2.0), o.c(1.0)), o.fma(rem, y, q))


def tanh(o: Ops, x: Value) -> Value:
    return o.copysign(_tanh_abs(o, o.abs(x)), x)


def sigmoid(o: Ops, x: Value) -> Value:
    """e = exp(-|x|) = 2^k (1+q); x >= 0: 1/(1+e); x < 0: e/(1+e), with 2^k
    applied last so subnormal results round once.  The argument is clamped at
    -40 on the x > 0 side, where 2^k would otherwise have to be undone."""
    P = o.P
    a = o.clamp_lo(-x, -40.0)  # x > 0: max(-x, -40)
    a = o.sel(x.lt(a), x, a)  # x < 0: x
    a = o.clamp_lo(a, P.exp_low)
    t, r, rl = exp_reduce(o, a)
    qh, ql = exp_mant(o, r, rl)
    mh = qh + 1.0  # mantissa of e
    ml = ((1.0 - mh) + qh) + ql
    s1, s2 = two_scales(o, t)
    s = s1 * s2  # 0 or subnormal is fine in 1+e
    eh, el = mh * s, ml * s
    dh = eh + 1.0
    dl = ((1.0 - dh) + eh) + el
    neg = x.lt(0.0)
    nh = o.sel(neg, mh, o.c(1.0))
    nl = o.sel(neg, ml, o.c(0.0))
    y = 1.0 / dh
    q = nh * y
    rem = o.fma(-q, dh, nh) + o.fma(-q, dl, nl)
    res = o.fma(rem, y, q)
    return o.sel(neg, (res * s1) * s2, res)


def _hyp(o: Ops, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    P = o.P
    a = o.abs(x)
    lim = 710.5 if o.prec == 64 else 89.5
    ac = o.clamp_hi(a, lim)
    t, r, rl = exp_reduce(o, ac)
    qh, ql = exp_mant(o, r, rl)
    s = o.pow2(t - 2.0)  # 2^(k-2)
    si = o.pow2((P.magic + P.magic - 2.0) - t)  # 2^(-k-2)
    si = o.sel(a.gt(40.0), o.c(0.0), si)  # k beyond the exponent range
    return a, s, si, qh, ql


def sinh(o: Ops, x: Value) -> Value:
    """4*(E/4), E=expm1|x|: sinh = (E + E/(1+E))/2 from one reduction."""
    a, s, si, qh, ql = _hyp(o, x)
    c = s - 0.25
    p = s * qh
    hi = c + p
    lo = ((c - hi) + p) + s * ql
    m = qh + 1.0
    # E/(1+E)/4 = (E/4) * 4*si' / m with 2^-k = 4*si
    z = (hi * (si * 4.0)) / m
    res = (hi + (z + lo)) * 2.0
    res = o.sel(a.lt(2.0 ** -(o.P.digits // 2 + 2)), a, res)
    return o.copysign(res, x)


def cosh(o: Ops, x: Value) -> Value:
    _, s, si, qh, ql = _hyp(o, x)
    m = qh + 1.0
    ml = ((1.0 - m) + qh) + ql
    return o.fma(s, m, o.fma(s, ml, si / m)) * 2.0


def exp_hl(o: Ops, h: Value, l: Value | None) -> tuple[Value, Value, Value]:
    """exp(h+l) 2^-k in two parts, and k + magic; h already clamped.  l may be far above ulp(r) (up to
    ulp(h)/2), so r and rl are renormalised before the polynomial."""
    t, r, rl = exp_reduce(o, h)
    if l is not None:
        r, rl = o.fast2sum(r, rl + l)
    s = r + 1.0
    w = o.fma(r * r, o.poly("exp", r), (1.0 - s) + r) + rl
    return *o.fast2sum(s, w), t
