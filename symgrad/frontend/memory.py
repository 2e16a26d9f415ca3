"""Where the elements of a view lie: strides through a chain of views, as NumPy would have them.

They tell whether a reshape is a view of its argument or has to be a copy. Strides count elements.
"""

from __future__ import annotations

from itertools import pairwise

from symgrad.ir.node import Node
from symgrad.ir.sizes import current
from symgrad.ir.types import Shape, Size, product
from symgrad.ops.folds import kept
from symgrad.ops.views import reshape_groups


def contiguous(shape: Shape) -> Shape:
    """The strides of a fresh array."""
    return tuple(product(shape[k + 1 :]) for k in range(len(shape)))


def strides_through(n: Node, base: Node, strides: Shape) -> Shape | None:
    """Strides of ``n``, made by views of ``base``; None when something on the way has to copy."""
    if n is base:
        return strides
    if n.op.name not in ("transpose", "reshape", "slice", "broadcast", "gather"):
        return None
    below = strides_through(n.args[0], base, strides)
    if below is None:
        return None
    match n.op.name:
        case "transpose":
            return tuple(below[k] for k in n.attr("perm"))
        case "reshape":
            return _reshaped(n.args[0].shape, below, n.shape)
        case "slice":
            return tuple(a * b for a, b in zip(below, n.attr("steps"), strict=True))
        case "broadcast":
            axes = n.attr("axes")
            return tuple(below[axes.index(k)] if k in axes else 0 for k in range(n.ndim))
        case _:
            rest = tuple(below[k] for k in kept(n.args[0].ndim, n.attr("axes")))
            indices = n.args[1:]
            if len(indices) == 1 and is_window(indices[0]):
                return (below[n.attr("axes")[0]], *rest)
            return None if any(i.shape for i in indices) else rest


def is_window(index: Node) -> bool:
    """Whether positions are some that follow each other from a traced one."""
    run = index.args[0] if index.op.name == "checked_index" else index
    return run.op.name == "add" and run.ndim == 1 and any(a.op.name == "iota" for a in run.args)


def _reshaped(old: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides after a reshape; None when axes that do not follow each other in memory merge."""
    out: list[Size] = [1] * len(new)
    if 0 in old:
        return contiguous(new)
    for a, b in reshape_groups(old, new):
        if any(k >= len(old) for k in a) or any(k >= len(new) for k in b):
            a, b = list(range(len(old))), list(range(len(new)))
        a = [k for k in a if old[k] != 1]
        if not all(_follows(strides[k], strides[l] * old[l]) for k, l in pairwise(a)):
            return None
        step: Size = strides[a[-1]] if a else 1
        for k in reversed(b):
            out[k] = step
            step = step * new[k]
    return tuple(out)


def _follows(outer: Size, inner: Size) -> bool:
    return current().canonical(outer) == current().canonical(inner)
