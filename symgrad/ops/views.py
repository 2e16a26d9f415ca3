"""Primitives that move elements without computing: each is an index map from output to input.

``slice`` and ``place`` are each other's transposes, as are ``broadcast`` and ``sum``; NumPy's views are made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.loops import DIV, EQ, REM, Apply, Expr, add, const_index, extent, mul, sub
from symgrad.ir.node import Node
from symgrad.ir.op import REGISTRY, Index, InRange, Op, Piece
from symgrad.ir.sizes import current, same_shape, shown
from symgrad.ir.types import Shape, Size, TensorType, product
from symgrad.ops.kinds import one_dtype, view

Read = Callable[[int, Index], Expr]
Types = tuple[TensorType, ...]


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argsort(perm))


# --- transpose -------------------------------------------------------------------------------------------------------


def _transpose_batch(
    sizes: Size, args: tuple[Node], axes: tuple[int | None], *, perm: tuple[int, ...]
) -> tuple[Node, int]:
    (x,), (b,) = args, axes
    assert b is not None
    rest = [k for k in range(x.ndim) if k != b]
    return transpose(x, perm=(b, *(rest[p] for p in perm))), 0


transpose: Op = view(
    "transpose",
    doc="Axis k of the result is axis perm[k] of x.",
    infer=lambda x, *, perm: x.with_shape(x.shape[p] for p in perm),
    numpy=lambda x, *, perm: np.transpose(x, perm),
    pieces=lambda ix, read, types, *, perm: (Piece(0, tuple(ix[k] for k in inverse(perm))),),
    vjp=lambda ct, y, x, *, perm: (transpose(ct, perm=inverse(perm)),),
    batch=_transpose_batch,
    examples=lambda: [(((2, 3, 4),), {"perm": (2, 0, 1)}), (((2, 3),), {"perm": (1, 0)})],
)


# --- reshape ---------------------------------------------------------------------------------------------------------


def _reshape_infer(x: TensorType, *, shape: Shape) -> TensorType:
    if not current().same(product(x.shape), product(shape)):
        raise ShapeError(f"reshape: an array of shape {shown(x.shape)} does not fit into shape {shown(shape)}")
    return x.with_shape(shape)


def unflatten(flat: Expr, shape: Shape) -> Index:
    """Row-major coordinates of a flat index."""
    out: list[Expr] = []
    for k, size in enumerate(shape):
        inner = extent(product(shape[k + 1 :]))
        here = flat if inner == const_index(1) else Apply(DIV, (flat, inner))
        out.append(here if k == 0 else Apply(REM, (here, extent(size))))
    return tuple(out)


def flatten(index: Index, shape: Shape) -> Expr:
    """Flat row-major index of coordinates."""
    flat: Expr = const_index(0)
    for k, i in enumerate(index):
        flat = add(flat, mul(i, extent(product(shape[k + 1 :]))))
    return flat


def reshape_groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Split a reshape into independent runs of axes with equal products; unit axes stand in no run."""
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            i += 1
            continue
        if j < len(new) and new[j] == 1:
            j += 1
            continue
        if i == len(old) or j == len(new):  # only of arrays without elements, or whose equality is assumed
            groups.append((list(range(i, len(old))), list(range(j, len(new)))))
            break
        a, b = [i], [j]
        i, j = i + 1, j + 1
        while product(old[k] for k in a) != product(new[k] for k in b):
            if i >= len(old) and j >= len(new):
                break
            grow_old = j >= len(new) or (i < len(old) and _smaller([old[k] for k in a], [new[k] for k in b]))
            if grow_old:
                a.append(i)
                i += 1
            else:
                b.append(j)
                j += 1
        groups.append((a, b))
    return groups


def _smaller(a: Sequence[Size], b: Sequence[Size]) -> bool:
    x, y = product(a), product(b)
    if isinstance(x, int) and isinstance(y, int):
        return x < y
    return len(a) <= len(b)


def _reshape_pieces(ix: Index, read: Read, types: Types, *, shape: Shape) -> tuple[Piece, ...]:
    old = types[0].shape
    index: list[Expr] = [const_index(0)] * len(old)
    for a, b in reshape_groups(old, shape):
        if any(k >= len(old) for k in a) or any(k >= len(shape) for k in b):
            index = list(unflatten(flatten(ix, shape), old))
            break
        flat = flatten(tuple(ix[k] for k in b), tuple(shape[k] for k in b))
        for k, e in zip(a, unflatten(flat, tuple(old[k] for k in a)), strict=True):
            index[k] = e
    return (Piece(0, tuple(index)),)


def _reshape_batch(size: Size, args: tuple[Node], axes: tuple[int | None], *, shape: Shape) -> tuple[Node, int]:
    return reshape(to_front(args[0], axes[0]), shape=(size, *shape)), 0


