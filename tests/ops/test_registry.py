"""Every primitive against NumPy, sympy, differences and identities, from its declaration alone.

One native function for each primitive and dtype computes values, derivatives in both modes and of order two for all its
examples. Points are drawn in the domain that the declaration gives. References are in float64 or at 40 digits.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

import symgrad.ops.indexing
import symgrad.ops.products
import symgrad.ops.special  # noqa: F401  # all primitives
from symgrad.autodiff.forward import push
from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ir.graph import Graph, canonical, evaluate
from symgrad.ir.node import GET, Node, TupleType, constant, make, param
from symgrad.ir.op import REGISTRY, Leaf, Op, Region, Sample, Scalar, register
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import DTYPES, DType, TensorType, boolean, dtype_of, f32, f64, i8, size_named
from symgrad.ops.folds import expand_over
from symgrad.ops.kinds import pointwise, zeros
from symgrad.passes.batch import batch
from symgrad.symbolic.bridge import form
from symgrad.symbolic.derive import arguments, derivative
from symgrad.symbolic.precision import precise_function

SIN, SUM = REGISTRY["sin"], REGISTRY["sum"]
OPS = [
    op for op in REGISTRY.values() if not isinstance(op.lower, Leaf | Region)
]  # graphs inside have tests of their own
FLOATS = (f64, f32)
SIZES = ("shape", "sizes", "size")  # attributes that hold sizes
STEP = 2e-3
Compile = Callable[[Graph], Callable[..., list[Any]]]

over_ops = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
over_floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)


# --- cases: an example at a point -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """``args`` is the point; ``free`` are the positions that had a shape, whose dtype is the one under test."""

    args: tuple[Any, ...]
    attrs: dict[str, Any]
    free: tuple[int, ...]

    def at(self, values: Sequence[Any]) -> Case:
        args = list(self.args)
        for k, v in zip(self.free, values, strict=True):
            args[k] = v
        return replace(self, args=tuple(args))

    @property
    def moving(self) -> list[Any]:
        return [self.args[k] for k in self.free]

    def wide(self) -> Case:
        """The same point in float64."""
        return self.at([a.astype(np.float64) if a.dtype.kind == "f" else a for a in self.moving])

    def __str__(self) -> str:
        return f"{[np.shape(a) for a in self.args]} {self.attrs}"


def arity(op: Op) -> int:
    if isinstance(op.numpy, np.ufunc):
        return op.numpy.nin
    known, extra = (op.partials, 1) if op.partials is not None else (op.numpy, 0)
    kinds = [q.kind for q in inspect.signature(known).parameters.values()]
    assert inspect.Parameter.VAR_POSITIONAL not in kinds, f"{op.name} needs examples"
    return sum(kind == inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds) - extra


def examples(op: Op) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    if op.examples is not None:
        return op.examples()
    assert op.prepare is not None, f"{op.name} needs examples"
    return [((shape,) * arity(op), {}) for shape in ((3,), (2, 3))]


def drawn(draw: np.random.Generator, shape: tuple[int, ...], dtype: DType, low: float, high: float) -> Any:
    if dtype.kind == "b":
        return draw.random(shape) < 0.5
    if dtype.kind in "iu":
        return draw.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype.numpy)
    return draw.uniform(low, high, shape).astype(dtype.numpy)


def cases(op: Op, dtype: DType) -> list[Case]:
    """The examples that accept ``dtype``, each at a point."""
    draw = np.random.default_rng(zlib.crc32(op.name.encode()))
    out = []
    for args, attrs in examples(op):
        free = tuple(k for k, a in enumerate(args) if isinstance(a, tuple))
        point = (drawn(draw, a, dtype, *op.sample.of(k)) if k in free else a for k, a in enumerate(args))
        case = Case(tuple(point), attrs, free)
        try:
            op.infer(*(TensorType(dtype_of(a.dtype), a.shape) for a in case.args), **attrs)
        except DTypeError:
            continue
        out.append(case)
    return out


def reference(op: Op, case: Case) -> list[Any]:
    with np.errstate(all="ignore"):
        out = op.numpy(*case.args, **case.attrs)
    return [np.asarray(v) for v in out] if isinstance(out, tuple) else [np.asarray(out)]


def differences(f: Callable[[float], list[Any]], step: float = STEP) -> list[Any]:
    """The derivative of ``f`` at 0, of order six."""
    total: Any = None
    for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
        part = [weight * (a - b) for a, b in zip(f(k * step), f(-k * step), strict=True)]
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return [a / (60.0 * step) for a in total]


def jacobian(op: Op, case: Case) -> list[list[Any]]:
    """``[result][argument]``: arrays of shape (*result, *argument), by differences of the NumPy reference."""
    case = case.wide()
    columns: list[list[list[Any]]] = []
    for k, a in enumerate(case.moving):
        columns.append([])
        for at in np.ndindex(a.shape):

            def moved(h: float, k: int = k, at: tuple[int, ...] = at) -> list[Any]:
                values = [v.copy() for v in case.moving]
                values[k][at] += h
                return [y.astype(np.float64) for y in reference(op, case.at(values))]

            columns[k].append(differences(moved))
    return [
        [
            np.stack([c[r] for c in column], -1).reshape(y.shape + a.shape)
            for a, column in zip(case.moving, columns, strict=True)
        ]
        for r, y in enumerate(reference(op, case))
    ]


# --- graphs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outputs:
    """Values and derivatives: J t, Jᵀu, and the derivative of Jᵀu along t by either mode."""

    values: list[Any]
    forward: list[Any]
    reverse: list[Any]
    mixed: list[Any]
    twice: list[Any]


def results_of(n: Node) -> list[Node]:
    return [make(GET, n, index=k) for k in range(len(n.type.items))] if isinstance(n.type, TupleType) else [n]


def filled(nodes: Sequence[Node | None], like: Sequence[Node]) -> list[Node]:
    return [zeros(m.shape, m.dtype) if n is None else n for n, m in zip(nodes, like, strict=True)]


def outputs(op: Op, case: Case, args: Sequence[Node], t: Sequence[Node], u: Sequence[Node], order: int) -> Outputs:
    ys = results_of(make(op, *args, **case.attrs))
    wrt = [args[k] for k in case.free]
    if not t:
        return Outputs(ys, [], [], [], [])
    tangents, cts = [Linear(n) for n in t], [Linear(n) for n in u]
    forward, reverse = filled(push(ys, wrt, tangents), ys), filled(pull(ys, cts, wrt), wrt)
    if order == 1:
        return Outputs(ys, forward, reverse, [], [])
    mixed, twice = push(reverse, wrt, tangents), pull(reverse, tangents, wrt)
    return Outputs(ys, forward, reverse, filled(mixed, wrt), filled(twice, wrt))


def differentiable(op: Op, case: Case) -> bool:
    return bool(case.free) and all(a.dtype.kind == "f" for a in [*case.moving, *reference(op, case)])


@dataclass(frozen=True)
class Directions:
    """Tangents of the free arguments and cotangents of the results of a case."""

    t: list[Any]
    u: list[Any]


def directions(op: Op, case: Case) -> Directions:
    draw = np.random.default_rng(1)
    if not differentiable(op, case):
        return Directions([], [])
    ys, dtype = reference(op, case), case.moving[0].dtype
    t = [draw.uniform(0.5, 1.5, a.shape).astype(dtype) for a in case.moving]
    return Directions(t, [draw.uniform(0.5, 1.5, y.shape).astype(y.dtype) for y in ys])


class Bench:
    """The native function of a primitive for some cases at once; to first order where sizes are free."""

    def __init__(self, op: Op, cases: list[Case], compiled: Compile, *, sized: bool = False) -> None:
        self.op, self.cases = op, cases
        self.directions = [directions(op, c) for c in self.cases]
        self.order = 1 if sized else 2
        self.sizes = {f"n{s}": s for c in self.cases for a in c.args for s in a.shape if s > 1} if sized else {}
        with assuming(Sizes(self.sizes)):
            params: list[Node] = []
            parts = [self._graph(c, d, params) for c, d in zip(self.cases, self.directions, strict=True)]
            results = [n for p in parts for n in _flat(p)]
            self.call = compiled(canonical(Graph(tuple(params), tuple(results))))
        self.layout = parts

    def _graph(self, case: Case, d: Directions, params: list[Node]) -> Outputs:
        args, t, u = ([param(self._type(a)) for a in arrays] for arrays in (case.args, d.t, d.u))
        params += [*args, *t, *u]
        sized = {k: self._sized(v) if k in SIZES else v for k, v in case.attrs.items()}
        return outputs(self.op, replace(case, attrs=sized), args, t, u, self.order)

    def _type(self, array: Any) -> TensorType:
        return TensorType(dtype_of(array.dtype), self._sized(array.shape))

    def _sized(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._sized(v) for v in value)
        return size_named(f"n{value}") if f"n{value}" in self.sizes else value

    def run(self, points: Sequence[Case] | None = None) -> list[Outputs]:
        arrays = [
            a for c, d in zip(points or self.cases, self.directions, strict=True) for a in (*c.args, *d.t, *d.u)
        ]  # fmt: skip
        found = iter(self.call(*arrays, **self.sizes))
        return [
            Outputs(*([next(found) for _ in part] for part in (p.values, p.forward, p.reverse, p.mixed, p.twice)))
            for p in self.layout
        ]


def _flat(p: Outputs) -> list[Node]:
    return [*p.values, *p.forward, *p.reverse, *p.mixed, *p.twice]


@functools.cache
def bench(op: Op, dtype: DType, compiled: Compile, sized: bool = False) -> Bench:
    return Bench(op, cases(op, dtype), compiled, sized=sized)


def close(got: Any, want: Any, what: Any, rtol: float, scale: float = 0.0) -> None:
    """Equal within ``rtol`` of the largest element (or of ``scale``); inf and nan in the same places."""
    want = np.asarray(want)
    finite = np.abs(want[np.isfinite(want)], dtype=np.float64) if want.dtype.kind == "f" else np.zeros(0)
    size = max(scale, float(finite.max()) if finite.size else 0.0)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * size, err_msg=str(what))


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

    flat = iter(differences(moved))
    return [[next(flat) for _ in d.t] for d in bench.directions]


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
        for a, b in zip(_flat(got), _flat(want), strict=False):
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


def test_the_rules_that_were_bent_are_right(compiled):
    for op in (SIN, SUM):
        for check in (check_values, check_first_order, check_second_order):
            check(Bench(op, cases(op, f64), compiled), 1e-8)


def test_samples_repeat_their_last_interval():
    assert Sample(((0.0, 1.0), (2.0, 3.0))).of(5) == (2.0, 3.0)
