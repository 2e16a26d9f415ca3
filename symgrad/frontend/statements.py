"""Python's statements on traced values -> regions of the graph.

A rewritten ``if``, ``while`` or ``for`` hands over functions that run its parts on the variables of the user's function,
``get`` and ``put`` for the variables that the parts assign, and their names. Each part is run once, while it is traced;
the variables, and the arrays that it changes in place, are the results of a branch and the state of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.errors import SymgradError, TraceError
from symgrad.frontend.control import UNBOUND, Poison, TracedRange
from symgrad.frontend.regions import Steps, branch, run_loop
from symgrad.frontend.tracer import Tracer, is_traced, size_of, value, wrap
from symgrad.frontend.tracing import current_trace, watching_writes
from symgrad.frontend.tree import flatten, tree_map
from symgrad.ir.node import Node
from symgrad.ir.types import Size
from symgrad.ops.kinds import zeros

Function = Callable[..., Any]
Get = Callable[[], tuple[Any, ...]]
Put = Callable[[tuple[Any, ...]], None]
RESULT = "_sg_result"  # the variable of an early return: of no meaning until its flag is set


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables that a statement assigns."""

    get: Get
    put: Put
    names: tuple[str, ...]

    def bound(self) -> list[int]:
        return [k for k, v in enumerate(self.get()) if v is not UNBOUND]


@dataclass(eq=False)
class Arm:
    """One run of a part: what the variables were after it, and the arrays it changed in place, with their new values."""

    after: tuple[Any, ...] = ()
    cells: dict[int, tuple[Tracer, Node, Node]] | None = None  # the array, before, after


def ran(part: Function, variables: Variables) -> Arm:
    """Run a part on the present variables, note what it did, and undo it."""
    before = variables.get()
    try:
        with watching_writes() as log:
            part()
            after = variables.get()
            cells = {k: (cell, old, cell.node) for k, (cell, old) in log.items()}
    finally:
        variables.put(before)
    return Arm(after, cells)


# --- if --------------------------------------------------------------------------------------------------------------


def traced_branch(test: Any, then: Function, otherwise: Function, get: Get, put: Put, names: Sequence[str], place: Any) -> None:
    """An ``if`` whose condition is known only when the program runs.

    When its arms do not fit together and the condition depends on Python numbers alone, it is decided now, and the
    program holds for these numbers.
    """
    variables = Variables(get, put, tuple(names))
    before = get()
    try:
        _branch(test, (then, otherwise), variables, place)
    except SymgradError:
        put(before)
        node = value(test)
        decided = current_trace().decide(node) if not node.shape else None
        if decided is None:
            raise
        (then if decided else otherwise)()


def _branch(test: Any, parts: tuple[Function, Function], variables: Variables, place: Any) -> None:
    """Find out what both arms change by running them, then join them: variables, then arrays changed in place."""
    before = variables.get()
    trial = [_trial(part, variables) for part in parts]
    kinds = [_kind(name, b, x, y) for name, b, x, y in zip(variables.names, before, trial[0].after, trial[1].after, strict=True)]
    cells = {**(trial[0].cells or {}), **(trial[1].cells or {})}
    joined = [k for k, kind in enumerate(kinds) if kind == "join"]

    def arm(part: Function, mine: int) -> Function:
        def run() -> Any:
            done = ran(part, variables)
            changed = done.cells or {}
            values = [_filled(done.after[k], trial[1 - mine].after[k]) for k in joined]
            return values, [wrap(changed[c][2] if c in changed else cell.node, fixed=False) for c, (cell, _, _) in cells.items()]

        return run

    names = _leaf_names([variables.names[k] for k in joined], [trial[0].after[k] if trial[0].after[k] is not UNBOUND else trial[1].after[k] for k in joined])
    values, arrays = branch(test, arm(parts[0], 0), arm(parts[1], 1), names=names, what=f"the if at {place}")
    out = list(before)
    for k, kind in enumerate(kinds):
        if kind == "poison":
            out[k] = Poison(variables.names[k], place)
        elif kind == "same":
            out[k] = trial[0].after[k]
    for k, v in zip(joined, values, strict=True):
        out[k] = v
    variables.put(tuple(out))
    for (cell, _, _), new in zip(cells.values(), arrays, strict=True):
        cell.assign(new.node)


