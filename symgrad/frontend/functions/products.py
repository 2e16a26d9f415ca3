"""NumPy's products: any ranks and axes -> views around the one matrix product ``dot`` and sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.functions.elementwise import into
from symgrad.frontend.functions.support import (
    Value,
    asked_dtype,
    axis_of,
    element,
    flat,
    given,
    implements_numpy,
    insert_axis,
    listed,
    move_last,
    node_of,
    part,
    permuted,
    present,
    reshaped,
    rows_of,
    static_int,
    wide,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, operands, wrap
from symgrad.ir.node import Node, size_node
from symgrad.ir.sizes import broadcast_shapes, current, shown
from symgrad.ir.types import Shape, Size, i64, product
from symgrad.ops import folds, running, views
from symgrad.ops import pointwise as p
from symgrad.ops.indexing import gather
from symgrad.ops.kinds import broadcast_to, number, spread
from symgrad.ops.products import dot as matrix_product


def pair(a: Value, b: Value) -> tuple[Node, Node]:
    """Two operands of one dtype."""
    x, y = operands(*listed((a, b)))
    return x, y


def mismatch(what: str, a: Node, b: Node) -> ShapeError:
    return ShapeError(f"{what}: shapes {shown(a.shape)} and {shown(b.shape)} do not fit")


def multiplied_sum(a: Node, b: Node) -> Node:
    """The sum of products over the last axis."""
    x, y = spread(a, b)
    return folds.sum_(x * y, axes=(x.ndim - 1,))


# --- matmul and dot --------------------------------------------------------------------------------------------------


def matmul_nodes(a: Node, b: Node, what: str = "matmul") -> Node:
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"{what}: input operand does not have enough dimensions: shapes {shown(a.shape)} and {shown(b.shape)}"
        )
    if not current().same(a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]):
        raise mismatch(what, a, b)
    if a.ndim == 1 and b.ndim == 1:
        return multiplied_sum(a, b)
    x = insert_axis(a, 0) if a.ndim == 1 else a
    y = insert_axis(b, 1) if b.ndim == 1 else b
    out = _batched(x, y, what, a, b)
    if a.ndim == 1:
        return element(out, out.ndim - 2, 0)
    return element(out, out.ndim - 1, 0) if b.ndim == 1 else out


def _batched(x: Node, y: Node, what: str, a: Node, b: Node) -> Node:
    """Products of matrices whose leading axes broadcast; one matrix on the right takes all rows at once."""
    if y.ndim == 2 and x.ndim > 2:
        rows = views.reshape(x, shape=(product(x.shape[:-1]), x.shape[-1]))
        return views.reshape(matrix_product(rows, y), shape=(*x.shape[:-1], y.shape[-1]))
    try:
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2], what=what)
    except ShapeError:
        raise mismatch(what, a, b) from None
    return matrix_product(broadcast_to(x, (*batch, *x.shape[-2:])), broadcast_to(y, (*batch, *y.shape[-2:])))


@implements_numpy(np.matmul, np.linalg.matmul)
def matmul(x1: Value, x2: Value, /, out: Any = None) -> Any:
    return into(out, wrap(matmul_nodes(*pair(x1, x2))), "np.matmul")


@implements_numpy(np.dot)
def dot(a: Value, b: Value, out: Any = None) -> Any:
    x, y = pair(a, b)
    if not x.ndim or not y.ndim:
        result = p.mul(*spread(x, y))
    elif y.ndim <= 2:
        result = matmul_nodes(x, y, "dot")
    elif not current().same(x.shape[-1], y.shape[-2]):
        raise mismatch("dot", x, y)
    else:
        result = contracted(x, y, (x.ndim - 1,), (y.ndim - 2,))
    return into(out, wrap(result), "np.dot")


@implements_numpy(np.vdot)
def vdot(a: Value, b: Value) -> Tracer:
    x, y = pair(a, b)
    x, y = flat(x), flat(y)
    if not current().same(x.shape[0] if x.ndim else 1, y.shape[0] if y.ndim else 1):
        raise mismatch("vdot", x, y)
    return wrap(multiplied_sum(x, y))


@implements_numpy(np.inner)
def inner(a: Value, b: Value) -> Tracer:
    x, y = pair(a, b)
    if not x.ndim or not y.ndim:
        return wrap(p.mul(*spread(x, y)))
    if not current().same(x.shape[-1], y.shape[-1]):
        raise mismatch("inner", x, y)
    if x.ndim == 1 and y.ndim == 1:
        return wrap(multiplied_sum(x, y))
    return wrap(contracted(x, y, (x.ndim - 1,), (y.ndim - 1,)))


@implements_numpy(np.outer, np.linalg.outer)
def outer(a: Value, b: Value, out: Any = None) -> Any:
    x, y = (flat(n) if n.ndim else insert_axis(n, 0) for n in pair(a, b))
    shape = (x.shape[0], y.shape[0])
    result = views.broadcast(x, shape=shape, axes=(0,)) * views.broadcast(y, shape=shape, axes=(1,))
    return into(out, wrap(result), "np.outer")


@implements_numpy(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Value, x2: Value, /, *, axis: Any = -1) -> Tracer:
    a, b = pair(x1, x2)
    a, b = move_last(a, axis_of(axis, a.ndim, "np.vecdot")), move_last(b, axis_of(axis, b.ndim, "np.vecdot"))
    if not current().same(a.shape[-1], b.shape[-1]):
        raise mismatch("vecdot", a, b)
    return wrap(multiplied_sum(a, b))


@implements_numpy(*present("matvec"), what="np.matvec")
def matvec(x1: Value, x2: Value, /) -> Tracer:
    a, b = pair(x1, x2)
    out = matmul_nodes(a, insert_axis(b, b.ndim), "matvec")
    return wrap(element(out, out.ndim - 1, 0))


@implements_numpy(*present("vecmat"), what="np.vecmat")
def vecmat(x1: Value, x2: Value, /) -> Tracer:
    a, b = pair(x1, x2)
    out = matmul_nodes(insert_axis(a, a.ndim - 1), b, "vecmat")
    return wrap(element(out, out.ndim - 2, 0))


# --- tensordot -------------------------------------------------------------------------------------------------------


def contracted(x: Node, y: Node, over_x: Sequence[int], over_y: Sequence[int]) -> Node:
    """The sum of products over pairs of axes; the other axes of x come first, then those of y."""
    free_x = [k for k in range(x.ndim) if k not in over_x]
    free_y = [k for k in range(y.ndim) if k not in over_y]
    inner_size = product(x.shape[k] for k in over_x)
    sizes_x, sizes_y = tuple(x.shape[k] for k in free_x), tuple(y.shape[k] for k in free_y)
    left = reshaped(permuted(x, [*free_x, *over_x]), (product(sizes_x), inner_size))
    right = reshaped(permuted(y, [*over_y, *free_y]), (inner_size, product(sizes_y)))
    return reshaped(matrix_product(left, right), (*sizes_x, *sizes_y))


@implements_numpy(np.tensordot, np.linalg.tensordot)
def tensordot(a: Value, b: Value, axes: Any = 2) -> Tracer:
    x, y = pair(a, b)
    if isinstance(axes, tuple | list):
        over_x, over_y = ([*s] if isinstance(s, tuple | list) else [s] for s in axes)
        over_x = [axis_of(k, x.ndim, "np.tensordot") for k in over_x]
        over_y = [axis_of(k, y.ndim, "np.tensordot") for k in over_y]
    else:
        n = static_int(axes, "np.tensordot: axes")
        over_x, over_y = list(range(x.ndim - n, x.ndim)), list(range(n))
    fits = len(over_x) == len(over_y) and len(over_x) <= min(x.ndim, y.ndim)
    if not fits or not all(current().same(x.shape[i], y.shape[j]) for i, j in zip(over_x, over_y, strict=True)):
        raise mismatch("tensordot", x, y)
    return wrap(contracted(x, y, over_x, over_y))


@implements_numpy(np.kron)
def kron(a: Value, b: Value) -> Tracer:
    x, y = pair(a, b)
    ndim = max(x.ndim, y.ndim)
    s, t = ((1,) * (ndim - n.ndim) + n.shape for n in (x, y))
    wide_shape = tuple(size for both in zip(s, t, strict=True) for size in both)
    left = views.broadcast(reshaped(x, s), shape=wide_shape, axes=tuple(range(0, 2 * ndim, 2)))
    right = views.broadcast(reshaped(y, t), shape=wide_shape, axes=tuple(range(1, 2 * ndim, 2)))
    return wrap(reshaped(left * right, tuple(m * n for m, n in zip(s, t, strict=True))))


@implements_numpy(np.cross, np.linalg.cross)
def cross(a: Value, b: Value, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Tracer:
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    x, y = pair(a, b)
    x, y = move_last(x, axis_of(axisa, x.ndim, "np.cross")), move_last(y, axis_of(axisb, y.ndim, "np.cross"))
    lengths = tuple(next((k for k in (2, 3) if current().same(n.shape[-1], k)), 0) for n in (x, y))
    if 0 in lengths:
        raise ShapeError(
            "incompatible dimensions for cross product (dimension must be 2 or 3): "
            f"{shown(x.shape)} and {shown(y.shape)}"
        )
    xs, ys = ([element(n, n.ndim - 1, k) for k in range(size)] for n, size in zip((x, y), lengths, strict=True))

    def minor(i: int, j: int) -> Node | None:
        left = p.mul(*spread(xs[i], ys[j])) if i < len(xs) and j < len(ys) else None
        right = p.mul(*spread(xs[j], ys[i])) if j < len(xs) and i < len(ys) else None
        return left if right is None else -right if left is None else left - right

    if lengths == (2, 2):
        return wrap(_there(minor(0, 1)))
    rows = [_there(minor(i, j)) for i, j in ((1, 2), (2, 0), (0, 1))]
    at = axis_of(axisc, rows[0].ndim + 1, "np.cross")
    return wrap(views.concatenate(*(insert_axis(r, at) for r in rows), axis=at))


def _there(n: Node | None) -> Node:
    assert n is not None, "two vectors of length 2 have one minor"
    return n


# --- chains and powers -----------------------------------------------------------------------------------------------


@implements_numpy(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Value], *, out: Any = None) -> Any:
    """In the order that takes the fewest multiplications."""
    nodes = list(operands(*listed(arrays)))
    if len(nodes) < 2:
        raise ValueError("Expecting at least two arrays.")
    sizes = current()
    lengths = [
        sizes.value(s)
        for s in (*((1,) if nodes[0].ndim == 1 else ()), *(n.shape[0] for n in nodes), nodes[-1].shape[-1])
    ]
    count = len(nodes)
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            choices = [
                (cost[i][k] + cost[k + 1][j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k) for k in range(i, j)
            ]
            cost[i][j], cut[i][j] = min(choices)

    def multiply(i: int, j: int) -> Node:
        return nodes[i] if i == j else matmul_nodes(multiply(i, cut[i][j]), multiply(cut[i][j] + 1, j), "multi_dot")

    return into(out, wrap(multiply(0, count - 1)), "np.linalg.multi_dot")


@implements_numpy(np.linalg.matrix_power)
def matrix_power(a: Value, n: Any) -> Tracer:
    x, k = node_of(a), static_int(n, "np.linalg.matrix_power: n")
    if x.ndim < 2 or not current().same(x.shape[-1], x.shape[-2]):
        raise ShapeError(f"np.linalg.matrix_power: wants square matrices, got shape {shown(x.shape)}")
    if k < 0:
        raise UnsupportedError("np.linalg.matrix_power: negative powers are not supported; take np.linalg.inv first")
    if k == 0:
        return wrap(broadcast_to(eye_node(x.shape[-1], x.shape[-1], 0, x), x.shape))
    return wrap(p.power_by_squaring(x, k, matrix_product))


def eye_node(rows: Size, columns: Size, k: int, like: Node) -> Node:
    """Ones on diagonal ``k``, in the dtype of ``like``."""
    shape = (rows, columns)
    on = p.eq(running.iota_along(shape, 1) - running.iota_along(shape, 0), k)
    return p.as_dtype(on, like.dtype)


# --- diagonals -------------------------------------------------------------------------------------------------------


def diagonal_node(n: Node, offset: int, axis1: int, axis2: int) -> Node:
    """The diagonals of two axes, along a new last axis."""
    x = permuted(n, [*(k for k in range(n.ndim) if k not in (axis1, axis2)), axis1, axis2])
    *lead, rows, columns = x.shape
    size = _diagonal_length(rows, columns, offset)
    first: Size = offset if offset >= 0 else -offset * columns
    if isinstance(columns, int) and size != 0:
        return part(reshaped(x, (*lead, rows * columns)), len(lead), first, size, columns + 1)
    steps = running.iota(size=size)
    at = (steps + max(-offset, 0), steps + max(offset, 0))
    out = gather(x, *at, axes=(x.ndim - 2, x.ndim - 1))
    return permuted(out, [*range(1, out.ndim), 0])


def _diagonal_length(rows: Size, columns: Size, offset: int) -> Size:
    down, across = (rows + offset, columns) if offset < 0 else (rows, columns - offset)
    shorter = down if current().le(down, across) else across
    return shorter if current().le(0, shorter) else 0


@implements_numpy(np.diagonal, np.linalg.diagonal)
def diagonal(a: Value, offset: int = 0, axis1: Any = 0, axis2: Any = 1) -> Tracer:
    n = node_of(a)
    if n.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = axis_of(axis1, n.ndim, "np.diagonal"), axis_of(axis2, n.ndim, "np.diagonal")
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    return wrap(diagonal_node(n, static_int(offset, "np.diagonal: offset"), i, j))


@implements_numpy(np.trace, np.linalg.trace)
def trace(a: Value, offset: int = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Any:
    d = node_of(diagonal(a, offset, axis1, axis2))
    d = p.as_dtype(d, asked_dtype(dtype, wide(d.dtype)))
    return into(out, wrap(folds.sum_(d, axes=(d.ndim - 1,))), "np.trace")


def diagonal_matrix(v: Node, k: int) -> Node:
    """Zeros with ``v`` on diagonal ``k``."""
    n = v.shape[0] + abs(k)
    on = eye_node(n, n, k, number(False, v.dtype))
    start = max(k, 0)
    along = views.place(v, shape=(n,), starts=(start,), steps=(1,))
    everywhere = views.broadcast(along, shape=(n, n), axes=(1,))
    return p.select(p.ne(on, 0), everywhere, number(0, v.dtype))


@implements_numpy(np.diag)
def diag(v: Value, k: int = 0) -> Tracer:
    n = node_of(v)
    if n.ndim not in (1, 2):
        raise ValueError("Input must be 1- or 2-d.")
    offset = static_int(k, "np.diag: k")
    return wrap(diagonal_matrix(n, offset) if n.ndim == 1 else diagonal_node(n, offset, 0, 1))


@implements_numpy(np.diagflat)
def diagflat(v: Value, k: int = 0) -> Tracer:
    n = node_of(v)
    return wrap(diagonal_matrix(flat(n) if n.ndim else insert_axis(n, 0), static_int(k, "np.diagflat: k")))


def _triangle(m: Value, k: int, lower: bool) -> Tracer:
    n = node_of(m)
    if n.ndim == 1:
        n = views.broadcast(n, shape=(n.shape[0], n.shape[0]), axes=(1,))
    across = running.iota_along(n.shape, n.ndim - 1) - running.iota_along(n.shape, n.ndim - 2)
    keep = p.le(across, k) if lower else p.le(number(k, i64), across)
    return wrap(p.select(keep, n, number(0, n.dtype)))


@implements_numpy(np.tril)
def tril(m: Value, k: int = 0) -> Tracer:
    return _triangle(m, static_int(k, "np.tril: k"), True)


@implements_numpy(np.triu)
def triu(m: Value, k: int = 0) -> Tracer:
    return _triangle(m, static_int(k, "np.triu: k"), False)


# --- polynomials and convolution -------------------------------------------------------------------------------------


@implements_numpy(np.polyval)
def polyval(p_: Value, x: Value) -> Tracer:
    points = node_of(x)
    out, _ = operands(wrap(broadcast_to(number(0, points.dtype), points.shape)), wrap(node_of(p_)))
    for c in rows_of(p_):
        out, y, c = operands(wrap(out), wrap(points), wrap(c))
        out = p.add(*spread(p.mul(*spread(out, y)), c))
    return wrap(out)


@implements_numpy(np.vander)
def vander(x: Value, N: Any = None, increasing: bool = False) -> Tracer:
    n = node_of(x)
    count = static_int(N, "np.vander: N") if given(N) else current().pin(n.shape[0])
    powers = range(count) if increasing else range(count - 1, -1, -1)
    columns = [insert_axis(p.ipow(n, n=k) if k else broadcast_to(number(1, n.dtype), n.shape), 1) for k in powers]
    if not columns:
        return wrap(views.reshape(part(n, 0, 0, 0), shape=(n.shape[0], 0)))
    out = views.concatenate(*columns, axis=1)
    return wrap(p.as_dtype(out, wide(out.dtype)))


LONGEST_UNROLLED = 16


def convolved(a: Node, v: Node, mode: str) -> Node:
    """Shifted copies of the longer array for a short kernel of known length, else windows of it."""
    if not current().le(v.shape[0], a.shape[0]):
        a, v = v, a
    n, m = a.shape[0], v.shape[0]
    size: Size = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    skip: Size = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    wide_a = views.place(a, shape=(n + 2 * (m - 1),), starts=(m - 1,), steps=(1,))
    if isinstance(m, int) and m <= LONGEST_UNROLLED:
        total: Any = None
        for k in range(m):
            term = p.mul(*spread(part(wide_a, 0, skip + m - 1 - k, size), element(v, 0, k)))
            total = term if total is None else total + term
        return total  # type: ignore[no-any-return]  # a kernel has at least one element
    shape: Shape = (size, m)
    at = running.iota_along(shape, 0) - running.iota_along(shape, 1) + size_node(skip + m - 1)
    return folds.sum_(gather(wide_a, at, axes=(0,)) * views.broadcast(v, shape=shape, axes=(1,)), axes=(1,))


@implements_numpy(np.convolve)
def convolve(a: Value, v: Value, mode: str = "full") -> Tracer:
    x, y = (n if n.ndim else insert_axis(n, 0) for n in pair(a, v))
    if x.shape[0] == 0 or y.shape[0] == 0:
        raise ValueError(f"{'a' if x.shape[0] == 0 else 'v'} cannot be empty")
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError("object too deep for desired array")
    return wrap(convolved(x, y, mode))


@implements_numpy(np.correlate)
def correlate(a: Value, v: Value, mode: str = "valid") -> Tracer:
    x, y = pair(a, v)
    longer = current().le(y.shape[0], x.shape[0])
    if mode == "same" and not longer:
        raise UnsupportedError("np.correlate: mode='same' with a kernel longer than the array is not supported")
    turned = part(y, 0, y.shape[0] - 1, y.shape[0], -1)
    return wrap(convolved(x, turned, mode))
