"""Derivatives at the awkward points: the table of conventions, row by row.

One native function for each dtype computes all rows: reverse mode, forward mode along every unit vector, and where a
row states it the derivative of the gradient by both modes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.forward import push
from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, constant, param
from symgrad.ir.types import DType, TensorType, f32, f64
from symgrad.ops import folds, indexing, pointwise, running, sorting, special
from symgrad.ops.kinds import number, zeros
from symgrad.ops.views import slice_

inf, nan = math.inf, math.nan
p = pointwise


@dataclass(frozen=True)
class Row:
    """The sum of ``build`` at a point has this ``value`` and gradient, and the Hessian ``second``, row by row."""

    what: str
    build: Callable[..., Node]
    at: tuple[Any, ...]
    first: tuple[Any, ...]
    second: tuple[Any, ...] | None = None
    value: float | None = None


def total(n: Node) -> Node:
    return folds.sum_(n, axes=tuple(range(n.ndim)))


def line(op: Any) -> Callable[[Node], Node]:
    """A reduction over the one axis of its argument."""
    return lambda x: op(x, axes=(0,))


def ipow(n: int) -> Callable[[Node], Node]:
    return lambda x: p.ipow(x, n=n)


def power(y: float) -> Callable[[Node], Node]:
    return lambda x: p.pow_(x, y)


def ones(n: int) -> list[float]:
    return [1.0] * n


def length(n: Node) -> int:
    (size,) = n.shape
    assert isinstance(size, int)
    return size


def sort(x: Node) -> Node:
    return indexing.gather(x, sorting.argsort(x), axes=(0,))


def weighted(n: Node) -> Node:
    """1, 2, 3 … times the elements."""
    return n * constant(np.arange(1.0, length(n) + 1.0), n.dtype)


def first_of(x: Node, n: int = 1) -> Node:
    return slice_(x, starts=(0,), sizes=(n,), steps=(1,))


def cleared(x: Node) -> Node:
    """Zero in place of the first element."""
    return indexing.scatter_set(x, zeros((1,), x.dtype), constant([0]), axes=(0,))


def at_positions(*positions: int) -> Callable[[Node], Node]:
    return lambda x: indexing.gather(x, constant(list(positions)), axes=(0,))


def stored(*positions: int) -> Callable[[Node, Node], Node]:
    return lambda x, v: weighted(indexing.scatter_set(x, v, constant(list(positions)), axes=(0,)))


def added(*positions: int, size: int) -> Callable[[Node], Node]:
    return lambda v: weighted(indexing.scatter_add(v, constant(list(positions)), shape=(size,), axes=(0,)))


def positive(x: Node) -> Node:
    return p.lt(0.0, x)


def std(x: Node) -> Node:
    n = float(length(x))
    return folds.norm2(x - folds.sum_(x, axes=(0,)) / n, axes=(0,)) / math.sqrt(n)


TABLE = [
    # abs, steps
    Row("abs at 0", p.abs_, (0.0,), (0.0,), (0.0,)),
    Row("abs at -0", p.abs_, (-0.0,), (0.0,)),
    *(Row(f"{op.name} at {x}", op, (x,), (0.0,), (0.0,))
        for op in (p.sign, p.floor, p.ceil, p.rint, p.trunc) for x in (0.0, 0.5, 2.0)),
    # roots and norms
    Row("sqrt at 0", p.sqrt, (0.0,), (inf,)),
    Row("cbrt at 0", p.cbrt, (0.0,), (inf,)),
    Row("hypot at 0", p.hypot, (0.0, 0.0), (0.0, 0.0)),
    Row("hypot on an axis", p.hypot, (3.0, 0.0), (1.0, 0.0), (0.0, 0.0, 0.0, 1 / 3)),
    Row("norm2 at 0", line(folds.norm2), ([0.0, 0.0, 0.0],), ([0.0, 0.0, 0.0],)),
    Row("norm2**2 at 0", lambda x: p.ipow(folds.norm2(x, axes=(0,)), n=2), ([0.0, 0.0],), ([0.0, 0.0],)),
    Row("std of a constant", std, ([2.0, 2.0, 2.0],), ([0.0, 0.0, 0.0],)),
    Row("root of a sum of squares at 0", lambda x: special.sqrt_of_squares(total(x * x)), ([0.0, 0.0],), ([0.0, 0.0],)),
    Row("norm of norms, one of them 0", lambda x, y: p.hypot(p.hypot(x, y), 1.0), (0.0, 0.0), (0.0, 0.0)),
    # powers
    *(Row(f"x**{n} at 0", ipow(n), (0.0,), (float(n == 1),), (2.0 * (n == 2),)) for n in (0, 1, 2, 3, 5)),
    *(Row(f"x**{n} at -2", ipow(n), (-2.0,), (n * (-2.0) ** (n - 1),), (n * (n - 1) * (-2.0) ** (n - 2),))
        for n in (0, 1, 2, 3, -1, -2)),
    Row("x**0.5 at 0", power(0.5), (0.0,), (inf,)),
    Row("x**2.0 at 0", power(2.0), (0.0,), (0.0,), (2.0,)),
    Row("x**3.0 at -2", power(3.0), (-2.0,), (12.0,), (-12.0,)),
    Row("x**0.0 at 0", power(0.0), (0.0,), (0.0,)),
    Row("0**y, y > 1", p.pow_, (0.0, 2.5), (0.0, 0.0)),
    Row("0**y, y = 1", p.pow_, (0.0, 1.0), (1.0, 0.0)),
    Row("0**y, 0 < y < 1", p.pow_, (0.0, 0.5), (inf, 0.0)),
    Row("0**y, y = 0", p.pow_, (0.0, 0.0), (0.0, 0.0), value=1.0),
    Row("0**y, y < 0", p.pow_, (0.0, -1.0), (-inf, -inf), value=inf),
    Row("(-2)**y in y", lambda y: p.pow_(number(-2.0, y.dtype), y), (2.0,), (nan,)),
    Row("(-2)**y in x", lambda x, y: p.pow_(x, p.stop(y)), (-2.0, 3.0), (12.0, 0.0)),
    # ties
    Row("maximum at a tie", p.maximum, (1.0, 1.0), (0.5, 0.5), (0.0,) * 4),
    Row("minimum at a tie", p.minimum, (1.0, 1.0), (0.5, 0.5), (0.0,) * 4),
    Row("maximum(x, x)", lambda x: p.maximum(x, x), (1.0,), (1.0,)),
    Row("maximum(x, 0) at 0", lambda x: p.maximum(x, 0.0), (0.0,), (0.5,)),
    Row("max over two ties", line(folds.max_), ([3.0, 1.0, 3.0],), ([0.5, 0.0, 0.5],), (0.0,) * 9),
    Row("min over three ties", line(folds.min_), ([1.0, 1.0, 1.0],), ([1 / 3, 1 / 3, 1 / 3],)),
    Row("max with -inf", line(folds.max_), ([-inf, 1.0],), ([0.0, 1.0],)),
    Row("relu at 0", p.relu, (0.0,), (0.0,), (0.0,)),
    *(Row(f"clip at {x}", lambda x: p.clip(x, -1.0, 1.0), (x,), (g,), (0.0,))
        for x, g in ((-1.0, 1.0), (1.0, 1.0), (2.0, 0.0), (-2.0, 0.0))),
    Row("clip at equal bounds", lambda x: p.clip(x, 1.0, 1.0), (1.0,), (1.0,)),
    Row("sort with ties", lambda x: weighted(sort(x)), ([2.0, 1.0, 2.0, 1.0],), ([3.0, 1.0, 4.0, 2.0],)),
    # functions at the ends of their domains
    Row("arctan2 at the origin", p.arctan2, (0.0, 0.0), (0.0, 0.0)),
    Row("arctan2 on an axis", p.arctan2, (0.0, -2.0), (-0.5, 0.0), (0.0, -0.25, -0.25, 0.0)),
    Row("arcsin at 1", p.arcsin, (1.0,), (inf,)),
    Row("arcsin at -1", p.arcsin, (-1.0,), (inf,)),
    Row("arccos at 1", p.arccos, (1.0,), (-inf,)),
    Row("arccos at -1", p.arccos, (-1.0,), (-inf,)),
    Row("log at 0", p.log, (0.0,), (inf,), value=-inf),
    Row("sinc at 0", special.sinc, (0.0,), (0.0,), (-(math.pi**2) / 3,), value=1.0),
    # logarithms of sums of exponentials
    Row("logsumexp of -inf", line(folds.logsumexp), ([-inf, -inf],), ([0.0, 0.0],), (0.0,) * 4, value=-inf),
    Row("logsumexp with one -inf", line(folds.logsumexp), ([-inf, 0.0],), ([0.0, 1.0],), (0.0,) * 4, value=0.0),
    Row("logsumexp of large numbers", line(folds.logsumexp), ([1e4, 1e4],), ([0.5, 0.5],), (0.25, -0.25, -0.25, 0.25)),
    Row("logaddexp of -inf", p.logaddexp, (-inf, -inf), (0.0, 0.0), (0.0,) * 4, value=-inf),
    Row("logaddexp with one -inf", p.logaddexp, (0.0, -inf), (1.0, 0.0), value=0.0),
    Row("sigmoid at 1e4", p.sigmoid, (1e4,), (0.0,), (0.0,), value=1.0),
    Row("sigmoid at -1e4", p.sigmoid, (-1e4,), (0.0,), (0.0,), value=0.0),
    Row("softplus at 1e4", special.softplus, (1e4,), (1.0,), (0.0,), value=1e4),
    # products with logarithms
    Row("xlogy at x = 0", special.xlogy, (0.0, 2.0), (math.log(2.0), 0.0), value=0.0),
    Row("xlogy at 0, 0", special.xlogy, (0.0, 0.0), (-inf, 0.0), value=0.0),
    # products with zeros
    Row("prod with a zero", line(folds.prod),
        ([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],), (0.0, 3.0, 2.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0)),
    Row("prod with two zeros", line(folds.prod),
        ([0.0, 2.0, 0.0],), ([0.0, 0.0, 0.0],), (0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0)),
    Row("prod of three zeros", line(folds.prod), ([0.0, 0.0, 0.0],), ([0.0, 0.0, 0.0],), (0.0,) * 9),
    Row("cumprod with a zero", lambda x: running.cumprod(x, axis=0),
        ([2.0, 0.0, 3.0],), ([1.0, 8.0, 0.0],), (0.0, 4.0, 0.0, 4.0, 0.0, 2.0, 0.0, 2.0, 0.0)),
    Row("cumprod of zeros", lambda x: running.cumprod(x, axis=0),
        ([0.0, 0.0, 0.0],), ([1.0, 0.0, 0.0],), (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    # remainders
    Row("mod", p.mod, (7.5, -2.0), (1.0, 4.0), (0.0,) * 4),
    Row("mod of a negative", p.mod, (-7.5, 2.0), (1.0, 4.0)),
    Row("mod at a jump", p.mod, (6.0, 2.0), (1.0, -3.0)),
    Row("fmod", p.fmod, (7.5, -2.0), (1.0, 3.0), (0.0,) * 4),
    Row("fmod of a negative", p.fmod, (-7.5, 2.0), (1.0, 3.0)),
    # parts that are not taken
    Row("select of a bad root", lambda x: p.select(positive(x), p.sqrt(x), 0.0),
        ([-1.0, 0.0, 4.0],), ([0.0, 0.0, 0.25],), (*(0.0,) * 8, -1 / 32)),
    Row("select of a bad quotient", lambda x: p.select(p.eq(x, 0.0), 1.0, p.sin(x) / x), (0.0,), (0.0,), (0.0,)),
    Row("select of a deep bad value", lambda x: p.select(positive(x), p.exp(p.log(p.sqrt(x)) * 2.0), x),
        (0.0,), (1.0,), (0.0,)),
    Row("select of an overflow", lambda x: p.select(p.lt(x, 1.0), p.exp(p.exp(x)), x), (100.0,), (1.0,), (0.0,)),
    Row("maximum over a bad value", lambda x: p.maximum(p.log(x), -1.0), (0.0,), (0.0,), (0.0,)),
    Row("relu of a bad derivative", lambda x: p.relu(-p.sqrt(x)), (0.0,), (0.0,), (0.0,)),
    Row("clip of a bad derivative", lambda x: p.clip(p.log(x), -1.0, 1.0), (0.0,), (0.0,), (0.0,)),
    Row("max over a bad value", lambda x: folds.max_(p.sqrt(x), axes=(0,)),
        ([0.0, 4.0],), ([0.0, 0.25],), (0.0, 0.0, 0.0, -1 / 32)),
    Row("slice beside a bad value", lambda x: first_of(p.sqrt(x)),
        ([4.0, 0.0],), ([0.25, 0.0],), (-1 / 32, 0.0, 0.0, 0.0)),
    Row("gather beside a bad value", lambda x: at_positions(1)(p.sqrt(x)),
        ([0.0, 4.0],), ([0.0, 0.25],), (0.0, 0.0, 0.0, -1 / 32)),
    Row("scatter over a bad value", lambda x: cleared(p.sqrt(x)),
        ([0.0, 4.0],), ([0.0, 0.25],)),
    Row("select of a sum of bad values", lambda x: p.select(positive(total(x)), total(p.sqrt(x)), 0.0),
        ([0.0, 0.0],), ([0.0, 0.0],)),
    Row("zero that is no mask", lambda x: p.ipow(p.sqrt(x), n=2), (4.0,), (1.0,), (0.0,)),
    # repeated positions
    Row("gather of repeated positions", lambda x: weighted(at_positions(0, 2, 0)(x)),
        ([5.0, 6.0, 7.0],), ([4.0, 0.0, 2.0],)),
    Row("scatter_add of repeated positions", added(0, 1, 0, size=2), ([5.0, 6.0, 7.0],), ([1.0, 2.0, 1.0],)),
    Row("scatter_set of repeated positions", stored(0, 1, 0),
        ([1.0, 2.0, 3.0], [5.0, 6.0, 7.0]), ([0.0, 0.0, 3.0], [0.0, 2.0, 1.0])),
    Row("an earlier use keeps the old value", lambda x: total(x * x) + total(weighted(cleared(x))),
        ([3.0, 5.0],), ([6.0, 12.0],)),
]  # fmt: skip


# --- all rows in one function -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    value: float
    reverse: list[Any]
    forward: list[Any]
    hessians: list[Any]


def unit_vectors(params: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Each argument with each unit vector of its shape."""
    for q in params:
        for e in np.eye(int(np.prod(q.shape))):  # type: ignore[arg-type]  # the sizes are numbers
            yield q, constant(e.reshape(q.shape), q.dtype)


