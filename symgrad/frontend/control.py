"""What rewritten ``if``, ``while``, ``for`` and their kin ask: Python's own meaning, or a part of the compiled program.

A condition that is known while tracing, which those of plain Python values are, is ordinary Python. Otherwise the parts
go to the traced side with the names of the variables that they assign: closure cells, which they share with the user's
function.
"""

from __future__ import annotations

import operator
import types
import warnings
from collections.abc import Callable
from typing import Any

from symgrad.errors import TraceError
from symgrad.frontend.lines import located
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.ranges import CALLEES, TracedRange, is_long
from symgrad.frontend.tracer import Tracer, constant_value, tracing, wrap

Run = Callable[..., Any]
Value = Callable[[], Any]
Names = tuple[str, ...]
Place = tuple[int, int]

SHORT = 32  # loops of up to so many items are unrolled
MOST_GUARDED = 10_000
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not, "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip


def decided(test: Any) -> bool | None:
    """The truth of ``test`` as Python has it; None when only the compiled program will know."""
    if type(test) is not Tracer or not tracing():
        return bool(test)
    if test.ndim and test.size != 1:
        return bool(test)  # Python's error
    known = constant_value(test.node, pin_sizes=False)
    return None if known is None else bool(known.item())


def _nothing() -> None:
    """The arm that is not there."""


# --- statements ------------------------------------------------------------------------------------------------------


def branch(test: Any, then: Run, otherwise: Run | None, names: Names, dead: Names, place: Place, /) -> Run:
    """Return the arm to run, or a function that makes a branch of the program of both."""
    truth = decided(test)
    if truth is None:
        return lambda: _traced_branch(test, then, otherwise, names, dead, place)
    return then if truth else otherwise or _nothing


def _traced_branch(test: Any, then: Run, otherwise: Run | None, names: Names, dead: Names, place: Place) -> None:
    from symgrad.frontend.statements import traced_branch

    traced_branch(test, then, otherwise, names, dead, place)


def repeat(test: Value, body: Run, names: Names, dead: Names, place: Place, /) -> None:
    """Run ``body`` while ``test()`` holds; from where that is not known, as a loop of the program."""
    while True:
        truth = decided(test())
        if truth is None:
            break
        if not truth:
            return
        body()
    from symgrad.frontend.statements import traced_repeat

    traced_repeat(test, body, names, dead, place)


def each(iterable: Any, body: Run, names: Names, dead: Names, place: Place, more: Value | None, /) -> None:
    """Run ``body`` on each item; as a loop of the program where there are many, and all alike."""
    if tracing() and is_long(iterable, SHORT):
        from symgrad.frontend.statements import traced_each

        if traced_each(iterable, body, names, dead, place, more):
            return
    going: Any = True
    guarded = 0
    for item in iterable:
        if going is True:
            body(item)
        else:
            _traced_branch(going, _with_item(body, item), None, names, dead, place)
            guarded += 1
        if more is None:
            continue
        going = more()
        truth = decided(going)
        if truth is False:
            return
        going = going if truth is None else True
        if guarded > MOST_GUARDED:
            raise located(TraceError("the end of this loop depends on traced values only: use while, or a range"))


def _with_item(body: Run, item: Any) -> Run:
    """``lambda: body(item)``, as a function that shares the same variables."""
    assert isinstance(body, types.FunctionType)
    return types.FunctionType(body.__code__, body.__globals__, body.__name__, (item,), body.__closure__)


def check(test: Any, message: Value | None, place: Place, /) -> Any:
    """Return what ``assert`` should see: a condition that is not known yet is not checked, which a warning says."""
    truth = decided(test)
    if truth is None:
        warnings.warn(f"the assertion in line {place[0]} is on a traced value and is not checked", stacklevel=3)
        return True
    return truth


# --- expressions -----------------------------------------------------------------------------------------------------


def choose(test: Any, then: Value, otherwise: Value, place: Place, /) -> Value:
    """Return the function that gives the value of a conditional expression."""
    truth = decided(test)
    if truth is None:
        return lambda: _traced_choose(test, then, otherwise, place)
    return then if truth else otherwise


def _traced_choose(test: Any, then: Value, otherwise: Value, place: Place) -> Any:
    from symgrad.frontend.statements import traced_choose

    return traced_choose(test, then, otherwise, place)


def both(first: Any, rest: tuple[Value, ...], place: Place, /) -> Any:
    """``first and ...``"""
    for k, later in enumerate(rest):
        truth = decided(first)
        if truth is None:
            return _traced_both(first, rest[k:], place)
        if not truth:
            return first
        first = later()
    return first


def _traced_both(first: Any, rest: tuple[Value, ...], place: Place) -> Any:
    return _traced_choose(first, lambda: both(rest[0](), rest[1:], place), lambda: first, place)


def either(first: Any, rest: tuple[Value, ...], place: Place, /) -> Any:
    """``first or ...``"""
    for k, later in enumerate(rest):
        truth = decided(first)
        if truth is None:
            return _traced_either(first, rest[k:], place)
        if truth:
            return first
        first = later()
    return first


def _traced_either(first: Any, rest: tuple[Value, ...], place: Place) -> Any:
    return _traced_choose(first, lambda: first, lambda: either(rest[0](), rest[1:], place), place)


def negate(value: Any, /) -> Any:
    """``not value``"""
    truth = decided(value)
    if truth is not None:
        return not truth
    from symgrad.frontend.regions import predicate_of
    from symgrad.ops.pointwise import not_

    return wrap(not_(predicate_of(value, "the operand of not")), weak=True)


def compare(operators: tuple[str, ...], first: Any, second: Any, rest: tuple[Value, ...], place: Place, /) -> Any:
    """``first < second < ...``, where each operand is evaluated at most once."""
    for k, name in enumerate(operators):
        found = _OPERATORS[name](first, second)
        if k == len(rest):
            break
        truth = decided(found)
        if truth is None:
            return _traced_chain(found, operators[k + 1 :], second, rest[k:], place)
        if not truth:
            return found
        first, second = second, rest[k]()
    return found


def _traced_chain(found: Any, operators: Names, second: Any, rest: tuple[Value, ...], place: Place) -> Any:
    return _traced_choose(found, lambda: compare(operators, second, rest[0](), rest[1:], place), lambda: found, place)


def present(value: Any, /) -> Any:
    """The value of a variable that perhaps has none."""
    if type(value) is Poison:
        value.refuse()
    return value


class Control:
    """The hooks for control flow, to inherit."""

    branch = staticmethod(branch)
    repeat = staticmethod(repeat)
    each = staticmethod(each)
    choose = staticmethod(choose)
    both = staticmethod(both)
    either = staticmethod(either)
    negate = staticmethod(negate)
    compare = staticmethod(compare)
    check = staticmethod(check)
    present = staticmethod(present)


__all__ = ["CALLEES", "UNBOUND", "Control", "Poison", "TracedRange", "decided"]
