"""What rewritten ``if``, ``while``, ``for`` and their kin ask: Python's own meaning, or a part of the compiled program.

A condition that is known while tracing, which those of plain Python values are, is ordinary Python. Otherwise the parts
go to the traced side with ``get`` and ``put`` for the variables that they assign, closure cells that the parts
share with the user's function. Variables that nothing reads any more are unbound after each part.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.errors import TraceError
from symgrad.frontend import raising
from symgrad.frontend.lines import located
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.ranges import CALLEES, TracedRange, rollable
from symgrad.frontend.tracer import Tracer, constant_value, tracing, wrap

Run = Callable[..., Any]
Value = Callable[[], Any]
Names = tuple[str, ...]
Place = str

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


@dataclass(frozen=True, eq=False)
class Variables:
    """Variables of the user's function, as the closure cells of a part that declares them ``nonlocal``."""

    cells: tuple[types.CellType, ...]

    @staticmethod
    def of(part: Run, names: Names) -> Variables:
        assert isinstance(part, types.FunctionType)
        cells = dict(zip(part.__code__.co_freevars, part.__closure__ or (), strict=True))
        return Variables(tuple(cells[name] for name in names))

    def get(self) -> tuple[Any, ...]:
        return tuple(_contents(cell) for cell in self.cells)

    def put(self, values: Sequence[Any]) -> None:
        for cell, value in zip(self.cells, values, strict=True):
            if value is not UNBOUND:
                cell.cell_contents = value
            else:
                _empty(cell)

    def forget(self) -> None:
        for cell in self.cells:
            _empty(cell)

    def forgotten_after(self, part: Run) -> Run:
        def run(*args: Any) -> None:
            part(*args)
            self.forget()

        return run


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def _empty(cell: types.CellType) -> None:
    if _contents(cell) is not UNBOUND:
        del cell.cell_contents


def _nothing(*args: Any) -> None:
    """The arm that is not there."""


# --- statements ------------------------------------------------------------------------------------------------------


def branch(test: Any, then: Run, otherwise: Run | None, names: Names, dead: Names, place: Place, /) -> Run:
    """Return the arm to run, or a function that makes a branch of the program of both."""
    truth = decided(test)
    if truth is None:
        shared, unneeded = Variables.of(then, names), Variables.of(then, dead)
        return lambda: _traced_branch(test, then, otherwise or _nothing, shared, unneeded, names, place)
    return then if truth else otherwise or _nothing


def _traced_branch(
    test: Any, then: Run, otherwise: Run, shared: Variables, unneeded: Variables, names: Names, place: Place
) -> None:
    from symgrad.frontend.statements import traced_branch

    arms = unneeded.forgotten_after(then), unneeded.forgotten_after(otherwise)
    traced_branch(test, *arms, shared.get, shared.put, names, place)


def repeat(test: Value, body: Run, names: Names, dead: Names, place: Place, /) -> None:
    """Run ``body`` while ``test()`` holds; from where that is not known, as a loop of the program."""
    while True:
        truth = decided(test())
        if truth is None:
            break
        if not truth:
            return
        body()
    from symgrad.frontend.rolled import traced_repeat

    shared, unneeded = Variables.of(body, names), Variables.of(body, dead)
    unneeded.forget()
    traced_repeat(test, unneeded.forgotten_after(body), shared.get, shared.put, names, place)


def each(iterable: Any, body: Run, names: Names, dead: Names, place: Place, more: Value | None, /) -> None:
    """Run ``body`` on each item; as a loop of the program where there are many, and all alike."""
    if not tracing():
        return _all(iterable, body, more)
    shared, unneeded = Variables.of(body, names), Variables.of(body, dead)
    items = rollable(iterable, SHORT)
    if items is not None:
        from symgrad.frontend.rolled import traced_each

        unneeded.forget()
        step = unneeded.forgotten_after(items.stepping(body))
        if traced_each(items.over, step, shared.get, shared.put, names, place, more) is not NotImplemented:
            return None
    if more is None:
        return _all(iterable, body, more)
    return _unrolled(iterable, body, shared, unneeded, names, place, more)


def _all(iterable: Any, body: Run, more: Value | None) -> None:
    """Python's own loop."""
    for item in iterable:
        body(item)
        if more is not None and not more():
            return


def _unrolled(
    iterable: Any, body: Run, shared: Variables, unneeded: Variables, names: Names, place: Place, more: Value
) -> None:
    """All rounds one after the other; from where it is not known whether the loop has ended, each is a branch."""
    going: Any = True
    guarded = 0
    for item in iterable:
        if going is True:
            body(item)
        else:
            unneeded.forget()
            _traced_branch(going, functools.partial(body, item), _nothing, shared, unneeded, names, place)
            guarded += 1
        going = more()
        truth = decided(going)
        if truth is False:
            return
        going = going if truth is None else True
        if guarded > MOST_GUARDED:
            raise located(TraceError("the end of this loop depends on traced values only: use while, or a range"))


def check(test: Any, message: Value | None, place: Place, /) -> Any:
    """Return what ``assert`` should see: a condition that is not known yet is checked by the program."""
    truth = decided(test)
    if truth is not None:
        return truth

    def fail() -> None:
        raise AssertionError(*([message()] if message is not None else []))

    from symgrad.frontend.statements import traced_branch

    traced_branch(test, _nothing, fail, tuple, lambda values: None, (), place)
    return True


def handling(types: Value, /) -> Any:
    """Return a context in which what is raised may be caught by ``except types()``."""
    return raising.handling(types)


def manager(context: Any, /) -> Any:
    """Return the context manager to use for that of a ``with``."""
    return raising.noted(context)


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
    handling = staticmethod(handling)
    manager = staticmethod(manager)
    present = staticmethod(present)


__all__ = ["CALLEES", "UNBOUND", "Control", "Poison", "TracedRange", "decided"]
