"""Numbered temporaries -> lines to read: steps of one recurrence become one line with an index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

SHORTEST = 4  # steps that make a recurrence
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
    """Definitions in order, runs of one pattern as one line."""
    index = sp.Symbol(next(n for n in ("k", "i", "j", "step") if n not in names), integer=True)
    at = 0
    while at < len(definitions):
        body, length = _run(definitions[at:], index)
        first = _number(definitions[at][0])
        if length < SHORTEST or first is None:
            yield Line(*definitions[at], depth=1)
            at += 1
            continue
        yield Line(_base()[index], body, 1, f" for {index} = {first}, …, {first + length - 1}")
        at += length


def indexed(e: Any) -> Any:
    """``e`` with numbered temporaries written as elements of a sequence."""
    return e.xreplace({s: _base()[n] for s in e.free_symbols if (n := _number(s)) is not None})


def _base() -> Any:
    return sp.IndexedBase("t", real=True)


def _number(s: Any) -> int | None:
    found = NUMBERED.fullmatch(str(s))
    return int(found[1]) if found else None


def _run(definitions: Sequence[tuple[Any, Any]], index: Any) -> tuple[Any, int]:
    """The pattern of the first definition and how many in a row have it."""
    first = _number(definitions[0][0])
    if first is None:
        return definitions[0][1], 1
    best = definitions[0][1], 1
    for near in (NEAR, len(definitions) + first):
        body = _pattern(definitions[0][1], first, index, near)
        length = 1
        for s, e in definitions[1:]:
            n = _number(s)
            if n != first + length or _pattern(e, n, index, near) != body:
                break
            length += 1
        if length > best[1]:
            best = body, length
    return best


def _pattern(e: Any, here: int, index: Any, near: int) -> Any:
    """``e`` with references as offsets from its own number; far ones as what they add up to with it."""
    places = {}
    for s in e.free_symbols:
        n = _number(s)
        if n is not None:
            places[s] = _base()[index - (here - n) if here - n <= near else here + n - index]
    return e.xreplace(places)
