"""How every primitive goes through ``vmap`` and under masks, from its declaration alone."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.forward import push
from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import constant, make, param
from symgrad.ir.op import REGISTRY, Op
from symgrad.ir.types import TensorType, boolean, dtype_of, f64, i8
from symgrad.ops.kinds import filled
from symgrad.passes.batch import batch
from tests.ops.cases import OPS, SUM, Case, cases, close, directions, jacobian, over_ops, reference, results_of

# --- batches ----------------------------------------------------------------------------------------------------------

BATCH = 3


def stacked(case: Case, k: int) -> list[Any]:
    """Different arguments of the kind of argument k: its elements in other orders."""
    a = case.args[k]
    return [np.roll(a.reshape(-1), s).reshape(a.shape) for s in range(BATCH)]


@over_ops
def test_the_batch_rule_is_a_loop(op):
    for case in cases(op, f64) or cases(op, i8) or cases(op, boolean):
        places = range(len(case.args))
        for chosen in {*itertools.combinations(places, 1), tuple(places)} - {()}:
            for shift in range(max(case.args[k].ndim for k in chosen) + 1):
                axes = {k: min(shift, case.args[k].ndim) for k in chosen}
                check_batch(op, case, axes)


def check_batch(op: Op, case: Case, axes: dict[int, int]) -> None:
    inner = [param(TensorType(dtype_of(a.dtype), a.shape)) for a in case.args]
    batches = {k: np.stack(stacked(case, k), axis) for k, axis in axes.items()}
    outer = {k: param(TensorType(dtype_of(b.dtype), b.shape)) for k, b in batches.items()}
    found = batch(results_of(make(op, *inner, **case.attrs)), {inner[k]: (outer[k], axes[k]) for k in axes}, BATCH)
    params = (*outer.values(), *(p for k, p in enumerate(inner) if k not in axes))
    arrays = (*batches.values(), *(a for k, a in enumerate(case.args) if k not in axes))
    got = evaluate(Graph(params, tuple(n for n, _ in found)), *arrays)
    loop = [
        reference(
            op, replace(case, args=tuple(stacked(case, k)[i] if k in axes else a for k, a in enumerate(case.args)))
        )
        for i in range(BATCH)
    ]
    for r, (value, (_, axis)) in enumerate(zip(got, found, strict=True)):
        assert axis is not None
        for i in range(BATCH):
            close(value.take(i, axis), loop[i][r], (op, case, axes), 1e-13)


# --- masks ------------------------------------------------------------------------------------------------------------

MASKED = [op for op in OPS if not op.constant and (op.structural or op.prepare is not None) and cases(op, f64)]
over_masked = pytest.mark.parametrize("op", MASKED, ids=lambda op: op.name)
over_bad = pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)


@functools.cache
def masked_cases(op: Op) -> list[tuple[Case, list[Any]]]:
    """Cases, structural ones at positive points, with their Jacobians."""
    found = cases(op, f64)
    if op.structural:
        found = [c.at([np.asarray(0.5 + np.abs(a)) for a in c.moving]) for c in found]
    return [(c, jacobian(op, c)[0]) for c in found]


def mask_or_all(draw: np.random.Generator, shape: tuple[int, ...], whole: bool) -> Any:
    return (draw.random(shape) < 0.5) | whole


def linear(value: Any, mask: Any) -> Linear:
    """What contributes under ``mask``; without a mask where all does."""
    return Linear(constant(np.where(mask, value, 0.0)), None if mask.all() else constant(mask))


@over_bad
@over_masked
def test_what_does_not_reach_a_result_contributes_zero_in_reverse(op, bad):
    """Arguments that reach masked results only, or none, are bad and come out of a function with a bad derivative."""
    for (case, rows), whole in itertools.product(masked_cases(op), (False, True)):
        check_reverse_mask(op, case, rows, bad, whole)


def check_reverse_mask(op: Op, case: Case, rows: list[Any], bad: float, whole: bool) -> None:
    (u,) = directions(op, case).u
    mask = mask_or_all(np.random.default_rng(2), u.shape, whole)
    reached = [np.any(j[mask] != 0, axis=0) if op.structural else mask for j in rows]
    spoiled = case.at([np.where(r, a, bad) for r, a in zip(reached, case.moving, strict=True)])
    good, got = (reverse_under(op, c, linear(u, mask)) for c in (case, spoiled))
    for r, a, b in zip(reached, got, good, strict=True):
        assert np.all(a[~r] == 0), case
        close(a[r], b[r], case, 1e-14)


@over_bad
@over_masked
def test_what_no_tangent_reaches_contributes_zero_in_forward(op, bad):
    """Arguments without a tangent are bad; what depends on them alone goes into a function with a bad derivative."""
    for (case, rows), whole in itertools.product(masked_cases(op), (False, True)):
        check_forward_mask(op, case, rows, bad, whole)


def check_forward_mask(op: Op, case: Case, rows: list[Any], bad: float, whole: bool) -> None:
    draw = np.random.default_rng(3)
    same = mask_or_all(draw, case.moving[0].shape, whole)
    masks = [mask_or_all(draw, a.shape, whole) if op.structural else same for a in case.moving]
    spoiled = case.at([np.where(m, a, bad) for m, a in zip(masks, case.moving, strict=True)])
    for chosen in {tuple(range(len(masks))), *itertools.combinations(range(len(masks)), 1)}:
        touched = depends(op, rows, [m & (k in chosen) for k, m in enumerate(masks)])
        spoilt = depends(op, rows, [~m for m in masks])
        good, got = (forward_under(op, c, masks, chosen) for c in (case, spoiled))
        assert np.all(got[~touched] == 0), (case, chosen)
        close(got[~spoilt], good[~spoilt], (case, chosen), 1e-14)


def depends(op: Op, rows: list[Any], masks: list[Any]) -> Any:
    """Which results depend on the arguments in ``masks``."""
    if not op.structural:
        return functools.reduce(np.logical_or, masks)
    return functools.reduce(np.logical_or, (np.any(j[..., m] != 0, axis=-1) for j, m in zip(rows, masks, strict=True)))


def reverse_under(op: Op, case: Case, ct: Linear) -> list[Any]:
    params = [param(TensorType(dtype_of(a.dtype), a.shape)) for a in case.args]
    inside = [REGISTRY["sqrt"](p) if op.structural and k in case.free else p for k, p in enumerate(params)]
    wrt = [params[k] for k in case.free]
    return evaluate(
        Graph(tuple(params), tuple(filled(pull([make(op, *inside, **case.attrs)], [ct], wrt), wrt))), *case.args
    )


def forward_under(op: Op, case: Case, masks: list[Any], chosen: tuple[int, ...]) -> Any:
    params = [param(TensorType(dtype_of(a.dtype), a.shape)) for a in case.args]
    y = make(op, *params, **case.attrs)
    y = REGISTRY["sqrt"](y) if op.structural else y
    wrt = [params[case.free[k]] for k in chosen]
    tangents = [linear(1.0, masks[k]) for k in chosen]
    return evaluate(Graph(tuple(params), tuple(filled(push([y], wrt, tangents), [y]))), *case.args)[0]


# --- the teeth of the checks ---

WRONG_MASKS: dict[str, tuple[Op, Callable[..., None]]] = {
    "covers": (replace(REGISTRY["slice"], covers=True), check_reverse_mask),
    "fills": (replace(REGISTRY["place"], fills=False), check_forward_mask),
    "jvp": (replace(REGISTRY["scatter_set"], jvp=lambda ts, *rest, axes: ts[0]), check_forward_mask),
}


@pytest.mark.parametrize("what", WRONG_MASKS)
def test_a_wrong_mask_is_caught(what):
    op, check = WRONG_MASKS[what]
    with pytest.raises(AssertionError):
        for (case, rows), whole in itertools.product(masked_cases(op), (False, True)):
            check(op, case, rows, np.nan, whole)


def test_a_wrong_batch_rule_is_caught():
    op = replace(SUM, batch=lambda size, args, dims, *, axes: (SUM(args[0], axes=axes), 0))
    with pytest.raises(AssertionError):
        for case in cases(op, f64):
            check_batch(op, case, {0: 0})
