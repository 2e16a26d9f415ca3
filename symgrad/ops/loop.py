"""``loop``: run a graph again and again; scan, for and while in one.

``loop(*carry, *xs, *consts)`` has a body ``(index, *carry, *slices of xs, *consts) -> (*carry, *ys)``. Its results are
the last carry, then the ys of all trips stacked along a new leading axis. With ``condition``, a graph ``(index, *carry,
*consts) -> bool``, it is a while loop, and the length of that axis is a size born at run time, named ``trips``;
without, it has ``length`` trips. With ``reverse`` the index runs down, and the ys stand where the index says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import TraceError
from symgrad.ir.graph import Graph, dependents, inline, topological
from symgrad.ir.node import GET, PARAM, Node, TupleType, fresh_serial, param
from symgrad.ir.op import Op, Region, register
from symgrad.ir.sizes import same_shape
from symgrad.ir.types import Size, TensorType, boolean, size_named, size_names
from symgrad.ops import pointwise as p
from symgrad.ops.check import blockable
from symgrad.ops.control import Pull, Push, along, batched_graph, get, results_of
from symgrad.ops.folds import sum_
from symgrad.ops.kinds import filled, or_zero, zeros
from symgrad.ops.views import batched as repeated
from symgrad.ops.views import place, to_front, transpose


@dataclass(frozen=True, slots=True)
class Layout:
    """How the operands, the body's parameters and the results of a loop are divided."""

    carry: int
    xs: int

    def operands(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Carry, xs and consts among operands."""
        k, m = self.carry, self.carry + self.xs
        return list(args[:k]), list(args[k:m]), list(args[m:])

    def params(self, body: Graph) -> tuple[Node, list[Node], list[Node], list[Node]]:
        """Index, carry, slices and consts among the body's parameters."""
        index, *rest = body.params
        return (index, *self.operands(rest))

    def tested(self, condition: Graph | None) -> tuple[list[Node], list[Node]]:
        """Carry and consts among the condition's parameters; none without a condition."""
        if condition is None:
            return [], []
        _, carry, _, consts = Layout(self.carry, 0).params(condition)
        return carry, consts

    def results(self, results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Carry and ys among results."""
        return list(results[: self.carry]), list(results[self.carry :])


def _loop_infer(
    *types: TensorType,
    body: Graph,
    condition: Graph | None,
    length: Size | None,
    trips: str,
    layout: Layout,
    reverse: bool,
) -> TupleType:
    carry, _, _ = layout.operands(types)
    after, ys = layout.results([r.type for r in body.results])
    for before, new in zip(carry, after, strict=True):
        if before.dtype != new.dtype or not same_shape(before.shape, new.shape):
            raise TraceError(f"loop: its state is {before} before a trip and {new} after it")
    lead: Size = size_named(trips) if length is None else length
    return TupleType((*carry, *(y.with_shape((lead, *y.shape)) for y in ys)))


def _loop_numpy(
    evaluate: Any,
    *args: Any,
    body: Graph,
    condition: Graph | None,
    length: int | None,
    trips: str,
    layout: Layout,
    reverse: bool,
) -> tuple[Any, ...]:
    carry, xs, consts = layout.operands(args)
    ys: list[Sequence[Any]] = []
    k = 0
    while k < length if length is not None else bool(evaluate(condition, np.int64(k), *carry, *consts)[0]):
        at = int(length) - 1 - k if reverse and length is not None else k
        out = evaluate(body, np.int64(at), *carry, *(x[at] for x in xs), *consts)
        carry, y = layout.results(out)
        ys.append(y)
        k += 1
    if reverse:
        ys.reverse()
    _, kinds = layout.results([r.type for r in body.results])
    stacked = [
        np.stack([y[j] for y in ys]) if ys else np.zeros((0, *map(int, t.shape)), t.dtype.numpy)
        for j, t in enumerate(kinds)
    ]
    return (*carry, *stacked)


def new_trips() -> str:
    """A name for the number of trips of a while loop; no user's size has a dot in its name."""
    return f"trips.{fresh_serial()}"


def born_at_run_time(size: Size | None) -> bool:
    """Whether a length is that of a while loop, known when the loop has run."""
    return size is not None and any(name.startswith("trips.") for name in size_names(size))


def clock(xs: Sequence[Node], length: Size | None) -> int | None:
    """Which of ``xs`` tells a loop its ``length`` that is born at run time: the loop that gives birth is below it.

    A loop that reads none could run before that one.
    """
    if length is None or not born_at_run_time(length):
        return None
    names = size_names(length)
    return next((k for k, x in enumerate(xs) if same_shape(x.shape[:1], (length,)) and _measures(x, names)), None)


def _measures(x: Node, names: set[str]) -> bool:
    """Whether a node is made by a loop whose trips have one of these names, or comes from outside with that length."""
    return any(
        (n.op.name == "loop" and n.attr("trips") in names)
        or (n.op is PARAM and any(names & size_names(s) for s in n.shape))
        for n in topological([x])
    )


def _loop_vjp(
    pull: Pull,
    cts: Sequence[Node | None],
    y: Node,
    *args: Node,
    body: Graph,
    condition: Graph | None,
    length: Size | None,
    trips: str,
    layout: Layout,
    reverse: bool,
) -> list[Node | None]:
    """The pullback is a loop the other way, over a tape of what the forward one passes by.

    The forward loop is made again with the tape as more ys; ``merge_loops`` lets it replace the original.
    """
    index, carry, slices, consts = layout.params(body)
    _, xs_args, const_args = layout.operands(args)
    after, ys = layout.results(body.results)
    ct_carry, ct_ys = layout.results(cts)
    active = _active(body, layout, ct_carry, ct_ys)
    seeds_carry = {k: param(carry[k].type) for k in active.carry}
    seeds_ys = {k: param(ys[k].type) for k, ct in enumerate(ct_ys) if ct is not None}
    roots = [after[k] for k in seeds_carry] + [ys[k] for k in seeds_ys]
    wrt = [carry[k] for k in active.carry] + [slices[k] for k in active.slices] + [consts[k] for k in active.consts]
    grads = pull(roots, [*seeds_carry.values(), *seeds_ys.values()], wrt)
    wanted = filled(grads, wrt)
    used = set(topological(wanted))
    taped = [k for k, c in enumerate(carry) if c in used]
    if condition is not None and not taped:
        taped = [min(range(len(carry)), key=lambda k: carry[k].ndim)]  # the way back needs to know how long the way was
    forward = loop(
        *args,
        body=Graph(body.params, (*body.results, *(carry[k] for k in taped)), origin=body),
        condition=condition,
        length=length,
        trips=trips,
        layout=layout,
        reverse=reverse,
    )
    tape = [get(forward, len(body.results) + k) for k in range(len(taped))]
    timing = clock(xs_args, length)
    read = [k for k, s in enumerate(slices) if s in used or k == timing]
    kept = [k for k, c in enumerate(consts) if c in used]
    sums = [param(consts[k].type) for k in active.consts]
    d_carry, d_slices, d_consts = Layout(len(active.carry), len(active.slices)).operands(wanted)
    back_params = (
        index,
        *seeds_carry.values(),
        *sums,
        *(carry[k] for k in taped),
        *(slices[k] for k in read),
        *seeds_ys.values(),
        *(consts[k] for k in kept),
    )
    back = loop(
        *(or_zero(ct_carry[k], args[k]) for k in active.carry),
        *(zeros(s.shape, s.dtype) for s in sums),
        *tape,
        *(xs_args[k] for k in read),
        *(ct for ct in ct_ys if ct is not None),
        *(const_args[k] for k in kept),
        body=Graph(back_params, (*d_carry, *(p.add(s, d) for s, d in zip(sums, d_consts, strict=True)), *d_slices)),
        condition=None,
        length=size_named(trips) if length is None else length,
        trips=new_trips(),
        layout=Layout(len(active.carry) + len(sums), len(taped) + len(read) + len(seeds_ys)),
        reverse=not reverse,
    )
    g_carry, g_consts, g_slices = Layout(len(active.carry), len(sums)).operands(results_of(back))
    g_slices = [_whole(g, xs_args[k]) for g, k in zip(g_slices, active.slices, strict=True)]
    m = layout.carry + layout.xs
    places = (*active.carry, *(layout.carry + k for k in active.slices), *(m + k for k in active.consts))
    found = dict(zip(places, (*g_carry, *g_slices, *g_consts), strict=True))
    return [found.get(k) for k in range(len(args))]


def _whole(g: Node, x: Node) -> Node:
    """The cotangent of all that a loop could read; one that ended early has read only the first part."""
    if same_shape(g.shape, x.shape):
        return g
    return place(g, shape=x.shape, starts=(0,) * x.ndim, steps=(1,) * x.ndim)


@dataclass(frozen=True, slots=True)
class Active:
    """Which carries, slices and consts have a derivative that can reach the results."""

    carry: tuple[int, ...]
    slices: tuple[int, ...]
    consts: tuple[int, ...]


def _active(body: Graph, layout: Layout, ct_carry: Sequence[Node | None], ct_ys: Sequence[Node | None]) -> Active:
    """Grow the set of carries with a cotangent until one more trip adds none."""
    _, carry, slices, consts = layout.params(body)
    after, ys = layout.results(body.results)
    live = {k for k, ct in enumerate(ct_carry) if ct is not None}
    while True:
        roots = [after[k] for k in sorted(live)] + [ys[k] for k, ct in enumerate(ct_ys) if ct is not None]
        reached = _reaching(roots)
        more = {k for k, c in enumerate(carry) if c in reached and c.dtype.is_float} | live
        if more == live:
            break
        live = more
    pick = [tuple(k for k, n in enumerate(group) if n in reached and n.dtype.is_float) for group in (slices, consts)]
    return Active(tuple(sorted(k for k in live if carry[k].dtype.is_float)), pick[0], pick[1])


def _reaching(roots: Sequence[Node]) -> set[Node]:
    """Nodes from which a derivative can flow into ``roots``: constants for differentiation cut the way."""
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if not n.op.constant or n.op is GET:
            stack.extend(n.args)
    return seen


def _loop_jvp(
    push: Push,
    tangents: Sequence[Node | None],
    y: Node,
    *args: Node,
    body: Graph,
    condition: Graph | None,
    length: Size | None,
    trips: str,
    layout: Layout,
    reverse: bool,
) -> list[Node | None]:
    """One loop that carries the tangents along; ``merge_loops`` lets it replace the original."""
    index, carry, slices, consts = layout.params(body)
    t_carry, t_xs, t_consts = layout.operands(tangents)
    after, ys = layout.results(body.results)
    moving = {k for k, t in enumerate(t_carry) if t is not None}
    fixed = [
        (q, t)
        for group, ts in ((slices, t_xs), (consts, t_consts))
        for q, t in zip(group, ts, strict=True)
        if t is not None
    ]
    seeds = {q: param(q.type) for q in (*carry, *slices, *consts) if q.dtype.is_float}
    while True:
        wrt = [carry[k] for k in sorted(moving)] + [q for q, _ in fixed]
        out = push(body.results, wrt, [seeds[q] for q in wrt])
        more = {k for k, t in enumerate(out[: layout.carry]) if t is not None} | moving
        if more == moving:
            break
        moving = more
    order = sorted(moving)
    dy = [k for k, t in enumerate(out[layout.carry :]) if t is not None]
    moving_xs = [k for k, t in enumerate(t_xs) if t is not None]
    moving_consts = [k for k, t in enumerate(t_consts) if t is not None]
    a_carry, a_xs, a_consts = layout.operands(args)
    both = loop(
        *a_carry,
        *(or_zero(t_carry[k], a_carry[k]) for k in order),
        *a_xs,
        *(t_xs[k] for k in moving_xs),
        *a_consts,
        *(t_consts[k] for k in moving_consts),
        body=Graph(
            (
                index,
                *carry,
                *(seeds[carry[k]] for k in order),
                *slices,
                *(seeds[slices[k]] for k in moving_xs),
                *consts,
                *(seeds[consts[k]] for k in moving_consts),
            ),
            (
                *after,
                *(or_zero(out[k], after[k]) for k in order),
                *ys,
                *(or_zero(out[layout.carry + k], ys[k]) for k in dy),
            ),
            origin=body,
        ),
        condition=None
        if condition is None
        else _with_more(
            condition, layout.carry, [carry[k].type for k in order], [consts[k].type for k in moving_consts]
        ),
        length=length,
        trips=trips,
        layout=Layout(layout.carry + len(order), layout.xs + len(moving_xs)),
        reverse=reverse,
    )
    start = layout.carry + len(order) + len(ys)
    found = {k: get(both, layout.carry + j) for j, k in enumerate(order)}
    found |= {layout.carry + k: get(both, start + j) for j, k in enumerate(dy)}
    return [found.get(k) for k in range(len(body.results))]


def _with_more(
    condition: Graph, carry: int, more_carry: Sequence[TensorType], more_consts: Sequence[TensorType]
) -> Graph:
    """A condition that takes more operands and does not look at them."""
    before, after = condition.params[: 1 + carry], condition.params[1 + carry :]
    return Graph((*before, *map(param, more_carry), *after, *map(param, more_consts)), condition.results)


def _loop_batch(
    batch: Any,
    size: Size,
    args: Any,
    axes: Any,
    *,
    body: Graph,
    condition: Graph | None,
    length: Size | None,
    trips: str,
    layout: Layout,
    reverse: bool,
) -> tuple[Any, list[int | None]]:
    """All lanes in one loop, which runs as long as any lane does; a finished lane keeps its state.

    Where lanes finish at different trips, the loop also gives which were alive at each: a loop over its tape needs it.
    """
    alive_tape: Node | None = batch.lanes.get(str(length)) if length is not None else None
    if alive_tape is not None:  # one more slice, whose lanes are its axis 1
        body = _with_alive(body, layout)
        m = layout.carry + layout.xs
        args, axes = (*args[:m], alive_tape, *args[m:]), (*axes[:m], 1, *axes[m:])
        layout = Layout(layout.carry, layout.xs + 1)
    d_carry, d_xs, d_consts = layout.operands([d is not None for d in axes])
    d_carry, by_lane = _mapped_carry(body, condition, layout, (d_carry, d_xs, d_consts), frozen=alive_tape is not None)
    if condition is not None and by_lane:
        body = _blocked_when_done(body, condition, layout)
    a_carry, a_xs, a_consts = layout.operands(list(zip(args, axes, strict=True)))
    operands = (
        *(repeated(size, a, d) if m else a for (a, d), m in zip(a_carry, d_carry, strict=True)),
        *(a if d is None else _behind(a, d) for a, d in a_xs),
        *(a if d is None else to_front(a, d) for a, d in a_consts),
    )
    new = batched_graph(
        batch,
        body,
        size,
        [False, *d_carry, *d_xs, *d_consts],
        [*d_carry, *([True] * (len(body.results) - layout.carry))],
    )
    stop = condition
    if condition is not None and by_lane:
        test = batched_graph(batch, condition, size, [False, *d_carry, *d_consts], [True])
        stop = Graph(test.params, (sum_(test.results[0], axes=(0,)),))
        new = _frozen_when_done(new, test, layout)
    if alive_tape is not None:
        new = _frozen_off_tape(new, layout)
    out = loop(*operands, body=new, condition=stop, length=length, trips=trips, layout=layout, reverse=reverse)
    if condition is not None and by_lane:
        batch.lanes[trips] = get(out, len(body.results))
    axes_out = [0 if m else None for m in d_carry] + [1] * (len(body.results) - layout.carry)
    return results_of(out)[: len(body.results)], axes_out


def _mapped_carry(
    body: Graph,
    condition: Graph | None,
    layout: Layout,
    mapped: tuple[list[bool], list[bool], list[bool]],
    *,
    frozen: bool,
) -> tuple[list[bool], bool]:
    """Which carries differ by lane, and whether the condition does (then all of them do)."""
    _, carry, slices, consts = layout.params(body)
    on, xs, cs = mapped
    if frozen:
        return [True] * len(on), False
    while True:
        sources = [
            q for group, ms in ((carry, on), (slices, xs), (consts, cs)) for q, m in zip(group, ms, strict=True) if m
        ]
        moved = {*dependents(body.results, sources), *sources}
        more = [m or body.results[k] in moved for k, m in enumerate(on)]
        if more == on:
            break
        on = more
    if condition is None:
        return on, False
    c_carry, c_consts = layout.tested(condition)
    sources = [q for group, ms in ((c_carry, on), (c_consts, cs)) for q, m in zip(group, ms, strict=True) if m]
    by_lane = condition.results[0] in {*dependents(condition.results, sources), *sources}
    return ([True] * len(on) if by_lane else on), by_lane


def _blocked_when_done(body: Graph, condition: Graph, layout: Layout) -> Graph:
    """A body in which nothing can end the call once the condition is false."""
    index, carry, _, consts = layout.params(body)
    (alive,) = inline(condition, index, *carry, *consts)
    return Graph(body.params, tuple(inline(blockable(body), *body.params, p.not_(alive))))


def _with_alive(body: Graph, layout: Layout) -> Graph:
    """A body with one more slice, a bool: where it is false, nothing can end the call."""
    index, carry, slices, consts = layout.params(body)
    alive = param(TensorType(boolean))
    results = inline(blockable(body), *body.params, p.not_(alive))
    return Graph((index, *carry, *slices, alive, *consts), tuple(results))


def _frozen_when_done(body: Graph, test: Graph, layout: Layout) -> Graph:
    """A batched body in which a lane whose condition is false keeps its carry; it also gives which lanes are alive."""
    index, carry, _, consts = layout.params(body)
    (alive,) = inline(test, index, *carry, *consts)
    return Graph(body.params, (*_kept(alive, body, layout), *layout.results(body.results)[1], alive))


def _frozen_off_tape(body: Graph, layout: Layout) -> Graph:
    """A batched body whose last slice says which lanes are alive: others keep their carry and give zeros."""
    alive = layout.params(body)[2][-1]
    ys = [p.select(along(alive, y), y, zeros(y.shape, y.dtype)) for y in layout.results(body.results)[1]]
    return Graph(body.params, (*_kept(alive, body, layout), *ys))


def _kept(alive: Node, body: Graph, layout: Layout) -> list[Node]:
    _, carry, _, _ = layout.params(body)
    after, _ = layout.results(body.results)
    return [p.select(along(alive, new), new, old) for new, old in zip(after, carry, strict=True)]


def _behind(a: Node, axis: int) -> Node:
    """A batched operand of ``xs``, with the batch axis right behind the axis of trips."""
    order = [k for k in range(a.ndim) if k != axis]
    order.insert(1, axis)
    return transpose(a, perm=tuple(order))


loop: Op = register(
    Op(
        name="loop",
        doc="A graph run again and again: scan, for and while.",
        infer=_loop_infer,
        numpy=_loop_numpy,
        lower=Region(),
        vjp=_loop_vjp,
        jvp=_loop_jvp,
        batch=_loop_batch,
    )
)
