"""NumPy's reductions: an axis argument in any form -> folds over axes, with NumPy's dtypes and checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.frontend.functions.elementwise import into, is_nan
from symgrad.frontend.functions.support import (
    Function,
    Value,
    as_bool,
    as_float,
    asked_dtype,
    axes_of,
    axis_of,
    count_of,
    flat,
    given,
    implements_numpy,
    insert_axis,
    kept_dims,
    node_of,
    over,
    part,
    positive,
    present,
    static_int,
    wide,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, operands, value, wrap
from symgrad.ir.node import Node
from symgrad.ir.sizes import current
from symgrad.ir.types import DType, Size, boolean, i8, i64
from symgrad.ops import folds, running, sorting, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to, number, spread

Axes = tuple[int, ...]


def selected(a: Value, where: Any) -> tuple[Node, Node | None]:
    """The array of a reduction and the mask of the elements that count, None for all."""
    n = node_of(a)
    if where is True or not given(where):
        return n, None
    n, mask = spread(n, as_bool(node_of(where)))
    return n, mask


def only(n: Node, mask: Node | None, otherwise: Any) -> Node:
    return n if mask is None else p.select(mask, n, number(otherwise, n.dtype))


def count(n: Node, mask: Node | None, axes: Axes, dtype: DType) -> Node:
    """How many elements are reduced, 0-d or of the reduced shape."""
    if mask is None:
        return count_of(n.shape, axes, dtype)
    return folds.sum_(p.as_dtype(mask, dtype), axes=axes)


def finish(n: Node, x: Node, axes: Axes, keepdims: Any, out: Any, what: str) -> Any:
    return into(out, wrap(kept_dims(n, axes, x.shape, keepdims)), what)


# --- sums and products -----------------------------------------------------------------------------------------------


def _sum_like(name: str, fold: Any, combine: Any, identity: int) -> Function:
    @implements_numpy(getattr(np, name))
    def reduce(
        a: Value,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        x, mask = selected(a, where)
        axes = axes_of(axis, x.ndim, f"np.{name}")
        x = p.as_dtype(x, asked_dtype(dtype, wide(x.dtype)))
        y = fold(only(x, mask, identity), axes=axes)
        if given(initial):
            y = combine(*spread(y, node_of(initial, y.dtype)))
        return finish(y, x, axes, keepdims, out, f"np.{name}")

    reduce.__name__ = name
    return reduce


sum_ = _sum_like("sum", folds.sum_, p.add, 0)
prod = _sum_like("prod", folds.prod, p.mul, 1)


def mean_node(x: Node, mask: Node | None, axes: Axes) -> Node:
    y = folds.sum_(only(x, mask, 0), axes=axes)
    return y / count(x, mask, axes, x.dtype)


@implements_numpy(np.mean)
def mean(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    x, mask = selected(a, where)
    axes = axes_of(axis, x.ndim, "np.mean")
    x = p.as_dtype(as_float(x), asked_dtype(dtype, as_float(x).dtype))
    return finish(mean_node(x, mask, axes), x, axes, keepdims, out, "np.mean")


def centred(a: Value, axis: Any, dtype: Any, ddof: Any, where: Any, mean: Any, what: str) -> tuple[Node, Node, Axes]:
    """What is squared in a variance, what its sum is divided by, and the axes."""
    x, mask = selected(a, where)
    axes = axes_of(axis, x.ndim, what)
    x = p.as_dtype(as_float(x), asked_dtype(dtype, as_float(x).dtype))
    middle = (
        over(mean_node(x, mask, axes), x, axes) if not given(mean) else broadcast_to(node_of(mean, x.dtype), x.shape)
    )
    n = count(x, mask, axes, x.dtype)
    degrees = n if isinstance(ddof, int) and ddof == 0 else p.maximum(n - node_of(ddof, x.dtype), 0.0)
    return only(x - middle, mask, 0), degrees, axes


def _either_ddof(ddof: Any, correction: Any) -> Any:
    return correction if given(correction) else ddof


@implements_numpy(np.var)
def var(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    c, n, axes = centred(a, axis, dtype, _either_ddof(ddof, correction), where, mean, "np.var")
    return finish(folds.sum_(c * c, axes=axes) / n, c, axes, keepdims, out, "np.var")


@implements_numpy(np.std)
def std(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """By the Euclidean norm, whose derivative at 0 is 0: so is that of the deviation of equal numbers."""
    c, n, axes = centred(a, axis, dtype, _either_ddof(ddof, correction), where, mean, "np.std")
    return finish(folds.norm2(c, axes=axes) / p.sqrt(n), c, axes, keepdims, out, "np.std")


# --- extremes --------------------------------------------------------------------------------------------------------


def not_empty(x: Node, axes: Axes, what: str) -> None:
    """ValueError when there would be results that are reduced from nothing."""
    if all(positive(x.shape[k]) for k in axes) or any(x.shape[k] == 0 for k in range(x.ndim) if k not in axes):
        return
    raise ValueError(f"zero-size array to reduction operation {what} which has no identity")


def _extreme(name: str, fold: Any, combine: Any, start: Any, what: str) -> Function:
    @implements_numpy(getattr(np, name), getattr(np, "a" + name))
    def reduce(
        a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
    ) -> Any:
        x, mask = selected(a, where)
        axes = axes_of(axis, x.ndim, f"np.{name}")
        if given(initial):
            x, first = operands(wrap(x), initial)
            y = fold(only(x, mask, start(x.dtype)), axes=axes)
            return finish(combine(*spread(y, first)), x, axes, keepdims, out, f"np.{name}")
        if given(where) and where is not True:
            raise ValueError(
                f"reduction operation '{what}' does not have an identity, "
                "so to use a where mask one has to specify 'initial'"
            )
        not_empty(x, axes, what)
        return finish(fold(only(x, mask, start(x.dtype)), axes=axes), x, axes, keepdims, out, f"np.{name}")

    reduce.__name__ = name
    return reduce


max_ = _extreme("max", folds.max_, p.maximum, folds.lowest, "maximum")
min_ = _extreme("min", folds.min_, p.minimum, folds.highest, "minimum")


@implements_numpy(np.ptp)
def ptp(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return into(
        out, wrap(value(max_(a, axis=axis, keepdims=keepdims)) - value(min_(a, axis=axis, keepdims=keepdims))), "np.ptp"
    )


def _position(name: str, op: Any) -> Function:
    @implements_numpy(getattr(np, name))
    def position(a: Value, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x = node_of(a)
        shape, axes = x.shape, axes_of(axis, x.ndim, f"np.{name}")
        x, k = (flat(x), 0) if axis is None else (x, axes[0])
        if not positive(x.shape[k]):
            raise ValueError(f"attempt to get {name} of an empty sequence")
        y = op(p.as_dtype(x, i8) if x.dtype == boolean else x, axis=k)
        if given(keepdims) and keepdims:
            y = views.reshape(y, shape=tuple(1 if j in axes else s for j, s in enumerate(shape)))
        return into(out, wrap(y), f"np.{name}")

    position.__name__ = name
    return position


argmax, argmin = _position("argmax", sorting.argmax), _position("argmin", sorting.argmin)

# --- truth -----------------------------------------------------------------------------------------------------------


@implements_numpy(np.any)
def any_(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    x, mask = selected(a, where)
    axes = axes_of(axis, x.ndim, "np.any")
    return finish(folds.sum_(only(as_bool(x), mask, False), axes=axes), x, axes, keepdims, out, "np.any")


@implements_numpy(np.all)
def all_(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    x, mask = selected(a, where)
    axes = axes_of(axis, x.ndim, "np.all")
    return finish(folds.min_(only(as_bool(x), mask, True), axes=axes), x, axes, keepdims, out, "np.all")


@implements_numpy(np.count_nonzero)
def count_nonzero(a: Value, axis: Any = None, *, keepdims: Any = False) -> Any:
    x, mask = selected(a, True)
    axes = axes_of(axis, x.ndim, "np.count_nonzero")
    return finish(folds.sum_(p.as_dtype(only(as_bool(x), mask, False), i64), axes=axes), x, axes, keepdims, None, "")


@implements_numpy(np.allclose)
def allclose(a: Value, b: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    from symgrad.frontend.functions.elementwise import isclose

    return all_(isclose(a, b, rtol, atol, equal_nan))


@implements_numpy(np.array_equal)
def array_equal(a1: Value, a2: Value, equal_nan: bool = False) -> Any:
    x, y = operands(wrap(node_of(a1)), wrap(node_of(a2)))
    if x.ndim != y.ndim or not all(current().same(a, b) for a, b in zip(x.shape, y.shape, strict=True)):
        return wrap(number(False, boolean))
    same = p.eq(x, y)
    return all_(wrap(p.or_(same, p.and_(is_nan(x), is_nan(y))) if equal_nan else same))


# --- reductions that skip nan ----------------------------------------------------------------------------------------


def _without_nan(name: str, reduce: Function) -> None:
    @implements_numpy(getattr(np, "nan" + name))
    def skipping(a: Value, *args: Any, where: Any = True, **keywords: Any) -> Any:
        x, mask = selected(a, where)
        if x.dtype.is_float:
            number_ = p.not_(is_nan(x))
            mask = number_ if mask is None else p.and_(mask, number_)
        return reduce(wrap(x), *args, where=True if mask is None else wrap(mask), **keywords)

    skipping.__name__ = "nan" + name


for _name, _reduce in (("sum", sum_), ("prod", prod), ("mean", mean), ("var", var), ("std", std)):
    _without_nan(_name, _reduce)


def _nan_extreme(name: str, fold: Any, start: Any, what: str) -> None:
    @implements_numpy(getattr(np, "nan" + name))
    def skipping(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        x, mask = selected(a, True)
        axes = axes_of(axis, x.ndim, f"np.nan{name}")
        not_empty(x, axes, what)
        usable = p.not_(is_nan(x)) if mask is None else p.and_(mask, p.not_(is_nan(x)))
        y = fold(only(x, usable, start(x.dtype)), axes=axes)
        if x.dtype.is_float:
            y = p.select(folds.sum_(usable, axes=axes), y, math.nan)
        return finish(y, x, axes, keepdims, out, f"np.nan{name}")

    skipping.__name__ = "nan" + name


_nan_extreme("max", folds.max_, folds.lowest, "fmax")
_nan_extreme("min", folds.min_, folds.highest, "fmin")


def _nan_position(name: str, position: Function, end: Any) -> None:
    @implements_numpy(getattr(np, "nan" + name))
    def skipping(a: Value, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x = node_of(a)
        usable = p.select(is_nan(x), number(end(x.dtype), x.dtype), x) if x.dtype.is_float else x
        return position(wrap(usable), axis, out, keepdims=keepdims)

    skipping.__name__ = "nan" + name


_nan_position("argmax", argmax, folds.lowest)
_nan_position("argmin", argmin, folds.highest)

# --- running reductions ----------------------------------------------------------------------------------------------


def _running(name: str, op: Any) -> Function:
    @implements_numpy(getattr(np, name))
    def running(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = node_of(a)
        x = p.as_dtype(x, asked_dtype(dtype, wide(x.dtype)))
        x, k = (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim, f"np.{name}"))
        return into(out, wrap(op(x, axis=k, reverse=False)), f"np.{name}")

    running.__name__ = name
    return running


cumsum, cumprod = _running("cumsum", running.cumsum), _running("cumprod", running.cumprod)


def _cumulative(name: str, run: Function, first: int) -> None:
    @implements_numpy(*present(name), what=f"np.{name}")
    def cumulative(
        x: Value, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        n = node_of(x)
        if axis is None and n.ndim != 1:
            raise ValueError(f"For arrays which have more than one dimension ``axis`` argument is required: np.{name}")
        k = 0 if axis is None else axis_of(axis, n.ndim, f"np.{name}")
        y = node_of(run(x, k, dtype))
        if include_initial:
            start = broadcast_to(number(first, y.dtype), tuple(1 if j == k else s for j, s in enumerate(y.shape)))
            y = views.concatenate(start, y, axis=k)
        return into(out, wrap(y), f"np.{name}")

    cumulative.__name__ = name


_cumulative("cumulative_sum", cumsum, 0)
_cumulative("cumulative_prod", cumprod, 1)


def _skipping_running(name: str, run: Function, neutral: int) -> None:
    @implements_numpy(getattr(np, "nan" + name))
    def skipping(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = node_of(a)
        return run(wrap(p.select(is_nan(x), number(neutral, x.dtype), x)), axis, dtype, out)


_skipping_running("cumsum", cumsum, 0)
_skipping_running("cumprod", cumprod, 1)


@implements_numpy(np.diff)
def diff(a: Value, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Tracer:
    x = node_of(a)
    k = axis_of(axis, x.ndim, "np.diff")
    pieces = [e if e is x else node_of(e) for e in (prepend, x, append) if e is x or given(e)]
    if len(pieces) > 1:
        rows = tuple(1 if j == k else s for j, s in enumerate(x.shape))
        pieces = [broadcast_to(e, rows) if not e.shape else e for e in operands(*(wrap(e) for e in pieces))]
        x = views.concatenate(*pieces, axis=k)
    for _ in range(static_int(n, "np.diff: n")):
        less: Size = x.shape[k] - 1 if positive(x.shape[k]) else 0
        after, before = part(x, k, 1 if positive(x.shape[k]) else 0, less), part(x, k, 0, less)
        x = p.ne(after, before) if x.dtype == boolean else after - before
    return wrap(x)


@implements_numpy(np.ediff1d)
def ediff1d(ary: Value, to_end: Any = None, to_begin: Any = None) -> Tracer:
    middle = node_of(diff(wrap(flat(node_of(ary)))))
    pieces = [
        middle if e is middle else _at_least_1d(node_of(e, middle.dtype))
        for e in (to_begin, middle, to_end)
        if given(e)
    ]
    return wrap(views.concatenate(*(flat(e) for e in pieces), axis=0))


def _at_least_1d(n: Node) -> Node:
    return n if n.ndim else insert_axis(n, 0)
