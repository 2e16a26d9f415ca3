"""Graph -> checks of its derivatives: each rule by itself, and the whole gradient against precise differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, TupleType
from symgrad.ir.op import Region
from symgrad.symbolic.differences import richardson
from symgrad.symbolic.elements import bind_sizes
from symgrad.symbolic.precise import central_difference, to_elements
from symgrad.symbolic.precision import DIGITS
from symgrad.symbolic.report import Check, Report
from symgrad.symbolic.rules import check_rule

COORDINATES = 16  # arguments with at most this many elements are checked one by one
DIRECTIONS = 3
WORK = 100_000  # elements over all nodes up to which a graph is computed in high precision
PRECISE_TOLERANCE, MACHINE_TOLERANCE, F32_TOLERANCE = 1e-8, 1e-5, 2e-3


def verify_rules(graph: Graph, inputs: Sequence[Any] | None = None) -> list[Check]:
    """A check of every derivative rule that ``graph`` uses, once for each primitive and its attributes; failures first.

    Rules that are not pointwise are tried on the values they see for ``inputs``, without any on random ones.
    """
    sizes = bind_sizes(graph, inputs) if inputs is not None else {}
    values = _values(graph, inputs) if inputs is not None else {}
    seen: dict[tuple[Any, ...], Check] = {}
    for n in graph.nodes():
        key = _rule_key(n)
        if key is not None and key not in seen:
            seen[key] = check_rule(n, sizes, values)
    by_name: dict[str, Check] = {}
    for c in sorted(seen.values(), key=lambda c: c.passed):
        by_name.setdefault(c.name, c)
    return list(by_name.values())


def _values(graph: Graph, inputs: Sequence[Any]) -> dict[Node, Any]:
    """Every node's value for ``inputs``."""
    nodes = [n for n in graph.nodes() if not isinstance(n.type, TupleType)]
    return dict(zip(nodes, evaluate(Graph(graph.params, tuple(nodes)), *inputs), strict=True))


def _rule_key(n: Node) -> tuple[Any, ...] | None:
    if not n.args or n.op.name == "get" or isinstance(n.op.lower, Region):
        return None  # rules of regions are those of what is inside; the whole gradient is compared below
    if n.op.prepare is not None:
        return (n.op, n.attrs)
    return (n.op, n.attrs, tuple(a.type for a in n.args))


def verify_gradient(
    primal: Graph,
    gradient: Graph,
    inputs: Sequence[Any],
    *,
    wrt: Sequence[int] | None = None,
    computed: Sequence[Any] | None = None,
) -> list[Check]:
    """Compare ``gradient``: params -> (value, *gradients of the params in ``wrt``) with differences of ``primal``.

    ``computed`` are the gradients to check in place of those that the reference evaluation of ``gradient`` gives.
    """
    places = [k for k, p in enumerate(primal.params) if p.dtype.is_float] if wrt is None else list(wrt)
    arrays = [np.asarray(a, p.dtype.numpy) for p, a in zip(primal.params, inputs, strict=True)]
    claimed = evaluate(gradient, *arrays)[1:] if computed is None else [np.asarray(c) for c in computed]
    slope, how, tolerance = _differences(primal, arrays)
    if any(primal.params[k].dtype.bytes < 8 for k in places):
        tolerance = max(tolerance, F32_TOLERANCE)
    checks = []
    for k, g in zip(places, claimed, strict=True):
        for name, direction in _directions(arrays[k].shape, k):
            checks.append(_compare(name, how, slope(k, direction), _along(g, direction), tolerance))
    return checks


def _directions(shape: tuple[int, ...], k: int) -> list[tuple[str, Any]]:
    name, count = f"gradient of argument {k}", int(np.prod(shape))
    if count <= COORDINATES:
        out = []
        for at in np.ndindex(shape):
            unit = np.zeros(shape)
            unit[at] = 1.0
            out.append((f"{name}[{', '.join(map(str, at))}]" if at else name, unit))
        return out
    draw = np.random.default_rng(k)
    return [(f"{name}, direction {d + 1}", draw.standard_normal(shape)) for d in range(DIRECTIONS)]


def _along(g: Any, direction: Any) -> tuple[float, float]:
    """The slope that a gradient claims, and the magnitude of what was added up for it."""
    terms = np.where(direction == 0, 0.0, np.asarray(g, float) * direction)
    return float(terms.sum()), float(np.abs(terms).sum())


def _compare(name: str, how: str, expected: float, claimed: tuple[float, float], tolerance: float) -> Check:
    value, magnitude = claimed
    if expected == value or (np.isnan(expected) and np.isnan(value)):
        return Check(name, how, True, f"{value:.10g}")
    error = abs(expected - value)
    passed = bool(error <= tolerance * max(abs(expected), magnitude, 1e-3))
    return Check(
        name, how, passed, f"{value:.10g}" if passed else f"the rules give {value:.10g}, differences {expected:.10g}"
    )


def _differences(primal: Graph, arrays: Sequence[Any]) -> tuple[Callable[[int, Any], float], str, float]:
    """The slope of the first result along a direction of one argument, how it is found, and how well."""
    precise = _precise_slope(primal, arrays)
    try:
        if _work(primal, arrays) > WORK:
            raise UnsupportedError("the graph is large")
        first = next(k for k, p in enumerate(primal.params) if p.dtype.is_float)
        precise(first, np.zeros(arrays[first].shape))
    except UnsupportedError as e:
        reason = str(e).splitlines()[0]
        how = f"compared with extrapolated differences in float64, because {reason}"
        return _machine_slope(primal, arrays), how, MACHINE_TOLERANCE
    return precise, f"compared with differences at {DIGITS} digits", PRECISE_TOLERANCE


def _work(graph: Graph, arrays: Sequence[Any]) -> int:
    largest = max((a.size for a in arrays), default=1)
    return largest * len(graph.nodes())


def _precise_slope(primal: Graph, arrays: Sequence[Any]) -> Callable[[int, Any], float]:
    elements = [to_elements(a, p.dtype) for a, p in zip(arrays, primal.params, strict=True)]

    def slope(k: int, direction: Any) -> float:
        directions: list[Any] = [None] * len(elements)
        directions[k] = np.vectorize(mpmath.mpf, otypes=[object])(direction)
        return float(central_difference(primal, elements, directions))

    return slope


def _machine_slope(primal: Graph, arrays: Sequence[Any]) -> Callable[[int, Any], float]:
    def slope(k: int, direction: Any) -> float:
        def value(step: float) -> float:
            moved = [a + step * direction if j == k else a for j, a in enumerate(arrays)]
            return float(evaluate(primal, *moved)[0])

        return float(richardson(value))

    return slope


__all__ = ["Check", "Report", "verify_gradient", "verify_rules"]
