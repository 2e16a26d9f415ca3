"""How one node passes derivatives on: values with masks, for both modes, from the node's declaration.

A mask says which elements contribute at all (None: all). Where an element does not, the derivative is exactly zero,
whatever its local partial may be: products are chosen under the mask, never multiplied by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.ir.node import Node
from symgrad.ir.op import Op
from symgrad.ir.types import boolean
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to, number, zeros


@dataclass(frozen=True, slots=True)
class Linear:
    """A cotangent or a tangent with the mask of what contributes to it."""

    value: Node
    mask: Node | None = None


def add(a: Linear, b: Linear) -> Linear:
    """The sum of two contributions; an element contributes when it does to either."""
    mask = None if a.mask is None or b.mask is None else p.or_(a.mask, b.mask)
    return Linear(p.add(a.value, b.value), mask)


def masked(value: Node, mask: Node | None) -> Linear:
    return Linear(value if mask is None else p.select(mask, value, number(0, value.dtype)), mask)


def everywhere(like: Node) -> Node:
    """The mask of all elements."""
    return broadcast_to(number(True, boolean), like.shape)


def both(a: Node | None, b: Node | None) -> Node | None:
    return b if a is None else a if b is None else p.and_(a, b)


def times(value: Node, partial: Any, mask: Node | None) -> Linear | None:
    """``value * partial`` under a mask; partials that are numbers are folded."""
    if partial is None or (not isinstance(partial, Node) and partial == 0):
        return None
    if not isinstance(partial, Node):
        scaled = value if partial == 1 else p.neg(value) if partial == -1 else value * partial
        return Linear(scaled, mask)
    return masked(value * partial, mask)


def partials_of(op: Op) -> Callable[..., tuple[Any, ...]]:
    """The declared partials; without any, those that sympy derives from the declared form."""
    if op.partials is not None:
        return op.partials
    if op.sympy is None:
        raise UnsupportedError(f"{op.name} has no derivative")
    from symgrad.symbolic.derive import partials  # sympy is loaded when first needed

    return partials(op)


def is_pointwise(op: Op) -> bool:
    return op.prepare is not None


# --- reverse ---------------------------------------------------------------------------------------------------------


def pullback(n: Node, ct: Linear) -> Sequence[Linear | None]:
    """Contributions of a node's cotangent to its arguments."""
    op, attrs = n.op, dict(n.attrs)
    if op.constant:
        return [None] * len(n.args)
    masks = _reverse_masks(n, ct, attrs)
    if op.vjp is not None:
        values = op.vjp(ct.value, n, *n.args, **attrs)
        if op.structural or is_pointwise(op):
            return [None if v is None else Linear(v, m) for v, m in zip(values, masks, strict=True)]
        return [None if v is None else masked(v, m) for v, m in zip(values, masks, strict=True)]
    partials = partials_of(op)(n, *n.args, **attrs)
    return [times(ct.value, d, m) for d, m in zip(partials, masks, strict=True)]


def _reverse_masks(n: Node, ct: Linear, attrs: dict[str, Any]) -> Sequence[Node | None]:
    """The mask of each argument's contribution."""
    op, mask = n.op, ct.mask
    arrived: Sequence[Node | None] = [None] * len(n.args)
    if is_pointwise(op):
        arrived = [mask] * len(n.args)
    elif op.structural:
        moved = everywhere(n) if mask is None and not op.covers else mask
        if moved is not None and op.vjp is not None:
            arrived = op.vjp(moved, n, *n.args, **attrs)
    elif op.carry is not None and mask is not None:
        arrived = op.carry(mask, n, *n.args, **attrs)
    if op.masks is None:
        return arrived
    return [both(a, m) for a, m in zip(arrived, op.masks(n, *n.args, **attrs), strict=True)]


# --- forward ---------------------------------------------------------------------------------------------------------


def pushforward(n: Node, tangents: Sequence[Linear | None]) -> Linear | None:
    """The tangent of a node from those of its arguments."""
    op, attrs = n.op, dict(n.attrs)
    if op.constant or not n.dtype.is_float or all(t is None for t in tangents):
        return None
    values = tuple(None if t is None else t.value for t in tangents)
    if op.jvp is not None:
        out = op.jvp(values, n, *n.args, **attrs)
    elif op.linear:
        out = op(*_filled(values, n), **attrs)
    else:
        return _from_partials(n, tangents, attrs)
    return None if out is None else Linear(out, _forward_mask(n, tangents, attrs))


def _filled(values: Sequence[Node | None], n: Node) -> list[Node]:
    return [zeros(a.shape, n.dtype) if v is None else v for v, a in zip(values, n.args, strict=True)]


def _from_partials(n: Node, tangents: Sequence[Linear | None], attrs: dict[str, Any]) -> Linear | None:
    masks = n.op.masks(n, *n.args, **attrs) if n.op.masks is not None else [None] * len(n.args)
    total: Linear | None = None
    for t, d, m in zip(tangents, partials_of(n.op)(n, *n.args, **attrs), masks, strict=True):
        term = None if t is None else times(t.value, d, both(t.mask, m))
        if term is not None:
            total = term if total is None else add(total, term)
    return total


def _forward_mask(n: Node, tangents: Sequence[Linear | None], attrs: dict[str, Any]) -> Node | None:
    op = n.op
    silent = all(t is None or t.mask is None for t in tangents)
    if is_pointwise(op) and op.name != "select":
        known = [t.mask for t in tangents if t is not None]
        return None if any(m is None for m in known) else _any(known)
    if not op.structural and op.name != "select":
        return None
    if (
        silent
        and not op.fills
        and all(t is not None for t, a in zip(tangents, n.args, strict=True) if a.dtype.is_float)
    ):
        return None
    bools = tuple(
        None if t is None else everywhere(a) if t.mask is None else t.mask
        for t, a in zip(tangents, n.args, strict=True)
    )
    if op.jvp is not None:
        moved: Node | None = op.jvp(bools, n, *n.args, **attrs)
        return moved
    return op(*(zeros(a.shape, boolean) if b is None else b for b, a in zip(bools, n.args, strict=True)), **attrs)


def _any(masks: Sequence[Node | None]) -> Node | None:
    out: Node | None = None
    for m in masks:
        assert m is not None
        out = m if out is None else p.or_(out, m)
    return out
