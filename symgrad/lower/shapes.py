"""Questions about shapes and views that the passes of the lowering share."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.ir.node import CONSTANT, GET, PARAM, Node
from symgrad.ir.op import Fold, Scalar
from symgrad.ir.types import Shape, Size, product
from symgrad.ops.folds import kept
from symgrad.ops.views import reshape_groups

FEW = 8  # elements that are written out one by one: of a reduction, or a whole array
SHORT = 4  # elements of a row that are written out when rows are many


def few(sizes: Iterable[Size], most: int = FEW) -> bool:
    """Whether there are so few elements that no loop is needed."""
    known = tuple(sizes)
    return all(isinstance(s, int) for s in known) and product(known) <= most  # type: ignore[operator]  # an int


def small_tail(shape: Shape) -> int:
    """How many trailing axes are written out: all of a small array, else those that make short rows."""
    if 0 in shape:
        return 0
    if few(shape):
        return len(shape)
    return next(k for k in reversed(range(len(shape))) if few(shape[len(shape) - k :], SHORT))


def written_out(n: Node) -> bool:
    """Whether a node is a reduction of so few elements that it is computed where it is used."""
    return isinstance(n.op.lower, Fold) and few(n.args[0].shape[k] for k in n.attr("axes"))


def loops(n: Node) -> bool:
    """Whether a node is a reduction with loops of its own."""
    return isinstance(n.op.lower, Fold) and not written_out(n)


def root(n: Node) -> Node:
    """The node whose memory ``n`` would share: reshapes are free."""
    while n.op.name == "reshape":
        n = n.args[0]
    return n


def memory_of(n: Node) -> bool:
    """Whether a node is in memory by nature: an argument, a literal array, or one of several results."""
    return n.op is PARAM or n.op is GET or (n.op is CONSTANT and bool(n.shape))


def swapped_source(n: Node) -> Node | None:
    """The matrix behind a swap of the last two axes, if ``n`` is one."""
    if n.op.name != "transpose":
        return None
    perm, d = n.attr("perm"), n.ndim
    return n.args[0] if d >= 2 and perm == (*range(d - 2), d - 1, d - 2) else None


def repeats(n: Node, tail: int) -> bool:
    """Whether a view reads the same element again and again from an outer loop, or in an unforeseeable order.

    The last ``tail`` axes have no loops.
    """
    if n.op.name == "gather":
        return True
    if n.op.name != "broadcast":
        return False
    looped = [k for k in n.attr("axes") if k < n.ndim - tail]
    return any(k not in looped and n.shape[k] != 1 for k in range(max(looped, default=0)))


def widens(n: Node, tail: int) -> bool:
    """Whether a view repeats each element along inner loops; the last ``tail`` axes have none."""
    if n.op.name != "broadcast" or not n.args[0].ndim:
        return False
    looped = n.ndim - tail
    return max(n.attr("axes")) < looped - 1 and any(s != 1 for s in n.shape[max(n.attr("axes")) + 1 : looped])


def axis_below(n: Node, position: int, axis: int) -> int | None:
    """The axis of an argument that is read at the very index of ``axis`` of ``n``; None when there is none."""
    match n.op.name:
        case "broadcast":
            axes: tuple[int, ...] = n.attr("axes")
            return axes.index(axis) if axis in axes else None
        case "transpose":
            perm: tuple[int, ...] = n.attr("perm")
            return perm[axis]
        case "reshape":
            return _axis_of_reshape(n.args[0].shape, n.shape, axis)
        case "slice" | "place":
            plain = n.attr("starts")[axis] == 0 and n.attr("steps")[axis] == 1
            return axis if plain and n.shape[axis] == n.args[0].shape[axis] else None
        case "concatenate":
            return axis if axis != n.attr("axis") else None
        case "gather":
            lead = n.args[1].ndim
            if position > 0:
                return axis if axis < lead else None
            return kept(n.args[0].ndim, n.attr("axes"))[axis - lead] if axis >= lead else None
    if isinstance(n.op.lower, Fold):
        return kept(n.args[0].ndim, n.attr("axes"))[axis]
    return axis if isinstance(n.op.lower, Scalar) else None


def _axis_of_reshape(old: Shape, new: Shape, axis: int) -> int | None:
    runs = reshape_groups(old, new)
    if any(k >= len(old) for a, _ in runs for k in a) or any(k >= len(new) for _, b in runs for k in b):
        return None
    return next((a[0] for a, b in runs if b == [axis] and len(a) == 1), None)
