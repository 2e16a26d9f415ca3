"""Python's loops on traced values -> loops of the program.

A rewritten ``while`` or ``for`` hands over functions that run its body and its test on the variables of the user's
function. The variables that a trip changes, and the arrays that it changes in place, are the state of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import TraceError
from symgrad.frontend.cell import tangle
from symgrad.frontend.lines import located
from symgrad.frontend.parts import (
    Arm,
    Function,
    Get,
    Put,
    Variables,
    at,
    filled,
    like,
    ran,
    root_of,
    roots,
    snapshot,
    tangle_results,
)
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.ranges import TracedRange
from symgrad.frontend.regions import Steps, predicate_of, run_loop
from symgrad.frontend.tracer import Tracer, is_traced, size_of, value, wrap
from symgrad.frontend.tracing import current_trace, holding, is_known
from symgrad.frontend.tree import flatten, tree_map
from symgrad.ir.node import Node, size_node
from symgrad.ir.types import Size
from symgrad.ops import pointwise as p

MOST_ATTEMPTS = 5


def traced_repeat(test: Function, body: Function, get: Get, put: Put, names: tuple[str, ...], place: str) -> None:
    """A ``while`` whose condition is known only when the program runs."""
    what = at("while", place)
    _rolled(Loop(Variables(names, get, put, (body, test), what), lambda item: body(), test, None, what))


def traced_each(
    items: Any, body: Function, get: Get, put: Put, names: tuple[str, ...], place: str, more: Function | None
) -> Any:
    """A ``for`` over a range or over the rows of an array, rolled. NotImplemented when only unrolling will do."""
    before, over, flag = get(), _iteration(items), current_trace().flag
    if over is None:
        return NotImplemented
    try:
        with holding(lambda: before):
            what = at("for", place)
            _rolled(Loop(Variables(names, get, put, (body, more), what), body, more, over, what))
    except TraceError:
        put(before)
        current_trace().flag = flag
        if over.length is None and not _countable(over.count):
            raise
        return NotImplemented
    return None


def _countable(count: Any) -> bool:
    """Whether the number of items is known from Python numbers, so that the loop could be unrolled."""
    return not is_traced(count) or is_known(value(count))


@dataclass(frozen=True, eq=False)
class Iteration:
    """What a ``for`` runs over: how many items (None: known only at run time), and the item at an index."""

    length: Size | None
    count: Any
    item: Callable[[Any, list[Any]], Any]
    xs: tuple[Node, ...] = ()


def _iteration(items: Any) -> Iteration | None:
    if isinstance(items, range):
        start, step = items.start, items.step
        return Iteration(len(items), len(items), lambda index, slices: index * step + start)
    if type(items) is TracedRange:
        return _over_range(items)
    if type(items) is Tracer and items.ndim:
        node = items.node
        return Iteration(node.shape[0], None, lambda index, slices: slices[0], (node,))
    return None


def _over_range(r: TracedRange) -> Iteration:
    start, step, stop = r.start, r.step, r.stop
    if not is_traced(step) and not any(type(x) is Tracer for x in (start, stop)) and step == 1:
        length = size_of(stop) - size_of(start)
        return Iteration(length, None, lambda index, slices: index + start)
    count = (stop - start + step - 1) // step if is_traced(step) or step > 0 else (start - stop - step - 1) // -step
    return Iteration(None, count, lambda index, slices: index * step + start)


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of the user's function. ``test``: whether to go on; ``over``: what a ``for`` runs over."""

    variables: Variables
    body: Function
    test: Function | None
    over: Iteration | None
    what: str


@dataclass(eq=False)
class Carried:
    """The state of a loop as far as it is known.

    ``bound``: variables that had a value before and get others inside, which arrays are taken to do once they have been
    seen to; ``cells``: arrays changed in place; ``fresh``: variables first bound inside.
    """

    bound: list[int]
    cells: dict[int, Tracer]
    fresh: dict[int, Any]