def pushed(y: Node, q: Node, t: Node) -> Node:
    (out,) = push([y], [q], [Linear(t)])
    return zeros(y.shape, y.dtype) if out is None else out


def gradient(y: Node, params: Sequence[Node]) -> list[Node]:
    grads = pull([y], [Linear(number(1.0, y.dtype))], params)
    return [zeros(q.shape, q.dtype) if g is None else g for g, q in zip(grads, params, strict=True)]


def hessian_rows(grads: Sequence[Node], params: Sequence[Node]) -> Iterator[list[Node]]:
    """Rows by forward over reverse, then by reverse over reverse."""
    yield [pushed(g, q, t) for q, t in unit_vectors(params) for g in grads]
    along = [total(grads[params.index(q)] * t) for q, t in unit_vectors(params)]
    yield [h for slope in along for h in gradient(slope, params)]


def parts(row: Row, params: Sequence[Node]) -> list[list[Node]]:
    y = total(row.build(*params))
    grads = gradient(y, params)
    forward = [pushed(y, q, t) for q, t in unit_vectors(params)]
    return [[y], grads, forward, *(hessian_rows(grads, params) if row.second is not None else ())]


@functools.cache
def found(dtype: DType, compiled: Callable[[Graph], Any]) -> dict[str, Found]:
    params = [[param(TensorType(dtype, np.shape(a))) for a in row.at] for row in TABLE]
    layout = [parts(row, ps) for row, ps in zip(TABLE, params, strict=True)]
    graph = Graph(tuple(q for ps in params for q in ps), tuple(n for ps in layout for part in ps for n in part))
    flat = iter(compiled(graph)(*(a for row in TABLE for a in row.at)))
    out = {}
    for row, ps in zip(TABLE, layout, strict=True):
        (y,), reverse, forward, *hessians = ([next(flat) for _ in part] for part in ps)
        out[row.what] = Found(float(y), reverse, forward, hessians)
    return out