def to_front(x: Node, axis: int | None) -> Node:
    """Move a batch axis to the front."""
    assert axis is not None
    return x if axis == 0 else transpose(x, perm=(axis, *(k for k in range(x.ndim) if k != axis)))


def batched(size: Size, x: Node, axis: int | None) -> Node:
    """``x`` with its batch axis in front, repeated along a new one when it has none."""
    if axis is not None:
        return to_front(x, axis)
    return broadcast(x, shape=(size, *x.shape), axes=tuple(range(1, x.ndim + 1)))


reshape: Op = view(
    "reshape",
    doc="The elements of x in row-major order, in another shape.",
    infer=_reshape_infer,
    numpy=lambda x, *, shape: np.reshape(x, shape),
    pieces=_reshape_pieces,
    vjp=lambda ct, y, x, *, shape: (reshape(ct, shape=x.shape),),
    batch=_reshape_batch,
    examples=lambda: [(((2, 6),), {"shape": (3, 4)}), (((4,),), {"shape": (4, 1)}), (((2, 3, 4),), {"shape": (6, 4)})],
)


# --- broadcast -------------------------------------------------------------------------------------------------------


def _broadcast_infer(x: TensorType, *, shape: Shape, axes: tuple[int, ...]) -> TensorType:
    assert same_shape(x.shape, tuple(shape[a] for a in axes)), f"broadcast of {x} along {axes} to {shape}"
    return x.with_shape(shape)


