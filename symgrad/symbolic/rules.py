"""Node -> a check of its primitive's derivative rule.

Partials are proved against sympy's derivative of the declared form, or compared with it at 50 digits; other rules are
compared with differences of the primitive itself and with their own other mode (the adjoint identity).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from symgrad.errors import SymgradError
from symgrad.ir.graph import Graph, evaluate, map_attribute
from symgrad.ir.node import Node, TupleType, make, param
from symgrad.ir.op import Op
from symgrad.ir.types import Size, TensorType, evaluate_size, f64, size_names
from symgrad.symbolic.bridge import form, to_sympy
from symgrad.symbolic.derive import arguments, derivative
from symgrad.symbolic.differences import STEP, extrapolated, relative
from symgrad.symbolic.elements import fixed
from symgrad.symbolic.own import check_own_rule
from symgrad.symbolic.patience import within
from symgrad.symbolic.precise import evaluate_precisely
from symgrad.symbolic.precision import DIGITS, precise_function
from symgrad.symbolic.report import Check

SECONDS = 1.5  # for the proof of one rule
POINTS = 6
LENGTH = 7  # of a named size that no input tells


def check_rule(n: Node, sizes: dict[str, int], values: dict[Node, Any]) -> Check:
    """The check of one primitive as it is used in ``n``, with these ``values`` of nodes where they are known."""
    name = rule_name(n)
    if n.op.constant:
        return Check(name, "declared constant", True)
    try:
        if n.op.name == "custom":
            return check_own_rule(n, name, sizes, values, LENGTH)
        if n.op.prepare is not None and n.op.partials is not None and n.op.sympy is not None:
            return _check_partials(n, name)
        if n.op.vjp is not None or n.op.partials is not None:
            return _check_vjp(n, name, sizes, values)
    except SymgradError as e:
        return Check(name, "could not be checked", False, str(e).splitlines()[0])
    if n.op.sympy is not None:
        return Check(name, "derived by sympy from its form", True)
    return Check(name, "has no derivative rule", False)


def rule_name(n: Node) -> str:
    """The primitive, or the user's name of a custom rule, with attributes that are plain numbers."""
    attrs = dict(n.attrs)
    named = getattr(attrs.get("rule"), "name", None)
    if named is not None:
        return str(named)
    numbers = ", ".join(f"{k}={v}" for k, v in attrs.items() if isinstance(v, int) and not isinstance(v, bool))
    return f"{n.op.name}({numbers})" if numbers and n.op.prepare is not None else n.op.name


# --- partials --------------------------------------------------------------------------------------------------------


def _check_partials(n: Node, name: str) -> Check:
    op, attrs, arity = n.op, dict(n.attrs), len(n.args)
    assert op.partials is not None
    params = tuple(param(TensorType(f64)) for _ in range(arity))
    declared = op.partials(make(op, *params, **attrs), *params, **attrs)
    pairs = [(k, d) for k, d in enumerate(declared) if d is not None]
    where = within(SECONDS, lambda: _proofs(op, attrs, params, pairs))
    if where is not None:
        return Check(name, "proved by sympy", True, where)
    worst, argument, count = _compare_partials(op, attrs, params, pairs)
    how = f"compared with its form at {DIGITS} digits"
    if count == 0:
        return Check(name, how, False, "its form is finite at no sample point")
    if worst > 1e-12:
        return Check(
            name, how, False, f"the derivative in argument {argument} is off by {float(worst):.3g}, relatively"
        )
    return Check(name, how, True, f"{count} points, largest error {float(worst):.1g}")


def _proofs(op: Op, attrs: dict[str, Any], params: tuple[Node, ...], pairs: Sequence[tuple[int, Any]]) -> str | None:
    """In words, where all partials are proved; None when one is not."""
    found = set()
    for k, d in pairs:
        where = _prove(op, attrs, params, k, d)
        if where is None:
            return None
        found.add(where)
    return "; ".join(sorted(found - {""}))


