"""What a tensor was computed from, and how gradients go back along it.

A ``Record`` is one recorded operation: the values that its pullback reads, and for each operand an edge to the record
that made it (None: no gradient). ``Leaf`` ends the walk at a tensor that collects its gradient. Values are immutable,
so what a record saved is what the operation saw, whatever was overwritten since.
"""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.autodiff.rules import Linear
from symgrad.autodiff.rules import add as added
from symgrad.frontend.tracer import wrap
from symgrad.tensor.modes import MODE
from symgrad.tensor.operations import Flags, Operation
from symgrad.tensor.program import record
from symgrad.tensor.values import Value

if TYPE_CHECKING:
    from symgrad.tensor.base import BaseTensor

FREED = (
    "the graph was freed by an earlier backward through it: say retain_graph=True there to go backward a second time"
)
_serial = itertools.count()


class Edge(NamedTuple):
    """A result of a record."""

    record: Step
    index: int  # type: ignore[assignment]  # hides the method of tuples, which nobody needs here


class Cotangent(NamedTuple):
    """What flows back: a value, the mask of what contributes to it, and what it was computed from."""

    value: Value
    mask: Value | None = None
    edge: Edge | None = None


class Step(ABC):
    """A place where gradients pass. ``hooks`` and ``kept`` belong to its results, by their index."""

    __slots__ = ("__weakref__", "edges", "hooks", "kept", "like", "serial")

    edges: tuple[Edge | None, ...]

    def __init__(self, edges: tuple[Edge | None, ...], like: type[BaseTensor]) -> None:
        self.edges = edges
        self.like = like
        self.serial = next(_serial)
        self.hooks: dict[int, dict[int, Callable[[Any], Any]]] | None = None
        self.kept: dict[int, weakref.ref[BaseTensor]] | None = None

    @abstractmethod
    def check(self) -> None:
        """Raise RuntimeError when it has been freed."""

    @abstractmethod
    def pull(self, cts: dict[int, Cotangent]) -> Sequence[Cotangent | None]:
        """Cotangents of the operands from those of the results."""

    @abstractmethod
    def free(self) -> None:
        """Let go of what was saved."""

    @property
    def next_functions(self) -> tuple[tuple[Step | None, int], ...]:
        """The steps that the operands came from, with the position of the result there."""
        return tuple((None, 0) if e is None else (e.record, e.index) for e in self.edges)


class Leaf(Step):
    """Where the gradient of a leaf arrives."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        super().__init__((), type(tensor))
        self.tensor = weakref.ref(tensor)
        self.serial = -1  # after everything else

    def check(self) -> None:
        return None

    def pull(self, cts: dict[int, Cotangent]) -> Sequence[Cotangent | None]:
        return ()

    def free(self) -> None:
        return None


class Record(Step):
    """One recorded operation."""

    __slots__ = ("active", "operation", "position", "saved", "segment")

    def __init__(
        self,
        operation: Operation,
        values: Sequence[Value],
        first: Value,
        edges: tuple[Edge | None, ...],
        active: Flags,
        like: type[BaseTensor],
    ) -> None:
        """``values`` are the operands followed by the results, ``first`` the first of these."""
        # as the base class does, written out: this is the cost of an operation
        self.edges = edges
        self.like = like
        self.serial = next(_serial)
        self.hooks = self.kept = None
        self.segment, self.position = first.segment, first.position
        self.operation = operation
        self.active = active
        saving = operation._saving.get(active)
        if saving is None:
            saving = operation.saving(active)
        self.saved: tuple[Any, ...] | None
        if not saving:
            self.saved = ()
        elif len(saving) == 1:
            self.saved = (values[saving[0]],)
        elif len(saving) == 2:
            self.saved = (values[saving[0]], values[saving[1]])
        else:
            self.saved = tuple([values[k] for k in saving])

    def name(self) -> str:
        return f"{self.operation.name}Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def check(self) -> None:
        if self.saved is None:
            raise RuntimeError(FREED)

    def free(self) -> None:
        if self.saved:
            self.saved = None

    def pull(self, cts: dict[int, Cotangent]) -> Sequence[Cotangent | None]:
        self.check()
        assert self.saved is not None
        count = len(self.operation.graph.results)
        given = [cts.get(k) for k in range(count)]
        present = tuple([c is not None for c in given])
        masked = tuple([c is not None and c.mask is not None for c in given])
        pullback = self.operation.pullback(self.active, present, masked)
        flowing = [c for c in given if c is not None]
        operands = [*self.saved, *(c.value for c in flowing), *(c.mask for c in flowing if c.mask is not None)]
        results, operation = record(pullback.operation, operands)
        step = None
        if MODE.enabled:
            edges = (*self._saved_edges(), *(c.edge for c in flowing), *(None for m in masked if m))
            step = recorded(operation, operands, results, edges, self.like) if any(edges) else None
        return [
            None
            if r is None
            else Cotangent(
                results[r[0]], None if r[1] is None else results[r[1]], None if step is None else Edge(step, r[0])
            )
            for r in pullback.results
        ]

    def _saved_edges(self) -> list[Edge | None]:
        saved = self.operation.saved(self.active)
        return [*(self.edges[k] for k in saved.operands), *(Edge(self, k) for k in saved.results)]


def recorded(
    operation: Operation | None,
    operands: Sequence[Any],
    results: Sequence[Value],
    edges: Sequence[Edge | None],
    like: type[BaseTensor],
) -> Record | None:
    """The record of an operation on operands of which one has an edge, when some result is a float."""
    if operation is None or True not in operation.floats:
        return None
    active = tuple([e is not None for e in edges])
    return Record(operation, (*operands, *results), results[0], tuple(edges), active, like)


# --- adding up -------------------------------------------------------------------------------------------------------


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _plus_masked(a: Any, b: Any, am: Any, bm: Any) -> Any:
    total = added(Linear(a.node, am.node), Linear(b.node, bm.node))
    assert total.mask is not None
    return wrap(total.value, fixed=False), wrap(total.mask, fixed=False)


def plus(a: Cotangent, b: Cotangent, like: type[BaseTensor]) -> Cotangent:
    """The sum of two contributions."""
    if a.mask is not None and b.mask is not None:
        operands: tuple[Value, ...] = (a.value, b.value, a.mask, b.mask)
        results, operation = record(_plus_masked, operands)
        mask: Value | None = results[1]
    else:
        operands = (a.value, b.value)
        results, operation = record(_plus, operands)
        mask = None
    if not MODE.enabled or (a.edge is None and b.edge is None):
        return Cotangent(results[0], mask)
    edges = (a.edge, b.edge, *(None for _ in operands[2:]))
    step = recorded(operation, operands, results, edges, like)
    return Cotangent(results[0], mask, None if step is None else Edge(step, 0))
