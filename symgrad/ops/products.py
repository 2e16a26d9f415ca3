"""Matrix products. One primitive: batches of matrices; every NumPy product is made of it by views."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.loops import (
    ADD,
    EQ,
    MAX,
    MUL,
    Address,
    Apply,
    Assign,
    Block,
    ByReference,
    Const,
    Declare,
    Extern,
    For,
    If,
    Text,
    const_index,
    extent,
)
from symgrad.ir.node import Node
from symgrad.ir.op import Index, Nest, NestBuilder, Op, Place, register
from symgrad.ir.sizes import same_shape, shown
from symgrad.ir.types import Size, TensorType, i32, i64
from symgrad.ops.folds import sum_
from symgrad.ops.kinds import one_dtype
from symgrad.ops.views import batched, broadcast, reshape, to_front, transpose


def matrix_transpose(x: Node) -> Node:
    """The last two axes swapped."""
    n = x.ndim
    return transpose(x, perm=(*range(n - 2), n - 1, n - 2))


def _dot_infer(a: TensorType, b: TensorType) -> TensorType:
    if not same_shape(a.shape[:-2], b.shape[:-2]) or not same_shape(a.shape[-1:], b.shape[-2:-1]):
        raise ShapeError(f"dot: shapes {shown(a.shape)} and {shown(b.shape)} do not fit")
    one_dtype((a, b), "dot")
    return a.with_shape((*a.shape[:-1], b.shape[-1]))


SMALL = 8  # matrices up to this size in every direction are multiplied by plain loops, which LLVM unrolls


def _is_small(*sizes: Size) -> bool:
    return all(isinstance(s, int) and s <= SMALL for s in sizes)


def _dot_build(b: NestBuilder, out: Place, x: Place, y: Place, *, swapped: tuple[bool, ...] = (False, False)) -> Block:
    *batch, m, n = out.type.shape
    k = x.type.shape[-2 if swapped[0] else -1]
    if not out.type.dtype.is_float or _is_small(m, n, k):
        return _loops(b, out, x, y, k, swapped)
    call = _gemv if n == 1 or m == 1 else _gemm
    return b.loop(tuple(batch), lambda ix: call(b, out, x, y, ix, (m, n, k), swapped))


def _loops(b: NestBuilder, out: Place, x: Place, y: Place, k: Size, swapped: tuple[bool, ...]) -> Block:
    def at(ix: Index) -> Block:
        *batch, i, j = ix
        total, l = b.fresh("total", out.type.dtype), b.fresh("l", i64)
        left = x.load(*batch, l, i) if swapped[0] else x.load(*batch, i, l)
        right = y.load(*batch, j, l) if swapped[1] else y.load(*batch, l, j)
        term = Apply(ADD, (total, Apply(MUL, (left, right))), reassoc=out.type.dtype.is_float)
        zero = Const(0, out.type.dtype)
        return (Declare(total, zero), For(l, const_index(0), extent(k), (Assign(total, term),)), out.store(total, *ix))

    return b.loop(out.type.shape, at)


def _address(place: Place, batch: Index) -> Address:
    rest = (const_index(0),) * (place.type.ndim - len(batch))
    return Address(place.buffer, place.flat((*batch, *rest)))


def _int(size: Size) -> ByReference:
    return ByReference(extent(size), i32)


def _leading(size: Size) -> ByReference:
    """A leading dimension, which BLAS wants to be at least one."""
    return ByReference(
        extent(max(size, 1)) if isinstance(size, int) else Apply(MAX, (extent(size), const_index(1))), i32
    )


def _gemm(
    b: NestBuilder, out: Place, x: Place, y: Place, ix: Index, sizes: tuple[Size, Size, Size], swapped: tuple[bool, ...]
) -> Block:
    """Row-major out = x @ y as BLAS's column-major outᵀ = yᵀ @ xᵀ."""
    m, n, k = sizes
    dtype = out.type.dtype
    one, zero = ByReference(Const(1.0, dtype), dtype), ByReference(Const(0.0, dtype), dtype)
    letter = "d" if dtype.bytes == 8 else "s"
    return (
        Extern(
            f"sg_{letter}gemm",
            (
                Text("T" if swapped[1] else "N"), Text("T" if swapped[0] else "N"), _int(n), _int(m), _int(k), one,
                _address(y, ix), _leading(k if swapped[1] else n), _address(x, ix), _leading(m if swapped[0] else k),
                zero,
                _address(out, ix), _leading(n),
            ),
        ),
    )  # fmt: skip


