"""scipy's functions on traced values, found by name so that scipy is never imported for them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.frontend.functions.reductions import finish
from symgrad.frontend.functions.support import (
    Function,
    Value,
    axes_of,
    listed,
    over,
    static,
    with_known_keywords,
)
from symgrad.frontend.tracer import Tracer, float_operands, lift_masked, wrap
from symgrad.ir.node import Node
from symgrad.ops import folds, special
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import spread

LAZY: dict[str, dict[str, Function]] = {"scipy.special": {}}  # module -> name -> what it means on traced values
SPECIAL = LAZY["scipy.special"]


def implements_scipy(module: str, *names: str) -> Callable[[Function], Function]:
    """Register a function as the meaning of functions of a scipy module, which is not imported for it."""

    def decorate(function: Function) -> Function:
        for name in names:
            LAZY.setdefault(module, {})[name] = with_known_keywords(function, f"{module}.{name}")
        return function

    return decorate


def _pointwise(op: Callable[..., Node]) -> Function:
    def call(*xs: Value) -> Any:
        return lift_masked(lambda *full: wrap(op(*spread(*float_operands(*full)))), *listed(xs))

    return call


_POINTWISE: dict[str, Callable[..., Node]] = {
    "expit": special.expit, "logit": special.logit, "log_expit": special.log_expit, "erf": special.erf,
    "erfc": special.erfc,
    "erfcx": special.erfcx, "erfinv": special.erfinv, "erfcinv": special.erfcinv, "ndtr": special.ndtr,
    "ndtri": special.ndtri,
    "log_ndtr": special.log_ndtr, "gammaln": special.gammaln, "loggamma": special.gammaln, "gamma": special.gamma,
    "psi": special.digamma,
    "digamma": special.digamma, "betaln": special.betaln, "beta": lambda a,
    b: special.gamma(a) * special.gamma(b) / special.gamma(a + b),
    "xlogy": special.xlogy, "xlog1py": special.xlog1py, "entr": special.entr, "rel_entr": special.rel_entr,
    "kl_div": special.kl_div,
    "exp2": p.exp2, "expm1": p.expm1, "log1p": p.log1p, "cbrt": p.cbrt, "softplus": special.softplus,
    "sinc": special.sinc,
    "exp10": lambda x: p.exp(x * math.log(10.0)), "sindg": lambda x: p.sin(x * (math.pi / 180)),
    "cosdg": lambda x: p.cos(x * (math.pi / 180)),
    "boxcox": lambda x, lam: p.select(p.eq(lam, 0.0), p.log(x), p.expm1(lam * p.log(x)) / lam),
    "huber": lambda d, r: p.select(p.le(p.abs_(r), d), r * r * 0.5, d * (p.abs_(r) - d * 0.5)),
    "pseudo_huber": lambda d, r: d * d * (p.hypot(r / d, 1.0) - 1.0),
}  # fmt: skip
for _name, _op in _POINTWISE.items():
    implements_scipy("scipy.special", _name)(_pointwise(_op))


def polygamma(n: Value, x: Value) -> Any:
    order = static(n)
    if order is None or order != int(order):
        raise UnsupportedError("scipy.special.polygamma: wants a plain int as the order")
    return _pointwise(lambda v: special.polygamma(v, n=int(order)))(x)


def logsumexp(a: Value, axis: Any = None, b: Value = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    if return_sign:
        raise UnsupportedError("scipy.special.logsumexp: the keyword return_sign is not supported on traced values")
    x, *weights = spread(*float_operands(*listed((a, *(() if b is None else (b,))))))
    axes = axes_of(axis, x.ndim, "scipy.special.logsumexp")
    if not weights:
        return finish(folds.logsumexp(x, axes=axes), x, axes, keepdims, None, "")
    (w,) = weights
    x = p.select(p.eq(w, 0.0), -math.inf, x)
    top = p.stop(folds.max_(x, axes=axes))
    top = p.select(p.lt(p.abs_(top), math.inf), top, 0.0)
    total = folds.sum_(w * p.exp(x - over(top, x, axes)), axes=axes)
    return finish(p.log(total) + top, x, axes, keepdims, None, "")


def softmax(x: Value, axis: Any = None) -> Tracer:
    (n,) = float_operands(*listed((x,)))
    return wrap(folds.softmax(n, axes=axes_of(axis, n.ndim, "scipy.special.softmax")))


def log_softmax(x: Value, axis: Any = None) -> Tracer:
    (n,) = float_operands(*listed((x,)))
    axes = axes_of(axis, n.ndim, "scipy.special.log_softmax")
    return wrap(n - over(folds.logsumexp(n, axes=axes), n, axes))


def multigammaln(a: Value, d: int) -> Any:
    def build(x: Node) -> Node:
        out = special.gammaln(x) + d * (d - 1) / 4 * math.log(math.pi)
        for k in range(1, d):
            out = out + special.gammaln(x - k / 2)
        return out

    return _pointwise(build)(a)


for _function in (polygamma, logsumexp, softmax, log_softmax, multigammaln):
    implements_scipy("scipy.special", _function.__name__)(_function)


def lazy_function(callee: Any) -> Function | None:
    """Our version of a function of scipy; None when it is no such function, or not one that we have."""
    name = getattr(callee, "__name__", None)
    if not isinstance(name, str):
        return None
    for module, table in LAZY.items():
        if name in table and _there(module, name) is callee:
            return table[name]
    return None


def _there(module: str, name: str) -> Any:
    """A function of a module that is loaded already."""
    loaded = sys.modules.get(module)
    return None if loaded is None else loaded.__dict__.get(name)


def scipy_name(callee: Any) -> str | None:
    """``scipy.special.erf`` for a function of a loaded module that we know some functions of."""
    name = getattr(callee, "__name__", None)
    return next((f"{m}.{name}" for m in LAZY if isinstance(name, str) and _there(m, name) is callee), None)


def register_loaded(into: dict[Any, Function]) -> None:
    """Enter our versions of functions of loaded modules into a table keyed by function."""
    for module, table in LAZY.items():
        into.update((found, f) for name, f in table.items() if (found := _there(module, name)) is not None)
