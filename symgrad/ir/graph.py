"""Graph: a closed function of parameters, the object every transform maps to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.ir.node import CONSTANT, GET, PARAM, SIZE, Node, TupleType, make
from symgrad.ir.sizes import current
from symgrad.ir.types import Dim, FloorDiv, Size, TensorType, evaluate_size


@dataclass(frozen=True, eq=False)
class Graph:
    """``params -> results``; every leaf of the results is a constant, a size or one of the params."""

    params: tuple[Node, ...]
    results: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """All nodes below the results, operands before users."""
        return topological(self.results)

    def __str__(self) -> str:
        from symgrad.ir.printer import graph_text

        return graph_text(self)


def topological(roots: Iterable[Node]) -> list[Node]:
    """Nodes reachable from ``roots``, operands first (serials grow along every edge)."""
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack.extend(n.args)
    return sorted(seen, key=lambda n: n.serial)


def dependents(roots: Iterable[Node], of: Iterable[Node]) -> list[Node]:
    """Nodes between ``of`` (excluded) and ``roots``, operands first."""
    inside = set(of)
    out = []
    for n in topological(roots):
        if n not in inside and any(a in inside for a in n.args):
            inside.add(n)
            out.append(n)
    return out


def substitute(roots: Sequence[Node], replacement: dict[Node, Node]) -> list[Node]:
    """``roots`` with some nodes replaced; only what depends on them is made anew."""
    env = dict(replacement)
    for n in dependents(roots, replacement):
        env[n] = make(n.op, *(env.get(a, a) for a in n.args), **dict(n.attrs))
    return [env.get(r, r) for r in roots]


def replay(graph: Graph, emit: Callable[[Node, tuple[Any, ...]], Any], args: Sequence[Any]) -> list[Any]:
    """Run ``graph`` on ``args`` with ``emit`` deciding what each node means."""
    env = dict(zip(graph.params, args, strict=True))
    for n in graph.nodes():
        if n not in env:
            env[n] = emit(n, tuple(env[a] for a in n.args))
    return [env[r] for r in graph.results]


def inline(graph: Graph, *args: Node) -> list[Node]:
    """The results of ``graph`` applied to other nodes."""
    return substitute(graph.results, dict(zip(graph.params, args, strict=True)))


def rewrite(graph: Graph, emit: Callable[[Node], Node]) -> Graph:
    """Rebuild bottom-up; ``emit`` sees each node over already rewritten operands and returns it or a replacement."""
    env: dict[Node, Node] = {}
    for n in graph.nodes():
        new = n
        if any(env[a] is not a for a in n.args):
            new = make(n.op, *(env[a] for a in n.args), **dict(n.attrs))
        env[n] = emit(new) if n.op is not PARAM else n
    return Graph(graph.params, tuple(env[r] for r in graph.results))


def canonical(graph: Graph) -> Graph:
    """The graph with merged sizes written one way (see ``Sizes``)."""
    sizes = current()
    if not sizes.merged:
        return graph
    env: dict[Node, Node] = {}
    for n in graph.nodes():
        attrs = {k: map_attribute(v, sizes.canonical) for k, v in n.attrs}
        env[n] = make(n.op, *(env[a] for a in n.args), **attrs)
    return Graph(tuple(env.get(p) or _canonical_param(p) for p in graph.params), tuple(env[r] for r in graph.results))


def _canonical_param(p: Node) -> Node:
    return make(PARAM, **{k: map_attribute(v, current().canonical) for k, v in p.attrs})


def map_attribute(value: Any, size: Callable[[Size], Size]) -> Any:
    """An attribute with every size in it mapped."""
    match value:
        case Dim():
            return size(value)
        case tuple():
            return tuple(map_attribute(v, size) for v in value)
        case TensorType():
            return TensorType(value.dtype, tuple(size(s) for s in value.shape))
        case _:
            return value


def size_parameters(graph: Graph) -> tuple[str, ...]:
    """Names of the free sizes, in order of first appearance in the parameters."""
    names: dict[str, None] = {}

    def visit(size: Size) -> Size:
        if isinstance(size, Dim):
            for monomial, _ in size.terms:
                for a in monomial:
                    if isinstance(a, FloorDiv):
                        visit(a.num)
                        visit(a.den)
                    else:
                        names[a] = None
        return size

    for n in [*graph.params, *graph.nodes()]:
        for _, v in n.attrs:
            map_attribute(v, visit)
        map_attribute(n.type, visit)
    return tuple(names)


def evaluate(graph: Graph, *arrays: Any, sizes: dict[str, int] | None = None) -> list[Any]:
    """The reference meaning of a graph: each primitive's NumPy function in turn."""
    known = dict(sizes or {})
    for p, a in zip(graph.params, arrays, strict=True):
        for s, length in zip(p.shape, np.shape(a), strict=True):
            _solve(s, length, known)

    def number(size: Size) -> Size:
        return evaluate_size(size, known)

    def emit(n: Node, args: tuple[Any, ...]) -> Any:
        attrs = {k: map_attribute(v, number) for k, v in n.attrs}
        out = n.op.numpy(*args, **attrs)
        if isinstance(n.type, TupleType):
            return out
        return np.asarray(out, n.dtype.numpy)

    with np.errstate(all="ignore"):
        return replay(graph, emit, [np.asarray(a, p.dtype.numpy) for p, a in zip(graph.params, arrays, strict=True)])


def _solve(size: Size, length: int, known: dict[str, int]) -> None:
    if isinstance(size, Dim) and len(size.terms) == 1 and len(size.terms[0][0]) == 1:
        (name,) = size.terms[0][0]
        if isinstance(name, str):
            known.setdefault(name, length // size.terms[0][1])


LEAVES = (PARAM, CONSTANT, SIZE)
__all__ = ["GET", "LEAVES", "Graph", "canonical", "dependents", "evaluate", "inline", "replay", "rewrite"]
