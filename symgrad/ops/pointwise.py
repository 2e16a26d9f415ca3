"""Arithmetic, elementary functions, comparisons, choices and casts: one declaration each.

Partials follow the table of awkward points in docs/conventions.md. They are checked against sympy, against high
precision and in both modes by the registry tests.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import DTypeError
from symgrad.ir.loops import (
    ADD,
    AND,
    DIV,
    EQ,
    LE,
    LT,
    MUL,
    NE,
    NOT,
    OR,
    SUB,
    Apply,
    Choose,
    Const,
    Convert,
    Expr,
    ScalarFn,
    fn,
)
from symgrad.ir.node import ARITHMETIC, Node, splat
from symgrad.ir.op import Op, Scalar, register
from symgrad.ir.types import DType, TensorType, boolean, f64
from symgrad.ops.kinds import ANY, BOOLS, FLOATS, INTEGERS, NUMBERS, libm, number, pointwise, spread

FMOD = fn("fmod", "fmod{f}({0}, {1})", f="libm fmod", i="srem", u="urem")
MAXIMUM = fn("maximum", "sg_max{f}({0}, {1})", f="@llvm.maximum", i="@llvm.smax", u="@llvm.umax", b="or")
MINIMUM = fn("minimum", "sg_min{f}({0}, {1})", f="@llvm.minimum", i="@llvm.smin", u="@llvm.umin", b="and")
FABS = fn("fabs", "fabs{f}({0})", f="@llvm.fabs")
COPYSIGN = fn("copysign", "copysign{f}({0}, {1})", f="@llvm.copysign")
LN2, LN10 = math.log(2.0), math.log(10.0)

# --- arithmetic ------------------------------------------------------------------------------------------------------

add: Op = pointwise(
    "add",
    doc="x + y.",
    numpy=np.add,
    lower=ADD,
    kinds=ANY,
    sympy=lambda sp, x, y: x + y,
    partials=lambda z, x, y: (1.0, 1.0),
)
sub: Op = pointwise(
    "sub", doc="x - y.", numpy=np.subtract, lower=SUB, kinds=NUMBERS, sympy=lambda sp, x, y: x - y,
    partials=lambda z, x, y: (1.0, -1.0),
)  # fmt: skip
mul: Op = pointwise(
    "mul", doc="x * y.", numpy=np.multiply, lower=MUL, kinds=ANY, sympy=lambda sp, x, y: x * y,
    partials=lambda z, x, y: (y, x),
)  # fmt: skip
div: Op = pointwise(
    "div", doc="x / y, IEEE division.", numpy=np.divide, lower=DIV, sympy=lambda sp, x, y: x / y, cost=4,
    partials=lambda z, x, y: (1.0 / y, -(z * (1.0 / y))), sample=((-2.0, 2.0), (0.5, 2.0)),
)  # fmt: skip
neg: Op = pointwise(
    "neg", doc="-x.", numpy=np.negative, kinds=NUMBERS, sympy=lambda sp, x: -x, partials=lambda z, x: (-1.0,),
    lower=fn("neg", "(-{0})", f="fneg", i="neg", u="neg"),
)  # fmt: skip
ARITHMETIC.update(add=add, sub=sub, mul=mul, div=div, neg=neg)


def _int_division(x: Expr, y: Expr) -> Expr:
    """Floor division of integers; 0 for a zero divisor, as NumPy gives."""
    zero, one = Const(0, x.dtype), Const(1, x.dtype)
    safe = Choose(Apply(EQ, (y, zero)), one, y)
    q: Expr = Apply(DIV, (x, safe))
    if x.dtype.kind == "i":
        r = Apply(SUB, (x, Apply(MUL, (q, safe))))
        crossed = Apply(NE, (Apply(LT, (r, zero)), Apply(LT, (safe, zero))))
        q = Choose(Apply(AND, (Apply(NE, (r, zero)), crossed)), Apply(SUB, (q, one)), q)
    return Choose(Apply(EQ, (y, zero)), zero, q)


def _mod_build(x: Expr, y: Expr) -> Expr:
    zero = Const(0, x.dtype)
    if not x.dtype.is_float:
        return Choose(Apply(EQ, (y, zero)), zero, Apply(SUB, (x, Apply(MUL, (_int_division(x, y), y)))))
    r = Apply(FMOD, (x, y))
    crossed = Apply(NE, (Apply(LT, (r, zero)), Apply(LT, (y, zero))))
    wrapped = Choose(Apply(AND, (Apply(NE, (r, zero)), crossed)), Apply(ADD, (r, y)), r)
    return Choose(Apply(EQ, (r, zero)), Apply(COPYSIGN, (zero, y)), wrapped)


mod: Op = pointwise(
    "mod", doc="x - floor(x/y)*y, with the sign of y.", numpy=np.mod, lower=_mod_build, kinds=NUMBERS, cost=20,
    sympy=lambda sp, x, y: x - y * sp.floor(x / y), partials=lambda z, x, y: (1.0, -floor(x / y)),
    sample=((-5.0, 5.0), (0.7, 1.9)),
)  # fmt: skip
fmod: Op = pointwise(
    "fmod", doc="The remainder with the sign of x.", numpy=np.fmod, lower=FMOD, kinds="f", cost=20,
    sympy=lambda sp, x, y: x - y * sp.sign(x / y) * sp.floor(sp.Abs(x / y)),
    partials=lambda z, x, y: (1.0, -trunc(x / y)),
    sample=((-5.0, 5.0), (0.7, 1.9)),
)  # fmt: skip
int_div: Op = pointwise(
    "int_div", doc="Floor division of integers.", numpy=np.floor_divide, lower=_int_division, kinds=INTEGERS,
    constant=True, cost=8,
    sympy=lambda sp, x, y: sp.floor(x / y),
)  # fmt: skip


def power_by_squaring(x: Any, n: int, multiply: Any) -> Any:
    """x**n for n >= 1 by repeated squaring."""
    out = None
    while n:
        if n & 1:
            out = x if out is None else multiply(out, x)
        n >>= 1
        if n:
            x = multiply(x, x)
    return out


def _ipow_build(x: Expr, *, n: int) -> Expr:
    if n == 0:
        return Const(1, x.dtype)
    p: Expr = power_by_squaring(x, abs(n), lambda a, b: Apply(MUL, (a, b)))
    return p if n > 0 else Apply(DIV, (Const(1.0, x.dtype), p))


ipow: Op = pointwise(
    "ipow", doc="x**n for a fixed integer n, by repeated squaring.", lower=_ipow_build, cost=3,
    accept=lambda *, n: FLOATS if n < 0 else NUMBERS,
    numpy=lambda x, *, n: np.power(x, np.asarray(n, x.dtype)), sympy=lambda sp, x, *, n: x**n,
    partials=lambda y, x, *, n: (0.0 if n == 0 else 1.0 if n == 1 else ipow(x, n=n - 1) * float(n),),
    sample=((0.5, 2.0),), examples=lambda: [(((3,),), {"n": n}) for n in (0, 1, 2, 3, 7, -1, -2)],
)  # fmt: skip


def _pow_partials(z: Node, x: Node, y: Node) -> tuple[Node, Node | None]:
    zero_power = eq(y, 0.0)
    dx = select(zero_power, 0.0, y * pow_(x, y - 1.0))
    if splat(y) is not None:
        return dx, None
    flat = and_(eq(x, 0.0), le(0.0, y))
    return dx, select(flat, 0.0, z * log(x))


pow_: Op = pointwise(
    "pow", doc="x**y for real y.", numpy=np.power, lower=libm("pow"), sympy=lambda sp, x, y: x**y, cost=40,
    partials=_pow_partials, sample=((0.3, 2.0), (-2.0, 2.0)),
)  # fmt: skip


def _abs_build(x: Expr) -> Expr:
    zero = Const(0, x.dtype)
    return Apply(FABS, (x,)) if x.dtype.is_float else Choose(Apply(LT, (x, zero)), Apply(SUB, (zero, x)), x)


abs_: Op = pointwise(
    "abs", doc="The absolute value; derivative 0 at 0.", numpy=np.abs, kinds=NUMBERS, sympy="Abs",
    lower=_abs_build, partials=lambda y, x: (sign(x),),
)  # fmt: skip


def _sign_build(x: Expr) -> Expr:
    zero, one = Const(0, x.dtype), Const(1, x.dtype)
    minus = Apply(SUB, (zero, one))
    flat = Choose(Apply(EQ, (x, zero)), zero, x)  # keeps nan
    return Choose(Apply(LT, (zero, x)), one, Choose(Apply(LT, (x, zero)), minus, flat))


def _rounding(name: str, doc: str, numpy: Any, intrinsic: str, c: str, sympy: Any) -> Op:
    function = fn(name, c + "{f}({0})", f=intrinsic)
    return pointwise(name, doc=doc, numpy=numpy, lower=function, constant=True, sympy=sympy, sample=((-3.4, 3.4),))


sign: Op = pointwise(
    "sign", doc="-1, 0 or 1.", numpy=np.sign, lower=_sign_build, kinds=NUMBERS, constant=True, sympy="sign"
)
floor: Op = _rounding("floor", "Round down.", np.floor, "@llvm.floor", "floor", "floor")
ceil: Op = _rounding("ceil", "Round up.", np.ceil, "@llvm.ceil", "ceil", "ceiling")
trunc: Op = _rounding(
    "trunc", "Round towards zero.", np.trunc, "@llvm.trunc", "trunc", lambda sp, x: sp.sign(x) * sp.floor(sp.Abs(x))
)
rint: Op = _rounding("rint", "Round to the nearest, ties to even.", np.rint, "@llvm.roundeven", "rint", None)

# --- comparisons and logic -------------------------------------------------------------------------------------------

lt: Op = pointwise("lt", doc="x < y.", numpy=np.less, lower=LT, kinds=ANY, predicate=True, sympy=lambda sp, x, y: x < y)
le: Op = pointwise(
    "le", doc="x <= y.", numpy=np.less_equal, lower=LE, kinds=ANY, predicate=True, sympy=lambda sp, x, y: x <= y
)
eq: Op = pointwise(
    "eq", doc="x == y.", numpy=np.equal, lower=EQ, kinds=ANY, predicate=True, sympy=lambda sp, x, y: sp.Eq(x, y)
)
ne: Op = pointwise(
    "ne", doc="x != y.", numpy=np.not_equal, lower=NE, kinds=ANY, predicate=True, sympy=lambda sp, x, y: sp.Ne(x, y)
)
and_: Op = pointwise(
    "and", doc="Logical or bitwise and.", numpy=np.bitwise_and, lower=AND, kinds="iub", constant=True, sympy="And"
)
or_: Op = pointwise(
    "or", doc="Logical or bitwise or.", numpy=np.bitwise_or, lower=OR, kinds="iub", constant=True, sympy="Or"
)
not_: Op = pointwise(
    "not", doc="Logical not.", numpy=np.logical_not, lower=NOT, kinds=BOOLS, constant=True, sympy="Not"
)


# --- choices ---------------------------------------------------------------------------------------------------------


def _select_prepare(p: Node, a: Any, b: Any) -> tuple[Node, ...]:
    like = a if isinstance(a, Node) else b if isinstance(b, Node) else number(a, f64)
    return spread(p, *(x if isinstance(x, Node) else number(x, like.dtype) for x in (a, b)))


def _select_infer(p: TensorType, a: TensorType, b: TensorType) -> TensorType:
    if p.dtype != boolean or a.dtype != b.dtype:
        raise DTypeError(f"select: wants a bool and two of one dtype, got {p.dtype}, {a.dtype} and {b.dtype}")
    return a


def _select_jvp(tangents: tuple[Node | None, ...], y: Node, p: Node, a: Node, b: Node) -> Node | None:
    _, ta, tb = tangents
    if ta is None and tb is None:
        return None
    return select(p, 0.0 if ta is None else ta, 0.0 if tb is None else tb)


select: Op = register(
    Op(
        name="select",
        doc="a where p, else b. The part that is not taken contributes exactly zero to the derivative.",
        infer=_select_infer,
        numpy=np.where,
        lower=Scalar(build=Choose),
        sympy=lambda sp, p, a, b: sp.Piecewise((a, p), (b, True)),
        vjp=lambda ct, y, p, a, b: (None, select(p, ct, 0.0), select(p, 0.0, ct)),
        jvp=_select_jvp,
        masks=lambda y, p, a, b: (None, p, not_(p)),
        prepare=_select_prepare,
        examples=lambda: [((np.array([True, False, True]), (3,), (3,)), {})],
    )
)


def _tie(x: Node, y: Node) -> Node:
    """1 where x > y, 1/2 where equal, else 0."""
    return select(lt(y, x), 1.0, select(eq(x, y), number(0.5, x.dtype), number(0.0, x.dtype)))


def _either(name: str, numpy: Any, function: ScalarFn, sympy: str, flip: bool) -> Op:
    def partials(z: Node, x: Node, y: Node) -> tuple[Node, Node]:
        return (_tie(y, x), _tie(x, y)) if flip else (_tie(x, y), _tie(y, x))

    def masks(z: Node, x: Node, y: Node) -> tuple[Node, Node]:
        return (le(x, y), le(y, x)) if flip else (le(y, x), le(x, y))

    return pointwise(
        name, doc=f"The {name}; nan spreads; half the derivative to each at a tie.", numpy=numpy, kinds=ANY,
        sympy=sympy,
        lower=function, partials=partials, masks=masks,
    )  # fmt: skip


maximum: Op = _either("maximum", np.maximum, MAXIMUM, "Max", False)
minimum: Op = _either("minimum", np.minimum, MINIMUM, "Min", True)


def _clip_build(x: Expr, lo: Expr, hi: Expr) -> Expr:
    below = Choose(Apply(LT, (x, lo)), lo, x)
    return Choose(Apply(LT, (hi, below)), hi, below)


def _clip_masks(y: Node, x: Node, lo: Node, hi: Node) -> tuple[Node, Node, Node]:
    return and_(le(lo, x), le(x, hi)), and_(lt(x, lo), le(lo, hi)), lt(hi, maximum(x, lo))


clip: Op = pointwise(
    "clip", doc="x kept between lo and hi; derivative 1 at a bound.", lower=_clip_build, kinds=NUMBERS,
    numpy=lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), sympy=lambda sp, x, lo, hi: sp.Min(sp.Max(x, lo), hi),
    partials=lambda y, x, lo, hi: tuple(select(m, 1.0, number(0.0, x.dtype)) for m in _clip_masks(y, x, lo, hi)),
    masks=_clip_masks, sample=((-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)),
)  # fmt: skip
relu: Op = pointwise(
    "relu", doc="max(x, 0) with derivative 0 at 0.", numpy=lambda x: np.maximum(x, 0), sympy=lambda sp, x: sp.Max(x, 0),
    lower=lambda x: maximum(x, 0.0), expand=True,
    partials=lambda y, x: (select(lt(0.0, x), 1.0, number(0.0, x.dtype)),),
    masks=lambda y, x: (lt(0.0, x),),
)  # fmt: skip

# --- casts -----------------------------------------------------------------------------------------------------------


def _cast_infer(x: TensorType, *, dtype: DType) -> TensorType:
    return x.with_dtype(dtype)


def _cast_vjp(ct: Node, y: Node, x: Node, *, dtype: DType) -> tuple[Node | None]:
    return (cast(ct, dtype=x.dtype) if x.dtype.is_float and dtype.is_float else None,)


def _cast_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, dtype: DType) -> Node | None:
    (t,) = tangents
    return cast(t, dtype=dtype) if t is not None and dtype.is_float else None


cast: Op = register(
    Op(
        name="cast",
        doc="x as another dtype; derivatives pass between floats only.",
        infer=_cast_infer,
        numpy=lambda x, *, dtype: np.asarray(x).astype(dtype.numpy),
        lower=Scalar(build=lambda x, *, dtype: x if x.dtype == dtype else Convert(x, dtype)),
        sympy=lambda sp, x, *, dtype: x,
        vjp=_cast_vjp,
        jvp=_cast_jvp,
        prepare=lambda x: (x,),
        examples=lambda: [(((3,),), {"dtype": f64})],
    )
)


def as_dtype(x: Node, dtype: DType) -> Node:
    """``x`` itself, or a cast of it."""
    return x if x.dtype == dtype else cast(x, dtype=dtype)


def _stop_numpy(x: Any) -> Any:
    return x


stop: Op = pointwise(
    "stop_gradient", doc="x, as a constant for differentiation.", numpy=_stop_numpy, lower=lambda x: x, kinds=ANY,
    constant=True,
    sympy=lambda sp, x: x,
)  # fmt: skip

copy: Op = pointwise(
    "copy", doc="x in memory of its own; ``tag`` keeps copies apart.", numpy=lambda x, *, tag: x,
    lower=lambda x, *, tag: x, kinds=ANY,
    sympy=lambda sp, x, *, tag: x, partials=lambda y, x, *, tag: (1.0,), examples=lambda: [(((3,),), {"tag": 0})],
)  # fmt: skip

# --- powers, exponentials and logarithms -----------------------------------------------------------------------------

sqrt: Op = pointwise(
    "sqrt", doc="The square root; derivative inf at 0.", numpy=np.sqrt,
    lower=fn("sqrt", "sqrt{f}({0})", f="@llvm.sqrt"),
    sympy="sqrt", partials=lambda y, x: (0.5 / y,), sample=((0.2, 3.0),), cost=4,
)  # fmt: skip
cbrt: Op = pointwise(
    "cbrt", doc="The real cube root.", numpy=np.cbrt, lower=libm("cbrt"), cost=20, sample=((0.2, 3.0),),
    sympy=lambda sp, x: sp.real_root(x, 3), partials=lambda y, x: (1.0 / (3.0 * y * y),),
)  # fmt: skip
exp: Op = pointwise(
    "exp", doc="e**x.", numpy=np.exp, lower=libm("exp"), sympy="exp", partials=lambda y, x: (y,), cost=20
)
exp2: Op = pointwise(
    "exp2",
    doc="2**x.",
    numpy=np.exp2,
    lower=libm("exp2"),
    sympy=lambda sp, x: 2**x,
    partials=lambda y, x: (y * LN2,),
    cost=20,
)
expm1: Op = pointwise(
    "expm1", doc="e**x - 1, accurate near 0.", numpy=np.expm1, lower=libm("expm1"), sympy=lambda sp, x: sp.exp(x) - 1,
    partials=lambda y, x: (exp(x),), cost=20,
)  # fmt: skip
log: Op = pointwise(
    "log", doc="The natural logarithm; derivative inf at 0.", numpy=np.log, lower=libm("log"), sympy="log", cost=20,
    partials=lambda y, x: (1.0 / x,), sample=((0.2, 3.0),),
)  # fmt: skip
log2: Op = pointwise(
    "log2", doc="The logarithm to base 2.", numpy=np.log2, lower=libm("log2"), sympy=lambda sp, x: sp.log(x, 2),
    cost=20,
    partials=lambda y, x: (1.0 / (x * LN2),), sample=((0.2, 3.0),),
)  # fmt: skip
log10: Op = pointwise(
    "log10", doc="The logarithm to base 10.", numpy=np.log10, lower=libm("log10"), sympy=lambda sp, x: sp.log(x, 10),
    cost=20,
    partials=lambda y, x: (1.0 / (x * LN10),), sample=((0.2, 3.0),),
)  # fmt: skip
log1p: Op = pointwise(
    "log1p", doc="log(1 + x), accurate near 0.", numpy=np.log1p, lower=libm("log1p"),
    sympy=lambda sp, x: sp.log(1 + x), cost=20,
    partials=lambda y, x: (1.0 / (1.0 + x),), sample=((-0.8, 3.0),),
)  # fmt: skip


def _sigmoid_expansion(x: Node) -> Node:
    e = exp(-abs_(x))
    return select(le(0.0, x), 1.0, e) / (1.0 + e)


sigmoid: Op = pointwise(
    "sigmoid", doc="1/(1 + exp(-x)), without overflow.", lower=_sigmoid_expansion, expand=True, cost=24,
    numpy=lambda x: np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))),
    sympy=lambda sp, x: 1 / (1 + sp.exp(-x)), partials=lambda y, x: (y * sigmoid(-x),), sample=((-3.0, 3.0),),
)  # fmt: skip


def _logaddexp_expansion(x: Node, y: Node) -> Node:
    stable = maximum(x, y) + log1p(exp(-abs_(x - y)))
    return select(eq(x, y), x + LN2, stable)


def _logaddexp_partials(z: Node, x: Node, y: Node) -> tuple[Node, Node]:
    empty = eq(z, -math.inf)
    return select(empty, 0.0, sigmoid(x - y)), select(empty, 0.0, sigmoid(y - x))


logaddexp: Op = pointwise(
    "logaddexp", doc="log(exp(x) + exp(y)), without overflow.", numpy=np.logaddexp, lower=_logaddexp_expansion,
    expand=True,
    sympy=lambda sp, x, y: sp.log(sp.exp(x) + sp.exp(y)), partials=_logaddexp_partials, cost=44,
)  # fmt: skip

# --- trigonometric and hyperbolic functions --------------------------------------------------------------------------

sin: Op = pointwise(
    "sin", doc="The sine.", numpy=np.sin, lower=libm("sin"), sympy="sin", partials=lambda y, x: (cos(x),), cost=20
)
cos: Op = pointwise(
    "cos", doc="The cosine.", numpy=np.cos, lower=libm("cos"), sympy="cos", partials=lambda y, x: (-sin(x),), cost=20
)
tan: Op = pointwise(
    "tan", doc="The tangent.", numpy=np.tan, lower=libm("tan"), sympy="tan", partials=lambda y, x: (1.0 + y * y,),
    cost=20,
    sample=((-1.2, 1.2),),
)  # fmt: skip
arcsin: Op = pointwise(
    "arcsin", doc="The inverse sine; derivative inf at both ends.", numpy=np.arcsin, lower=libm("asin"), sympy="asin",
    cost=20,
    partials=lambda y, x: (1.0 / sqrt((1.0 - x) * (1.0 + x)),), sample=((-0.9, 0.9),),
)  # fmt: skip
arccos: Op = pointwise(
    "arccos", doc="The inverse cosine; derivative -inf at both ends.", numpy=np.arccos, lower=libm("acos"),
    sympy="acos", cost=20,
    partials=lambda y, x: (-1.0 / sqrt((1.0 - x) * (1.0 + x)),), sample=((-0.9, 0.9),),
)  # fmt: skip
arctan: Op = pointwise(
    "arctan", doc="The inverse tangent.", numpy=np.arctan, lower=libm("atan"), sympy="atan", cost=20,
    partials=lambda y, x: (1.0 / (1.0 + x * x),),
)  # fmt: skip
sinh: Op = pointwise(
    "sinh",
    doc="The hyperbolic sine.",
    numpy=np.sinh,
    lower=libm("sinh"),
    sympy="sinh",
    partials=lambda y, x: (cosh(x),),
    cost=20,
)
cosh: Op = pointwise(
    "cosh",
    doc="The hyperbolic cosine.",
    numpy=np.cosh,
    lower=libm("cosh"),
    sympy="cosh",
    partials=lambda y, x: (sinh(x),),
    cost=20,
)
tanh: Op = pointwise(
    "tanh",
    doc="The hyperbolic tangent.",
    numpy=np.tanh,
    lower=libm("tanh"),
    sympy="tanh",
    partials=lambda y, x: (1.0 - y * y,),
    cost=20,
)
arcsinh: Op = pointwise(
    "arcsinh", doc="The inverse hyperbolic sine.", numpy=np.arcsinh, lower=libm("asinh"), sympy="asinh", cost=20,
    partials=lambda y, x: (1.0 / hypot(x, 1.0),),
)  # fmt: skip
arccosh: Op = pointwise(
    "arccosh", doc="The inverse hyperbolic cosine.", numpy=np.arccosh, lower=libm("acosh"), sympy="acosh", cost=20,
    partials=lambda y, x: (1.0 / sqrt((x - 1.0) * (x + 1.0)),), sample=((1.2, 3.0),),
)  # fmt: skip
arctanh: Op = pointwise(
    "arctanh", doc="The inverse hyperbolic tangent.", numpy=np.arctanh, lower=libm("atanh"), sympy="atanh", cost=20,
    partials=lambda y, x: (1.0 / ((1.0 - x) * (1.0 + x)),), sample=((-0.9, 0.9),),
)  # fmt: skip


def _arctan2_partials(z: Node, y: Node, x: Node) -> tuple[Node, Node]:
    r = hypot(x, y)
    origin = eq(r, 0.0)
    return select(origin, 0.0, (x / r) / r), select(origin, 0.0, -(y / r) / r)


arctan2: Op = pointwise(
    "arctan2", doc="The angle of the point (x, y); derivatives 0 at the origin.", numpy=np.arctan2,
    lower=libm("atan2"), cost=20,
    sympy=lambda sp, y, x: sp.atan2(y, x), partials=_arctan2_partials, sample=((0.3, 2.0), (-2.0, 2.0)),
)  # fmt: skip
hypot: Op = pointwise(
    "hypot", doc="sqrt(x*x + y*y) without overflow; derivatives 0 at the origin.", numpy=np.hypot, lower=libm("hypot"),
    cost=20,
    sympy=lambda sp, x, y: sp.sqrt(x * x + y * y),
    partials=lambda z, x, y: (select(eq(z, 0.0), 0.0, x / z), select(eq(z, 0.0), 0.0, y / z)),
    sample=((0.3, 2.0), (-2.0, 2.0)),
)  # fmt: skip
