"""Results of one example -> results of a batch of examples, primitive by primitive.

Every value has a batch axis, or none when it is the same for all examples. Pointwise primitives need no rule: their
operands come with the batch axis in front. The rule of a primitive with several results gives a node of several or a
sequence of nodes, and either one axis for all or one for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import dependents
from symgrad.ir.node import GET, Node, make
from symgrad.ir.op import Region
from symgrad.ir.types import Size
from symgrad.ops.views import batched

Batched = tuple[Node, int | None]


def batch(results: Sequence[Node], inputs: Mapping[Node, tuple[Node, int]], size: Size) -> list[Batched]:
    """``results`` with each node of ``inputs`` replaced by a batch of ``size`` of its kind along an axis."""
    return Batching()(results, inputs, size)


@dataclass(frozen=True, eq=False)
class Batching:
    """One batching, also of the graphs inside primitives.

    ``lanes``: for the trips of a loop that lanes leave at different times, which lanes were alive at each trip.
    """

    lanes: dict[str, Node] = field(default_factory=dict)

    def __call__(self, results: Sequence[Node], inputs: Mapping[Node, tuple[Node, int]], size: Size) -> list[Batched]:
        known: dict[Node, Any] = dict(inputs)
        for n in dependents(results, inputs):
            if n.op is GET:
                known[n] = _item(known[n.args[0]], n.attr("index"))
            else:
                known[n] = _batched_node(self, n, [known.get(a, (a, None)) for a in n.args], size)
        return [known.get(r, (r, None)) for r in results]


def _batched_node(batching: Batching, n: Node, operands: Sequence[Batched], size: Size) -> Any:
    op, attrs = n.op, dict(n.attrs)
    args, axes = tuple(a for a, _ in operands), tuple(axis for _, axis in operands)
    if all(axis is None for axis in axes):
        return make(op, *args, **attrs), None
    if op.prepare is not None:
        return make(op, *(batched(size, a, axis) for a, axis in operands), **attrs), 0
    if op.batch is None:
        raise UnsupportedError(f"vmap: {op.name} has no batching rule").at(n.where)
    transform = (batching,) if isinstance(op.lower, Region) else ()
    return op.batch(*transform, size, args, axes, **attrs)


def _item(several: tuple[Node | Sequence[Node], Sequence[int | None] | int | None], index: int) -> Batched:
    """One result of a primitive with several."""
    of, axes = several
    value = make(GET, of, index=index) if isinstance(of, Node) else of[index]
    return value, axes[index] if isinstance(axes, Sequence) else axes
