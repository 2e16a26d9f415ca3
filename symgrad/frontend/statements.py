"""Python's statements on traced values -> regions of the graph.

A rewritten ``if``, ``while`` or ``for`` hands over functions that run its parts on the variables of the user's
function, and the names of the variables that they assign. A part is run while it is traced; the variables, and the
arrays that it changes in place, are the results of a branch and the state of a loop.
"""

from __future__ import annotations

import functools
import os
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import SymgradError, TraceError
from symgrad.frontend.cell import tangle
from symgrad.frontend.containers import run_unchanged
from symgrad.frontend.lines import located
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.raising import goes_on
from symgrad.frontend.ranges import TracedRange
from symgrad.frontend.regions import Region, Steps, joined, only_checks, predicate_of, run_loop
from symgrad.frontend.tracer import Tracer, is_traced, size_of, value, wrap
from symgrad.frontend.tracing import current_trace, holding, is_known, run_number, watching_writes
from symgrad.frontend.tree import TreeDef, flatten, tree_map, unflatten
from symgrad.ir.node import Node, size_node
from symgrad.ir.types import Size
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import zeros

Function = Callable[..., Any]
Get = Callable[[], tuple[Any, ...]]
Put = Callable[[Sequence[Any]], None]
MOST_ATTEMPTS = 5
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
HIDDEN = "_sg_"  # how the names of flags begin that stand for break, continue and return


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables that a statement assigns: their values now (UNBOUND for those without), and a way to set them."""

    names: tuple[str, ...]
    get: Get
    put: Put
    parts: tuple[Any, ...]  # the functions that assign them
    what: str  # the statement

    def bound(self) -> list[int]:
        return [k for k, v in enumerate(self.get()) if v is not UNBOUND]


@dataclass(eq=False)
class Arm:
    """One run of a part: what the variables were after it, and the arrays it changed in place, with their new values.

    ``values`` are what ``after`` held at the end of the run, since arrays from outside are put back then. A part that
    ``leaves`` has raised: what it did matters no more.
    """

    number: int
    after: tuple[Any, ...]
    values: tuple[Any, ...]
    leaves: bool
    cells: dict[int, tuple[Tracer, Node, Node]]  # the array, before, after

    def roots(self, k: int) -> list[Tracer | None]:
        """The arrays in whose memory the leaves of a variable lie."""
        return _roots(self.after[k])

    def is_outside(self, root: Tracer) -> bool:
        """Whether an array is not one that the part made."""
        return root.born != self.number


def _roots(variable: Any) -> list[Tracer | None]:
    return [_root(leaf) for leaf in flatten(variable)[0]]


def _root(leaf: Any) -> Tracer | None:
    return leaf.root if type(leaf) is Tracer and not leaf.fixed else None


def _snapshot(leaf: Any) -> Any:
    """A leaf as it is now, apart from what happens to it later."""
    return wrap(leaf.node, fixed=False) if type(leaf) is Tracer and not leaf.fixed else leaf


def ran(part: Function, variables: Variables) -> Arm:
    """Run a part on the present variables, note what it did, and undo it."""
    before = variables.get()
    try:
        with holding(lambda: before), watching_writes() as log:
            number = run_number()
            answers: list[bool] = []
            run_unchanged(lambda: answers.append(goes_on(part)), variables.parts, variables.what)
            after = variables.get()
            values = tuple(tree_map(_snapshot, v) for v in after)
            cells = {k: (cell, old, cell.node) for k, (cell, old) in log.items()}
    finally:
        variables.put(before)
    return Arm(number, after, values, not answers[0], cells)


# --- if --------------------------------------------------------------------------------------------------------------


def traced_branch(
    test: Any, then: Function, otherwise: Function, get: Get, put: Put, names: tuple[str, ...], place: str
) -> None:
    """An ``if`` whose condition is known only when the program runs.

    When its arms do not fit together and the condition depends on Python numbers alone, it is decided now, and the
    program holds for these numbers.
    """
    before = get()

    def both() -> None:
        _branch(test, (then, otherwise), Variables(names, get, put, (then, otherwise), _at("if", place)), place)

    flag = current_trace().flag

    def one() -> Any:
        put(before)
        current_trace().flag = flag
        return (then if decided_now(test) else otherwise)()

    with holding(lambda: before):
        _both_or_one(test, (then, otherwise), both, one, place)


_local = threading.local()


def _codes(part: Any) -> Iterator[types.CodeType]:
    """The user's code that a part runs, however it is wrapped."""
    if isinstance(part, functools.partial):
        yield from _codes(part.func)
    elif isinstance(part, tuple):
        for x in part:
            yield from _codes(x)
    elif isinstance(part, types.FunctionType):
        if not part.__code__.co_filename.startswith(_PACKAGE):
            yield part.__code__
            return
        for cell in part.__closure__ or ():
            yield from _codes(cell.cell_contents)


