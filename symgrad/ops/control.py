"""``cond``: run one of two graphs on the same operands, and leave the other alone.

A region is a closed ``Graph``: what it reads from outside are operands. Rules of primitives with regions receive the
transform (``pull``, ``push``, ``batch``) that they apply to their regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.errors import TraceError
from symgrad.ir.graph import Graph, inline
from symgrad.ir.node import GET, Node, TupleType, make, param
from symgrad.ir.op import Op, Region, register
from symgrad.ir.sizes import same_shape
from symgrad.ir.types import Size, TensorType
from symgrad.ops import pointwise as p
from symgrad.ops.check import blockable
from symgrad.ops.kinds import or_zero
from symgrad.ops.views import batched as repeated
from symgrad.ops.views import broadcast, to_front

Pull = Callable[[Sequence[Node], Sequence[Node | None], Sequence[Node]], list[Node | None]]
Push = Callable[[Sequence[Node], Sequence[Node], Sequence[Node]], list[Node | None]]


def get(n: Node, index: int) -> Node:
    return make(GET, n, index=index)


def results_of(n: Node) -> list[Node]:
    """All results of a node that has several."""
    return [get(n, k) for k in range(len(n.type.items))]


# --- cond ------------------------------------------------------------------------------------------------------------


def _cond_infer(predicate: TensorType, *args: TensorType, then: Graph, otherwise: Graph) -> TupleType:
    left, right = (tuple(r.type for r in g.results) for g in (then, otherwise))
    for a, b in zip(left, right, strict=True):
        if a.dtype != b.dtype or not same_shape(a.shape, b.shape):
            raise TraceError(f"cond: the arms give {a} and {b}")
    return TupleType(left)


def _cond_numpy(evaluate: Any, predicate: Any, *args: Any, then: Graph, otherwise: Graph) -> tuple[Any, ...]:
    return tuple(evaluate(then if predicate else otherwise, *args))


def _cond_vjp(
    pull: Pull, cts: Sequence[Node | None], y: Node, predicate: Node, *args: Node, then: Graph, otherwise: Graph
) -> list[Node | None]:
    given = [(k, ct) for k, ct in enumerate(cts) if ct is not None]
    wanted = [k for k, a in enumerate(args) if a.dtype.is_float]
    arms = []
    for g in (then, otherwise):
        seeds = [param(ct.type) for _, ct in given]
        grads = pull([g.results[k] for k, _ in given], seeds, [g.params[k] for k in wanted])
        arms.append((Graph((*g.params, *seeds), ()), dict(zip(wanted, grads, strict=True))))
    kept = [k for k in wanted if any(grads[k] is not None for _, grads in arms)]
    graphs = [Graph(g.params, tuple(or_zero(grads[k], args[k]) for k in kept)) for g, grads in arms]
    if not kept:
        return [None] * (1 + len(args))
    back = cond(predicate, *args, *(ct for _, ct in given), then=graphs[0], otherwise=graphs[1])
    found = dict(zip(kept, results_of(back), strict=True))
    return [None, *(found.get(k) for k in range(len(args)))]


def _cond_jvp(
    push: Push, tangents: Sequence[Node | None], y: Node, predicate: Node, *args: Node, then: Graph, otherwise: Graph
) -> list[Node | None]:
    moving = [(k, t) for k, t in enumerate(tangents[1:]) if t is not None]
    arms = []
    for g in (then, otherwise):
        seeds = [param(t.type) for _, t in moving]
        out = push(g.results, [g.params[k] for k, _ in moving], seeds)
        arms.append(((*g.params, *seeds), out))
    count = len(then.results)
    kept = [k for k in range(count) if any(out[k] is not None for _, out in arms)]
    if not kept:
        return [None] * count
    graphs = [Graph(params, tuple(or_zero(out[k], then.results[k]) for k in kept)) for params, out in arms]
    forward = cond(predicate, *args, *(t for _, t in moving), then=graphs[0], otherwise=graphs[1])
    found = dict(zip(kept, results_of(forward), strict=True))
    return [found.get(k) for k in range(count)]


def _cond_batch(
    batch: Any, size: Size, args: Any, axes: Any, *, then: Graph, otherwise: Graph
) -> tuple[Any, list[int | None]]:
    """One predicate for all lanes chooses a batched arm; one for each lane chooses among the results of both arms."""
    (predicate, *rest), (dp, *dims) = args, axes
    operands = [a if d is None else to_front(a, d) for a, d in zip(rest, dims, strict=True)]
    mapped = [d is not None for d in dims]
    if dp is not None:
        then, otherwise, mapped = blockable(then), blockable(otherwise), [*mapped, True]
    arms = [batched_graph(batch, g, size, mapped) for g in (then, otherwise)]
    axes_out: list[int | None] = [0] * len(then.results)
    if dp is None:
        return cond(predicate, *operands, then=arms[0], otherwise=arms[1]), axes_out
    lanes = to_front(predicate, dp)
    left, right = inline(arms[0], *operands, p.not_(lanes)), inline(arms[1], *operands, lanes)
    return [p.select(along(lanes, a), a, b) for a, b in zip(left, right, strict=True)], axes_out


def along(lanes: Node, like: Node) -> Node:
    """One bool for each lane, repeated over the rest of an array."""
    return broadcast(lanes, shape=like.shape, axes=(0,))


def batched_graph(
    batch: Any, g: Graph, size: Size, mapped: Sequence[bool], wanted: Sequence[bool] | None = None
) -> Graph:
    """A region whose ``mapped`` operands have a leading batch axis, as all its results get (or those ``wanted``)."""
    params = [param(q.type.with_shape((size, *q.shape))) if m else q for q, m in zip(g.params, mapped, strict=True)]
    inner = {q: (new, 0) for q, new, m in zip(g.params, params, mapped, strict=True) if m}
    results = batch(g.results, inner, size)
    every = [True] * len(results) if wanted is None else wanted
    return Graph(
        tuple(params), tuple(repeated(size, n, axis) if w else n for (n, axis), w in zip(results, every, strict=True))
    )


cond: Op = register(
    Op(
        name="cond",
        doc="The results of one of two graphs on the operands; the other is not run.",
        infer=_cond_infer,
        numpy=_cond_numpy,
        lower=Region(),
        vjp=_cond_vjp,
        jvp=_cond_jvp,
        batch=_cond_batch,
    )
)