def _trial(part: Function, variables: Variables) -> Arm:
    from symgrad.frontend.regions import Region

    done: Arm = Region(()).run(lambda: ran(part, variables))
    return done


def _kind(name: str, before: Any, left: Any, right: Any) -> str:
    """What becomes of a variable: the same object in both arms, joined, or poisoned because one arm does not bind it."""
    if left is right:
        return "same"
    if (left is UNBOUND or right is UNBOUND or type(left) is Poison or type(right) is Poison) and not name.startswith(RESULT):
        return "poison"
    return "join"


def _filled(x: Any, other: Any) -> Any:
    """A result that one arm does not give: zeros like that of the other, which nobody reads."""
    if x is not UNBOUND and type(x) is not Poison:
        return x
    return tree_map(lambda leaf: wrap(zeros(value(leaf).shape, value(leaf).dtype), weak=True), other)


def _leaf_names(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [name for name, v in zip(names, values, strict=True) for _ in range(flatten(v)[1].num_leaves)]


# --- loops -----------------------------------------------------------------------------------------------------------


def traced_repeat(test: Function, body: Function, get: Get, put: Put, names: Sequence[str], place: Any) -> None:
    """A ``while`` whose condition is known only when the program runs."""
    variables = Variables(get, put, tuple(names))
    _rolled(variables, lambda item: body(), lambda index: test(), None, f"the while at {place}", place)


def traced_each(items: Any, body: Function, get: Get, put: Put, names: Sequence[str], place: Any, more: Function | None) -> Any:
    """A ``for`` over a range or over the rows of an array, rolled. NotImplemented when only unrolling will do."""
    variables = Variables(get, put, tuple(names))
    before = get()
    found = _iteration(items)
    if found is None:
        return NotImplemented
    try:
        _rolled(variables, body, more and (lambda index: more()), found, f"the for at {place}", place)
    except (TraceError, _Irregular) as e:
        put(before)
        if found.length is None or isinstance(found.length, int):
            return NotImplemented
        raise e if isinstance(e, SymgradError) else TraceError(str(e)) from None
    return None


@dataclass(frozen=True, eq=False)
class Iteration:
    """What a ``for`` runs over: how many items (None: known only at run time), and the item at an index."""

    length: Size | None
    count: Any
    item: Callable[[Any, list[Any]], Any]
    xs: tuple[Node, ...] = ()


class _Irregular(Exception):
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


def _rolled(variables: Variables, body: Function, more: Function | None, over: Iteration | None, what: str, place: Any) -> None:
    """One loop of the program: its state are bound variables that the body assigns, and arrays that it changes."""
    before = variables.get()
    bound = [k for k in variables.bound() if _is_state(before[k])]
    cells: dict[int, Tracer] = {}
    fresh: dict[int, Any] = {}
    for _ in range(4):
        found = _attempt(variables, body, more, over, what, bound, cells, fresh)
        new_cells, new_names, ran_out = found
        if not new_cells and not new_names:
            break
        cells.update(new_cells)
        fresh.update(new_names)
    else:
        raise TraceError(f"{what} changes other arrays each time it is looked at")
    values, last, arrays = ran_out
    out = list(before)
    for k, v in zip(bound, values, strict=True):
        out[k] = v
    for k, v in zip(fresh, last, strict=True):
        out[k] = v
    for k in range(len(out)):
        if k not in bound and k not in fresh:
            out[k] = Poison(variables.names[k], place) if before[k] is UNBOUND else before[k]
    variables.put(tuple(out))
    for cell, new in zip(cells.values(), arrays, strict=True):
        cell.assign(new.node)


def _is_state(v: Any) -> bool:
    """Whether a variable can be carried: arrays and numbers, and containers of them."""
    leaves, _ = flatten(v)
    return type(v) is not Poison and all(is_traced(x) or _is_number(x) for x in leaves)


def _is_number(x: Any) -> bool:
    import numpy as np

    return isinstance(x, bool | int | float | np.ndarray | np.generic)


def _attempt(
    variables: Variables, body: Function, more: Function | None, over: Iteration | None, what: str, bound: list[int],
    cells: dict[int, Tracer], fresh: dict[int, Any],
) -> tuple[dict[int, Tracer], dict[int, Any], Any]:  # fmt: skip
    """Trace the loop with the state known so far; also gives arrays and variables that belong to it and were missing."""
    before = variables.get()
    missing_cells: dict[int, Tracer] = {}
    missing_names: dict[int, Any] = {}

    def enter(state: Any) -> None:
        values, last, arrays = state
        now = list(before)
        for k, v in zip([*bound, *fresh], [*values, *last], strict=True):
            now[k] = v
        variables.put(tuple(now))
        for cell, array in zip(cells.values(), arrays, strict=True):
            cell.assign(array.node)

    def step(index: Any, state: Any, slices: list[Any]) -> Any:
        def part() -> None:
            enter(state)
            body(over.item(index, slices) if over is not None else None)

        done = ran(part, variables)
        written = done.cells or {}
        for k, (cell, _, _) in written.items():
            if k not in cells:
                missing_cells[k] = cell
        for k, v in enumerate(done.after):
            if v is not UNBOUND and k not in bound and k not in fresh and before[k] is UNBOUND and _is_state(v):
                missing_names[k] = tree_map(lambda leaf: _like(leaf), v)
        for k in bound:
            if done.after[k] is UNBOUND or not _is_state(done.after[k]):
                raise _Irregular(f"{variables.names[k]} is not an array or a number after a trip of {what}")
        values = [done.after[k] for k in bound]
        last = [done.after[k] if done.after[k] is not UNBOUND else fresh[k] for k in fresh]
        arrays = [wrap(written[k][2] if k in written else array.node, fixed=False) for k, array in zip(cells, state[2], strict=True)]
        return (values, last, arrays), ()

    def test(index: Any, state: Any) -> Any:
        answer: list[Any] = []

        def part() -> None:
            enter(state)
            going = True if more is None else more(index)
            answer.append(going)

        ran(part, variables)
        going = answer[0]
        if over is None:
            return going
        count = over.count if over.length is None or over.count is not None else wrap(_size(over.length), weak=True)
        return _and(index < count, going)

    steps = Steps(length=over.length, xs=over.xs) if over is not None and over.length is not None and more is None else Steps(
        test=test, xs=over.xs if over is not None else ()
    )
    init = ([before[k] for k in bound], list(fresh.values()), [wrap(cell.node, fixed=False) for cell in cells.values()])
    names = _leaf_names([variables.names[k] for k in (*bound, *fresh)], [*init[0], *init[1]])
    out = run_loop(steps, step, init, names=names, what=what)
    return missing_cells, missing_names, out.state


def _size(size: Size) -> Node:
    from symgrad.ir.node import size_node

    return size_node(size)


def _like(leaf: Any) -> Any:
    """Zeros of the type of a variable that gets its first value inside a loop."""
    node = value(leaf)
    return wrap(zeros(node.shape, node.dtype), weak=type(leaf) is Tracer and leaf.weak)


def _and(a: Any, b: Any) -> Any:
    from symgrad.ops import pointwise as p

    if not is_traced(a) and not is_traced(b):
        return bool(a) and bool(b)
    return wrap(p.and_(_truth(a), _truth(b)), weak=True)


def _truth(x: Any) -> Node:
    from symgrad.frontend.regions import predicate_of

    return predicate_of(x, "a condition")


# --- expressions -----------------------------------------------------------------------------------------------------


def traced_choose(test: Any, then: Function, otherwise: Function, place: Any) -> Any:
    """``a if test else b``, and the right-hand side of ``and`` and ``or``."""
    nothing = Variables(tuple, lambda values: None, ())
    try:
        return branch(test, then, otherwise, what=f"the condition at {place}")
    except SymgradError:
        node = value(test)
        decided = current_trace().decide(node) if not node.shape else None
        if decided is None:
            raise
        del nothing
        return then() if decided else otherwise()
