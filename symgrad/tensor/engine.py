"""Backward: cotangents go from the outputs to the leaves, each step visited once, the latest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.tensor.base import BaseTensor
from symgrad.tensor.modes import MODE
from symgrad.tensor.program import run_pending
from symgrad.tensor.tape import Cotangent, Edge, Leaf, Step, plus

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


def _serial(step: Step) -> int:
    return step.serial


def _leading_to(steps: Sequence[Step], wanted: set[Step]) -> list[Step]:
    """Those of the steps, latest first, that are wanted or lead to one that is."""
    kept = set(wanted)
    for step in reversed(steps):
        if any(e is not None and e.record in kept for e in step.edges):
            kept.add(step)
    return [s for s in steps if s in kept]


def flow(
    roots: Sequence[tuple[Edge, Cotangent]], *, retain: bool, create: bool, wanted: Sequence[Edge] | None, sink: Sink
) -> list[Cotangent | None]:
    """Run backward; leaves give their gradients to ``sink`` unless edges are ``wanted``, whose cotangents return."""
    steps = steps_below([e for e, _ in roots])
    if wanted is not None:
        steps = _leading_to(steps, {e.record for e in wanted})
    for step in steps:
        step.check()
    arrived: dict[Step, dict[int, Cotangent]] = {}
    for edge, ct in roots:
        _arrive(arrived, edge, ct)
    found: dict[Edge, Cotangent] = {}
    asked = set(wanted or ())
    before, MODE.enabled = MODE.enabled, create
    try:
        inner = set(steps)
        for step in steps:
            cts = arrived.pop(step, None)
            if cts is None:
                continue
            if step.hooks or step.kept:
                _observe(step, cts, create)
            for k in cts if asked else ():
                if (edge := Edge(step, k)) in asked:
                    found[edge] = cts[k]
            if isinstance(step, Leaf):
                tensor = step.tensor()
                if wanted is None and tensor is not None:
                    sink(tensor, cts[0])
                continue
            for edge_, ct_ in zip(step.edges, step.pull(cts), strict=True):
                if ct_ is not None and edge_ is not None and edge_.record in inner:
                    _arrive(arrived, edge_, ct_)
            if not retain:
                step.free()
    finally:
        MODE.enabled = before
    if not create:
        run_pending()
    return [found.get(e) for e in wanted or ()]


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
