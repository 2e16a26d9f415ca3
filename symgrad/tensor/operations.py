"""Functions of traced arrays -> operations: small interned Graphs with their pullbacks, the steps that tensors record.

An operation is made once for a function and the types of its operands. ``pullback`` gives the operation that computes
the cotangents of its operands; it reads only those operands and results that ``saved`` names. As it is an operation
itself, it can be recorded and pulled back again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from symgrad.autodiff.reverse import pull_masked
from symgrad.autodiff.rules import Linear
from symgrad.frontend import functions  # noqa: F401  # fills the table of what NumPy's functions mean
from symgrad.frontend.lines import where
from symgrad.frontend.tracer import Tracer, call, value, wrap
from symgrad.ir.graph import Graph, inline, substitute, topological
from symgrad.ir.node import PARAM, Node, param, region_scope, set_locator
from symgrad.ir.types import TensorType, boolean
from symgrad.ops.kinds import broadcast_to, number, zeros

Flags = tuple[bool, ...]
_nodes: Any = weakref.WeakValueDictionary()


def apart() -> AbstractContextManager[None]:
    """Nodes made inside are shared with each other only: they live long, and others do not see that they are there."""
    return region_scope(_nodes)


Function = Callable[..., Any]  # of traced arrays


@dataclass(frozen=True, slots=True)
class Saved:
    """The positions of the operands and results that some pullback reads."""

    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Pullback:
    """``operation(*saved operands, *saved results, *cotangents, *masks)`` -> ``results``.

    ``results[k]`` belongs to operand k: None, or the positions of a cotangent and of its mask (None: no mask).
    """

    operation: Operation
    results: tuple[tuple[int, int | None] | None, ...]


@dataclass(eq=False)
class Operation:
    """One step of a tensor program: ``graph`` has only its operands as leaves, and constants.

    ``floats`` says which results are floating-point, so that gradients pass.
    """

    name: str
    graph: Graph
    several: bool  # whether it gives a tuple
    floats: Flags = field(init=False)
    _saved: dict[Flags, Saved] = field(default_factory=dict)
    _saving: dict[Flags, tuple[int, ...]] = field(default_factory=dict)
    _pullbacks: dict[tuple[Flags, Flags, Flags], Pullback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.floats = tuple(r.dtype.is_float for r in self.graph.results)

    def applied(self, nodes: Sequence[Node]) -> list[Node]:
        """The results on other nodes."""
        return inline(self.graph, *nodes)

    def saved(self, active: Flags) -> Saved:
        """What the pullback to the ``active`` operands reads, with masks and without."""
        found = self._saved.get(active)
        if found is None:
            used: set[Node] = set()
            stand_ins = self._stand_ins()
            every = (True,) * len(self.graph.results)
            with apart():
                for masked in (every, (False,) * len(every)):
                    parts, _ = self._pulled(active, every, masked, stand_ins)
                    used |= {n for n in topological(parts) if n.op is PARAM}
            found = Saved(
                tuple(k for k, p in enumerate(self.graph.params) if p in used),
                tuple(k for k, s in enumerate(stand_ins) if s in used),
            )
            self._saved[active] = found
        return found

    def saving(self, active: Flags) -> tuple[int, ...]:
        """``saved`` as positions in the operands followed by the results."""
        found = self._saving.get(active)
        if found is None:
            saved, first = self.saved(active), len(self.graph.params)
            found = self._saving[active] = (*saved.operands, *(first + k for k in saved.results))
        return found

    def pullback(self, active: Flags, present: Flags, masked: Flags) -> Pullback:
        """From cotangents of the ``present`` results, some with masks, to those of the ``active`` operands."""
        key = (active, present, masked)
        found = self._pullbacks.get(key)
        if found is None:
            stand_ins, saved = self._stand_ins(), self.saved(active)
            seeds: list[Node] = []
            with apart():
                parts, layout = self._pulled(active, present, masked, stand_ins, seeds)
            kept = [*(self.graph.params[k] for k in saved.operands), *(stand_ins[k] for k in saved.results)]
            graph = Graph((*kept, *seeds), tuple(parts))
            found = self._pullbacks[key] = Pullback(Operation(f"{self.name}'", graph, True), layout)
        return found

    def _stand_ins(self) -> list[Node]:
        """Parameters for the results, which need not be computed again."""
        return [param(r.type) for r in self.graph.results]

    def _pulled(
        self,
        active: Flags,
        present: Flags,
        masked: Flags,
        stand_ins: Sequence[Node],
        seeds: list[Node] | None = None,
    ) -> tuple[list[Node], tuple[tuple[int, int | None] | None, ...]]:
        results, params = self.graph.results, self.graph.params
        values = [param(r.type) if here else None for r, here in zip(results, present, strict=True)]
        masks = [param(TensorType(boolean, r.shape)) if m else None for r, m in zip(results, masked, strict=True)]
        if seeds is not None:
            seeds += [n for n in (*values, *masks) if n is not None]
        cts = [None if v is None else Linear(v, m) for v, m in zip(values, masks, strict=True)]
        wrt = [p for p, a in zip(params, active, strict=True) if a]
        pulled = iter(pull_masked(results, cts, wrt))
        parts: list[Node] = []
        layout: list[tuple[int, int | None] | None] = []
        for p, a in zip(params, active, strict=True):
            if not a:
                layout.append(None)
                continue
            ct = next(pulled) or _nothing(p)
            layout.append((len(parts), None if ct.mask is None else len(parts) + 1))
            parts += [ct.value] if ct.mask is None else [ct.value, ct.mask]
        known = {r: s for r, s in zip(results, stand_ins, strict=True) if r.args}
        return substitute(parts, known), tuple(layout)


def _nothing(p: Node) -> Linear:
    """The cotangent of an operand that the results do not depend on, as those of ``sign``: zeros, all masked."""
    return Linear(zeros(p.shape, p.dtype), broadcast_to(number(False, boolean), p.shape))


_operations: dict[Any, Operation] = {}
_MOST = 20_000


def operation(function: Function, types: Sequence[TensorType], weak: Flags) -> Operation:
    """The operation that ``function`` is on operands of these types; ``weak`` ones are Python numbers."""
    key = (function, tuple(types), weak)
    found = _operations.get(key)
    if found is None:
        params = tuple(param(t) for t in types)
        with apart():
            results, several = applied(function, params, weak)
        found = Operation(getattr(function, "__name__", "op"), Graph(params, results), several)
        if len(_operations) >= _MOST:
            _operations.clear()
        _operations[key] = found
    return found


def applied(function: Function, nodes: Sequence[Node], weak: Flags) -> tuple[tuple[Node, ...], bool]:
    """The results of a function of traced arrays on nodes, and whether it gave a tuple; errors carry lines."""
    locator = set_locator(where)
    try:
        out = call(function, *(Tracer(n, weak=w) for n, w in zip(nodes, weak, strict=True)))
    finally:
        set_locator(locator)
    several = isinstance(out, tuple | list)
    return tuple(value(x) for x in (out if several else (out,))), several


class Slot:
    """Stands for an operand among arguments that are part of the operation."""

    def __repr__(self) -> str:
        return "·"


SLOT = Slot()


class Bound:
    """A function with all arguments fixed but those at a ``Slot``, also in lists and tuples."""

    __slots__ = ("__name__", "args", "function", "keywords")

    def __init__(self, function: Function, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function, self.args, self.keywords = function, args, keywords
        operator = args[0] if args and isinstance(args[0], str) else None
        self.__name__ = operator or getattr(function, "__name__", "op")

    def __call__(self, *operands: Tracer) -> Any:
        rest = iter(operands)
        return self.function(*_filled(self.args, rest), **{k: _filled(v, rest) for k, v in self.keywords.items()})


def _filled(x: Any, operands: Any) -> Any:
    if x is SLOT:
        return next(operands)
    if type(x) in (tuple, list):
        return type(x)(_filled(item, operands) for item in x)
    return x


_bound: dict[Any, Function] = {}


def bound(function: Function, args: tuple[Any, ...], keywords: dict[str, Any]) -> Function:
    """``function`` with fixed arguments, the same object for the same ones."""
    key = (function, hashable(args), tuple((k, hashable(v)) for k, v in keywords.items()))
    found = _bound.get(key)
    if found is None:
        if len(_bound) >= _MOST:
            _bound.clear()
        found = _bound[key] = Bound(function, args, keywords)
    return found


def hashable(x: Any) -> Any:
    """A key that tells arguments apart by type and value."""
    if type(x) in (tuple, list):
        return type(x), tuple(hashable(item) for item in x)
    if isinstance(x, slice):
        return slice, hashable(x.start), hashable(x.stop), hashable(x.step)
    if x is None or x is Ellipsis or x is SLOT:
        return id(x)
    return type(x), repr(x) if isinstance(x, float) else x


def fresh(x: Tracer) -> Tracer:
    """The value as an array of its own."""
    return wrap(x.node, fixed=False)
