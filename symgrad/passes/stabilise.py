"""Graph -> a Graph that says the same in the form that does not overflow, and whose derivative is right everywhere.

People write log(sum(exp(x))), 1/(1 + exp(-x)), sqrt(sum(x*x)). In exact arithmetic the rewritten forms are equal on
the domain each rewrite states; in floating point they are finite where the naive ones overflow, and their derivatives
have the values of docs/conventions.md at points where the naive chain rule gives nan. Run before differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from symgrad.ir.graph import Graph, map_graphs, rewrite
from symgrad.ir.node import Node, splat
from symgrad.ir.types import TensorType, f32, f64
from symgrad.ops import pointwise as p
from symgrad.ops.folds import Axes, expand_over, kept, logsumexp, max_, norm2, shift, softmax, sum_
from symgrad.ops.kinds import remake
from symgrad.ops.special import half_power, log_cosh, log_expit, sinc_n, softplus, sqrt_of_squares, x_log_x
from symgrad.ops.views import reshape

VIEWS = ("reshape", "broadcast", "transpose")
LARGEST_EXPONENT = {f64: 709.0, f32: 88.0}
READS = (*VIEWS, "slice", "gather")  # every element of the result is an element of the first operand


@dataclass
class Known:
    """What rewritten nodes were: softmaxes by their argument and axes, for the logarithms taken of them."""

    softmaxes: dict[Node, tuple[Node, Axes]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewrite:
    """One rewrite of nodes of primitive ``head``; ``domain`` says where pattern and result are equal."""

    name: str
    head: str
    pattern: str
    domain: str
    apply: Callable[[Node, Known], Node | None]


def stabilise(graph: Graph) -> Graph:
    """The graph in stable forms."""
    return _run(graph)[0]


def rewrites_applied(graph: Graph) -> list[str]:
    """The names of the rewrites that ``stabilise`` makes in ``graph``, in order."""
    return _run(graph)[1]


def _run(graph: Graph) -> tuple[Graph, list[str]]:
    known = Known()
    applied: list[str] = []

    def inner(body: Graph) -> Graph:
        new, names = _run(body)
        applied.extend(names)
        return new if names else body

    def settle(n: Node) -> Node:
        for r in _BY_HEAD.get(n.op.name, ()) if _is_float(n) else ():
            new = r.apply(n, known)
            if new is not None and new is not n:
                applied.append(r.name)
                return settle(new)
        return map_graphs(n, inner)

    return rewrite(graph, settle), applied


def _is_float(n: Node) -> bool:
    return isinstance(n.type, TensorType) and n.dtype.is_float


# --- reading patterns ------------------------------------------------------------------------------------------------


def _arg(n: Node, name: str) -> Node | None:
    """The operand of a unary primitive called ``name``, or None."""
    return n.args[0] if n.op.name == name else None


def _beside(n: Node, name: str, value: float) -> Node | None:
    """x where ``n`` is the commutative ``name`` of x and a literal."""
    if n.op.name != name:
        return None
    x, y = n.args
    return x if splat(y) == value else y if splat(x) == value else None


def _one_plus(n: Node) -> Node | None:
    """x where n is 1 + x."""
    if n.op is p.sub and splat(n.args[1]) == -1:
        return n.args[0]
    return _beside(n, "add", 1)


def _one_minus(n: Node) -> Node | None:
    """x where n is 1 - x."""
    return n.args[1] if n.op is p.sub and splat(n.args[0]) == 1 else None


def _negated(x: Node) -> Node:
    return x.args[0] if x.op is p.neg else -x


def _root(n: Node) -> Node | None:
    """x where n is sqrt(x) or x**0.5."""
    if n.op is p.pow_ and splat(n.args[1]) == 0.5:
        return n.args[0]
    return _arg(n, "sqrt")


def _square(n: Node) -> Node | None:
    """x where n is x*x or x**2."""
    if n.op is p.mul and n.args[0] is n.args[1]:
        return n.args[0]
    if n.op is p.ipow and n.attr("n") == 2:
        return n.args[0]
    return n.args[0] if n.op is p.pow_ and splat(n.args[1]) == 2 else None


def _below(n: Node, names: tuple[str, ...]) -> tuple[Node, Callable[[Node], Node]]:
    """What lies below a chain of views, and the same chain over something else."""
    chain: list[Node] = []
    while n.op.name in names:
        chain.append(n)
        n = n.args[0]

    def again(x: Node) -> Node:
        for view in reversed(chain):
            x = remake(view, x, *view.args[1:])
        return x

    return n, again


def _under_reduction(n: Node, name: str, x: Node) -> Axes | None:
    """The axes when n is the reduction ``name`` of ``x`` repeated along the axes it was reduced over (keepdims)."""
    base, _ = _below(n, (*VIEWS, "stop_gradient"))
    if base.op.name != name or base.args[0] is not x or n.shape != x.shape:
        return None
    axes: Axes = base.attr("axes")
    labels = _labels(n, list(kept(x.ndim, axes)))
    if labels is None:
        return None
    fits = all(have == (None if k in axes else k) or x.shape[k] == 1 for k, have in enumerate(labels))
    return axes if fits else None


def _labels(n: Node, start: list[int | None] | list[int]) -> list[int | None] | None:
    """For each axis of a chain of views the label of the axis below that it runs along; None: repeated."""
    if n.op.name == "stop_gradient":
        return _labels(n.args[0], start)
    if n.op.name not in VIEWS:
        return list(start)
    x = n.args[0]
    below = _labels(x, start)
    if below is None:
        return None
    if n.op.name == "transpose":
        return [below[k] for k in n.attr("perm")]
    out: list[int | None] = [None] * n.ndim
    if n.op.name == "broadcast":
        for k, a in enumerate(n.attr("axes")):
            out[a] = below[k]
        return out
    old = [k for k, s in enumerate(x.shape) if s != 1]
    new = [k for k, s in enumerate(n.shape) if s != 1]
    if [x.shape[k] for k in old] != [n.shape[k] for k in new]:
        return None
    for a, k in zip(new, old, strict=True):
        out[a] = below[k]
    return out


def _is_count(n: Node) -> bool:
    """A literal above zero, a size, or a size less a literal: what means and variances divide by."""
    value = splat(n)
    if value is not None:
        return value > 0
    base, _ = _below(n, (*VIEWS, "cast"))
    if base.op in (p.sub, p.maximum):
        return _is_count(base.args[0]) and splat(base.args[1]) is not None
    return base.op.name == "size"


# --- sums of exponentials --------------------------------------------------------------------------------------------


def _split(term: Node, depth: int = 20) -> tuple[Node, Callable[[Node], Node], Node | None] | None:
    """(x, rebuild, weight) where ``term`` is exp(x) times a weight (None: 1) and ``rebuild`` replaces the exp(x)."""
    if term.op is p.exp:
        return term.args[0], lambda e: e, None
    if term.op.name in VIEWS:
        base, again = _below(term, VIEWS)
        return (again(base.args[0]), lambda e: e, None) if base.op is p.exp else None
    if term.op not in (p.mul, p.div, p.neg) or not depth:
        return None
    for k, a in enumerate(term.args):
        if k and a is term.args[0]:
            break  # x*x: what failed once fails again
        inner = _split(a, depth - 1) if k == 0 or term.op is p.mul else None
        if inner is None:
            continue
        x, below, weight = inner
        others = [b for j, b in enumerate(term.args) if j != k]

        def rebuild(e: Node, k: int = k, below: Callable[[Node], Node] = below) -> Node:
            return remake(term, *(below(e) if j == k else b for j, b in enumerate(term.args)))

        if term.op is p.mul:
            weight = others[0] if weight is None else weight * others[0]
        return x, rebuild, weight
    return None


def _is_shifted(x: Node, axes: Axes) -> bool:
    """x is what remains after the maximum along the same axes was taken off: what careful people write, and we."""
    while x.op is p.minimum:
        x = x.args[0]
    if x.op is not p.sub:
        return False
    y, m = x.args
    while m.op.name in (*VIEWS, "stop_gradient", "select"):
        m = m.args[1 if m.op is p.select else 0]
    if m.op is not max_ or m.attr("axes") != axes:
        return False
    of = m.args[0]
    return of is y or (of.op is p.select and y in of.args)


def _shift(x: Node, weight: Node | None, axes: Axes) -> Node:
    """The largest exponent that has any weight; finite, constant for differentiation."""
    counted = x if weight is None else p.select(p.eq(weight, 0.0), -math.inf, x)
    return shift(counted, axes)


def _shifted(x: Node, weight: Node | None, m: Node, axes: Axes) -> Node:
    """exp(x - m); where an element has no weight it stays finite, so that its product with 0 is 0."""
    y = x - expand_over(m, x, axes)
    return p.exp(y if weight is None else p.minimum(y, LARGEST_EXPONENT[y.dtype]))


def _log_of_sum(n: Node, known: Known) -> Node | None:
    total, again = _below(n.args[0], VIEWS)
    parts = _split(total.args[0]) if total.op is sum_ else None
    if parts is None:
        return None
    axes: Axes = total.attr("axes")
    x, rebuild, weight = parts
    if _is_shifted(x, axes):
        return None
    if total.args[0].op not in (p.mul, p.div, p.neg):
        return again(logsumexp(x, axes=axes))
    m = _shift(x, weight, axes)
    return again(p.log(sum_(rebuild(_shifted(x, weight, m, axes)), axes=axes)) + m)


def _log_of_mean(n: Node, known: Known) -> Node | None:
    (x,) = n.args
    scale = next((b for b in x.args[::-1] if _is_count(b)), None) if x.op in (p.mul, p.div) else None
    if scale is None or (x.op is p.div and scale is not x.args[1]):
        return None
    total = next((a for a in x.args if a is not scale), scale)
    base, _ = _below(total, VIEWS)
    if base.op is not sum_ or _split(base.args[0]) is None:
        return None
    inner = _log_of_sum(p.log(total), known)
    if inner is None:
        return None
    return inner - p.log(scale) if x.op is p.div else inner + p.log(scale)


def _softmax(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    axes = _under_reduction(bottom, "sum", top)
    parts = _split(top) if axes is not None else None
    if axes is None or parts is None or _is_shifted(parts[0], axes):
        return None
    x, rebuild, weight = parts
    if top.op not in (p.mul, p.div, p.neg):
        out = softmax(x, axes=axes)
        known.softmaxes[out] = x, axes
        return out
    m = _shift(x, weight, axes)
    terms = rebuild(_shifted(x, weight, m, axes))
    return terms / expand_over(sum_(terms, axes=axes), x, axes)


def _log_of_softmax(n: Node, known: Known) -> Node | None:
    base, again = _below(n.args[0], READS)
    if base not in known.softmaxes:
        return None
    x, axes = known.softmaxes[base]
    return again(x - expand_over(logsumexp(x, axes=axes), x, axes))


# --- logistic functions ----------------------------------------------------------------------------------------------


def _logistic(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    squared = bottom.op is p.ipow and bottom.attr("n") == 2
    e = _one_plus(bottom.args[0] if squared else bottom)
    z = _arg(e, "exp") if e is not None else None
    if z is None:
        return None
    parts = _split(top)
    rest = p.sigmoid(_negated(z))
    if parts is not None and parts[0] is z:
        share = parts[1](p.sigmoid(z))
        return share * rest if squared else share
    if squared:
        return None
    return rest if splat(top) == 1 else top * rest


def _logistic_power(n: Node, known: Known) -> Node | None:
    e = _one_plus(n.args[0]) if n.attr("n") == -1 else None
    z = _arg(e, "exp") if e is not None else None
    return p.sigmoid(_negated(z)) if z is not None else None


def _share_of_two(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    if top.op is not p.exp or bottom.op is not p.add or top not in bottom.args:
        return None
    other = bottom.args[1] if bottom.args[0] is top else bottom.args[0]
    return p.sigmoid(top.args[0] - other.args[0]) if other.op is p.exp else None


def _tanh_of_expm1(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    e = _one_plus(bottom)
    z = _arg(e, "exp") if e is not None else None
    if z is None:
        return None
    if _arg(top, "expm1") is z:
        return p.tanh(z * 0.5)
    inner = _arg(top, "neg")
    return p.tanh(_negated(z) * 0.5) if inner is not None and _arg(inner, "expm1") is z else None


def _tanh_of_exponentials(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    if top.op is not p.sub or bottom.op is not p.add or set(top.args) != set(bottom.args):
        return None
    a, b = (_arg(t, "exp") for t in top.args)
    if a is None or b is None or (a is not _negated(b) and b is not _negated(a)):
        return None
    return p.tanh(a)


def _one_minus_logistic(n: Node, known: Known) -> Node | None:
    x = _one_minus(n)
    z = _arg(x, "sigmoid") if x is not None else None
    return p.sigmoid(_negated(z)) if z is not None else None


def _log_of_logistic(n: Node, known: Known) -> Node | None:
    z = _arg(n.args[0], "sigmoid")
    return log_expit(z) if z is not None else None


def _log_of_one_plus_exp(n: Node, known: Known) -> Node | None:
    e = _one_plus(n.args[0]) if n.op is p.log else n.args[0]
    z = _arg(e, "exp") if e is not None else None
    return softplus(z) if z is not None else None


def _log_of_two_exponentials(n: Node, known: Known) -> Node | None:
    a, b = (_arg(t, "exp") for t in n.args[0].args) if n.args[0].op is p.add else (None, None)
    return p.logaddexp(a, b) if a is not None and b is not None else None


def _log_of_exp(n: Node, known: Known) -> Node | None:
    return _arg(n.args[0], "exp")


def _log_of_cosh(n: Node, known: Known) -> Node | None:
    x = _arg(n.args[0], "cosh")
    return log_cosh(x) if x is not None else None


# --- digits near 0 ---------------------------------------------------------------------------------------------------


def _expm1(n: Node, known: Known) -> Node | None:
    e = n.args[0] if n.op is p.sub and splat(n.args[1]) == 1 else _beside(n, "add", -1)
    x = _arg(e, "exp") if e is not None else None
    return p.expm1(x) if x is not None else None


def _one_minus_exp(n: Node, known: Known) -> Node | None:
    e = _one_minus(n)
    x = _arg(e, "exp") if e is not None else None
    return -p.expm1(x) if x is not None else None


def _log1p(n: Node, known: Known) -> Node | None:
    x = _one_plus(n.args[0])
    if x is not None and splat(x) is None:
        return p.log1p(x)
    x = _one_minus(n.args[0])
    return p.log1p(_negated(x)) if x is not None and splat(x) is None else None


def _sinc(n: Node, known: Known) -> Node | None:
    top, bottom = n.args
    return sinc_n(bottom, n=0) if _arg(top, "sin") is bottom else None


# --- roots and squares -----------------------------------------------------------------------------------------------


def _root_of_square(n: Node, known: Known) -> Node | None:
    q = _root(n)
    x = _square(q) if q is not None else None
    return p.abs_(x) if x is not None else None


def _norm(n: Node, known: Known) -> Node | None:
    q = _root(n)
    if q is None:
        return None
    base, again = _below(q, VIEWS)
    if base.op is sum_:
        x = _square(base.args[0])
        return again(norm2(x, axes=base.attr("axes"))) if x is not None else None
    x = _self_product(base)
    return again(reshape(norm2(x, axes=(0,)), shape=base.shape)) if x is not None else None


def _self_product(n: Node) -> Node | None:
    """The vector x where n is the product of the row x and the column x."""
    if n.op.name != "dot" or n.ndim != 2 or any(s != 1 for s in n.shape):
        return None
    x, y = (_below(a, ("reshape", "transpose"))[0] for a in n.args)
    return x if x is y and x.ndim == 1 else None


def _is_sum_of_squares(n: Node) -> bool:
    seen: set[Node] = set()
    stack = [n]
    while stack:
        n = stack.pop()
        if n in seen or _square(n) is not None:
            continue
        seen.add(n)
        if n.op is p.add:
            stack += n.args
        elif n.op is sum_ or n.op.name in READS or (n.op in (p.mul, p.div) and _is_count(n.args[1])):
            stack.append(n.args[0])
        elif n.op is p.mul and _is_count(n.args[0]):
            stack.append(n.args[1])
        else:
            return False
    return True


def _root_of_squares(n: Node, known: Known) -> Node | None:
    q = _root(n)
    return sqrt_of_squares(q) if q is not None and _is_sum_of_squares(q) else None


def _where_not_negative(x: Node, value: Node) -> Node:
    return p.select(p.le(0.0, x), value, math.nan)


def _square_of_root(n: Node, known: Known) -> Node | None:
    base, exponent = n.args[0], n.args[-1]
    power = n.attr("n") if n.op is p.ipow else splat(exponent) if n.op is p.pow_ else 2 if base is exponent else None
    x = _root(base)
    if x is None or power is None or power < 2 or power % 2:
        return None
    return _where_not_negative(x, x if power == 2 else p.ipow(x, n=int(power) // 2))


def _x_log_x(n: Node, known: Known) -> Node | None:
    x = next((x for x, y in (n.args, n.args[::-1]) if _arg(y, "log") is x), None)
    return None if x is None else x_log_x(x)


def _times_power(n: Node, known: Known) -> Node | None:
    for x, y in (n.args, n.args[::-1]):
        if _arg(y, "sqrt") is x:
            return half_power(x, n=3)
        exponent = splat(y.args[1]) if y.op is p.pow_ and y.args[0] is x else None
        if exponent is not None and exponent > -1 and exponent != int(exponent):
            halves = 2 * exponent + 2
            return half_power(x, n=int(halves)) if halves == int(halves) else p.pow_(x, exponent + 1.0)
    return None


def _cube(n: Node, _: Known) -> Node | None:
    for square, x in (n.args, n.args[::-1]):
        if square.op is p.mul and square.args == (x, x):
            return p.ipow(x, n=3)
    return None


ALL = "everywhere"
REWRITES: tuple[Rewrite, ...] = (
    Rewrite("log_exp", "log", "log(exp(x)) -> x", ALL, _log_of_exp),
    Rewrite("log_softmax", "log", "log(softmax(x)), also of a part of it -> x - logsumexp(x)", ALL, _log_of_softmax),
    Rewrite("logsumexp", "log", "log(sum(w*exp(x))) -> m + log(sum(w*exp(x - m))), m = max(x)", ALL, _log_of_sum),
    Rewrite("logmeanexp", "log", "log(sum(exp(x))/c) -> logsumexp(x) - log(c)", "c > 0", _log_of_mean),
    Rewrite("softplus", "log", "log(1 + exp(x)) -> logaddexp(x, 0)", ALL, _log_of_one_plus_exp),
    Rewrite("softplus", "log1p", "log1p(exp(x)) -> logaddexp(x, 0)", ALL, _log_of_one_plus_exp),
    Rewrite("logaddexp", "log", "log(exp(x) + exp(y)) -> logaddexp(x, y)", ALL, _log_of_two_exponentials),
    Rewrite("log_sigmoid", "log", "log(sigmoid(x)) -> -logaddexp(-x, 0)", ALL, _log_of_logistic),
    Rewrite("log_cosh", "log", "log(cosh(x)) -> |x| + log1p(exp(-2|x|)) - log(2)", ALL, _log_of_cosh),
    Rewrite("log1p", "log", "log(1 + x) -> log1p(x), log(1 - x) -> log1p(-x)", ALL, _log1p),
    Rewrite("softmax", "div", "w*exp(x)/sum(w*exp(x)) -> the same with x - max(x)", ALL, _softmax),
    Rewrite("tanh", "div", "(exp(x) - exp(-x))/(exp(x) + exp(-x)) -> tanh(x)", ALL, _tanh_of_exponentials),
    Rewrite("tanh", "div", "(exp(x) - 1)/(exp(x) + 1) -> tanh(x/2)", ALL, _tanh_of_expm1),
    Rewrite("sigmoid", "div", "c/(1 + exp(-x)) -> c*sigmoid(x), exp(x)/(1 + exp(x)) -> sigmoid(x)", ALL, _logistic),
    Rewrite("sigmoid", "div", "exp(x)/(1 + exp(x))**2 -> sigmoid(x)*sigmoid(-x)", ALL, _logistic),
    Rewrite("sigmoid", "div", "exp(x)/(exp(x) + exp(y)) -> sigmoid(x - y)", ALL, _share_of_two),
    Rewrite("sigmoid", "ipow", "(1 + exp(-x))**-1 -> sigmoid(x)", ALL, _logistic_power),
    Rewrite("sigmoid", "sub", "1 - sigmoid(x) -> sigmoid(-x)", ALL, _one_minus_logistic),
    Rewrite("expm1", "sub", "exp(x) - 1 -> expm1(x)", ALL, _expm1),
    Rewrite("expm1", "add", "exp(x) + -1 -> expm1(x)", ALL, _expm1),
    Rewrite("expm1", "sub", "1 - exp(x) -> -expm1(x)", ALL, _one_minus_exp),
    Rewrite("sinc", "div", "sin(x)/x -> sinc(x/pi)", "everywhere; 1 at 0", _sinc),
    *(
        rewrite
        for head in ("sqrt", "pow")
        for rewrite in (
            Rewrite("abs", head, "sqrt(x*x) -> |x|", ALL, _root_of_square),
            Rewrite("norm2", head, "sqrt(sum(x*x)), sqrt(x @ x) -> norm2(x): derivative 0 at 0", ALL, _norm),
            Rewrite("sqrt_of_squares", head, "sqrt(x*x + y*y): derivative 0 at 0; also means", ALL, _root_of_squares),
        )
    ),
    Rewrite("square_of_root", "ipow", "sqrt(x)**(2n) -> x**n, nan for x < 0", "x > -inf", _square_of_root),
    Rewrite("square_of_root", "pow", "(x**0.5)**(2n) -> x**n, nan for x < 0", "x > -inf", _square_of_root),
    Rewrite("square_of_root", "mul", "sqrt(x)*sqrt(x) -> x, nan for x < 0", "x > -inf", _square_of_root),
    Rewrite("x_log_x", "mul", "x*log(x): derivative log(x) + 1, -inf at 0", ALL, _x_log_x),
    Rewrite("cube", "mul", "x*x*x -> x**3, whose derivative is one product", ALL, _cube),
    Rewrite("times_power", "mul", "x*sqrt(x), x*x**p -> x**(p + 1)", "p > -1 no integer; also at 0", _times_power),
)  # fmt: skip
_BY_HEAD: dict[str, list[Rewrite]] = {}
for _r in REWRITES:
    _BY_HEAD.setdefault(_r.head, []).append(_r)
