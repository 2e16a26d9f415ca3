"""NumPy's functions that change an array they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import TraceError
from symgrad.frontend.functions.products import eye_node
from symgrad.frontend.functions.selection import index_node
from symgrad.frontend.functions.support import (
    Value,
    as_bool,
    axis_of,
    flat,
    given,
    implements_numpy,
    node_of,
    reshaped,
)
from symgrad.frontend.tracer import Tracer, store, wrap
from symgrad.ir.node import Node, size_node
from symgrad.ir.sizes import current
from symgrad.ir.types import i64, product
from symgrad.ops import pointwise as p
from symgrad.ops import running, views
from symgrad.ops.indexing import gather, scatter_set
from symgrad.ops.kinds import broadcast_to, number


def target(a: Any, what: str) -> Tracer:
    """The array to change, which must be one that was made inside the function."""
    if type(a) is not Tracer:
        raise TraceError(f"{what} would store a traced value into a NumPy array: make that array with symgrad.numpy")
    return a


@implements_numpy(np.copyto)
def copyto(dst: Any, src: Value, casting: str = "same_kind", where: Any = True) -> None:
    mask = where if where is True or not given(where) else wrap(as_bool(node_of(where)))
    store(target(dst, "np.copyto"), wrap(node_of(src)), "copyto", mask)


def in_turn(values: Value, like: Node, where: Node) -> Node:
    """Values repeated to the length of an array and read at positions of it."""
    v = flat(node_of(values, like.dtype))
    if not v.ndim or v.shape[0] == 1:
        return broadcast_to(v, where.shape)
    return gather(v, p.mod(where, broadcast_to(size_node(v.shape[0]), where.shape)), axes=(0,))


@implements_numpy(np.putmask)
def putmask(a: Any, /, mask: Value, values: Value) -> None:
    n = target(a, "np.putmask").node
    positions = reshaped(running.iota(size=product(n.shape)), n.shape)
    a.assign(p.select(broadcast_to(as_bool(node_of(mask)), n.shape), in_turn(values, n, positions), n))


@implements_numpy(np.place)
def place(arr: Any, mask: Value, vals: Value) -> None:
    """The values go in turn to the chosen elements, counted along the array."""
    n = target(arr, "np.place").node
    chosen = flat(broadcast_to(as_bool(node_of(mask)), n.shape))
    rank = running.cumsum(p.as_dtype(chosen, i64), axis=0, reverse=False) - 1
    values = in_turn(vals, n, p.maximum(rank, 0))
    arr.assign(reshaped(p.select(chosen, values, flat(n)), n.shape))


@implements_numpy(np.put)
def put(a: Any, ind: Value, v: Value, mode: str = "raise") -> None:
    n = target(a, "np.put").node
    line = flat(n)
    at = flat(index_node(ind, product(n.shape), mode, "np.put"))
    at = at if at.ndim else reshaped(at, (1,))
    values = in_turn(v, n, running.iota(size=at.shape[0]))
    a.assign(reshaped(scatter_set(line, values, at, axes=(0,)), n.shape))


@implements_numpy(np.put_along_axis)
def put_along_axis(arr: Any, indices: Value, values: Value, axis: Any) -> None:
    n = target(arr, "np.put_along_axis").node
    line, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.put_along_axis"))
    at = index_node(indices, line.shape[k], "raise", "np.put_along_axis", k)
    shape = tuple(at.shape[j] if j == k else s for j, s in enumerate(line.shape))
    at = broadcast_to(at, shape)
    each = [at if j == k else running.iota_along(shape, j) for j in range(line.ndim)]
    new = broadcast_to(node_of(values, n.dtype), shape)
    arr.assign(reshaped(scatter_set(line, new, *each, axes=tuple(range(line.ndim))), n.shape))


@implements_numpy(np.fill_diagonal)
def fill_diagonal(a: Any, val: Value, wrap: bool = False) -> None:
    n = target(a, "np.fill_diagonal").node
    if n.ndim != 2 or wrap:
        raise ValueError("np.fill_diagonal: wants a matrix and wrap=False")
    v = node_of(val, n.dtype)
    if v.ndim:
        shorter = n.shape[0] if current().le(n.shape[0], n.shape[1]) else n.shape[1]
        fits = v.shape[0] if current().same(v.shape[0], shorter) else None
        if fits is None:
            raise ValueError("np.fill_diagonal: wants one value for each element of the diagonal")
        down = n.shape[0]
        v = views.place(v, shape=(down,), starts=(0,), steps=(1,)) if shorter != down else v
        v = views.broadcast(v, shape=n.shape, axes=(0,))
    on = p.ne(eye_node(n.shape[0], n.shape[1], 0, number(False, n.dtype)), 0)
    a.assign(p.select(on, broadcast_to(v, n.shape), n))
