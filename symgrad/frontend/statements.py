"""Python's branches and conditional expressions on traced values -> branches of the program.

A rewritten ``if`` hands over functions that run its arms on the variables of the user's function, and the names of the
variables that they assign. The variables, and the arrays that an arm changes in place, are the results of the branch.
"""

from __future__ import annotations

import functools
import os
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from symgrad.errors import SymgradError, TraceError
from symgrad.frontend.parts import (
    Function,
    Get,
    Put,
    Variables,
    at,
    filled,
    ran,
    tangle_results,
)
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.regions import Region, joined, only_checks, predicate_of
from symgrad.frontend.tracer import value, wrap
from symgrad.frontend.tracing import current_trace, holding
from symgrad.frontend.tree import TreeDef, flatten, unflatten
from symgrad.ops import pointwise as p

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
HIDDEN = "_sg_"  # how the names of flags begin that stand for break, continue and return


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
        _branch(test, (then, otherwise), Variables(names, get, put, (then, otherwise), at("if", place)), place)

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
        only_checks(predicate_of(test, f"the condition of {at('if', place)}"), regions[0])
        parts[1]()
        return
    with holding(lambda: left.after), holding(lambda: (cell for cell, _, _ in left.cells.values())):
        right = regions[1].run(functools.partial(ran, parts[1], variables))
    if right.leaves:
        del left, right
        only_checks(p.not_(predicate_of(test, f"the condition of {at('if', place)}")), regions[1])
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
            r.run(functools.partial(filled, x, y))
            for r, x, y in zip(regions, *_both_ways(left.values[k], right.values[k]), strict=True)
        ]
        (some, tree), (others, other_tree) = map(flatten, values)
        if tree != other_tree:
            raise TraceError(
                f"{variables.names[k]} is {tree} after one arm of {at('if', place)} and {other_tree} after the other"
            )
        trees.append(tree)
        leaves[0].extend(some)
        leaves[1].extend(others)
        names += [variables.names[k]] * len(some)
    for arm, into in zip((left, right), leaves, strict=True):
        into.extend(wrap(arm.cells[c][2] if c in arm.cells else cell.node) for c, (cell, _, _) in cells.items())
    out = iter(joined(test, regions, leaves, names=names, what=at("if", place)))
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
        tangle_results(arm, [(k, flatten(v)[0]) for k, v in after.items()], at("if", place))


def _both_ways(a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (a, b), (b, a)


def _after(kind: str, name: str, value: Any, place: str) -> Any:
    """A variable after a branch that does not join it."""
    return Poison(name, place) if kind == "poison" else value


def _kind(name: str, left: Any, right: Any) -> str:
    """What becomes of a variable: the same object in both arms, joined, or poisoned since one arm does not bind it."""
    if left is right:
        return "same"
    missing = left is UNBOUND or right is UNBOUND or type(left) is Poison or type(right) is Poison
    return "poison" if missing and not name.startswith(HIDDEN) else "join"


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