over_dtypes = pytest.mark.parametrize("dtype", [f64, f32], ids=str)
over_rows = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what)


def close(got: Sequence[Any], want: Sequence[Any], dtype: DType) -> None:
    left, right = (np.concatenate([np.ravel(a) for a in part]) for part in (got, want))
    np.testing.assert_allclose(left, right, rtol=1e-13 if dtype is f64 else 1e-5, atol=1e-300)


def test_rows_have_names_of_their_own():
    assert len({row.what for row in TABLE}) == len(TABLE)


@over_dtypes
@over_rows
def test_reverse(row, dtype, compiled):
    close(found(dtype, compiled)[row.what].reverse, row.first, dtype)


@over_dtypes
@over_rows
def test_forward(row, dtype, compiled):
    close(found(dtype, compiled)[row.what].forward, row.first, dtype)


@over_dtypes
@pytest.mark.parametrize("mode", [0, 1], ids=["forward over reverse", "reverse over reverse"])
@pytest.mark.parametrize("row", [row for row in TABLE if row.second is not None], ids=lambda row: row.what)
def test_second_order(row, mode, dtype, compiled):
    assert row.second is not None
    close(found(dtype, compiled)[row.what].hessians[mode], row.second, dtype)


@over_dtypes
@pytest.mark.parametrize("row", [row for row in TABLE if row.value is not None], ids=lambda row: row.what)
def test_values(row, dtype, compiled):
    np.testing.assert_allclose(found(dtype, compiled)[row.what].value, row.value)
