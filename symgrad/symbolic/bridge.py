"""Graph <-> sympy: each primitive by the form in its declaration.

A graph is walked in topological order and never expanded without bound: where its tree would grow large, shared values
become ``subexpressions``, symbols with a definition each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.node import CONSTANT, PARAM, SIZE, Node, TupleType
from symgrad.ir.op import Leaf, Op
from symgrad.ir.types import Dim, DType, TensorType, boolean, product
from symgrad.symbolic.elements import elementwise, evaluate_elements, fixed
from symgrad.symbolic.numbers import exact
from symgrad.symbolic.rebuild import from_sympy

EXPANDED = 250  # nodes of a tree up to which nothing is shared
PIECE = 100  # nodes of one expression beyond which it is cut even where it is used once
ELEMENTS = 64  # of an array inside a formula of scalars


@dataclass(frozen=True)
class Translation:
    """``results`` in terms of the parameters and ``subexpressions``, each of them in terms of earlier ones."""

    results: tuple[Any, ...]
    subexpressions: dict[Any, Any]


def symbol(name: str) -> Any:
    """The symbol of a real argument."""
    return sp.Symbol(name, real=True)


def form(op: Op, *symbols: Any, **attrs: Any) -> Any:
    """The expression of a primitive; UnsupportedError when it declares none."""
    if op.sympy is None:
        raise UnsupportedError(f"{op.name} has no symbolic form")
    if isinstance(op.sympy, str):
        return getattr(sp, op.sympy)(*symbols)
    return op.sympy(sp, *symbols, **attrs)


def to_sympy(graph: Graph, names: Sequence[str]) -> list[Any]:
    """The results of a graph of scalars as expressions in real symbols, fully expanded."""
    return list(translate(graph, names, limit=None).results)


def translate(
    graph: Graph, names: Sequence[str], *, labels: dict[Node, str] | None = None, limit: int | None = EXPANDED
) -> Translation:
    """``graph`` as expressions; nodes in ``labels`` are kept by name, beyond a tree size of ``limit`` others too."""
    check_scalars(graph)
    labels = labels or {}
    chosen = set(labels) | (_cuts(graph, limit) if limit is not None else set())
    names_taken = set(names)
    pieces: dict[Any, Any] = {}

    def keep(n: Node, value: Any) -> Any:
        if n not in chosen or isinstance(n.type, TupleType) or n.op.constant:
            return value
        base = labels.get(n) or f"t{len(pieces) + 1}"
        return elementwise(lambda e: _kept(base, e, names_taken, pieces, n.dtype), value)

    args = [_argument(p, name) for p, name in zip(graph.params, names, strict=True)]
    results = evaluate_elements(graph, args, SYMPY, keep=keep)
    return Translation(tuple(r[()] for r in results), pieces)


def _argument(p: Node, name: str) -> Any:
    places = np.empty(fixed(p.shape), object)
    for at in np.ndindex(places.shape):
        places[at] = symbol(name if not at else f"{name}[{', '.join(map(str, at))}]")
    return places


def _kept(base: str, e: Any, taken: set[str], pieces: dict[Any, Any], dtype: DType) -> Any:
    if dtype == boolean or e.is_Atom or e in pieces:
        return e
    name = unique(base, taken)
    taken.add(name)
    pieces[symbol(name)] = e
    return symbol(name)


def unique(name: str, taken: set[str]) -> str:
    """``name``, numbered when it is taken."""
    if name not in taken:
        return name
    return next(f"{name}_{k}" for k in range(1, len(taken) + 2) if f"{name}_{k}" not in taken)


def is_small(graph: Graph) -> bool:
    """Whether every value is a scalar, or an array of few, known elements that only occurs on the way."""
    for n in graph.nodes():
        for t in n.type.items if isinstance(n.type, TupleType) else (n.type,):
            size = product(t.shape)
            if isinstance(size, Dim) or size > ELEMENTS:
                return False
    return all(not n.shape for n in (*graph.params, *graph.results))


def check_scalars(graph: Graph) -> None:
    """UnsupportedError where there are arrays."""
    if not is_small(graph):
        raise UnsupportedError("arrays have no form as scalar expressions")


def _cuts(graph: Graph, limit: int) -> set[Node]:
    """Nodes to keep: none where the trees are small, else what is used twice and what grows long."""
    nodes = graph.nodes()
    if max(_weights(nodes, set())[r] for r in graph.results) <= limit:
        return set()
    users: dict[Node, int] = dict.fromkeys(nodes, 0)
    for n in nodes:
        for a in set(n.args):
            users[a] += 1
    weights: dict[Node, int] = {}
    chosen: set[Node] = set()
    for n in nodes:
        weights[n] = _weight(n, weights)
        if _is_float(n) and (weights[n] > PIECE or (users[n] > 1 and weights[n] > 3)):
            chosen.add(n)
            weights[n] = 1
    return chosen


def _is_float(n: Node) -> bool:
    return not isinstance(n.type, TupleType) and n.dtype.is_float and not isinstance(n.op.lower, Leaf)


def _weights(nodes: Sequence[Node], chosen: set[Node]) -> dict[Node, int]:
    weights: dict[Node, int] = {}
    for n in nodes:
        weights[n] = 1 if n in chosen else _weight(n, weights)
    return weights


def _weight(n: Node, weights: dict[Node, int]) -> int:
    own = 0 if n.op.structural and n.op not in (CONSTANT, PARAM, SIZE) else 1
    return own + sum(weights[a] for a in n.args)


class _Sympy:
    """Elements that are sympy expressions."""

    def literal(self, value: Any, dtype: DType) -> Any:
        return exact(value.item() if isinstance(value, np.generic) else value)

    def function(self, op: Op, attrs: dict[str, Any], types: Sequence[TensorType]) -> Callable[..., Any] | None:
        if op.name in SPECIAL:
            return SPECIAL[op.name](types, attrs)
        if types[0].dtype == boolean:
            return BOOLEAN.get(op.name)
        return None if op.sympy is None else functools.partial(form, op, **attrs)

    def array(self, values: Any, dtype: DType) -> Any:
        change = _truth if dtype == boolean else sp.sympify
        return elementwise(change, values)

    def positions(self, values: Any) -> Any:
        if any(not v.is_Integer for v in np.asarray(values, object).flat):
            raise TypeError("a position depends on the arguments")
        return np.array(values, np.int64)


SYMPY = _Sympy()


def _truth(v: Any) -> Any:
    return v if isinstance(v, sp.logic.boolalg.Boolean) else sp.true if v else sp.false


def _cast(types: Sequence[TensorType], attrs: dict[str, Any]) -> Callable[..., Any]:
    source, target = types[0].dtype, attrs["dtype"]
    if source == boolean and target != boolean:
        return lambda x: sp.Piecewise((1, x), (0, True))
    if source.is_float and target.kind in "iu":
        return lambda x: sp.sign(x) * sp.floor(sp.Abs(x))
    if target == boolean and source != boolean:
        return lambda x: sp.Ne(x, 0)
    return lambda x: x


def _select(types: Sequence[TensorType], attrs: dict[str, Any]) -> Callable[..., Any]:
    if types[1].dtype == boolean:
        return lambda p, a, b: sp.ITE(p, a, b)
    return lambda p, a, b: sp.Piecewise((a, p), (b, True))


BOOLEAN: dict[str, Callable[..., Any]] = {
    "add": sp.Or, "or": sp.Or, "maximum": sp.Or, "mul": sp.And, "and": sp.And, "minimum": sp.And, "not": sp.Not,
    "eq": lambda x, y: sp.Not(sp.Xor(x, y)), "ne": sp.Xor, "stop_gradient": lambda x: x,
}  # fmt: skip
SPECIAL: dict[str, Callable[..., Callable[..., Any]]] = {"cast": _cast, "select": _select}

__all__ = ["Translation", "form", "from_sympy", "symbol", "to_sympy", "translate"]