def _rolled(loop: Loop) -> None:
    """One loop of the program. It is traced until no more arrays and variables turn out to belong to its state."""
    variables = loop.variables
    before, flag = variables.get(), current_trace().flag
    carried = Carried([k for k in variables.bound() if _is_state(before[k]) and root_of(before[k]) is None], {}, {})
    for _ in range(MOST_ATTEMPTS):
        current_trace().flag = flag
        with holding(lambda: before), holding(carried.cells.values):
            found, state, last = _attempt(loop, carried, before)
        if not any((found.bound, found.cells, found.fresh)):
            _finish(loop, carried, before, state, last)
            return
        carried.bound += found.bound
        carried.cells.update(found.cells)
        for k in found.bound:  # what its array was before is a part of the state only if others use it too
            _forget(carried.cells, roots(before[k]))
        carried.fresh.update(found.fresh)
        del found, state, last
    raise TraceError(f"{loop.what} changes other arrays each time it is looked at")


def _finish(loop: Loop, carried: Carried, before: tuple[Any, ...], state: Any, trip: Arm) -> None:
    """Set variables and arrays to the last state of a loop."""
    values, last, arrays = state
    out = list(before)
    for k, v in zip([*carried.bound, *carried.fresh], [*values, *last], strict=True):
        out[k] = v
    loop.variables.put(out)
    for cell, new in zip(carried.cells.values(), arrays, strict=True):
        cell.assign(new.node, checked=False)
    results = [(k, flatten(out[k])[0]) for k in (*carried.bound, *carried.fresh)]
    tangle_results(trip, results, loop.what)
    for k in carried.bound:
        _tangle_first(before[k], out[k], loop.what)


def _forget(cells: dict[int, Tracer], roots: list[Tracer | None]) -> None:
    for root in roots:
        cells.pop(id(root), None)


def _tangle_first(before: Any, inside: Any, what: str) -> None:
    """Before the first trip a variable is what it was before the loop, which others may share."""
    for root, leaf in zip(roots(before), flatten(inside)[0], strict=False):
        if root is not None and type(leaf) is Tracer:
            tangle(leaf, root, what)


def _is_state(v: Any) -> bool:
    """Whether a variable can be carried: arrays and numbers, and containers of them."""
    return type(v) is not Poison and all(
        is_traced(x) or isinstance(x, bool | int | float | np.ndarray | np.generic) for x in flatten(v)[0]
    )


def _attempt(loop: Loop, carried: Carried, before: tuple[Any, ...]) -> tuple[Carried, Any, Arm]:
    """Trace the loop with the state known so far; gives what was missing in it, the last state, and the traced trip."""
    missing = Carried([], {}, {})
    trips: list[Arm] = []

    def enter(state: Any) -> tuple[Any, ...]:
        values, last, arrays = state
        now = list(before)
        for k, v in zip([*carried.bound, *carried.fresh], [*values, *last], strict=True):
            now[k] = tree_map(snapshot, v)  # arrays of the trip's own
            _tangle_first(before[k], now[k], loop.what)
        loop.variables.put(now)
        for cell, array in zip(carried.cells.values(), arrays, strict=True):
            cell.assign(array.node, checked=False)
        return tuple(now)

    def step(index: Any, state: Any, slices: list[Any]) -> Any:
        entered: list[tuple[Any, ...]] = []
        trips.clear()
        missing.cells = {}  # what an earlier round found is in use no more

        def part() -> None:
            entered.append(enter(state))
            loop.body(loop.over.item(index, slices) if loop.over is not None else None)

        with holding(lambda: (x for values in entered for x in values)):
            done = ran(part, loop.variables)
        trips[:] = [done]
        if done.leaves:
            return state, ()
        written = done.cells
        missing.bound = [k for k in _rebound(carried, before, done.after) if _is_state(before[k])]
        missing.cells = {k: cell for k, (cell, _, _) in written.items() if k not in carried.cells}
        missing.fresh = _first_bound(loop, carried, before, done.values)
        if not missing.bound and not missing.cells and not missing.fresh:
            _refuse_shared(loop, carried, before, entered[0], done)
        values = [_still_state(loop, k, done.values[k]) for k in carried.bound]
        last = [filled(done.values[k], v) for k, v in carried.fresh.items()]
        arrays = [
            wrap(written[k][2] if k in written else a.node, fixed=False)
            for k, a in zip(carried.cells, state[2], strict=True)
        ]
        return (values, last, arrays), ()

    def test(index: Any, state: Any) -> Any:
        answers: list[Any] = []

        def part() -> None:
            enter(state)
            answers.append(True if loop.test is None else loop.test())

        if ran(part, loop.variables).leaves:
            return False
        return answers[0] if loop.over is None else _and(index < _count(loop.over), answers[0])

    over = loop.over
    counted = over is not None and over.length is not None and loop.test is None
    steps = Steps(
        length=over.length if over is not None and counted else None,
        test=None if counted else test,
        xs=over.xs if over else (),
    )
    init = (
        [tree_map(snapshot, before[k]) for k in carried.bound],
        list(carried.fresh.values()),
        [wrap(c.node, fixed=False) for c in carried.cells.values()],
    )
    names = leaf_names([loop.variables.names[k] for k in (*carried.bound, *carried.fresh)], [*init[0], *init[1]])
    out = run_loop(steps, step, init, names=names, what=loop.what)
    return missing, out.state, trips[0]


