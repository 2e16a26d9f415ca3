"""Every primitive against NumPy, sympy, differences and identities, from its declaration alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.errors import UnsupportedError
from symgrad.ir.node import TupleType, make, param
from symgrad.ir.op import REGISTRY, Op, Sample, Scalar, register
from symgrad.ir.types import DTYPES, TensorType, boolean, dtype_of, f64, i8
from symgrad.ops.folds import expand_over
from symgrad.ops.kinds import pointwise
from symgrad.symbolic.bridge import form
from symgrad.symbolic.derive import arguments, derivative
from symgrad.symbolic.precision import precise_function
from tests.ops.cases import (
    FLOATS,
    OPS,
    SIN,
    SUM,
    Bench,
    Case,
    bench,
    cases,
    close,
    differences,
    flat,
    jacobian,
    over_floats,
    over_ops,
    reference,
)

# --- the checks -------------------------------------------------------------------------------------------------------


def check_values(bench: Bench, tolerance: float) -> None:
    for case, out in zip(bench.cases, bench.run(), strict=True):
        for got, want in zip(out.values, reference(bench.op, case.wide()), strict=True):
            close(got, want, case, tolerance if got.dtype.kind == "f" else 0.0)


def check_first_order(bench: Bench, tolerance: float) -> None:
    """Both modes against differences of the NumPy reference, and <J t, u> = <t, Jᵀu>."""
    for case, d, out in zip(bench.cases, bench.directions, bench.run(), strict=True):
        if not d.t or bench.op.name == "stop_gradient":
            continue
        rows = jacobian(bench.op, case)
        scale = max(float(np.abs(j).max(initial=0.0)) for row in rows for j in row)
        for got, row in zip(out.forward, rows, strict=True):
            want = sum(np.tensordot(j, t, t.ndim) for j, t in zip(row, d.t, strict=True))
            close(got, want, f"forward {case}", tolerance, scale)
        for k, got in enumerate(out.reverse):
            want = sum(np.tensordot(u, row[k], u.ndim) for u, row in zip(d.u, rows, strict=True))
            close(got, want, f"reverse {case}", tolerance, scale)
        left = sum(np.sum(np.float64(a) * b) for a, b in zip(out.forward, d.u, strict=True))
        right = sum(np.sum(np.float64(a) * b) for a, b in zip(out.reverse, d.t, strict=True))
        close(left, right, f"adjoint identity {case}", 1e-12 if d.t[0].dtype == np.float64 else 1e-5, scale)


def check_second_order(bench: Bench, tolerance: float) -> None:
    """The derivative of Jᵀu along t by either mode, the same, and equal to differences of Jᵀu in float64."""
    exact = tolerance < 1e-6
    found = bench.run()
    slopes = _slopes(bench) if exact else [None] * len(found)
    for case, d, out, slope in zip(bench.cases, bench.directions, found, slopes, strict=True):
        if not d.t:
            continue
        scale = max(float(np.abs(g).max(initial=0.0)) for g in out.reverse)
        for k, (a, b) in enumerate(zip(out.mixed, out.twice, strict=True)):
            close(a, b, f"forward over reverse and reverse over reverse {case}", 1e-11 if exact else tolerance, scale)
            if slope is not None:
                close(a, slope[k], f"second order {case}", tolerance, scale)


def _slopes(bench: Bench) -> list[list[Any]]:
    """Differences of Jᵀu along t for each case."""

    def moved(h: float) -> list[Any]:
        points = [
            c.at([a + h * t for a, t in zip(c.moving, d.t, strict=True)]) if d.t else c
            for c, d in zip(bench.cases, bench.directions, strict=True)
        ]
        return [g for out in bench.run(points) for g in out.reverse]

    slopes = iter(differences(moved))
    return [[next(slopes) for _ in d.t] for d in bench.directions]


# --- values and derivatives -------------------------------------------------------------------------------------------


@over_ops
def test_the_inferred_type_is_that_of_numpy(op):
    tried = 0
    for dtype in DTYPES.values():
        for case in cases(op, dtype):
            if not case.free and dtype is not f64:
                continue
            inferred = op.infer(*(TensorType(dtype_of(a.dtype), a.shape) for a in case.args), **case.attrs)
            types = inferred.items if isinstance(inferred, TupleType) else (inferred,)
            assert [(y.dtype, y.shape) for y in reference(op, case)] == [(t.dtype.numpy, t.shape) for t in types], case
            tried += 1
    assert tried


@over_floats
@over_ops
def test_values(op, dtype, compiled):
    check_values(bench(op, dtype, compiled), 1e-13 if dtype is f64 else 3e-6)


@over_ops
def test_values_of_integers_and_bools(op, compiled):
    found = [c for d in DTYPES.values() if not d.is_float for c in cases(op, d) if c.free]
    if found:
        check_values(Bench(op, found, compiled), 0.0)


@over_floats
@over_ops
def test_first_derivatives(op, dtype, compiled):
    check_first_order(bench(op, dtype, compiled), 1e-9 if dtype is f64 else 2e-5)


@over_floats
@over_ops
def test_second_derivatives(op, dtype, compiled):
    check_second_order(bench(op, dtype, compiled), 1e-8 if dtype is f64 else 2e-4)


@over_ops
def test_free_sizes(op, compiled):
    free = bench(op, f64, compiled, sized=True)
    for case, got, want in zip(free.cases, free.run(), bench(op, f64, compiled).run(), strict=True):
        for a, b in zip(flat(got), flat(want), strict=False):
            close(a, b, case, 1e-13)


@over_ops
def test_derivatives_keep_the_dtype(op, compiled):
    for dtype in FLOATS:
        for part in bench(op, dtype, compiled).layout:
            assert {n.dtype for n in [*part.reverse, *part.mixed, *part.twice]} <= {dtype}


# --- the symbolic form ------------------------------------------------------------------------------------------------

SYMBOLIC = [op for op in OPS if op.sympy is not None and op.prepare is not None]


def elements(op: Op, case: Case) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Indices, and the arguments there as sympy and mpmath take them."""
    for at in np.ndindex(case.args[0].shape):
        yield at, [bool(a[at]) if a.dtype == bool else mpmath.mpf(a[at].item()) for a in case.args]


