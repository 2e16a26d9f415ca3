"""Numbered temporaries -> lines to read: steps of one recurrence become one line with an index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

SHORTEST = 4  # steps that make a recurrence
LONGEST_STEP = 16  # definitions
NEAR = 2  # references this far back are to the previous steps; farther ones run the other way, as in a reverse sweep
NUMBERED = re.compile(r"t(\d+)")


@dataclass(frozen=True, slots=True)
class Line:
    """``head = body``, for the steps in ``steps`` when it is a recurrence."""

    head: Any
    body: Any
    depth: int = 0
    steps: str = ""

    def __str__(self) -> str:
        return f"{'    ' * self.depth}{self.head} = {self.body}{self.steps}"


def rolled(definitions: Sequence[tuple[Any, Any]], names: Sequence[str]) -> Iterator[Line]:
    """Definitions in order, runs of one pattern as one line, or as one line for each definition in a step."""
    index = sp.Symbol(next(n for n in ("k", "i", "j", "step") if n not in names), integer=True)
    at = 0
    while at < len(definitions):
        run = _run(definitions[at:], index)
        if run.count < SHORTEST:
            yield Line(*definitions[at], depth=1)
            at += 1
            continue
        for k, body in enumerate(run.bodies):
            last = k == len(run.bodies) - 1
            yield Line(_base()[index + k], body, 1, run.steps(index) if last else "")
        at += run.count * len(run.bodies)


def indexed(e: Any) -> Any:
    """``e`` with numbered temporaries written as elements of a sequence."""
    return e.xreplace({s: _base()[n] for s in e.free_symbols if (n := _number(s)) is not None})


def _base() -> Any:
    return sp.IndexedBase("t", real=True)


def _number(s: Any) -> int | None:
    found = NUMBERED.fullmatch(str(s))
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class _Run:
    """A step of some definitions, from number ``first`` on, and how often it comes in a row."""

    bodies: tuple[Any, ...]
    first: int
    count: int

    def steps(self, index: Any) -> str:
        period = len(self.bodies)
        numbers = [self.first + k * period for k in range(self.count)]
        shown = numbers[:1] if period == 1 else numbers[:2]
        return f" for {index} = {', '.join(map(str, shown))}, …, {numbers[-1]}"


def _run(definitions: Sequence[tuple[Any, Any]], index: Any) -> _Run:
    """The longest run that begins here, of the fewest definitions in a step."""
    first = _number(definitions[0][0])
    best = _Run((definitions[0][1],), 0, 1)
    if first is None:
        return best
    length = next((k for k, (s, _) in enumerate(definitions) if _number(s) != first + k), len(definitions))
    for period in range(1, min(LONGEST_STEP, length // SHORTEST) + 1):
        for near in (max(NEAR, 2 * period), length + first):
            found = _repeated([e for _, e in definitions[:length]], first, period, index, near)
            if found.count >= SHORTEST and found.count * period > best.count * len(best.bodies):
                best = found
        if best.count * len(best.bodies) > length - period:
            break  # nothing longer can come
    return best


def _repeated(bodies: Sequence[Any], first: int, period: int, index: Any, near: int) -> _Run:
    def step(k: int) -> tuple[Any, ...]:
        here = first + k * period
        return tuple(_pattern(e, here, index, near) for e in bodies[k * period : (k + 1) * period])

    pattern, count = step(0), 1
    while (count + 1) * period <= len(bodies) and step(count) == pattern:
        count += 1
    return _Run(pattern, first, count)


def _pattern(e: Any, here: int, index: Any, near: int) -> Any:
    """``e`` with references as offsets from its own number; far ones as what they add up to with it."""
    places = {}
    for s in e.free_symbols:
        n = _number(s)
        if n is not None:
            places[s] = _base()[index - (here - n) if here - n <= near else here + n - index]
    return e.xreplace(places)