def _rebound(carried: Carried, before: tuple[Any, ...], after: tuple[Any, ...]) -> list[int]:
    """Variables that had an array before and another one after a trip."""
    known = {*carried.bound, *carried.fresh}
    return [
        k
        for k, (old, new) in enumerate(zip(before, after, strict=True))
        if k not in known and old is not UNBOUND and new is not old
    ]


def _refuse_shared(loop: Loop, carried: Carried, before: tuple[Any, ...], entered: tuple[Any, ...], done: Arm) -> None:
    """TraceError when a trip changes in place what may be, from the trip before, the same array as another variable."""
    state = [*carried.bound, *carried.fresh]
    for now in (before, done.after):
        users: dict[int, list[Tracer]] = {}
        for k in state:
            for root, mine in zip(roots(now[k]), flatten(entered[k])[0], strict=False):
                if root is not None and type(mine) is Tracer:
                    if root.readonly and mine.changed:
                        root.assign(mine.node)  # the error
                    users.setdefault(id(root), []).append(mine)
        for key, all_of_it in users.items():
            in_place = any(m.changed for m in all_of_it) or key in done.cells
            if in_place and (len(all_of_it) > 1 or key in carried.cells):
                raise located(
                    TraceError(
                        f"{loop.what} changes an array in place that two variables share after some of its trips, "
                        "which only the compiled program knows: make a copy (b = a.copy())"
                    )
                )


def _first_bound(loop: Loop, carried: Carried, before: tuple[Any, ...], after: tuple[Any, ...]) -> dict[int, Any]:
    """Variables that get their first value inside a loop and are read later: they begin as zeros."""
    known = {*carried.bound, *carried.fresh}
    return {
        k: tree_map(like, v)
        for k, (old, v) in enumerate(zip(before, after, strict=True))
        if k not in known and old is UNBOUND and v is not UNBOUND and _is_state(v)
    }


def _still_state(loop: Loop, k: int, v: Any) -> Any:
    if v is UNBOUND or not _is_state(v):
        raise TraceError(f"{loop.variables.names[k]} is not an array or a number after a trip of {loop.what}")
    return v


def _count(over: Iteration) -> Any:
    """The number of items, as a number of the program."""
    if over.length is None:
        return over.count
    return wrap(size_node(over.length), weak=True)


def _and(a: Any, b: Any) -> Any:
    if not is_traced(a) and not is_traced(b):
        return bool(a) and bool(b)
    return wrap(p.and_(predicate_of(a, "a condition"), predicate_of(b, "a condition")), weak=True)


def leaf_names(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [name for name, v in zip(names, values, strict=True) for _ in range(flatten(v)[1].num_leaves)]