def symbols_of(case: Case) -> list[Any]:
    return [
        sp.Symbol(f"p{k}") if a.dtype == bool else x
        for k, (a, x) in enumerate(zip(case.args, arguments(len(case.args)), strict=True))
    ]


@pytest.mark.parametrize("op", SYMBOLIC, ids=lambda op: op.name)
def test_the_symbolic_form_has_the_value(op):
    dtype = next(d for d in (f64, boolean, i8) if cases(op, d))
    for case in cases(op, dtype):
        symbols = symbols_of(case)
        function = precise_function(symbols, form(op, *symbols, **case.attrs))
        (want,) = reference(op, case)
        with mpmath.workdps(40):
            for at, values in elements(op, case):
                assert np.isclose(float(function(*values)), float(want[at]), rtol=1e-13, atol=1e-14), (case, at)


@pytest.mark.parametrize("op", [op for op in SYMBOLIC if cases(op, f64) and not op.constant], ids=lambda op: op.name)
def test_partials_are_those_of_the_symbolic_form(op, compiled):
    """Against ``sympy.diff`` and against differences of the form, both at 40 digits."""
    b = bench(op, f64, compiled)
    for case, d, out in zip(b.cases, b.directions, b.run(), strict=True):
        symbols = symbols_of(case)
        expression = form(op, *symbols, **case.attrs)
        value = precise_function(symbols, expression)
        for k, x in enumerate(symbols[p] for p in case.free):
            exact = derivative(expression, x)
            slope = None if exact is None else precise_function(symbols, exact)
            with mpmath.workdps(40):
                for at, values in elements(op, case):
                    place = case.free[k]
                    want = mpmath.diff(lambda v: value(*values[:place], v, *values[place + 1 :]), values[place])  # noqa: B023
                    got = out.reverse[k][at] / d.u[0][at]
                    assert np.isclose(got, float(want), rtol=1e-12, atol=1e-13), (case, k, at)
                    if slope is not None:
                        assert np.isclose(float(slope(*values)), float(want), rtol=1e-15), (case, k, at)


# --- declarations, and the teeth of the checks -----------------------------------------------------------------------


def test_a_primitive_without_derivative_must_say_so():
    assert isinstance(SIN.lower, Scalar) and SIN.lower.fn is not None
    with pytest.raises(ValueError, match="says_nothing has no derivative"):
        pointwise("says_nothing", doc="", numpy=np.sin, lower=SIN.lower.fn)
    assert "says_nothing" not in REGISTRY


def test_a_primitive_is_declared_once():
    with pytest.raises(ValueError, match="sin is declared twice"):
        register(SIN)


def test_a_derivative_that_is_not_there_raises():
    bare = Op(name="bare", doc="", infer=lambda x: x, numpy=np.sin, lower=SIN.lower, prepare=lambda x: (x,))
    x = param(TensorType(f64, (3,)))
    y = make(bare, x)
    with pytest.raises(UnsupportedError, match="bare has no derivative"):
        pull([y], [Linear(y)], [x])


WRONG: dict[str, tuple[Op, Callable[[Bench, float], None]]] = {
    "value": (replace(SIN, numpy=lambda x: np.sin(x) * (1 + 1e-6)), check_values),
    "partial": (replace(SIN, partials=lambda y, x: (REGISTRY["cos"](x) * (1 + 1e-6),)), check_first_order),
    "constant": (replace(SIN, partials=None, constant=True), check_first_order),
    "vjp": (replace(SUM, vjp=lambda ct, y, x, *, axes: (expand_over(ct * 2.0, x, axes),)), check_first_order),
    "jvp": (replace(SUM, jvp=lambda ts, y, x, *, axes: SUM(ts[0], axes=axes) * 1.001), check_first_order),
    "second order": (
        # right to first order, but the cosine hides from the second
        replace(SIN, partials=lambda y, x: (REGISTRY["stop_gradient"](REGISTRY["cos"](x)),)),
        check_second_order,
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_rule_is_caught(what, compiled):
    op, check = WRONG[what]
    with pytest.raises(AssertionError):
        check(Bench(op, cases(op, f64), compiled), 1e-9)


def test_the_rules_that_were_bent_are_right(compiled):
    for op in (SIN, SUM):
        for check in (check_values, check_first_order, check_second_order):
            check(Bench(op, cases(op, f64), compiled), 1e-8)


def test_samples_repeat_their_last_interval():
    assert Sample(((0.0, 1.0), (2.0, 3.0))).of(5) == (2.0, 3.0)