def _prove(op: Op, attrs: dict[str, Any], params: tuple[Node, ...], k: int, declared: Any) -> str | None:
    """In words, where the declared partial equals the derivative of the form (empty: everywhere); None: unknown."""
    names = [f"x{j}" for j in range(len(params))]
    claimed = to_sympy(Graph(params, (declared,)), names)[0] if isinstance(declared, Node) else sp.nsimplify(declared)
    symbols = arguments(len(params))
    for where, change in _domains(op, symbols):
        d = derivative(form(op, *symbols, **attrs).xreplace(change), change.get(symbols[k], symbols[k]))
        if d is None:
            return None
        gap = _generic(claimed.xreplace(change) - d)
        if gap == 0 or sp.simplify(gap) == 0:
            return where
    return None


def _domains(op: Op, symbols: Sequence[Any]) -> list[tuple[str, dict[Any, Any]]]:
    """All reals; and positive numbers for arguments that are sampled there only."""
    positive = {s: sp.Symbol(s.name, positive=True) for k, s in enumerate(symbols) if op.sample.of(k)[0] >= 0}
    return [("", {}), *([("for positive arguments", positive)] if positive else [])]


def _generic(e: Any) -> Any:
    """``e`` away from the points where two values that may differ are equal."""
    equal = {r: sp.false for r in e.atoms(sp.Eq)} | {r: sp.true for r in e.atoms(sp.Ne)}
    return e.xreplace(equal) if equal else e


