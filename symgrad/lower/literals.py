"""What is known when a program is written: small arrays that depend on nothing, and scalars of literals.

Masks of derivatives, ranges and identity matrices become literals, so that loops that are written out do not compute
them. Everything folded here is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.graph import Graph, rewrite
from symgrad.ir.loops import ADD, AND, MUL, NOT, OR, SUB, Apply, Choose, Const, Convert, Expr
from symgrad.ir.node import Node, constant, literal, splat
from symgrad.ir.op import Fold, Generate, Scalar, View
from symgrad.ir.programs import ARITHMETIC
from symgrad.ir.types import DType, TensorType
from symgrad.lower.shapes import few

MOST = 256  # elements of an array up to which it becomes a literal


def with_literals(graph: Graph) -> Graph:
    """Evaluate small arrays that depend on literals alone: of integers and bools, or floats that are only moved."""

    def emit(n: Node) -> Node:
        if not isinstance(n.type, TensorType) or not n.ndim or not few(n.shape, MOST) or splat(n) is not None:
            return n
        values = [_value(a) for a in n.args]
        if not _is_exact(n) or any(v is None for v in values):
            return n
        with np.errstate(all="ignore"):
            return constant(n.op.numpy(*values, **dict(n.attrs)), n.dtype)

    return rewrite(graph, emit)


def _value(n: Node) -> Any:
    if not isinstance(n.type, TensorType) or not few(n.shape, MOST):
        return None
    number = splat(n)
    return literal(n) if number is None else np.full(n.shape, number, n.dtype.numpy)


def _is_exact(n: Node) -> bool:
    if isinstance(n.op.lower, View | Generate):
        return True
    return isinstance(n.op.lower, Scalar | Fold) and (not n.dtype.is_float or n.op.name in ("cast", "select"))


# --- scalars ---------------------------------------------------------------------------------------------------------

_PADS: dict[DType, Const] = {}


def padding(dtype: DType) -> Const:
    """The zero of a place where nothing was put: adding it leaves every number as it is, -0.0 too."""
    return _PADS.setdefault(dtype, Const(False if dtype.kind == "b" else 0, dtype))


def folded(e: Expr) -> Expr:
    """``e``, or what it is known to be."""
    match e:
        case Choose(condition=Const(value=known)):
            return e.then if known else e.otherwise
        case Convert(value=Const(value=value)) if e.dtype.is_float and not isinstance(value, float):
            return Const(float(value), e.dtype) if abs(value) < 1 << 24 else e
        case Apply():
            return _applied(e)
    return e


def _applied(e: Apply) -> Expr:
    pads = [a is _PADS.get(a.dtype) for a in e.args]
    if len(e.args) == 2 and any(pads) and (e.fn is ADD or e.fn is OR):
        return e.args[0] if pads[1] else e.args[1]
    if e.fn is SUB and pads[1]:
        return e.args[0]
    if e.fn is MUL and e.dtype.is_float:
        ones = [isinstance(a, Const) and a.value == 1 for a in e.args]
        return e.args[1] if ones[0] else e.args[0] if ones[1] else e
    if all(isinstance(a, Const) for a in e.args):
        return _of_literals(e)
    return _logic(e) if e.fn in (AND, OR) else e


def _of_literals(e: Apply) -> Expr:
    """Comparisons, and what is made of bools; arithmetic is left to the compiler."""
    args = [a.value for a in e.args if isinstance(a, Const)]
    if e.fn is NOT:
        return Const(not args[0], e.dtype)
    if e.dtype.kind != "b" or e.fn.name not in ARITHMETIC:
        return e
    if e.args[0].dtype.kind == "b":
        known = {"or": any, "add": any, "and": all, "mul": all}.get(e.fn.name)
        if known is not None:
            return Const(known(args), e.dtype)
    return Const(bool(ARITHMETIC[e.fn.name](*args)), e.dtype)


def _logic(e: Apply) -> Expr:
    for known, other in (e.args, e.args[::-1]):
        if isinstance(known, Const) and e.dtype.kind == "b":
            return other if bool(known.value) == (e.fn is AND) else known
    return e
