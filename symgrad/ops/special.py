"""Special functions: primitives in families closed under differentiation, and compositions of them.

Three families carry the order of a derivative as the attribute ``n``, so that every derivative is a primitive again
and is computed without cancellation: the derivatives of ``sinc``, the polygamma functions, and the scaled repeated
integrals of ``erfc``. Other functions are primitives only where a composition would lose digits or the derivative at
an awkward point; the rest are plain functions of nodes. NumPy references import scipy when they are called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ir.loops import fn
from symgrad.ir.node import Node
from symgrad.ir.op import Op
from symgrad.ops.kinds import libm, number, pointwise
from symgrad.ops.pointwise import (
    abs_,
    and_,
    cos,
    eq,
    exp,
    ipow,
    le,
    log,
    log1p,
    logaddexp,
    lt,
    maximum,
    ne,
    or_,
    rint,
    select,
    sigmoid,
    sin,
    sqrt,
    tanh,
)  # fmt: skip

PI = math.pi
ROOT_PI = math.sqrt(math.pi)
ROOT_2 = math.sqrt(2.0)
MAX_ORDER = 100
SQRT = fn("sqrt", "sqrt{f}({0})", f="@llvm.sqrt")


def _scipy(name: str) -> Callable[..., Any]:
    """A function of scipy.special that is looked up when it is called."""

    def call(*arrays: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*arrays)

    return call


def _order(what: str, n: int) -> int:
    if not 0 <= n <= MAX_ORDER:
        raise UnsupportedError(f"{what}: the order is {n}, supported are 0 to {MAX_ORDER}")
    return n


def _polynomial(coefficients: list[float], x: Node) -> Node:
    """Horner's rule; two or more coefficients from the constant term upwards."""
    *rest, second, first = coefficients
    out = x * first + second
    for c in reversed(rest):
        out = x * out + c
    return out