def _gemv(
    b: NestBuilder, out: Place, x: Place, y: Place, ix: Index, sizes: tuple[Size, Size, Size], swapped: tuple[bool, ...]
) -> Block:
    """A matrix times a vector, whichever operand is the matrix."""
    m, n, k = sizes
    dtype = out.type.dtype
    one, zero = ByReference(Const(1.0, dtype), dtype), ByReference(Const(0.0, dtype), dtype)
    unit = ByReference(const_index(1), i32)
    matrix, vector = (x, y) if n == 1 else (y, x)
    rows_are_inner = swapped[0] if n == 1 else not swapped[1]
    # the matrix in memory, row-major: (k, m) where the inner axis runs along its rows, else (m, k)
    length = m if n == 1 else n
    columns, rows = (length, k) if rows_are_inner else (k, length)
    letter = "d" if dtype.bytes == 8 else "s"
    first = tuple(const_index(0) for _ in range(2))
    i = b.fresh("i", i64)
    at = (*ix, i, first[0]) if n == 1 else (*ix, first[0], i)
    clear = For(
        i, const_index(0), extent(length), (out.store(Const(0.0, dtype), *at),)
    )  # BLAS leaves it alone for k = 0
    return (
        If(Apply(EQ, (extent(k), const_index(0))), (clear,)),
        Extern(
            f"sg_{letter}gemv",
            (
                Text("N" if rows_are_inner else "T"), _int(columns), _int(rows), one, _address(matrix, ix),
                _leading(columns),
                _address(vector, ix), unit, zero, _address(out, ix), unit,
            ),
        ),
    )  # fmt: skip


def _dot_jvp(tangents: tuple[Node | None, ...], y: Node, a: Node, b: Node) -> Node | None:
    ta, tb = tangents
    left = None if ta is None else dot(ta, b)
    right = None if tb is None else dot(a, tb)
    return left if right is None else right if left is None else left + right


def _dot_batch(size: Size, args: Any, dims: Any) -> tuple[Node, int]:
    (a, b), (da, db) = args, dims
    if db is None and b.ndim == 2:  # the rows of all of a's matrices below each other
        m, k = to_front(a, da).shape[1:]
        rows = dot(reshape(to_front(a, da), shape=(size * m, k)), b)
        return reshape(rows, shape=(size, m, b.shape[-1])), 0
    if da is None and a.ndim == 2 and to_front(b, db).shape[2] == 1:  # the vectors side by side
        columns = dot(a, matrix_transpose(reshape(to_front(b, db), shape=(size, a.shape[-1]))))
        return reshape(columns, shape=(*columns.shape, 1)), 1
    return dot(batched(size, a, da), batched(size, b, db)), 0


def _dot_carry(mask: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """A row of a contributes when anything in its row of the product does; likewise the columns of b."""
    n = y.ndim
    rows, columns = sum_(mask, axes=(n - 1,)), sum_(mask, axes=(n - 2,))
    batch = tuple(range(n - 2))
    return broadcast(rows, shape=a.shape, axes=(*batch, n - 2)), broadcast(columns, shape=b.shape, axes=(*batch, n - 1))


dot: Op = register(
    Op(
        name="dot",
        doc="Matrix products of the last two axes, for each index of the leading ones.",
        infer=_dot_infer,
        numpy=np.matmul,
        lower=Nest(_dot_build, transposable=(0, 1), batched=2),
        vjp=lambda ct, y, a, b: (dot(ct, matrix_transpose(b)), dot(matrix_transpose(a), ct)),
        jvp=_dot_jvp,
        carry=_dot_carry,
        batch=_dot_batch,
        examples=lambda: [
            (((2, 3), (3, 4)), {}),
            (((2, 2, 3), (2, 3, 1)), {}),
            (((12, 10), (10, 11)), {}),
            (((9, 10), (10, 1)), {}),
        ],
    )
)