def _both_or_one(
    test: Any, parts: tuple[Function, Function], both: Callable[[], Any], one: Callable[[], Any], place: str
) -> Any:
    """Make a branch of both arms, or run only the one that the condition on Python numbers alone asks for.

    It does so when both do not fit together, and in a recursion, which must come to an end.
    """
    places: list[Any] = _local.__dict__.setdefault("places", [])
    here = place, *(code for part in parts for code in _codes(part))
    if here in places and decided_now(test) is not None:
        return one()
    places.append(here)
    try:
        return both()
    except SymgradError:
        if decided_now(test) is None:
            raise
    finally:
        places.pop()
    return one()


def decided_now(test: Any) -> bool | None:
    """The truth of a condition on Python numbers alone, which the trace then holds for; None when it is not known."""
    node = value(test)
    return None if node.shape else current_trace().decide(node)


def _branch(test: Any, parts: tuple[Function, Function], variables: Variables, place: str) -> None:
    """Run both arms, each in a region, and join what they did to variables and to arrays that they changed in place."""
    regions = (Region(()), Region(()))
    left = regions[0].run(functools.partial(ran, parts[0], variables))
    if left.leaves:
        del left  # lest it keep arrays in use
        only_checks(predicate_of(test, f"the condition of {_at('if', place)}"), regions[0])
        parts[1]()
        return
    with holding(lambda: left.after), holding(lambda: (cell for cell, _, _ in left.cells.values())):
        right = regions[1].run(functools.partial(ran, parts[1], variables))
    if right.leaves:
        del left, right
        only_checks(p.not_(predicate_of(test, f"the condition of {_at('if', place)}")), regions[1])
        parts[0]()
        return
    kinds = [_kind(name, x, y) for name, x, y in zip(variables.names, left.after, right.after, strict=True)]
    together = [k for k, kind in enumerate(kinds) if kind == "join"]
    cells = {**left.cells, **right.cells}
    names: list[str] = []
    trees: list[TreeDef] = []
    leaves: tuple[list[Any], list[Any]] = [], []
    for k in together:
        values = [
            r.run(functools.partial(_filled, x, y))
            for r, x, y in zip(regions, *_both_ways(left.values[k], right.values[k]), strict=True)
        ]
        (some, tree), (others, other_tree) = map(flatten, values)
        if tree != other_tree:
            raise TraceError(
                f"{variables.names[k]} is {tree} after one arm of {_at('if', place)} and {other_tree} after the other"
            )
        trees.append(tree)
        leaves[0].extend(some)
        leaves[1].extend(others)
        names += [variables.names[k]] * len(some)
    for arm, into in zip((left, right), leaves, strict=True):
        into.extend(wrap(arm.cells[c][2] if c in arm.cells else cell.node) for c, (cell, _, _) in cells.items())
    out = iter(joined(test, regions, leaves, names=names, what=_at("if", place)))
    after = {
        k: unflatten(tree, [next(out) for _ in range(tree.num_leaves)]) for k, tree in zip(together, trees, strict=True)
    }
    variables.put(
        [
            _after(kind, variables.names[k], left.after[k], place) if k not in after else after[k]
            for k, kind in enumerate(kinds)
        ]
    )
    for cell, _, _ in cells.values():
        cell.assign(next(out).node, checked=False)
    for arm in (left, right):
        _tangle(arm, [(k, flatten(v)[0]) for k, v in after.items()], _at("if", place))


def _tangle(arm: Arm, results: Sequence[tuple[int, Sequence[Any]]], place: str) -> None:
    """Note which results of a part share memory with arrays from outside, or with each other."""
    first: dict[int, Tracer] = {}
    for k, leaves in results:
        for root, leaf in zip(arm.roots(k), leaves, strict=False):  # none where this arm does not bind the variable
            if root is None or type(leaf) is not Tracer:
                continue
            leaf.readonly = leaf.readonly or root.readonly
            if arm.is_outside(root):
                tangle(leaf, root, place)
            other = first.setdefault(id(root), leaf)
            tangle(leaf, other, place)


