"""Graph: a closed function of parameters, the object every transform maps to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.ir.node import PARAM, Node, TupleType, make
from symgrad.ir.op import Region
from symgrad.ir.sizes import current
from symgrad.ir.types import Dim, FloorDiv, Size, TensorType, evaluate_size


@dataclass(frozen=True, eq=False)
class Graph:
    """``params -> results``; every leaf of the results is a constant, a size or one of the params.

    ``origin``: the graph that this one extends; its results come first among results of the same kind.
    """

    params: tuple[Node, ...]
    results: tuple[Node, ...]
    origin: Graph | None = None

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


def graphs_of(n: Node) -> list[Graph]:
    """The graphs inside a primitive."""
    return [v for _, v in n.attrs if isinstance(v, Graph)]


def map_graphs(n: Node, transform: Callable[[Graph], Graph]) -> Node:
    """A primitive with each graph inside transformed; ``n`` itself where none is changed."""
    attrs = {k: transform(v) if isinstance(v, Graph) else v for k, v in n.attrs}
    return n if all(attrs[k] is v for k, v in n.attrs) else make(n.op, *n.args, **attrs)


def canonical(graph: Graph) -> Graph:
    """The graph with merged sizes written one way (see ``Sizes``)."""
    sizes = current()
    if not sizes.merged:
        return graph
    return _with_sizes(graph, sizes.canonical, {})


def _with_sizes(graph: Graph, size: Callable[[Size], Size], done: dict[Graph, Graph]) -> Graph:
    """A graph with every size mapped, in its regions too; a region that several nodes share stays shared."""
    if graph in done:
        return done[graph]

    def attribute(v: Any) -> Any:
        return _with_sizes(v, size, done) if isinstance(v, Graph) else map_attribute(v, size)

    env: dict[Node, Node] = {}
    for n in topological((*graph.params, *graph.results)):
        env[n] = make(n.op, *(env[a] for a in n.args), **{k: attribute(v) for k, v in n.attrs})
    new = Graph(tuple(env[p] for p in graph.params), tuple(env[r] for r in graph.results))
    done[graph] = graph if new.params == graph.params and new.results == graph.results else new
    return done[graph]


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
    born: set[str] = set()

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

    def scan(g: Graph) -> None:
        for n in [*g.params, *g.nodes()]:
            for k, v in n.attrs:
                if k == "trips":
                    born.add(v)
                scan(v) if isinstance(v, Graph) else map_attribute(v, visit)
            for t in n.type.items if isinstance(n.type, TupleType) else (n.type,):
                map_attribute(t, visit)

    scan(graph)
    return tuple(n for n in names if n not in born)


def evaluate(graph: Graph, *arrays: Any, sizes: Mapping[str, int] | None = None) -> list[Any]:
    """The reference meaning of a graph: each primitive's NumPy function in turn."""
    known = dict(sizes or {})
    for p, a in zip(graph.params, arrays, strict=True):
        for s, length in zip(p.shape, np.shape(a), strict=True):
            _solve(s, length, known)

    def number(size: Size) -> Size:
        return evaluate_size(size, known)

    def emit(n: Node, args: tuple[Any, ...]) -> Any:
        attrs = {k: map_attribute(v, number) for k, v in n.attrs}
        if isinstance(n.op.lower, Region):
            return _evaluate_regions(n, args, attrs, known)
        out = n.op.numpy(*args, **attrs)
        if isinstance(n.type, TupleType):
            return out
        return np.asarray(out, n.dtype.numpy)

    with np.errstate(all="ignore"):
        return replay(graph, emit, [np.asarray(a, p.dtype.numpy) for p, a in zip(graph.params, arrays, strict=True)])


def _evaluate_regions(n: Node, args: tuple[Any, ...], attrs: dict[str, Any], known: dict[str, int]) -> Any:
    """The results of a primitive with regions, which see the sizes known here; ``trips`` is known from now on."""
    out = n.op.numpy(lambda g, *xs: evaluate(g, *xs, sizes=known), *args, **attrs)
    for t, value in zip(n.type.items, out, strict=True):
        for s, length in zip(t.shape, np.shape(value), strict=True):
            _solve(s, length, known)
    return [np.asarray(v, t.dtype.numpy) for t, v in zip(n.type.items, out, strict=True)]


def _solve(size: Size, length: int, known: dict[str, int]) -> None:
    if isinstance(size, Dim) and len(size.terms) == 1 and len(size.terms[0][0]) == 1:
        (name,) = size.terms[0][0]
        if isinstance(name, str):
            known.setdefault(name, length // size.terms[0][1])
