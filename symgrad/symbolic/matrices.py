"""Graph of linear algebra -> matrix expressions, with vectors as columns; None where a value has no such form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, TupleType, splat
from symgrad.ir.types import Shape
from symgrad.symbolic.bridge import symbol
from symgrad.symbolic.indexed import Elements, size_expression
from symgrad.symbolic.numbers import exact

NODES = 100


def matrix_forms(graph: Graph, names: Sequence[str]) -> list[Any] | None:
    """The results as matrix expressions, when every value on the way has one and some argument is a matrix."""
    nodes = graph.nodes()
    if len(nodes) > NODES or all(p.ndim < 2 for p in graph.params):
        return None
    forms: dict[Node, Any] = {
        p: sp.MatrixSymbol(name, *columns(p.shape)) if p.shape else symbol(name)
        for p, name in zip(graph.params, names, strict=True)
        if p.ndim <= 2
    }
    elements = Elements(graph, names)
    for n in nodes:
        if n not in forms:
            form = _form(n, forms, elements)
            if form is not None:
                forms[n] = form
    results: list[Any] = [forms.get(r) for r in graph.results]
    return None if any(r is None for r in results) else results


def columns(shape: Shape) -> tuple[Any, Any]:
    """The shape of a vector as a column, of a matrix as it is."""
    rows, *rest = map(size_expression, shape)
    return rows, rest[0] if rest else sp.Integer(1)


def _form(n: Node, forms: dict[Node, Any], elements: Elements) -> Any:
    if isinstance(n.type, TupleType) or n.ndim > 2:
        return None
    known = splat(n)
    if known is not None:
        return exact(known)
    if n.op.name == "select":
        return forms.get(n.args[1]) if _always(n.args[0], elements) else None
    rule = RULES.get(n.op.name)
    if rule is None or any(a not in forms for a in n.args):
        return None
    return rule(n, *(forms[a] for a in n.args))


def _always(mask: Node, elements: Elements) -> bool:
    try:
        return bool(elements.element(mask, elements.free_index(mask.ndim)) == sp.true)
    except UnsupportedError:
        return False


def _sum_of(n: Node, a: Any, b: Any) -> Any:
    if a.is_Matrix and b.is_Matrix and a.shape == b.shape:
        return a + b
    return None if a.is_Matrix or b.is_Matrix else a + b


def _times(n: Node, a: Any, b: Any) -> Any:
    return sp.HadamardProduct(a, b) if a.is_Matrix and b.is_Matrix else a * b


def _total(n: Node, a: Any) -> Any:
    """The sum over everything of a product of two columns."""
    if n.ndim or not isinstance(a, sp.HadamardProduct) or len(a.args) != 2 or a.shape[1] != 1:
        return None
    return sp.Transpose(a.args[0]) * a.args[1]  # not .T, which would spread it over a sum


def _whole(n: Node, a: Any) -> Any:
    """A slice of everything, or its transpose."""
    return a if n.shape == n.args[0].shape and set(n.attr("steps")) <= {1} else None


def _reshaped(n: Node, a: Any) -> Any:
    if not a.is_Matrix:
        return a
    shape = columns(n.shape) if n.shape else (sp.Integer(1), sp.Integer(1))
    return a if a.shape == shape else a.T if a.T.shape == shape else None


def _scaled(n: Node, a: Any) -> Any:
    return None if a.is_Matrix else a  # a number repeated: only ever a factor


RULES: dict[str, Any] = {
    "add": _sum_of,
    "sub": lambda n, a, b: _sum_of(n, a, -b),
    "neg": lambda n, a: -a,
    "mul": _times,
    "div": lambda n, a, b: None if b.is_Matrix else a / b,
    "ipow": lambda n, a: (sp.HadamardProduct(a, a) if n.attr("n") == 2 else None) if a.is_Matrix else a ** n.attr("n"),
    "dot": lambda n, a, b: a * b if a.is_Matrix and b.is_Matrix else None,
    "transpose": lambda n, a: a.T if a.is_Matrix and n.attr("perm") == (1, 0) else a,
    "size": lambda n: size_expression(n.attr("size")),
    "cast": lambda n, a: a,
    "broadcast": _scaled,
    "reshape": _reshaped,
    "slice": _whole,
    "place": _whole,
    "sum": _total,
}
