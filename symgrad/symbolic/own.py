"""A call under the user's own derivative rule -> a check of that rule against differences of what was called."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.graph import Graph, evaluate, substitute, topological
from symgrad.ir.node import PARAM, Node, make, param
from symgrad.ir.op import REGISTRY
from symgrad.ir.types import evaluate_size, size_names
from symgrad.symbolic.differences import STEP, extrapolated, relative
from symgrad.symbolic.report import Check


def check_own_rule(n: Node, name: str, sizes: dict[str, int], values: dict[Node, Any], length: int) -> Check:
    """The rule of a ``custom`` node: its pullback along random directions, against its outputs at moved inputs."""
    outs = n.attr("outs")
    inputs = tuple(dict.fromkeys(n.args[outs:]))
    fresh = {a: param(a.type) for a in inputs}
    outputs = tuple(substitute(n.args[:outs], fresh))
    others = tuple(m for m in topological(outputs) if m.op is PARAM and m not in fresh.values())
    draw = np.random.default_rng(1)

    def data(node: Node) -> Any:
        if node in values:
            return np.asarray(values[node], node.dtype.numpy)
        shape = tuple(evaluate_size(s, dict.fromkeys(size_names(s), length) | sizes) for s in node.shape)
        return draw.uniform(0.5, 1.5, shape) if node.dtype.is_float else np.zeros(shape, node.dtype.numpy)

    args, fixed = [data(a) for a in inputs], [data(m) for m in others]
    params = (*fresh.values(), *others)
    tangents = [
        draw.standard_normal(np.shape(v)) if a.dtype.is_float else None for a, v in zip(inputs, args, strict=True)
    ]
    weights = [draw.standard_normal(np.shape(v)) for v in evaluate(Graph(params, outputs), *args, *fixed, sizes=sizes)]

    def value(h: float) -> float:
        moved = [v if t is None else v + h * t for v, t in zip(args, tangents, strict=True)]
        results = evaluate(Graph(params, outputs), *moved, *fixed, sizes=sizes)
        return sum(float(np.sum(w * r)) for w, r in zip(weights, results, strict=True))

    seeds = tuple(param(o.type) for o in outputs)
    places = [fresh[a] for a in n.args[outs:]]
    vjp = REGISTRY["custom"].vjp
    assert vjp is not None
    whole = make(n.op, *outputs, *places, **dict(n.attrs))
    cts = vjp(seeds, whole, *outputs, *places, **dict(n.attrs))[outs:]
    directions = dict(zip(fresh.values(), tangents, strict=True))
    pairs = [
        (c, directions[p]) for c, p in zip(cts, places, strict=True) if c is not None and directions[p] is not None
    ]
    pulled = evaluate(Graph((*params, *seeds), tuple(c for c, _ in pairs)), *args, *fixed, *weights, sizes=sizes)
    claimed = sum(float(np.sum(v * t)) for v, (_, t) in zip(pulled, pairs, strict=True))
    single = any(o.dtype.is_float and o.dtype.bytes < 8 for o in (*outputs, *inputs))
    slope = extrapolated(value, 0.05 if single else STEP)
    if relative(claimed, slope) < (1e-3 if single else 1e-6):
        return Check(name, "compared with differences", True, f"relative error {relative(claimed, slope):.1g}")
    return Check(name, "compared with differences", False, f"the rule gives {claimed:.10g}, differences {slope:.10g}")
