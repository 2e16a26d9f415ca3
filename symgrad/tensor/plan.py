"""A whole backward as one step of the pending segment, when all it passes was recorded there and nobody looks on.

What backward does is then a function of which steps lead to which: the *route*. It goes into the tree of states like
an operation does, so that a repeated backward is one look-up after a walk over the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.tensor import program
from symgrad.tensor.tape import Cotangent, Edge, Leaf, Record, Step

Route = tuple[object, ...]
Roots = Sequence[tuple[Edge, Cotangent]]


def route(roots: Roots, steps: Sequence[Step]) -> tuple[Route, list[Leaf], list[Edge]] | None:
    """How gradients go, in positions of the pending segment, and where they arrive: the leaves in the order that they
    are met, and the edges whose tensors keep their gradient.

    None when a step was not recorded there, or when hooks see the gradients on their way.
    """
    segment = program.pending()
    leaves: dict[Step, int] = {}
    keeping: list[Edge] = []
    key: list[object] = ["backward"]
    for (step, index), ct in roots:
        if type(step) is not Record or ct.mask is not None or ct.value.segment is not segment:
            return None
        key += (step.position + index, ct.value.position)
    for step in steps:
        if step.hooks:
            return None
        if type(step) is Record:
            if step.segment is not segment:
                return None
            key.append(step.position)
            if step.kept:
                keeping += [Edge(step, k) for k in step.kept]
                key += ("kept", *step.kept)
            for edge in step.edges:
                if edge is None:
                    key.append(-1)
                    continue
                below, index = edge
                if type(below) is Record:
                    key.append(below.position + index)
                else:
                    key.append(-2 - leaves.setdefault(below, len(leaves)))
        elif type(step) is not Leaf or step.kept:
            return None
    return tuple(key), list(leaves), keeping  # type: ignore[arg-type]  # only leaves and records are left
