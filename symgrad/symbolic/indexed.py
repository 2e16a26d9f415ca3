"""Graph of arrays -> the expression of one element: views become index maps, folds become sums over an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, size_parameters
from symgrad.ir.node import CONSTANT, PARAM, SIZE, Node, TupleType, literal
from symgrad.ir.types import Dim, FloorDiv, Size, boolean
from symgrad.ops.views import inverse, reshape_groups
from symgrad.symbolic.bridge import SYMPY, symbol
from symgrad.symbolic.numbers import exact

NODES = 400  # beyond which an element is not written out
LETTERS = ("i", "j", "k", "l", "p", "q", "r", "s", "u", "v")

Index = tuple[Any, ...]


def size_symbol(name: str) -> Any:
    return sp.Symbol(name, integer=True, positive=True)


def size_expression(size: Size) -> Any:
    """A size as an expression in the symbols of the named sizes."""
    if not isinstance(size, Dim):
        return sp.Integer(size)
    total = sp.Integer(0)
    for monomial, c in size.terms:
        term = sp.Integer(c)
        for a in monomial:
            if isinstance(a, FloorDiv):
                term *= sp.floor(size_expression(a.num) / size_expression(a.den))
            else:
                term *= size_symbol(a)
        total += term
    return total


class Elements:
    """Expressions of single elements of a graph's nodes, each made once.

    A fold takes letters by its height above the folds inside it, so that no sum binds the index of another around it.
    """

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        nodes = graph.nodes()
        if len(nodes) > NODES:
            raise UnsupportedError(f"a formula of arrays with {len(nodes)} nodes is not written out")
        self.names = dict(zip(graph.params, names, strict=True))
        taken = {*names, *size_parameters(graph)}
        self.letters = [sp.Symbol(c, integer=True, nonnegative=True) for c in LETTERS if c not in taken]
        self.free = 0  # letters in use outside of all folds
        self.heights: dict[Node, int] = {}
        for n in nodes:
            own = len(n.attr("axes")) if n.op.name in FOLDS else 1 if n.op.name in ("dot", "cumsum") else 0
            self.heights[n] = max((self.heights[a] for a in n.args), default=0) + own
        self.made: dict[tuple[Node, Index, int], Any] = {}

    def element(self, n: Node, index: Index) -> Any:
        """The element of ``n`` at ``index``; UnsupportedError names a primitive that has no such form."""
        key = (n, index, self.free)
        if key not in self.made:
            self.made[key] = self._make(n, index)
        return self.made[key]

    def free_index(self, ndim: int) -> Index:
        """Letters for the index of a result, not used by any fold from now on."""
        self.free = ndim
        return tuple(self.letters[:ndim])

    def _bound(self, n: Node, count: int) -> list[Any]:
        top = self.free + self.heights[n]
        if top > len(self.letters):
            raise UnsupportedError("a formula with that many nested sums is not written out")
        return self.letters[top - count : top]

    def _make(self, n: Node, index: Index) -> Any:
        if isinstance(n.type, TupleType):
            raise UnsupportedError(f"{n.op.name} has no form in indices")
        if n.op is PARAM:
            name = self.names[n]
            return sp.IndexedBase(name, real=True)[index] if index else symbol(name)
        if n.op is CONSTANT:
            return self._constant(n, index)
        if n.op is SIZE:
            return size_expression(n.attr("size"))
        if n.op.prepare is not None:
            function = SYMPY.function(n.op, dict(n.attrs), [a.type for a in n.args])
            if function is not None:
                return function(*(self.element(a, index) for a in n.args))
        rule = RULES.get(n.op.name)
        if rule is None:
            raise UnsupportedError(f"{n.op.name} has no form in indices")
        return rule(self, n, index)

    def _constant(self, n: Node, index: Index) -> Any:
        array = literal(n)
        if not all(getattr(i, "is_Integer", False) for i in index):
            raise UnsupportedError("an array of literals has no form in indices")
        return exact(array[tuple(int(i) for i in index)].item())


# --- views: where an element comes from ------------------------------------------------------------------------------


def _broadcast(e: Elements, n: Node, index: Index) -> Any:
    return e.element(n.args[0], tuple(index[a] for a in n.attr("axes")))


def _transpose(e: Elements, n: Node, index: Index) -> Any:
    return e.element(n.args[0], tuple(index[k] for k in inverse(n.attr("perm"))))


def _reshape(e: Elements, n: Node, index: Index) -> Any:
    (x,) = n.args
    where: list[Any] = [sp.Integer(0)] * x.ndim
    for old, new in reshape_groups(x.shape, n.shape):
        if len(old) != 1 or len(new) != 1:
            raise UnsupportedError("reshape that joins or splits axes has no form in indices")
        where[old[0]] = index[new[0]]
    return e.element(x, tuple(where))


def _slice(e: Elements, n: Node, index: Index) -> Any:
    starts, steps = n.attr("starts"), n.attr("steps")
    return e.element(n.args[0], tuple(size_expression(s) + k * i for i, s, k in zip(index, starts, steps, strict=True)))


def _place(e: Elements, n: Node, index: Index) -> Any:
    (x,) = n.args
    conditions, where = [], []
    for i, full, length, start, step in zip(index, n.shape, x.shape, n.attr("starts"), n.attr("steps"), strict=True):
        first, last = size_expression(start), size_expression(start + (length - 1) * step)
        low, high = (first, last) if step > 0 else (last, first)
        conditions += [] if low == 0 else [i >= low]
        conditions += [] if high == size_expression(full - 1) else [i <= high]
        conditions += [] if abs(step) == 1 else [sp.Eq(sp.Mod(i - first, abs(step)), 0)]
        where.append((i - first) / step)
    return _where(n, sp.And(*conditions), e.element(x, tuple(where)))


def _where(n: Node, condition: Any, value: Any) -> Any:
    if n.dtype == boolean:
        return sp.And(condition, value)
    return sp.Piecewise((value, condition), (0, True))


def _concatenate(e: Elements, n: Node, index: Index) -> Any:
    axis, start, pieces = n.attr("axis"), sp.Integer(0), []
    for x in n.args:
        here = (*index[:axis], index[axis] - start, *index[axis + 1 :])
        start += size_expression(x.shape[axis])
        pieces.append((e.element(x, here), index[axis] < start))
    return sp.Piecewise(*pieces[:-1], (pieces[-1][0], True))


def _gather(e: Elements, n: Node, index: Index) -> Any:
    x, *places = n.args
    lead, axes = places[0].ndim, n.attr("axes")
    found = {a: e.element(p, index[:lead]) for a, p in zip(axes, places, strict=True)}
    rest = iter(index[lead:])
    return e.element(x, tuple(found[k] if k in found else next(rest) for k in range(x.ndim)))


# --- folds: sums over an index ---------------------------------------------------------------------------------------


def _folded(build: Any, before: Any = None, after: Any = None) -> Any:
    def rule(e: Elements, n: Node, index: Index) -> Any:
        (x,), axes = n.args, n.attr("axes")
        bound = dict(zip(axes, e._bound(n, len(axes)), strict=True))
        rest = iter(index)
        inner = e.element(x, tuple(bound[k] if k in bound else next(rest) for k in range(x.ndim)))
        if n.dtype == boolean:
            return _any(inner, bound.values())
        limits = [(i, 0, size_expression(x.shape[k]) - 1) for k, i in bound.items()]
        total = build(inner if before is None else before(inner), *limits)
        return total if after is None else after(total)

    return rule


def _any(inner: Any, bound: Iterable[Any]) -> Any:
    """Whether something holds for any index: known where it does not depend on the index."""
    if inner.free_symbols & set(bound):
        raise UnsupportedError("a condition on any of many elements has no form in indices")
    return inner


def _dot(e: Elements, n: Node, index: Index) -> Any:
    a, b = n.args
    (k,) = e._bound(n, 1)
    *batch, i, j = index
    product = e.element(a, (*batch, i, k)) * e.element(b, (*batch, k, j))
    return sp.Sum(product, (k, 0, size_expression(a.shape[-1]) - 1))


def _cumsum(e: Elements, n: Node, index: Index) -> Any:
    axis, (k,) = n.attr("axis"), e._bound(n, 1)
    low, high = (index[axis], size_expression(n.shape[axis]) - 1) if n.attr("reverse") else (0, index[axis])
    return sp.Sum(e.element(n.args[0], (*index[:axis], k, *index[axis + 1 :])), (k, low, high))


FOLDS = {
    "sum": _folded(sp.Sum),
    "prod": _folded(sp.Product),
    "norm2": _folded(sp.Sum, lambda x: x**2, sp.sqrt),
    "logsumexp": _folded(sp.Sum, sp.exp, sp.log),
}
RULES: dict[str, Any] = FOLDS | {
    "broadcast": _broadcast, "transpose": _transpose, "reshape": _reshape, "slice": _slice, "place": _place,
    "concatenate": _concatenate, "gather": _gather, "dot": _dot, "cumsum": _cumsum,
    "iota": lambda e, n, index: index[0],
}  # fmt: skip
