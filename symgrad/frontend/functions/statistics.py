"""Averages, covariances, norms and numerical calculus."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.functions.products import diagonal_node
from symgrad.frontend.functions.reductions import Axes, diff, finish, mean_node
from symgrad.frontend.functions.support import (
    Value,
    as_float,
    axes_of,
    axis_of,
    count_of,
    implements_numpy,
    insert_axis,
    node_of,
    over,
    part,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, operands, value, wrap
from symgrad.ir.node import Node
from symgrad.ir.sizes import current
from symgrad.ir.types import Size
from symgrad.ops import folds, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to, spread
from symgrad.ops.products import dot


def weights_like(weights: Node, x: Node, axes: Axes) -> Node:
    """Weights against the array: of its shape, or one for each index of the axes."""
    if weights.ndim == x.ndim:
        return broadcast_to(weights, x.shape)
    if weights.ndim != len(axes):
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    return views.broadcast(weights, shape=x.shape, axes=axes)


@implements_numpy(np.average)
def average(a: Value, axis: Any = None, weights: Value = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    x = as_float(node_of(a))
    axes = axes_of(axis, x.ndim, "np.average")
    if weights is None:
        y = mean_node(x, None, axes)
        total = broadcast_to(count_of(x.shape, axes, x.dtype), y.shape)
    else:
        x, w = operands(wrap(x), wrap(node_of(weights)))
        w = weights_like(w, x, axes)
        total = folds.sum_(w, axes=axes)
        y = folds.sum_(x * w, axes=axes) / total
    result = finish(y, x, axes, keepdims, None, "np.average")
    return (result, finish(total, x, axes, keepdims, None, "np.average")) if returned else result


def _rows(m: Value, rowvar: bool) -> Node:
    x = as_float(node_of(m))
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = insert_axis(x, 0) if x.ndim < 2 else x
    return x if rowvar or x.shape[0] == 1 else views.transpose(x, perm=(1, 0))


@implements_numpy(np.cov)
def cov(m: Value, y: Value = None, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> Tracer:
    x = _rows(m, rowvar)
    if y is not None:
        x = views.concatenate(*(value(t) for t in map(wrap, operands(wrap(x), wrap(_rows(y, rowvar))))), axis=0)
    c = x - over(mean_node(x, None, (1,)), x, (1,))
    n = p.maximum(count_of(x.shape, (1,), x.dtype) - float((0 if bias else 1) if ddof is None else ddof), 0.0)
    return wrap(_squeezed(dot(c, views.transpose(c, perm=(1, 0))) / n))


def _squeezed(n: Node) -> Node:
    return views.reshape(n, shape=tuple(s for s in n.shape if s != 1)) if 1 in n.shape else n


@implements_numpy(np.corrcoef)
def corrcoef(x: Value, y: Value = None, rowvar: bool = True) -> Tracer:
    c = value(cov(x, y, rowvar))
    if not c.ndim:
        return wrap(c / c)
    deviation = p.sqrt(diagonal_node(c, 0, 0, 1))
    n = deviation.shape[0]
    rows, columns = (views.broadcast(deviation, shape=(n, n), axes=(k,)) for k in (0, 1))
    return wrap(p.clip(c / rows / columns, -1.0, 1.0))


@implements_numpy(np.trapezoid)
def trapezoid(y: Value, x: Value = None, dx: Value = 1.0, axis: Any = -1) -> Tracer:
    n = as_float(node_of(y))
    k = axis_of(axis, n.ndim, "np.trapezoid")
    step = node_of(dx)
    if x is not None:
        points = node_of(diff(wrap(node_of(x)), axis=-1 if node_of(x).ndim == 1 else k))
        step = (
            views.reshape(points, shape=tuple(points.shape[0] if j == k else 1 for j in range(n.ndim)))
            if points.ndim == 1
            else points
        )
    n, step = operands(wrap(n), wrap(step))
    less: Size = n.shape[k] - 1
    area = p.mul(*spread((part(n, k, 1, less) + part(n, k, 0, less)) * 0.5, step))
    return wrap(folds.sum_(area, axes=(k,)))


@implements_numpy(np.linalg.norm)
def norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    n = as_float(node_of(x))
    axes = axes_of(axis, n.ndim, "np.linalg.norm")
    if axis is None and ord is not None and n.ndim > 2:
        raise ValueError("Improper number of dimensions to norm.")
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        y = folds.norm2(n, axes=axes)
    elif len(axes) == 1:
        y = _vector_norm(n, ord, axes)
    elif len(axes) == 2:
        order = axes if axis is None else tuple(axis_of(a, n.ndim, "np.linalg.norm") for a in axis)
        y = _matrix_norm(n, ord, order)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return finish(y, n, axes, keepdims, None, "np.linalg.norm")


@implements_numpy(np.linalg.vector_norm)
def vector_norm(x: Value, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    n = as_float(node_of(x))
    axes = axes_of(axis, n.ndim, "np.linalg.vector_norm")
    y = folds.norm2(n, axes=axes) if ord == 2 else _vector_norm(n, ord, axes)
    return finish(y, n, axes, keepdims, None, "np.linalg.vector_norm")


@implements_numpy(np.linalg.matrix_norm)
def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, (-2, -1), keepdims)


def _vector_norm(n: Node, ord: Any, axes: Axes) -> Node:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    size = p.abs_(n)
    if ord in (math.inf, -math.inf):
        fold = folds.max_ if ord > 0 else folds.min_
        return fold(size, axes=axes)
    if ord == 0:
        return folds.sum_(p.as_dtype(p.ne(n, 0.0), n.dtype), axes=axes)
    if ord == 1:
        return folds.sum_(size, axes=axes)
    return p.pow_(folds.sum_(p.pow_(size, float(ord)), axes=axes), 1.0 / float(ord))


def _matrix_norm(n: Node, ord: Any, axes: Axes) -> Node:
    """The largest or smallest sum of a column (1, -1) or row (inf, -inf)."""
    if ord not in (1, -1, math.inf, -math.inf):
        raise UnsupportedError(
            f"np.linalg.norm: ord={ord!r} of matrices is not supported; 1, -1, inf, -inf and 'fro' are"
        )
    row, column = axes
    inner, outer = (row, column) if abs(ord) == 1 else (column, row)
    sums = folds.sum_(p.abs_(n), axes=(inner,))
    fold = folds.max_ if ord > 0 else folds.min_
    return fold(sums, axes=(outer - (outer > inner),))


@implements_numpy(np.gradient)
def gradient(f: Value, *varargs: Value, axis: Any = None, edge_order: int = 1) -> Any:
    n = as_float(node_of(f))
    axes = (
        range(n.ndim)
        if axis is None
        else [axis_of(a, n.ndim, "np.gradient") for a in (axis if isinstance(axis, tuple) else (axis,))]
    )
    if edge_order != 1:
        raise UnsupportedError(f"np.gradient: edge_order={edge_order} is not supported; 1 is")
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    out = [wrap(_slope(n, k, node_of(h, n.dtype))) for k, h in zip(axes, steps, strict=True)]
    return out[0] if len(out) == 1 else tuple(out)


def _slope(n: Node, axis: int, step: Node) -> Node:
    """Second-order differences inside, first-order ones at both ends; ``step`` is one number or the coordinates."""
    size = n.shape[axis]
    if not current().le(2, size):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    slopes = part(n, axis, 1, size - 1) - part(n, axis, 0, size - 1)
    if step.ndim:
        gaps = part(step, 0, 1, size - 1) - part(step, 0, 0, size - 1)
        width = views.broadcast(gaps, shape=slopes.shape, axes=(axis,))
    else:
        width = broadcast_to(step, slopes.shape)
    slopes = slopes / width
    first, last = part(slopes, axis, 0, 1), part(slopes, axis, size - 2, 1)
    before, after = part(slopes, axis, 0, size - 2), part(slopes, axis, 1, size - 2)
    left, right = part(width, axis, 0, size - 2), part(width, axis, 1, size - 2)
    inner = (right * before + left * after) / (left + right)
    return views.concatenate(first, inner, last, axis=axis)
