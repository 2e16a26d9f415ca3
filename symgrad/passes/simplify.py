"""Graph -> an equal Graph with less work: constants folded, views composed, scalar work done once.

Bottom-up over interned nodes, so that dead code disappears. Every value stays what IEEE arithmetic gives, the sign of
zero, inf and nan included. Only sums may change in rounding and in the sign of zero, where a sum of repeated values
becomes a product, two sums become one, or the rows of a matrix are added before they are multiplied. What is left is
in normal form: a second run changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ir.graph import Graph, map_graphs, rewrite
from symgrad.ir.node import CONSTANT, Node, constant, literal, size_node, splat
from symgrad.ir.op import Expand, Scalar
from symgrad.ir.types import Shape, product
from symgrad.ops.folds import kept, sum_
from symgrad.ops.kinds import broadcast_to, number, remake, zeros
from symgrad.ops.pointwise import add, and_, as_dtype, eq, mul, ne, neg, not_, or_, select, sub
from symgrad.ops.products import dot
from symgrad.ops.views import broadcast, inverse, place, reshape, slice_, transpose

Rule = Callable[[Node], Node | None]


def simplify(graph: Graph) -> Graph:
    """The same function with less work; idempotent."""
    return rewrite(graph, settle)


def settle(n: Node) -> Node:
    """``n``, whose operands are in normal form, in normal form."""
    while True:
        new = _step(n)
        if new is None or new is n:
            return n
        n = new


def _step(n: Node) -> Node | None:
    if is_pointwise(n):
        new = _fold_constants(n) or _inside_broadcast(n)
        if new is not None:
            return new
    for rule in RULES.get(n.op.name, ()):
        new = rule(n)
        if new is not None:
            return new
    new = map_graphs(n, _same_or_simpler)
    return None if new is n else new


def _same_or_simpler(graph: Graph) -> Graph:
    body = simplify(graph)
    return graph if body.results == graph.results else body


def is_pointwise(n: Node) -> bool:
    """Whether each element of ``n`` is a function of the same element of its operands."""
    expands = isinstance(n.op.lower, Expand) and n.op.partials is not None
    return bool(n.args) and (expands or isinstance(n.op.lower, Scalar))


# --- constants -------------------------------------------------------------------------------------------------------


def _fold_constants(n: Node) -> Node | None:
    if n.shape or any(a.op is not CONSTANT for a in n.args):
        return None
    with np.errstate(all="ignore"):
        value = n.op.numpy(*(literal(a) for a in n.args), **dict(n.attrs))
    return constant(value, n.dtype)


def _inside_broadcast(n: Node) -> Node | None:
    """f(broadcast x, broadcast y) as broadcast f(x, y)."""
    if any(a.op is not broadcast for a in n.args):
        return None
    widest: tuple[int, ...] = max((a.attr("axes") for a in n.args), key=len)
    if not all(set(a.attr("axes")) <= set(widest) for a in n.args):
        return None
    shape = tuple(n.shape[k] for k in widest)
    inner = [_broadcast_within(a, widest, shape) for a in n.args]
    return settle(broadcast(settle(remake(n, *inner)), shape=n.shape, axes=widest))


def _broadcast_within(a: Node, widest: tuple[int, ...], shape: Shape) -> Node:
    (x,) = a.args
    if a.attr("axes") == widest:
        return x
    return settle(broadcast(x, shape=shape, axes=tuple(widest.index(k) for k in a.attr("axes"))))


def is_plus_zero(n: Node) -> bool:
    """A zero whose sign is not set: what sums start from and ``place`` fills with."""
    value = splat(n)
    return value is not None and value == 0 and math.copysign(1.0, value) > 0


def _is_neutral(n: Node) -> bool:
    """A zero that can be added to anything: -0.0, or an integer or False."""
    value = splat(n)
    return value is not None and value == 0 and (not n.dtype.is_float or math.copysign(1.0, value) < 0)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _add(n: Node) -> Node | None:
    x, y = n.args
    if _is_neutral(y):
        return x
    if _is_neutral(x):
        return y
    if n.dtype.kind == "b":
        return _or(n)
    if y.op is neg:
        return settle(sub(x, y.args[0]))
    if x.op is neg:
        return settle(sub(y, x.args[0]))
    return _twice(x) if x is y and x.op is mul else None


def _twice(product: Node) -> Node | None:
    """Twice a product, with the factor doubled that has fewer elements to compute; exact."""
    x, y = product.args
    small = next((k for k, a in enumerate((x, y)) if splat(a) is not None), None)
    if small is None:
        small = next((k for k, a in enumerate((x, y)) if a.op is broadcast), None)
    if small is None:
        return None
    twice = settle(add(product.args[small], product.args[small]))
    return settle(mul(twice, y) if small == 0 else mul(x, twice))


def _sub(n: Node) -> Node | None:
    x, y = n.args
    if splat(y) == 0 and (is_plus_zero(y) or not n.dtype.is_float):
        return x
    return settle(add(x, y.args[0])) if y.op is neg else None


def _mul(n: Node) -> Node | None:
    x, y = n.args
    if n.dtype.kind == "b":
        return _and(n)
    for a, b in ((x, y), (y, x)):
        factor = splat(a)
        if factor == 1:
            return b
        if factor == 0 and not n.dtype.is_float:
            return a
        if factor == -1:
            return settle(neg(b))
        if factor is not None and b.op is neg:
            return settle(mul(b.args[0], settle(neg(a))))
    return settle(mul(x.args[0], y.args[0])) if x.op is neg and y.op is neg else None


def _div(n: Node) -> Node | None:
    x, y = n.args
    divisor = splat(y)
    if divisor is None:
        return None
    if divisor == 1:
        return x
    mantissa, exponent = math.frexp(divisor)
    if abs(mantissa) != 0.5 or abs(exponent) > 100:
        return None
    inverted = number(1.0 / divisor, n.dtype)  # a power of two: the product is the same number
    return settle(mul(x, settle(broadcast_to(inverted, n.shape))))


def _neg(n: Node) -> Node | None:
    (x,) = n.args
    if x.op is neg:
        return x.args[0]
    if x.op is mul:
        for a, b in (x.args, x.args[::-1]):
            if splat(b) is not None:
                return settle(mul(a, settle(neg(b))))
    return None


def _ipow(n: Node) -> Node | None:
    (x,), power = n.args, n.attr("n")
    if power == 0:
        return broadcast_to(number(1, n.dtype), n.shape)
    return x if power == 1 else None


def _same_operands(n: Node) -> Node | None:
    """f(x, x) = x."""
    x, y = n.args
    return x if x is y else None


def _cast(n: Node) -> Node | None:
    (x,), dtype = n.args, n.attr("dtype")
    if x.dtype == dtype:
        return x
    if x.op is n.op and x.args[0].dtype == dtype and dtype.kind == x.dtype.kind and dtype.bytes < x.dtype.bytes:
        return x.args[0]  # wider and back
    return None


# --- choices and logic -----------------------------------------------------------------------------------------------


def _select(n: Node) -> Node | None:
    p, a, b = n.args
    if a is b:
        return a
    known = splat(p)
    if known is not None:
        return a if known else b
    if p.op is not_:
        return settle(select(p.args[0], b, a))
    if n.dtype.kind == "b":
        return _select_bool(p, a, b)
    return _select_of_selects(p, a, b)


def _select_bool(p: Node, a: Node, b: Node) -> Node | None:
    if splat(b) is False:
        return settle(and_(p, a))
    if splat(a) is True:
        return settle(or_(p, b))
    if splat(a) is False:
        return settle(and_(settle(not_(p)), b))
    return settle(or_(settle(not_(p)), a)) if splat(b) is True else None


def _select_of_selects(p: Node, a: Node, b: Node) -> Node | None:
    if a.op is select:
        q, inner, other = a.args
        if q is p:
            return settle(select(p, inner, b))
        if other is b:
            return settle(select(settle(and_(p, q)), inner, b))
    if b.op is select:
        q, inner, other = b.args
        if q is p:
            return settle(select(p, a, other))
        if inner is a:
            return settle(select(settle(or_(p, q)), a, other))
    return None


def _and(n: Node) -> Node | None:
    return _logic(n, True)


def _or(n: Node) -> Node | None:
    return _logic(n, False)


def _logic(n: Node, neutral: bool) -> Node | None:
    x, y = n.args
    if x is y:
        return x
    if n.dtype.kind != "b":
        return None
    for a, b in ((x, y), (y, x)):
        known = splat(a)
        if known is not None:
            return b if known == neutral else a
    return None


def _not(n: Node) -> Node | None:
    (x,) = n.args
    if x.op is not_:
        return x.args[0]
    if x.op is eq:
        return settle(ne(*x.args))
    return settle(eq(*x.args)) if x.op is ne else None


# --- views -----------------------------------------------------------------------------------------------------------


def _reshape(n: Node) -> Node | None:
    (x,), shape = n.args, n.attr("shape")
    if x.shape == shape:
        return x
    if x.op is reshape:
        return settle(reshape(x.args[0], shape=shape))
    if x.op is broadcast and not x.args[0].shape:
        return settle(broadcast(x.args[0], shape=shape, axes=()))
    return None


def _transpose(n: Node) -> Node | None:
    (x,), perm = n.args, n.attr("perm")
    if perm == tuple(range(n.ndim)):
        return x
    if x.op is transpose:
        return settle(transpose(x.args[0], perm=tuple(x.attr("perm")[k] for k in perm)))
    if x.op is broadcast:
        back = inverse(perm)
        axes = tuple(back[a] for a in x.attr("axes"))
        if axes == tuple(sorted(axes)):
            return settle(broadcast(x.args[0], shape=n.shape, axes=axes))
    return None


def _broadcast(n: Node) -> Node | None:
    (x,), shape, axes = n.args, n.attr("shape"), n.attr("axes")
    if len(axes) == len(shape):
        return x
    if x.op is broadcast:
        return settle(broadcast(x.args[0], shape=shape, axes=tuple(axes[a] for a in x.attr("axes"))))
    return None


def _slice(n: Node) -> Node | None:
    (x,) = n.args
    starts, sizes, steps = n.attr("starts"), n.attr("sizes"), n.attr("steps")
    if sizes == x.shape and all(s == 0 for s in starts) and all(s == 1 for s in steps):
        return x
    if x.op is slice_:
        first = tuple(a + b * s for a, b, s in zip(x.attr("starts"), x.attr("steps"), starts, strict=True))
        both = tuple(a * b for a, b in zip(x.attr("steps"), steps, strict=True))
        return settle(slice_(x.args[0], starts=first, sizes=sizes, steps=both))
    if x.op is broadcast:
        (y,), axes = x.args, x.attr("axes")
        part = slice_(y, **{k: tuple(v[a] for a in axes) for k, v in n.attrs})
        return settle(broadcast(settle(part), shape=sizes, axes=axes))
    if x.op is place:
        same = (x.attr("starts"), x.args[0].shape, x.attr("steps")) == (starts, sizes, steps)
        return x.args[0] if same else _slice_beside(n, x)
    return _slice_of_piece(n, x) if x.op.name == "concatenate" else None


def _slice_beside(n: Node, x: Node) -> Node | None:
    """Zeros where the slice and the placed part do not meet along some axis."""
    for part, other in ((n, x), (x, n)):
        for k, (low, start) in enumerate(zip(part.attr("starts"), other.attr("starts"), strict=True)):
            size = n.shape[k] if part is n else x.args[0].shape[k]
            if part.attr("steps")[k] != 1 or other.attr("steps")[k] != 1:
                continue
            if all(isinstance(v, int) for v in (low, size, start)) and low + size <= start:
                return zeros(n.shape, n.dtype)
    return None


def _slice_of_piece(n: Node, x: Node) -> Node | None:
    """The slice of one operand of a concatenation."""
    axis, offset = x.attr("axis"), 0
    start, size = n.attr("starts")[axis], n.shape[axis]
    for piece in x.args:
        if n.attr("steps")[axis] == 1 and start == offset and size == piece.shape[axis]:
            starts = (*n.attr("starts")[:axis], 0, *n.attr("starts")[axis + 1 :])
            return settle(slice_(piece, starts=starts, sizes=n.shape, steps=n.attr("steps")))
        offset = offset + piece.shape[axis]
    return None


def _place(n: Node) -> Node | None:
    (x,), starts, steps = n.args, n.attr("starts"), n.attr("steps")
    if n.shape == x.shape and all(s == 0 for s in starts) and all(s == 1 for s in steps):
        return x
    if is_plus_zero(x):
        return zeros(n.shape, n.dtype)
    if x.op is place:
        first = tuple(a + b * s for a, b, s in zip(starts, steps, x.attr("starts"), strict=True))
        both = tuple(a * b for a, b in zip(x.attr("steps"), steps, strict=True))
        return settle(place(x.args[0], shape=n.shape, starts=first, steps=both))
    return None


# --- reductions ------------------------------------------------------------------------------------------------------


def _sum(n: Node) -> Node | None:
    (x,), axes = n.args, n.attr("axes")
    if not axes:
        return x
    if is_plus_zero(x) or any(x.shape[k] == 0 for k in axes):
        return zeros(n.shape, n.dtype)
    if all(x.shape[k] == 1 for k in axes):
        return settle(reshape(x, shape=n.shape))
    if x.op is neg:
        return settle(neg(settle(sum_(x.args[0], axes=axes))))
    return _SUM_OF[x.op.name](x, axes) if x.op.name in _SUM_OF else None


def _sum_of_broadcast(x: Node, axes: tuple[int, ...]) -> Node | None:
    """Repeated values are multiplied by their number."""
    (y,), owned = x.args, x.attr("axes")
    repeated = tuple(k for k in axes if k not in owned)
    if not repeated:
        return None
    rest = tuple(k for k in kept(x.ndim, axes) if k not in owned)
    total = settle(sum_(y, axes=tuple(owned.index(k) for k in axes if k in owned)))
    count = product(x.shape[k] for k in repeated)
    if x.dtype.kind == "b":
        if not isinstance(count, int):
            return None
    else:
        times = settle(as_dtype(size_node(count), x.dtype))
        total = settle(mul(total, settle(broadcast_to(times, total.shape))))
    left = kept(x.ndim, axes)
    shape = tuple(x.shape[k] for k in left)
    return settle(broadcast(total, shape=shape, axes=tuple(j for j, k in enumerate(left) if k not in rest)))


def _sum_of_sum(x: Node, axes: tuple[int, ...]) -> Node:
    left = kept(x.args[0].ndim, x.attr("axes"))
    return settle(sum_(x.args[0], axes=tuple(sorted((*x.attr("axes"), *(left[k] for k in axes))))))


def _sum_of_transpose(x: Node, axes: tuple[int, ...]) -> Node | None:
    perm = x.attr("perm")
    order = [perm[k] for k in kept(x.ndim, axes)]
    if order != sorted(order):
        return None
    return settle(sum_(x.args[0], axes=tuple(sorted(perm[k] for k in axes))))


def _sum_of_place(x: Node, axes: tuple[int, ...]) -> Node:
    left = kept(x.ndim, axes)
    some: dict[str, Any] = {k: tuple(v[j] for j in left) for k, v in x.attrs}
    return settle(place(settle(sum_(x.args[0], axes=axes)), **some))


def _sum_of_dot(x: Node, axes: tuple[int, ...]) -> Node | None:
    """Rows (or columns) of a product: those of the operand are added, and multiplied once."""
    operands, first = list(x.args), x.ndim - 2
    side = next((s for s in (0, 1) if first + s in axes and x.shape[first + s] != 1), None)
    if side is None:
        return None
    a, axis = operands[side], first + side
    shape = tuple(1 if k == axis else s for k, s in enumerate(a.shape))
    operands[side] = settle(reshape(settle(sum_(a, axes=(axis,))), shape=shape))
    return settle(sum_(settle(dot(*operands)), axes=axes))


_SUM_OF: dict[str, Callable[[Node, tuple[int, ...]], Node | None]] = {
    "broadcast": _sum_of_broadcast,
    "sum": _sum_of_sum,
    "transpose": _sum_of_transpose,
    "place": _sum_of_place,
    "dot": _sum_of_dot,
}


def _no_axes(n: Node) -> Node | None:
    return None if n.attr("axes") else n.args[0]


RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_add,),
    "sub": (_sub,),
    "mul": (_mul,),
    "div": (_div,),
    "neg": (_neg,),
    "ipow": (_ipow,),
    "maximum": (_same_operands,),
    "minimum": (_same_operands,),
    "cast": (_cast,),
    "select": (_select,),
    "and": (_and,),
    "or": (_or,),
    "not": (_not,),
    "reshape": (_reshape,),
    "transpose": (_transpose,),
    "broadcast": (_broadcast,),
    "slice": (_slice,),
    "place": (_place,),
    "sum": (_sum,),
    "max": (_no_axes,),
    "min": (_no_axes,),
    "prod": (_no_axes,),
}