def _both_ways(a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (a, b), (b, a)


def _after(kind: str, name: str, value: Any, place: str) -> Any:
    """A variable after a branch that does not join it."""
    return Poison(name, place) if kind == "poison" else value


def _at(statement: str, place: str) -> str:
    """A statement as messages call it."""
    return f"the {statement} at {place}"


def _kind(name: str, left: Any, right: Any) -> str:
    """What becomes of a variable: the same object in both arms, joined, or poisoned since one arm does not bind it."""
    if left is right:
        return "same"
    missing = left is UNBOUND or right is UNBOUND or type(left) is Poison or type(right) is Poison
    return "poison" if missing and not name.startswith(HIDDEN) else "join"


def _filled(x: Any, other: Any) -> Any:
    """A result that one arm does not give: zeros like that of the other, which nobody reads."""
    return x if x is not UNBOUND and type(x) is not Poison else tree_map(_like, other)


def _leaf_names(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [name for name, v in zip(names, values, strict=True) for _ in range(flatten(v)[1].num_leaves)]


# --- loops -----------------------------------------------------------------------------------------------------------


def traced_repeat(test: Function, body: Function, get: Get, put: Put, names: tuple[str, ...], place: str) -> None:
    """A ``while`` whose condition is known only when the program runs."""
    what = _at("while", place)
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
            what = _at("for", place)
            _rolled(Loop(Variables(names, get, put, (body, more), what), body, more, over, what))
    except (TraceError, _IrregularError):
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


class _IrregularError(Exception):
    """A loop body that must be unrolled."""


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
    carried = Carried([k for k in variables.bound() if _is_state(before[k]) and _root(before[k]) is None], {}, {})
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
            _forget(carried.cells, _roots(before[k]))
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
    _tangle(trip, results, loop.what)
    for k in carried.bound:
        _tangle_first(before[k], out[k], loop.what)


def _forget(cells: dict[int, Tracer], roots: list[Tracer | None]) -> None:
    for root in roots:
        cells.pop(id(root), None)


def _tangle_first(before: Any, inside: Any, what: str) -> None:
    """Before the first trip a variable is what it was before the loop, which others may share."""
    for root, leaf in zip(_roots(before), flatten(inside)[0], strict=False):
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
            now[k] = tree_map(_snapshot, v)  # arrays of the trip's own
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
        last = [_filled(done.values[k], v) for k, v in carried.fresh.items()]
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
        [tree_map(_snapshot, before[k]) for k in carried.bound],
        list(carried.fresh.values()),
        [wrap(c.node, fixed=False) for c in carried.cells.values()],
    )
    names = _leaf_names([loop.variables.names[k] for k in (*carried.bound, *carried.fresh)], [*init[0], *init[1]])
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
            for root, mine in zip(_roots(now[k]), flatten(entered[k])[0], strict=False):
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
        k: tree_map(_like, v)
        for k, (old, v) in enumerate(zip(before, after, strict=True))
        if k not in known and old is UNBOUND and v is not UNBOUND and _is_state(v)
    }


def _still_state(loop: Loop, k: int, v: Any) -> Any:
    if v is UNBOUND or not _is_state(v):
        raise _IrregularError(f"{loop.variables.names[k]} is not an array or a number after a trip of {loop.what}")
    return v


def _count(over: Iteration) -> Any:
    """The number of items, as a number of the program."""
    if over.length is None:
        return over.count
    return wrap(size_node(over.length), weak=True)


def _like(leaf: Any) -> Any:
    """Zeros of the type of a variable that gets its first value inside a loop."""
    node = value(leaf)
    return wrap(zeros(node.shape, node.dtype), weak=type(leaf) is Tracer and leaf.weak)


def _and(a: Any, b: Any) -> Any:
    if not is_traced(a) and not is_traced(b):
        return bool(a) and bool(b)
    return wrap(p.and_(predicate_of(a, "a condition"), predicate_of(b, "a condition")), weak=True)


# --- expressions -----------------------------------------------------------------------------------------------------


def traced_choose(test: Any, then: Function, otherwise: Function, place: str) -> Any:
    """``a if test else b``, and the right-hand side of ``and`` and ``or``."""

    slot: list[Any] = [UNBOUND]

    def put(values: Sequence[Any]) -> None:
        slot[:] = values

    def both() -> Any:
        arms = (lambda: put([then()])), (lambda: put([otherwise()]))
        variables = Variables(("the value",), lambda: tuple(slot), put, (then, otherwise), f"the condition at {place}")
        _branch(test, arms, variables, place)
        return slot[0]

    return _both_or_one(test, (then, otherwise), both, lambda: (then if decided_now(test) else otherwise)(), place)