def _differentiated(form: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The sympy form of derivative n of a function that is 0-th in its family."""

    def build(sp: Any, x: Any, *, n: int) -> Any:
        t = sp.Dummy("t", real=True)
        return sp.diff(form(sp, t), t, n).subs(t, x)

    return build


# --- sinc ------------------------------------------------------------------------------------------------------------
# s_n(z) = derivative n of sin(z)/z; z s_n = sin(z + n pi/2) - n s_{n-1}, which loses n!/z^n digits near 0, where the
# Taylor series takes over.


def _sinc_series(n: int, reach: float) -> list[float]:
    """Coefficients of s_n(z) / z**(n % 2) as a polynomial in z*z that is exact to rounding for ``|z| <= reach``."""
    out: list[float] = []
    k = (n + 1) // 2
    while True:
        c = (-1) ** k * math.exp(-math.lgamma(2 * k - n + 1)) / (2 * k + 1)
        out.append(c)
        if abs(c) * reach ** (2 * k - n) < 1e-18 / (n + 1) and 2 * k - n > reach:
            return out
        k += 1


def _quarter_turns(n: int, z: Any, sine: Callable[[Any], Any], cosine: Callable[[Any], Any]) -> Any:
    """sin(z + n pi/2)."""
    return (sine(z), cosine(z), -sine(z), -cosine(z))[n % 4]


def _sinc_expansion(z: Node, *, n: int) -> Node:
    reach = 1.0 + n / 2
    away = sin(z) / z
    for k in range(1, n + 1):
        away = (_quarter_turns(k, z, sin, cos) - away * float(k)) / z
    if n == 0:
        return select(eq(z, 0.0), 1.0, away)
    near = _polynomial(_sinc_series(n, reach), z * z)
    return select(lt(abs_(z), reach), near * z if n % 2 else near, away)


def _sinc_numpy(z: Any, *, n: int) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(48)
    t = (nodes + 1) / 2  # sin(z)/z is the mean of cos(z t) over 0 <= t <= 1
    wide = np.asarray(z, np.float64)
    near = (weights / 2 * t**n * np.cos(wide[..., None] * t + n * PI / 2)).sum(-1)
    safe = np.where(np.abs(wide) < 15, 15.0, wide)
    away = np.sin(safe) / safe
    for k in range(1, n + 1):
        away = (_quarter_turns(k, safe, np.sin, np.cos) - k * away) / safe
    return np.where(np.abs(wide) < 15, near, away).astype(z.dtype)


sinc_n: Op = pointwise(
    "sinc_n", doc="Derivative n of sin(z)/z.", numpy=_sinc_numpy, lower=_sinc_expansion, expand=True, cost=40,
    sympy=_differentiated(lambda sp, t: sp.sinc(t)), partials=lambda y, z, *, n: (sinc_n(z, n=n + 1),),
    examples=lambda: [(((3,),), {"n": n}) for n in (0, 1, 2, 3)],
)  # fmt: skip


def sinc(x: Node) -> Node:
    """sin(pi x)/(pi x), 1 at 0."""
    return sinc_n(x * PI, n=0)


sqrt_of_squares: Op = pointwise(
    "sqrt_of_squares", doc="The square root of what is a sum of squares: derivative 0 at 0.", numpy=np.sqrt, lower=SQRT,
    sympy="sqrt", partials=lambda y, x: (select(eq(y, 0.0), 0.0, 0.5 / y),), masks=lambda y, x: (ne(y, 0.0),), cost=4,
    sample=((0.2, 3.0),),
)  # fmt: skip


def _half_power_expansion(x: Node, *, n: int) -> Node:
    whole = ipow(x, n=(abs(n) - 1) // 2)
    out = sqrt(x) if abs(n) == 1 else whole * sqrt(x)
    return out if n > 0 else 1.0 / out


half_power: Op = pointwise(
    "half_power", doc="x**(n/2) for odd n; x*sqrt(x) has derivative 0 at 0.", lower=_half_power_expansion,
    expand=True, cost=8,
    numpy=lambda x, *, n: np.power(x, np.asarray(n / 2, x.dtype)), sympy=lambda sp, x, *, n: x ** sp.Rational(n, 2),
    partials=lambda y, x, *, n: (half_power(x, n=n - 2) * (n / 2),), sample=((0.2, 3.0),),
    examples=lambda: [(((3,),), {"n": n}) for n in (-1, 1, 3, 5)],
)  # fmt: skip

# --- the error function and its relatives ----------------------------------------------------------------------------

erf: Op = pointwise(
    "erf", doc="The error function.", numpy=_scipy("erf"), lower=libm("erf"), sympy="erf", cost=25,
    partials=lambda y, x: (exp(-(x * x)) * (2.0 / ROOT_PI),),
)  # fmt: skip
erfc: Op = pointwise(
    "erfc", doc="1 - erf(x), accurate for large x.", numpy=_scipy("erfc"), lower=libm("erfc"), sympy="erfc", cost=30,
    partials=lambda y, x: (exp(-(x * x)) * (-2.0 / ROOT_PI),),
)  # fmt: skip

# e_n(x) = exp(x*x) times the n-fold integral of erfc from x to infinity: e_n' = -2 (n+1) e_{n+1} and
# 2 n e_n = e_{n-2} - 2 x e_{n-1} with e_{-1} = 2/sqrt(pi). The recurrence is stable downwards (a continued fraction)
# for x > 0, upwards for x < 0 and, over a few steps, for small x.


def _erfcx_expansion(x: Node, *, n: int) -> Node:
    switch, depth = (3.0, 20) if n == 0 else (2.0, 32)
    before: Any = 2.0 / ROOT_PI
    near = exp(x * x) * erfc(x)
    for k in range(1, n + 1):
        before, near = near, (before - x * 2.0 * near) / (2.0 * k)
    ratio = 1.0 / (x + sqrt(x * x + 2.0 * (n + depth + 1)))
    away: Node = number(2.0 / ROOT_PI, x.dtype)
    for k in range(n + depth, 0, -1):
        ratio = 1.0 / (x * 2.0 + ratio * (2.0 * k))
        if k <= n + 1:
            away = away * ratio
    return select(lt(x, switch), near, away)


def _erfcx_numpy(x: Any, *, n: int) -> Any:
    import scipy.special

    z = np.asarray(x, np.float64)
    before, near = np.full_like(z, 2 / ROOT_PI), scipy.special.erfcx(z)
    for k in range(1, n + 1):
        before, near = near, (before - 2 * z * near) / (2 * k)
    large = np.maximum(z, 1.5)
    scale = 2.0**-n / ROOT_PI
    away = scipy.special.hyperu((n + 1) / 2, 0.5, large * large) * scale if n else near
    return np.where(z < 1.5, near, away).astype(x.dtype)


def _erfcx_sympy(sp: Any, x: Any, *, n: int) -> Any:
    derivative = _differentiated(lambda sp, t: sp.exp(t * t) * sp.erfc(t))(sp, x, n=n)
    return derivative / ((-2) ** n * sp.factorial(n))


erfcx_n: Op = pointwise(
    "erfcx_n", doc="exp(x*x) times the n-fold integral of erfc from x to infinity.", numpy=_erfcx_numpy,
    lower=_erfcx_expansion,
    expand=True, cost=150, partials=lambda y, x, *, n: (erfcx_n(x, n=n + 1) * (-2.0 * (n + 1)),),
    sympy=_erfcx_sympy,
    examples=lambda: [(((3,),), {"n": n}) for n in (0, 1, 2)],
)  # fmt: skip


def erfcx(x: Node) -> Node:
    """exp(x*x) * erfc(x), without underflow."""
    return erfcx_n(x, n=0)


def ndtr(x: Node) -> Node:
    """The normal distribution function."""
    return erfc(x * (-1.0 / ROOT_2)) * 0.5


def _log_ndtr_expansion(x: Node) -> Node:
    left = log(erfcx(x * (-1.0 / ROOT_2)) * 0.5) - x * x * 0.5
    right = log1p(erfc(x * (1.0 / ROOT_2)) * -0.5)
    return select(lt(x, 0.0), left, right)


log_ndtr: Op = pointwise(
    "log_ndtr", doc="The logarithm of the normal distribution function, accurate in both tails.",
    numpy=_scipy("log_ndtr"),
    lower=_log_ndtr_expansion, expand=True, cost=200, sympy=lambda sp, x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2),
    partials=lambda y, x: (math.sqrt(2.0 / PI) / erfcx(x * (-1.0 / ROOT_2)),),
)  # fmt: skip


def _inverse_erf(x: Node, rest: Node) -> Node:
    """y >= 0 with erf(y) = x and erfc(y) = rest: S. Winitzki's approximation (2008), then Halley's method."""
    a = 0.147
    logarithm = log(rest * (1.0 + x))
    b = logarithm * 0.5 + 2.0 / (PI * a)
    root = sqrt(b * b - logarithm * (1.0 / a))
    y = sqrt(select(lt(0.0, b), -logarithm * (1.0 / a) / (root + maximum(b, 0.0)), root - b))
    for _ in range(3):
        miss = select(lt(x, 0.5), erf(y) - x, rest - erfc(y))
        step = miss * exp(y * y) * (ROOT_PI / 2)
        y = y - step / (1.0 + y * step)
    return select(eq(rest, 0.0), math.inf, y)


def _erfinv_expansion(x: Node) -> Node:
    size = abs_(x)
    y = _inverse_erf(size, 1.0 - size)
    return select(lt(x, 0.0), -y, y)


def _erfcinv_expansion(x: Node) -> Node:
    lower = lt(1.0, x)
    rest = select(lower, 2.0 - x, x)
    y = _inverse_erf(1.0 - rest, rest)
    return select(lower, -y, y)


erfinv: Op = pointwise(
    "erfinv", doc="The inverse of erf.", numpy=_scipy("erfinv"), lower=_erfinv_expansion, expand=True, sympy="erfinv",
    cost=300,
    partials=lambda y, x: (exp(y * y) * (ROOT_PI / 2),), sample=((-0.9, 0.9),),
)  # fmt: skip
erfcinv: Op = pointwise(
    "erfcinv", doc="The inverse of erfc.", numpy=_scipy("erfcinv"), lower=_erfcinv_expansion, expand=True,
    sympy="erfcinv", cost=300,
    partials=lambda y, x: (exp(y * y) * (-ROOT_PI / 2),), sample=((0.1, 1.9),),
)  # fmt: skip


def ndtri(p: Node) -> Node:
    """The inverse of the normal distribution function."""
    return erfcinv(p * 2.0) * -ROOT_2


# --- the gamma function ----------------------------------------------------------------------------------------------


def _bernoulli(count: int) -> list[Fraction]:
    """B_2, B_4, ... ."""
    b = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        b.append(-sum((math.comb(m + 1, k) * b[k] for k in range(m)), Fraction(0)) / (m + 1))
    return b[2::2]


def _cotangent_derivative(n: int) -> list[float]:
    """Coefficients of the polynomial in cot(t) that is derivative n of cot(t)."""
    p = [0, 1]
    for _ in range(n):
        d = [k * c for k, c in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*d, 0, 0], [0, 0, *d], strict=True)]
    return [float(c) for c in p]


def _polygamma_expansion(x: Node, *, n: int) -> Node:
    """A fixed shift to the right, Stirling's series there; reflection for x < 0."""
    _order("polygamma", n)
    shift, count = 10 + n, 9
    negative = lt(x, 0.0)
    start = select(negative, 1.0 - x, x)
    small: Any = 0.0
    for k in range(shift - 1, -1, -1):
        term = 1.0 / (start + float(k) if k else start)  # -0.0 keeps its sign
        small = _power(term, n + 1) + small
    y = start + float(shift)
    inverse = 1.0 / y
    tail = [
        float(b * math.factorial(2 * k + n - 1) / (math.factorial(2 * k) * math.factorial(n)))
        for k, b in enumerate(_bernoulli(count), 1)
    ]
    series = inverse * (0.5 + inverse * _polynomial(tail, inverse * inverse))
    if n == 0:
        value = log(y) - (series + small)
    else:
        value = (_power(inverse, n) * (1.0 / n + series) + small) * float((-1) ** (n + 1) * math.factorial(n))
    return select(negative, _reflected(x, value, n), value)


def _reflected(x: Node, at_mirror: Node, n: int) -> Node:
    """psi_n(x) from psi_n(1 - x); nan at the poles where the two sides differ."""
    turn = (x - rint(x)) * PI
    cotangent = cos(turn) / sin(turn)
    change = _polynomial(_cotangent_derivative(n), cotangent) * PI ** (n + 1)
    value = (-at_mirror if n % 2 else at_mirror) - change
    return value if n % 2 else select(eq(turn, 0.0), math.nan, value)


def _power(x: Node, n: int) -> Node:
    out = x
    for _ in range(n - 1):
        out = out * x
    return out


def _polygamma_numpy(x: Any, *, n: int) -> Any:
    import scipy.special

    return scipy.special.digamma(x) if n == 0 else scipy.special.polygamma(n, x).astype(x.dtype)


polygamma_n: Op = pointwise(
    "polygamma_n", doc="Derivative n+1 of the logarithm of the gamma function.", numpy=_polygamma_numpy,
    lower=_polygamma_expansion,
    expand=True, cost=160, partials=lambda y, x, *, n: (polygamma_n(x, n=n + 1),),
    sympy=lambda sp, x, *, n: sp.polygamma(n, x),
    sample=((0.3, 4.0),), examples=lambda: [(((3,),), {"n": n}) for n in (0, 1, 2)],
)  # fmt: skip


def digamma(x: Node) -> Node:
    """The derivative of gammaln."""
    return polygamma_n(x, n=0)


def polygamma(x: Node, *, n: int) -> Node:
    """Derivative n of digamma."""
    return polygamma_n(x, n=_order("polygamma", n))


gammaln: Op = pointwise(
    "gammaln", doc="The logarithm of the absolute value of the gamma function.", numpy=_scipy("gammaln"),
    lower=libm("lgamma"),
    sympy="loggamma", partials=lambda y, x: (digamma(x),), sample=((0.3, 4.0),), cost=60,
)  # fmt: skip
gamma: Op = pointwise(
    "gamma", doc="The gamma function.", numpy=_scipy("gamma"), lower=libm("tgamma"), sympy="gamma",
    partials=lambda y, x: (y * digamma(x),), sample=((0.3, 4.0),), cost=60,
)  # fmt: skip


def betaln(a: Node, b: Node) -> Node:
    """The logarithm of the absolute value of the beta function."""
    return gammaln(a) + gammaln(b) - gammaln(a + b)


# --- products with logarithms ----------------------------------------------------------------------------------------
# At x = 0 the derivative in y is x/y like everywhere, so that mixed derivatives agree; only where both x and the
# argument of the logarithm are 0 is the argument not taken at all.


def _times_log(
    name: str, doc: str, logarithm: Op, inside: Callable[[Node], Node], scipy: str, sympy: Any, sample: Any
) -> Op:
    def taken(x: Node, y: Node) -> Node:
        return or_(ne(x, 0.0), ne(inside(y), 0.0))

    def expansion(x: Node, y: Node) -> Node:
        return select(and_(eq(x, 0.0), eq(y, y)), 0.0, x * logarithm(y))

    def partials(z: Node, x: Node, y: Node) -> tuple[Node, Node]:
        return logarithm(y), select(taken(x, y), x / inside(y), 0.0)

    return pointwise(
        name, doc=doc, numpy=_scipy(scipy), lower=expansion, expand=True, sympy=sympy, partials=partials, cost=22,
        masks=lambda z, x, y: (None, taken(x, y)), sample=((-2.0, 2.0), sample),
    )  # fmt: skip


xlogy: Op = _times_log(
    "xlogy", "x*log(y), 0 where x is 0.", log, lambda y: y, "xlogy", lambda sp, x, y: x * sp.log(y), (0.3, 3.0)
)
x_log_x: Op = pointwise(
    "x_log_x", doc="x*log(x) with its value as computed, nan at 0, and its derivative as it is, -inf there.",
    numpy=lambda x: x * np.log(x), lower=lambda x: x * log(x), expand=True, sympy=lambda sp, x: x * sp.log(x),
    partials=lambda y, x: (log(x) + 1.0,), cost=22, sample=((0.3, 3.0),),
)  # fmt: skip
xlog1py: Op = _times_log(
    "xlog1py",
    "x*log(1 + y), 0 where x is 0.",
    log1p,
    lambda y: 1.0 + y,
    "xlog1py",
    lambda sp, x, y: x * sp.log(1 + y),
    (-0.7, 3.0),
)


def entr(x: Node) -> Node:
    """-x*log(x), 0 at 0, -inf for negative x."""
    return select(lt(x, 0.0), -math.inf, -xlogy(x, x))


def _rel_entr_expansion(x: Node, y: Node) -> Node:
    ratio = x / y
    close = and_(lt(0.5, ratio), lt(ratio, 2.0))
    value = x * select(close, log1p((x - y) / y), log(ratio))
    value = select(and_(eq(x, 0.0), le(0.0, y)), 0.0, value)
    return select(or_(or_(lt(x, 0.0), lt(y, 0.0)), and_(lt(0.0, x), eq(y, 0.0))), math.inf, value)


def _rel_entr_partials(z: Node, x: Node, y: Node) -> tuple[Node, Node]:
    flat = or_(or_(lt(x, 0.0), lt(y, 0.0)), and_(eq(x, 0.0), eq(y, 0.0)))
    return select(flat, 0.0, log(x / y) + 1.0), select(flat, 0.0, -(x / y))


rel_entr: Op = pointwise(
    "rel_entr", doc="x*log(x/y), 0 where x is 0, inf outside x, y >= 0.", numpy=_scipy("rel_entr"),
    lower=_rel_entr_expansion,
    expand=True, sympy=lambda sp, x, y: x * sp.log(x / y), partials=_rel_entr_partials,
    sample=((0.3, 3.0), (0.3, 3.0)), cost=50,
)  # fmt: skip


def kl_div(x: Node, y: Node) -> Node:
    """x*log(x/y) - x + y, inf outside x, y >= 0."""
    return rel_entr(x, y) + (y - x)


# --- logistic functions ----------------------------------------------------------------------------------------------

expit: Op = sigmoid


def softplus(x: Node) -> Node:
    """log(1 + exp(x)), without overflow."""
    return logaddexp(x, 0.0)


def _log_cosh_expansion(x: Node) -> Node:
    size = abs_(x)
    return size + (log1p(exp(size * -2.0)) - math.log(2.0))


log_cosh: Op = pointwise(
    "log_cosh", doc="log(cosh(x)), without overflow.", lower=_log_cosh_expansion, expand=True, cost=45,
    numpy=lambda x: np.logaddexp(x, -x) - np.asarray(np.log(2.0), x.dtype), sympy=lambda sp, x: sp.log(sp.cosh(x)),
    partials=lambda y, x: (tanh(x),),
)  # fmt: skip


def log_expit(x: Node) -> Node:
    """log(sigmoid(x)), without underflow."""
    return -logaddexp(-x, 0.0)


def _logit_expansion(p: Node) -> Node:
    s = p * 2.0 - 1.0
    return select(lt(abs_(s), 0.5), log1p(s) - log1p(-s), log(p / (1.0 - p)))


logit: Op = pointwise(
    "logit", doc="The inverse of the sigmoid.", numpy=_scipy("logit"), lower=_logit_expansion, expand=True, cost=60,
    sympy=lambda sp, p: sp.log(p / (1 - p)), partials=lambda y, p: (1.0 / (p * (1.0 - p)),), sample=((0.1, 0.9),),
)  # fmt: skip