def _compare_partials(
    op: Op, attrs: dict[str, Any], params: tuple[Node, ...], pairs: Sequence[tuple[int, Any]]
) -> tuple[Any, int, int]:
    """The largest relative error of the declared partials, its argument, and the number of points."""
    symbols = arguments(len(params))
    value = precise_function(symbols, form(op, *symbols, **attrs))
    draw = np.random.default_rng(0)
    worst, argument, count = mpmath.mpf(0), 0, 0
    with mpmath.workdps(DIGITS):
        h = mpmath.mpf(10) ** (-DIGITS // 3)
        for _ in range(POINTS):
            point = [mpmath.mpf(draw.uniform(*op.sample.of(j))) for j in range(len(params))]
            for k, d in pairs:
                ends = (value(*(x + s * h if j == k else x for j, x in enumerate(point))) for s in (1, -1))
                slope = (next(ends) - next(ends)) / (2 * h)
                claimed = _at(params, d, point)
                if not mpmath.isfinite(slope):
                    continue
                count += 1
                error = abs(slope - claimed) / max(1, abs(slope)) if mpmath.isfinite(claimed) else mpmath.inf
                if error > worst:
                    worst, argument = error, k
    return worst, argument, count


def _at(params: tuple[Node, ...], declared: Any, point: Sequence[Any]) -> Any:
    if not isinstance(declared, Node):
        return mpmath.mpf(declared)
    args = [np.array(x, object) for x in point]
    return evaluate_precisely(Graph(params, (declared,)), args)[0][()]


# --- other rules -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """A primitive on concrete shapes, with data for its arguments, directions for them and weights for its results."""

    op: Op
    attrs: dict[str, Any]
    params: tuple[Node, ...]
    y: Node
    args: list[Any]
    tangents: list[Any]
    weights: list[Any]

    @property
    def results(self) -> tuple[TensorType, ...]:
        return self.y.type.items if isinstance(self.y.type, TupleType) else (self.y.type,)


def _trial(n: Node, sizes: dict[str, int], values: dict[Node, Any]) -> _Trial:
    def number(s: Size) -> Size:
        return evaluate_size(s, dict.fromkeys(size_names(s), LENGTH) | sizes)

    attrs = {k: map_attribute(v, number) for k, v in n.attrs}
    params = tuple(param(_concrete(a.type, number)) for a in n.args)
    draw = np.random.default_rng(1)
    data = [values.get(a) for a in n.args]
    args = [_data(draw, p.type, n.op.sample.of(k), v) for k, (p, v) in enumerate(zip(params, data, strict=True))]
    tangents = [draw.standard_normal(fixed(p.shape)) if p.dtype.is_float else None for p in params]
    y = make(n.op, *params, **attrs)
    types = y.type.items if isinstance(y.type, TupleType) else (y.type,)
    return _Trial(n.op, attrs, params, y, args, tangents, [draw.standard_normal(fixed(t.shape)) for t in types])


def _concrete(t: TensorType, number: Callable[[Size], Size]) -> TensorType:
    return TensorType(f64 if t.dtype.is_float else t.dtype, tuple(number(s) for s in t.shape))


def _data(draw: Any, t: TensorType, interval: tuple[float, float], value: Any) -> Any:
    """Random data; or the given one, a little off so that no two elements are equal by chance."""
    if value is not None:
        array = np.asarray(value, t.dtype.numpy)
        return array + 1e-2 * draw.standard_normal(t.shape) if t.dtype.is_float else array
    if t.dtype.is_float:
        return draw.uniform(*interval, t.shape)
    return draw.random(t.shape) < 0.5 if t.dtype.kind == "b" else np.zeros(t.shape, t.dtype.numpy)


def _check_vjp(n: Node, name: str, sizes: dict[str, int], given: dict[Node, Any]) -> Check:
    """vjp against differences of the primitive; and against jvp, where there is one: <J t, u> = <t, Jᵀ u>."""
    trial = _trial(n, sizes, given)
    if not any(t.dtype.is_float for t in trial.results):
        return Check(name, "gives no floats", True)
    coarse = any(t.dtype.is_float and t.dtype.bytes < 8 for t in trial.results)
    backward = _backward(trial)
    difference = _difference(trial, 0.1 if coarse else STEP)
    errors = [relative(backward, difference)]
    forward = _forward(trial)
    how = "compared with differences"
    if forward is not None:
        how += " and with its forward mode"
        errors.append(relative(backward, forward))
    passed = max(errors) < (1e-4 if coarse else 1e-6)
    if not passed:
        return Check(name, how, False, f"the rule gives {backward:.10g}, differences {difference:.10g}")
    return Check(name, how, True, f"relative error {max(errors):.1g}")


def _backward(trial: _Trial) -> float:
    """<tangents, Jᵀ weights> by the declared vjp."""
    seeds = tuple(param(t) for t in trial.results)
    ct: Any = seeds if isinstance(trial.y.type, TupleType) else seeds[0]
    if trial.op.vjp is not None:
        cts: Sequence[Any] = trial.op.vjp(ct, trial.y, *trial.params, **trial.attrs)
    else:
        assert trial.op.partials is not None
        partials = trial.op.partials(trial.y, *trial.params, **trial.attrs)
        cts = [None if d is None else ct * d for d in partials]
    pairs = [(c, t) for c, t in zip(cts, trial.tangents, strict=True) if c is not None and t is not None]
    values = evaluate(Graph((*trial.params, *seeds), tuple(c for c, _ in pairs)), *trial.args, *trial.weights)
    return sum(float(np.sum(v * t)) for v, (_, t) in zip(values, pairs, strict=True))


def _forward(trial: _Trial) -> float | None:
    """<weights, J tangents> by the forward rule, where there is one."""
    if not (trial.op.linear or trial.op.jvp is not None):
        return None
    seeds = tuple(None if t is None else param(p.type) for p, t in zip(trial.params, trial.tangents, strict=True))
    if trial.op.jvp is not None:
        out: Any = trial.op.jvp(seeds, trial.y, *trial.params, **trial.attrs)
    else:
        moved = (p if s is None else s for p, s in zip(trial.params, seeds, strict=True))
        out = make(trial.op, *moved, **trial.attrs)
    results = list(out) if isinstance(trial.y.type, TupleType) else [out]
    pairs = [(r, w) for r, w in zip(results, trial.weights, strict=True) if r is not None]
    params = (*trial.params, *(s for s in seeds if s is not None))
    tangents = (t for t in trial.tangents if t is not None)
    values = evaluate(Graph(params, tuple(r for r, _ in pairs)), *trial.args, *tangents)
    return sum(float(np.sum(w * v)) for v, (_, w) in zip(values, pairs, strict=True))


def _difference(trial: _Trial, step: float) -> float:
    """d/dh <weights, op(args + h*tangents)> at 0, by central differences extrapolated twice."""
    many = isinstance(trial.y.type, TupleType)

    def value(h: float) -> float:
        moved = (a if t is None else a + h * t for a, t in zip(trial.args, trial.tangents, strict=True))
        with np.errstate(all="ignore"):
            out = trial.op.numpy(*map(np.asarray, moved), **trial.attrs)
        return sum(
            float(np.sum(w * np.asarray(o))) for w, o in zip(trial.weights, out if many else (out,), strict=True)
        )

    return extrapolated(value, step)
