"""Backward: cotangents go from the outputs to the leaves, each step visited once, the latest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from symgrad.tensor.base import BaseTensor
from symgrad.tensor.modes import MODE
from symgrad.tensor.plan import Roots, route
from symgrad.tensor.program import record_route, run_pending
from symgrad.tensor.tape import Cotangent, Edge, Leaf, Step, plus
from symgrad.tensor.values import Value

Sink = Callable[[BaseTensor, Cotangent], None]


def steps_below(edges: Sequence[Edge]) -> list[Step]:
    """All steps that gradients pass, the latest first."""
    seen: set[Step] = set()
    stack = [e.record for e in edges]
    while stack:
        step = stack.pop()
        if step not in seen:
            seen.add(step)
            stack.extend([e.record for e in step.edges if e is not None])
    return sorted(seen, key=_serial, reverse=True)


_serial = attrgetter("serial")


def _leading_to(steps: Sequence[Step], wanted: set[Step]) -> list[Step]:
    """Those of the steps, latest first, that are wanted or lead to one that is."""
    kept = set(wanted)
    for step in reversed(steps):
        if any(e is not None and e.record in kept for e in step.edges):
            kept.add(step)
    return [s for s in steps if s in kept]


def flow(
    roots: Roots, *, retain: bool, create: bool, wanted: Sequence[Edge] | None, sink: Sink
) -> list[Cotangent | None]:
    """Run backward; leaves give their gradients to ``sink`` unless edges are ``wanted``, whose cotangents return."""
    steps = steps_below([e for e, _ in roots])
    if wanted is not None:
        steps = _leading_to(steps, {e.record for e in wanted})
    for step in steps:
        step.check()
    before, MODE.enabled = MODE.enabled, create
    found: dict[Edge, Cotangent | None] = dict.fromkeys(wanted or ())
    try:
        way = None if create or wanted is not None else route(roots, steps)
        if way is None:
            arrived = _walk(roots, steps, found, create)
            ends = [(leaf.tensor(), ct) for leaf, ct in arrived if wanted is None]
        else:
            key, leaves, keeping = way
            values = record_route(key, lambda: _values_along(roots, steps, leaves, keeping))
            tensors = [leaf.tensor() for leaf in leaves] + [_keeper(e) for e in keeping]
            ends = [(x, Cotangent(v)) for x, v in zip(tensors, values, strict=True) if v is not None]
        for tensor, ct in ends:
            if tensor is not None:
                sink(tensor, ct)
    finally:
        MODE.enabled = before
    if not retain:
        for step in steps:
            step.free()
    if not create:
        run_pending()
    return [found.get(e) for e in wanted or ()]


def _values_along(
    roots: Roots, steps: Sequence[Step], leaves: Sequence[Leaf], keeping: Sequence[Edge]
) -> list[Value | None]:
    found: dict[Edge, Cotangent | None] = dict.fromkeys(keeping)
    arrived = {leaf: ct.value for leaf, ct in _walk(roots, steps, found, False, observed=False)}
    passed = (found[e] for e in keeping)
    return [arrived.get(leaf) for leaf in leaves] + [None if ct is None else ct.value for ct in passed]


def _keeper(edge: Edge) -> BaseTensor | None:
    """The tensor that keeps what passes an edge, as long as it lives."""
    kept = edge.record.kept
    return None if kept is None else kept[edge.index]()


def _walk(
    roots: Roots, steps: Sequence[Step], found: dict[Edge, Cotangent | None], create: bool, *, observed: bool = True
) -> list[tuple[Leaf, Cotangent]]:
    """Pass cotangents from step to step; what arrives at the leaves, and in ``found`` at the edges it names.

    ``observed``: hooks see them, and tensors that keep their gradient take it.
    """
    arrived: dict[Step, dict[int, Cotangent]] = {}
    for edge, ct in roots:
        _arrive(arrived, edge, ct)
    inner = set(steps)
    ends: list[tuple[Leaf, Cotangent]] = []
    for step in steps:
        cts = arrived.pop(step, None)
        if cts is None:
            continue
        if observed and (step.hooks or step.kept):
            _observe(step, cts, create)
        for k in cts if found else ():
            if (seen := Edge(step, k)) in found:
                found[seen] = cts[k]
        if isinstance(step, Leaf):
            ends.append((step, cts[0]))
            continue
        for below, passed in zip(step.edges, step.pull(cts), strict=True):
            if passed is not None and below is not None and below.record in inner:
                _arrive(arrived, below, passed)
    return ends


def _arrive(arrived: dict[Step, dict[int, Cotangent]], edge: Edge, ct: Cotangent) -> None:
    cts = arrived.setdefault(edge.record, {})
    cts[edge.index] = plus(cts[edge.index], ct, edge.record.like) if edge.index in cts else ct


def _observe(step: Step, cts: dict[int, Cotangent], create: bool) -> None:
    """Let hooks see and replace the cotangents of a step, in order; then keep those that are asked for."""
    for k, ct in list(cts.items()):
        for hook in list((step.hooks or {}).get(k, {}).values()):
            new = hook(step.like._make(ct.value, ct.edge))
            if new is not None:
                ct = cts[k] = _replaced(step, new, ct)
        tensor = step.kept[k]() if step.kept and k in step.kept else None
        if tensor is not None:
            accumulate(tensor, ct)


def _replaced(step: Step, new: Any, old: Cotangent) -> Cotangent:
    if not isinstance(new, BaseTensor):
        raise TypeError(f"a hook returns a tensor or None, got {type(new).__name__}")
    if new._dims != tuple(old.value.shape):
        raise RuntimeError(f"a hook returned a gradient of shape {new._dims}, wanted {tuple(old.value.shape)}")
    return Cotangent(new._value_now(), None, new._edge)


def accumulate(tensor: BaseTensor, ct: Cotangent) -> None:
    """Add to ``tensor.grad``: in place, unless the gradient is differentiated itself."""
    old = tensor._grad
    if old is None:
        tensor._grad = type(tensor)._make(ct.value, ct.edge)
        return
    total = plus(Cotangent(old._value_now(), None, old._edge), ct, type(tensor))
    if MODE.enabled:
        tensor._grad = type(tensor)._make(total.value, total.edge)
    else:
        old._replace(total.value, None)
