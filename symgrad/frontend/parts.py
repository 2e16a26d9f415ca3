"""One run of a part of the user's function: what its variables were before and after, and the arrays it changed.

A part is an arm of a branch or the body of a loop. It is run while it is traced, and what it did is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.frontend.cell import tangle
from symgrad.frontend.containers import run_unchanged
from symgrad.frontend.poison import UNBOUND, Poison
from symgrad.frontend.raising import goes_on
from symgrad.frontend.tracer import Tracer, value, wrap
from symgrad.frontend.tracing import holding, run_number, watching_writes
from symgrad.frontend.tree import flatten, tree_map
from symgrad.ir.node import Node
from symgrad.ops.kinds import zeros

Function = Callable[..., Any]
Get = Callable[[], tuple[Any, ...]]
Put = Callable[[Sequence[Any]], None]


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
        return roots(self.after[k])

    def is_outside(self, root: Tracer) -> bool:
        """Whether an array is not one that the part made."""
        return root.born != self.number


def roots(variable: Any) -> list[Tracer | None]:
    return [root_of(leaf) for leaf in flatten(variable)[0]]


def root_of(leaf: Any) -> Tracer | None:
    return leaf.root if type(leaf) is Tracer and not leaf.fixed else None


def snapshot(leaf: Any) -> Any:
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
            values = tuple(tree_map(snapshot, v) for v in after)
            cells = {k: (cell, old, cell.node) for k, (cell, old) in log.items()}
    finally:
        variables.put(before)
    return Arm(number, after, values, not answers[0], cells)


def tangle_results(arm: Arm, results: Sequence[tuple[int, Sequence[Any]]], place: str) -> None:
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


def at(statement: str, place: str) -> str:
    """A statement as messages call it."""
    return f"the {statement} at {place}"


def filled(x: Any, other: Any) -> Any:
    """A result that one arm does not give: zeros like that of the other, which nobody reads."""
    return x if x is not UNBOUND and type(x) is not Poison else tree_map(like, other)


def like(leaf: Any) -> Any:
    """Zeros of the type of a variable that gets its first value inside a loop."""
    node = value(leaf)
    return wrap(zeros(node.shape, node.dtype), weak=type(leaf) is Tracer and leaf.weak)
