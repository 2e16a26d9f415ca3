"""Values whose derivative the user gives: the primal outputs, tied to the inputs by a rule.

``custom(*outputs, *inputs)`` has the outputs as its values. Differentiation asks the rule and ignores how the outputs
were computed; lowering forgets the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from symgrad.ir.node import Node, TupleType
from symgrad.ir.op import Leaf, Op, register
from symgrad.ir.types import Size, TensorType
from symgrad.ops.control import results_of
from symgrad.ops.views import batched


class Rule(Protocol):
    """What a custom rule answers, in nodes."""

    @property
    def name(self) -> str:
        """What messages call the rule."""

    def vjp(self, cts: Sequence[Node], outputs: Sequence[Node], inputs: Sequence[Node]) -> Sequence[Node | None]:
        """Cotangents of the inputs."""

    def jvp(
        self, tangents: Sequence[Node | None], outputs: Sequence[Node], inputs: Sequence[Node]
    ) -> Sequence[Node | None]:
        """Tangents of the outputs."""

    def batched(self, size: Size, types: Sequence[TensorType]) -> Rule:
        """The rule for arrays with one more leading axis, of length ``size``."""


def _vjp(cts: Any, y: Node, *args: Node, rule: Rule, outs: int) -> tuple[Node | None, ...]:
    return (*(None for _ in range(outs)), *rule.vjp(cts, args[:outs], args[outs:]))


def _jvp(tangents: Any, y: Node, *args: Node, rule: Rule, outs: int) -> Any:
    return rule.jvp(tangents[outs:], args[:outs], args[outs:])


def _batch(size: Size, args: Any, dims: Any, *, rule: Rule, outs: int) -> tuple[Node, int]:
    fronts = [batched(size, a, d) for a, d in zip(args, dims, strict=True)]
    types = [a.type.with_shape(s for k, s in enumerate(a.shape) if k != d) for a, d in zip(args, dims, strict=True)]
    return custom(*fronts, rule=rule.batched(size, types[outs:]), outs=outs), 0


custom: Op = register(
    Op(
        name="custom",
        doc="Outputs whose derivative with respect to the inputs is the user's.",
        infer=lambda *types, rule, outs: TupleType(types[:outs]),
        numpy=lambda *args, rule, outs: args[:outs],
        lower=Leaf(),
        vjp=_vjp,
        jvp=_jvp,
        batch=_batch,
    )
)


def outputs_of(outputs: Sequence[Node], inputs: Sequence[Node], rule: Rule) -> list[Node]:
    """The outputs under a rule."""
    return results_of(custom(*outputs, *inputs, rule=rule, outs=len(outputs)))