def _broadcast_numpy(x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    unit = [shape[k] if k in axes else 1 for k in range(len(shape))]
    return np.broadcast_to(np.reshape(x, unit), shape)


def _broadcast_vjp(ct: Node, y: Node, x: Node, *, shape: Shape, axes: tuple[int, ...]) -> tuple[Node]:
    return (REGISTRY["sum"](ct, axes=tuple(k for k in range(len(shape)) if k not in axes)),)


def _broadcast_batch(size: Size, args: Any, dims: Any, *, shape: Shape, axes: tuple[int, ...]) -> tuple[Node, int]:
    x = to_front(args[0], dims[0])
    return broadcast(x, shape=(size, *shape), axes=(0, *(a + 1 for a in axes))), 0


broadcast: Op = view(
    "broadcast",
    doc="Repeat x along new axes: axis k of x becomes axis axes[k] of the result.",
    infer=_broadcast_infer,
    numpy=_broadcast_numpy,
    pieces=lambda ix, read, types, *, shape, axes: (Piece(0, tuple(ix[a] for a in axes)),),
    vjp=_broadcast_vjp,
    batch=_broadcast_batch,
    examples=lambda: [(((3,),), {"shape": (2, 3, 4), "axes": (1,)}), (((),), {"shape": (2,), "axes": ()})],
)


# --- slice and place -------------------------------------------------------------------------------------------------
# Axis k of a slice has sizes[k] elements, from starts[k] in steps of steps[k] (which may be negative).


def _slice_numpy(x: Any, *, starts: Any, sizes: Any, steps: Any) -> Any:
    index = [st + sp * np.arange(n) for st, n, sp in zip(starts, sizes, steps, strict=True)]
    return x[np.ix_(*index)] if index else x


def _slice_pieces(ix: Index, read: Read, types: Types, *, starts: Any, sizes: Any, steps: Any) -> tuple[Piece, ...]:
    index = (add(mul(i, const_index(sp)), extent(st)) for i, st, sp in zip(ix, starts, steps, strict=True))
    return (Piece(0, tuple(index)),)


def _slice_vjp(ct: Node, y: Node, x: Node, *, starts: Any, sizes: Any, steps: Any) -> tuple[Node]:
    return (place(ct, shape=x.shape, starts=starts, steps=steps),)


def _slice_batch(size: Size, args: Any, dims: Any, *, starts: Any, sizes: Any, steps: Any) -> tuple[Node, int]:
    return slice_(to_front(args[0], dims[0]), starts=(0, *starts), sizes=(size, *sizes), steps=(1, *steps)), 0


slice_: Op = view(
    "slice",
    doc="A rectangular part with any steps.",
    infer=lambda x, *, starts, sizes, steps: x.with_shape(sizes),
    numpy=_slice_numpy,
    pieces=_slice_pieces,
    vjp=_slice_vjp,
    batch=_slice_batch,
    covers=False,
    examples=lambda: [
        (((5, 4),), {"starts": (1, 3), "sizes": (2, 4), "steps": (2, -1)}),
        (((6,),), {"starts": (2,), "sizes": (4,), "steps": (1,)}),
    ],
)


def _place_numpy(x: Any, *, shape: Any, starts: Any, steps: Any) -> Any:
    out = np.zeros(shape, x.dtype)
    index = [st + sp * np.arange(n) for st, n, sp in zip(starts, x.shape, steps, strict=True)]
    out[np.ix_(*index) if index else ()] = x
    return out


def _place_pieces(ix: Index, read: Read, types: Types, *, shape: Any, starts: Any, steps: Any) -> tuple[Piece, ...]:
    (x,) = types
    index: list[Expr] = []
    when: list[InRange | Expr] = []
    for i, n, full, st, sp in zip(ix, x.shape, shape, starts, steps, strict=True):
        if st == 0 and sp == 1 and n == full:
            index.append(i)
            continue
        if sp == 1:
            when.append(InRange(i, extent(st), extent(n + st)))
            index.append(sub(i, extent(st)))
            continue
        first, step = (st, sp) if sp > 0 else (st + (n - 1) * sp, -sp)
        offset = sub(i, extent(first))
        when.append(InRange(i, extent(first), extent(first + (n - 1) * step + 1)))
        when.append(Apply(EQ, (Apply(REM, (offset, const_index(step))), const_index(0))))
        k: Expr = Apply(DIV, (offset, const_index(step)))
        index.append(k if sp > 0 else sub(extent(n - 1), k))
    return (Piece(0, tuple(index), tuple(when)),)


def _place_vjp(ct: Node, y: Node, x: Node, *, shape: Any, starts: Any, steps: Any) -> tuple[Node]:
    return (slice_(ct, starts=starts, sizes=x.shape, steps=steps),)


def _place_batch(size: Size, args: Any, dims: Any, *, shape: Any, starts: Any, steps: Any) -> tuple[Node, int]:
    return place(to_front(args[0], dims[0]), shape=(size, *shape), starts=(0, *starts), steps=(1, *steps)), 0


place: Op = view(
    "place",
    doc="Zeros of the given shape with x in the part that ``slice`` with the same starts and steps reads.",
    infer=lambda x, *, shape, starts, steps: x.with_shape(shape),
    numpy=_place_numpy,
    pieces=_place_pieces,
    vjp=_place_vjp,
    batch=_place_batch,
    fills=True,
    examples=lambda: [
        (((2, 4),), {"shape": (5, 4), "starts": (1, 3), "steps": (2, -1)}),
        (((3,),), {"shape": (6,), "starts": (2,), "steps": (1,)}),
    ],
)


# --- concatenate -----------------------------------------------------------------------------------------------------


def _concat_infer(*types: TensorType, axis: int) -> TensorType:
    first = types[0]
    one_dtype(types, "concatenate")
    rest = first.shape[:axis] + first.shape[axis + 1 :]
    for t in types[1:]:
        if t.ndim != first.ndim or not same_shape(t.shape[:axis] + t.shape[axis + 1 :], rest):
            shapes = " and ".join(shown(a.shape) for a in types)
            raise ShapeError(f"concatenate: shapes {shapes} differ outside axis {axis}")
    total: Size = 0
    for t in types:
        total = total + t.shape[axis]
    return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _concat_pieces(ix: Index, read: Read, types: Types, *, axis: int) -> tuple[Piece, ...]:
    out, start = [], 0  # type: tuple[list[Piece], Size]
    for k, t in enumerate(types):
        here = (*ix[:axis], sub(ix[axis], extent(start)), *ix[axis + 1 :])
        out.append(Piece(k, here, (InRange(ix[axis], extent(start), extent(start + t.shape[axis])),)))
        start = start + t.shape[axis]
    return tuple(out)


def _concat_vjp(ct: Node, y: Node, *xs: Node, axis: int) -> tuple[Node, ...]:
    out, start = [], 0  # type: tuple[list[Node], Size]
    for x in xs:
        starts = tuple(start if k == axis else 0 for k in range(x.ndim))
        out.append(slice_(ct, starts=starts, sizes=x.shape, steps=(1,) * x.ndim))
        start = start + x.shape[axis]
    return tuple(out)


def _concat_batch(size: Size, args: Any, dims: Any, *, axis: int) -> tuple[Node, int]:
    return concatenate(*(batched(size, x, d) for x, d in zip(args, dims, strict=True)), axis=axis + 1), 0


concatenate: Op = view(
    "concatenate",
    doc="Arrays one after another along an axis.",
    infer=_concat_infer,
    numpy=lambda *xs, axis: np.concatenate(xs, axis),
    pieces=_concat_pieces,
    vjp=_concat_vjp,
    batch=_concat_batch,
    examples=lambda: [(((2, 3), (2, 1), (2, 2)), {"axis": 1}), (((2,), (3,)), {"axis": 0})],
)
