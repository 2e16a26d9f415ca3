"""Primitives at points: their examples, NumPy references, differences, and native functions of all derivatives.

One native function for each primitive and dtype computes values, derivatives in both modes and of order two for all its
examples. Points are drawn in the domain that the declaration gives. References are in float64 or at 40 digits.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import symgrad.ops
from symgrad.autodiff.forward import push
from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.errors import DTypeError
from symgrad.ir.graph import Graph, canonical
from symgrad.ir.node import Node, TupleType, make, param
from symgrad.ir.op import REGISTRY, Leaf, Op, Region
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import DType, TensorType, dtype_of, f32, f64, size_named
from symgrad.ops import control
from symgrad.ops.kinds import filled

for module in pkgutil.iter_modules(symgrad.ops.__path__, "symgrad.ops."):
    importlib.import_module(module.name)

SIN, SUM = REGISTRY["sin"], REGISTRY["sum"]
# primitives with graphs inside have tests of their own
OPS = [op for op in REGISTRY.values() if not isinstance(op.lower, Leaf | Region)]
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
    return control.results_of(n) if isinstance(n.type, TupleType) else [n]


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
            results = [n for p in parts for n in flat(p)]
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


def flat(p: Outputs) -> list[Node]:
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
