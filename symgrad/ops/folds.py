"""Reductions: sums, extremes, products, norms, the logarithm of a sum of exponentials.

``sum`` of bools means "any": the masks that travel with adjoints go through the same rules as the adjoints.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ir.loops import (
    ADD,
    MUL,
)
from symgrad.ir.node import Node
from symgrad.ir.op import REGISTRY, Expand, Fold, Op, register
from symgrad.ir.types import DType, Size, TensorType, boolean, dtype_of, product
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import FLOATS, broadcast_to, number, same_types
from symgrad.ops.running import cumprod
from symgrad.ops.views import broadcast, concatenate, inverse, reshape, slice_, to_front, transpose

Axes = tuple[int, ...]


def kept(ndim: int, axes: Axes) -> Axes:
    return tuple(k for k in range(ndim) if k not in axes)


def _reduced(x: TensorType, *, axes: Axes) -> TensorType:
    return x.with_shape(x.shape[k] for k in kept(x.ndim, axes))


def _reduced_floats(name: str) -> Any:
    return lambda x, *, axes: _reduced(same_types([x], name, FLOATS), axes=axes)


def expand_over(y: Node, like: Node, axes: Axes) -> Node:
    """A reduced value repeated along the axes it was reduced over."""
    return broadcast(y, shape=like.shape, axes=kept(like.ndim, axes))


def spread_mask(mask: Node, y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    """All elements that went into a reduced value contribute where it does."""
    return (expand_over(mask, x, axes),)


def fold_batch(op_name: str) -> Any:
    """Under vmap a reduction keeps its batch axis in front."""

    def batch(size: Size, args: Any, dims: Any, *, axes: Axes) -> tuple[Node, int]:
        return REGISTRY[op_name](to_front(args[0], dims[0]), axes=tuple(a + 1 for a in axes)), 0

    return batch


def _examples() -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(((3, 4),), {"axes": (1,)}), (((3, 4),), {"axes": (0,)}), (((2, 3, 2),), {"axes": (0, 1, 2)})]


def _sum_numpy(x: Any, *, axes: Axes) -> Any:
    return np.any(x, axis=axes) if x.dtype == bool else np.sum(x, axis=axes, dtype=x.dtype)


sum_: Op = register(
    Op(
        name="sum",
        doc="The sum over axes; of bools, whether any is true.",
        infer=_reduced,
        numpy=_sum_numpy,
        lower=Fold(ADD, lambda dtype: False if dtype == boolean else 0),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes),),
        linear=True,
        structural=True,
        batch=fold_batch("sum"),
        examples=_examples,
    )
)


# --- extremes --------------------------------------------------------------------------------------------------------


def _extreme_masks(y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    return (p.eq(x, expand_over(y, x, axes)),)


def _shares(y: Node, x: Node, axes: Axes) -> Node:
    """1/k at each of k ties, else 0."""
    (tied,) = _extreme_masks(y, x, axes=axes)
    count = sum_(p.cast(tied, dtype=x.dtype), axes=axes)
    return p.select(tied, expand_over(1.0 / count, x, axes), 0.0)


def _extreme_vjp(ct: Node, y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    return (expand_over(ct, x, axes) * _shares(y, x, axes),)


def _extreme_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    if t is None:
        return None
    (tied,) = _extreme_masks(y, x, axes=axes)
    return sum_(p.select(tied, t * _shares(y, x, axes), 0.0), axes=axes)


def lowest(dtype: DType) -> float | int | bool:
    """The identity of max."""
    if dtype.is_float:
        return -math.inf
    return False if dtype == boolean else int(np.iinfo(dtype.numpy.str).min)


def highest(dtype: DType) -> float | int | bool:
    """The identity of min."""
    if dtype.is_float:
        return math.inf
    return True if dtype == boolean else int(np.iinfo(dtype.numpy.str).max)


def _extreme(name: str, numpy: Any, fn: Any, start: Any) -> Op:
    return register(
        Op(
            name=name,
            doc=f"The {name}imum over axes; nan spreads; 1/k of the derivative to each of k ties.",
            infer=_reduced,
            numpy=lambda x, *, axes: numpy(x, axis=axes, initial=start(dtype_of(x.dtype))),
            lower=Fold(fn, start),
            vjp=_extreme_vjp,
            jvp=_extreme_jvp,
            masks=_extreme_masks,
            carry=spread_mask,
            batch=fold_batch(name),
            examples=_examples,
        )
    )


max_: Op = _extreme("max", np.max, p.MAXIMUM, lowest)
min_: Op = _extreme("min", np.min, p.MINIMUM, highest)


# --- products, norms, log of a sum of exponentials --------------------------------------------------------------------


def _others(x: Node, axes: Axes) -> Node:
    """For each element the product of all others along ``axes``, right when there are zeros."""
    order = (*kept(x.ndim, axes), *axes)
    front = tuple(x.shape[k] for k in kept(x.ndim, axes))
    rows = reshape(transpose(x, perm=order), shape=(*front, product(x.shape[k] for k in axes)))
    both = exclusive_product(rows, reverse=False) * exclusive_product(rows, reverse=True)
    back = reshape(both, shape=tuple(x.shape[k] for k in order))
    return transpose(back, perm=inverse(order))


def exclusive_product(x: Node, *, reverse: bool) -> Node:
    """Products of all earlier (later, with ``reverse``) elements along the last axis."""
    n, axis = x.shape[-1], x.ndim - 1
    if n == 0:
        return x
    part = slice_(
        x, starts=(0,) * axis + (1 if reverse else 0,), sizes=(*x.shape[:-1], n - 1), steps=(1,) * x.ndim
    )  # fmt: skip
    one = broadcast_to(number(1, x.dtype), (*x.shape[:-1], 1))
    shifted = concatenate(part, one, axis=axis) if reverse else concatenate(one, part, axis=axis)
    return cumprod(shifted, axis=axis, reverse=reverse)


def _prod_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * _others(x, axes), axes=axes)


prod: Op = register(
    Op(
        name="prod",
        doc="The product over axes; its derivative is the product of the others, also with zeros.",
        infer=_reduced,
        numpy=lambda x, *, axes: np.prod(x, axis=axes, dtype=x.dtype),
        lower=Fold(MUL, lambda dtype: 1),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * _others(x, axes),),
        jvp=_prod_jvp,
        carry=spread_mask,
        batch=fold_batch("prod"),
        examples=_examples,
    )
)


def _norm2_direction(y: Node, x: Node, axes: Axes) -> Node:
    length = expand_over(y, x, axes)
    return p.select(p.eq(length, 0.0), 0.0, x / length)


def _norm2_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * _norm2_direction(y, x, axes), axes=axes)


norm2: Op = register(
    Op(
        name="norm2",
        doc="The Euclidean norm over axes; derivative 0 at 0.",
        infer=_reduced_floats("norm2"),
        numpy=lambda x, *, axes: np.sqrt(np.sum(x * x, axis=axes)),
        lower=Expand(lambda x, *, axes: p.sqrt(sum_(x * x, axes=axes))),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * _norm2_direction(y, x, axes),),
        jvp=_norm2_jvp,
        carry=spread_mask,
        batch=fold_batch("norm2"),
        examples=_examples,
    )
)


def shift(x: Node, axes: Axes) -> Node:
    """A finite stand-in for the maximum, constant for differentiation."""
    m = p.stop(max_(x, axes=axes))
    return p.select(p.lt(p.abs_(m), math.inf), m, 0.0)


def _exponentials(x: Node, axes: Axes) -> tuple[Node, Node, Node]:
    m = shift(x, axes)
    e = p.exp(x - expand_over(m, x, axes))
    return m, e, sum_(e, axes=axes)


def softmax(x: Node, *, axes: Axes) -> Node:
    """exp(x) over its sum; 0 where the sum is empty of weight."""
    _, e, s = _exponentials(x, axes)
    inverse = p.select(p.eq(s, 0.0), 0.0, 1.0 / s)
    return e * expand_over(inverse, x, axes)


def _logsumexp_expansion(x: Node, *, axes: Axes) -> Node:
    m, _, s = _exponentials(x, axes)
    return p.log(s) + m


def _logsumexp_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * softmax(x, axes=axes), axes=axes)


logsumexp: Op = register(
    Op(
        name="logsumexp",
        doc="log(sum(exp(x))) without overflow; -inf with derivative 0 when all are -inf.",
        infer=_reduced_floats("logsumexp"),
        numpy=lambda x, *, axes: np.logaddexp.reduce(x, axis=axes),
        lower=Expand(_logsumexp_expansion),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * softmax(x, axes=axes),),
        jvp=_logsumexp_jvp,
        carry=spread_mask,
        batch=fold_batch("logsumexp"),
        examples=lambda: [(((3, 4),), {"axes": (1,)}), (((5,),), {"axes": (0,)})],
    )
)
