"""Reverse mode: cotangents of results -> cotangents of arguments, appended to the same graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from symgrad.autodiff.rules import Linear, add, pullback
from symgrad.ir.graph import Graph, dependents
from symgrad.ir.node import GET, Node, TupleType, constant, param
from symgrad.ir.op import Region
from symgrad.ops.kinds import filled


def pull(results: Sequence[Node], cts: Sequence[Linear | None], wrt: Sequence[Node]) -> list[Node | None]:
    """Cotangents of ``wrt``, None where nothing depends on them."""
    return [None if ct is None else ct.value for ct in pull_masked(results, cts, wrt)]


def pull_masked(results: Sequence[Node], cts: Sequence[Linear | None], wrt: Sequence[Node]) -> list[Linear | None]:
    """Cotangents of ``wrt`` with the masks of what contributes to them, to be passed on further.

    Each node's cotangent is complete before it is passed on, so a node is visited once whatever the sharing.
    """
    order = dependents(results, wrt)
    active = {*order, *wrt}
    adjoints: dict[Node, Linear] = {}
    parts: dict[Node, dict[int, Linear]] = {}

    def contribute(n: Node, ct: Linear | None) -> None:
        if ct is not None and n in active and n.dtype.is_float:
            adjoints[n] = add(adjoints[n], ct) if n in adjoints else ct

    for r, ct in zip(results, cts, strict=True):
        contribute(r, ct)
    for n in reversed(order):
        if isinstance(n.type, TupleType):
            for a, part in _pull_tuple(n, parts.pop(n)) if n in parts else ():
                contribute(a, None if part is None else Linear(part))
            continue
        ct = adjoints.pop(n, None)
        if ct is None:
            continue
        if n.op is GET:
            parts.setdefault(n.args[0], {})[n.attr("index")] = ct
            continue
        for a, c in _per_operand(n, pullback(n, ct)):
            contribute(a, c)
    return [adjoints.get(w) for w in wrt]


def _per_operand(n: Node, cts: Sequence[Linear | None]) -> Iterable[tuple[Node, Linear]]:
    """Each operand of a node once: in x*x both contributions are added before anything else is."""
    out: dict[Node, Linear] = {}
    for a, ct in zip(n.args, cts, strict=True):
        if ct is not None:
            out[a] = add(out[a], ct) if a in out else ct
    return out.items()


def pull_nodes(results: Sequence[Node], cts: Sequence[Node | None], wrt: Sequence[Node]) -> list[Node | None]:
    """``pull`` without masks, for the graphs inside primitives."""
    return pull(results, [None if c is None else Linear(c) for c in cts], wrt)


def _pull_tuple(n: Node, cts: dict[int, Linear]) -> Iterator[tuple[Node, Node | None]]:
    """Each argument of a primitive with several results, and its cotangent."""
    assert n.op.vjp is not None
    given = [cts[k].value if k in cts else None for k in range(len(n.type.items))]
    if isinstance(n.op.lower, Region):
        return zip(n.args, n.op.vjp(pull_nodes, given, n, *n.args, **dict(n.attrs)), strict=True)
    full = tuple(filled(given, n.type.items))
    return zip(n.args, n.op.vjp(full, n, *n.args, **dict(n.attrs)), strict=True)


def vjp(graph: Graph) -> Graph:
    """(params, cotangents of the results) -> (results, cotangents of the params)."""
    seeds = tuple(param(r.type) for r in graph.results)
    cts = pull(graph.results, [Linear(s) for s in seeds], graph.params)
    return Graph((*graph.params, *seeds), (*graph.results, *filled(cts, graph.params)))


def grad(graph: Graph) -> Graph:
    """params -> (value, gradients) of a graph with one scalar result."""
    (value,) = graph.results
    cts = pull([value], [Linear(constant(1, value.dtype))], graph.params)
    return Graph(graph.params, (value, *filled(cts, graph.params)))
