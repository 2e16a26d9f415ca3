"""Functions on tensors with a backward rule of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.frontend.tracing import tracing
from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.modes import MODE, no_grad
from symgrad.tensor.tape import FREED, Cotangent, Edge, Step
from symgrad.tensor.values import Value


class Context:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attributes."""

    _marked: tuple[BaseTensor, ...] = ()
    _tensors: tuple[Any, ...] = ()
    _saved: list[Any] | None = None
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors as they are now."""
        self._tensors = tensors

    def mark_non_differentiable(self, *tensors: BaseTensor) -> None:
        """Say that results have no gradient."""
        self._marked = tensors

    def _get_saved(self) -> tuple[Any, ...]:
        if self._saved is None:
            raise RuntimeError(FREED)
        return tuple(kind._make(value, edge) if kind else value for kind, value, edge in self._saved)


class FunctionStep(Step):
    """One call of a function with its own rule."""

    __slots__ = ("backward", "context", "count_error", "function_name", "shapes")

    context: Any
    function_name: str
    count_error: type[Exception]
    backward: Callable[..., Any]
    shapes: list[tuple[tuple[int, ...], Any]]

    def __repr__(self) -> str:
        return f"<{self.function_name}Backward>"

    def check(self) -> None:
        if self.context is None:
            raise RuntimeError(FREED)

    def free(self) -> None:
        self.context = None

    def pull(self, cts: dict[int, Cotangent]) -> Sequence[Cotangent | None]:
        self.check()
        grads = [self._given(cts.get(k), *shape) for k, shape in enumerate(self.shapes)]
        result = self.backward(self.context, *grads)
        given = list(result) if isinstance(result, tuple | list) else [result]
        while len(given) > len(self.edges) and given[-1] is None:
            given.pop()
        if len(given) != len(self.edges):
            raise self.count_error(
                f"{self.function_name}.backward returned {len(given)} gradients, forward took {len(self.edges)} inputs"
            )
        return [None if e is None else self._taken(g) for g, e in zip(given, self.edges, strict=True)]

    def _given(self, ct: Cotangent | None, shape: tuple[int, ...], dtype: Any) -> BaseTensor:
        if ct is not None:
            return self.like._make(ct.value, ct.edge)
        return self.like._make(Value(np.zeros(shape, dtype)))

    def _taken(self, g: Any) -> Cotangent | None:
        if g is None:
            return None
        if not isinstance(g, BaseTensor):
            g = self.like._make(as_value(g))
        return Cotangent(g._value_now(), None, g._edge)


def apply_rule(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    context: Any,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    *,
    name: str,
    tensors_only: bool,
    count_error: type[Exception],
) -> Any:
    """Run ``forward(context, *args)`` unrecorded and connect its results to ``backward``.

    Gradients belong to all arguments, or with ``tensors_only`` to those that are tensors.
    """
    inputs = [a for a in args if isinstance(a, BaseTensor)]
    edges = [a._edge if a.requires_grad and MODE.enabled else None for a in inputs]
    every = iter(edges)
    per_argument = [next(every) if isinstance(a, BaseTensor) else None for a in args]
    context.needs_input_grad = tuple(e is not None for e in per_argument)
    with no_grad():
        result = forward(context, *args, **keywords)
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    if not any(edges) or tracing():
        context._saved = [_kept(t, outputs, None, ()) for t in context._tensors]
        return result
    like = type(next(a for a, e in zip(inputs, edges, strict=True) if e is not None))
    step = FunctionStep(tuple(edges if tensors_only else per_argument), like)
    step.function_name, step.backward, step.count_error = name, backward, count_error
    step.shapes = [(o._dims, o.dtype) if isinstance(o, BaseTensor) else ((), float) for o in outputs]
    context._saved = [_kept(t, outputs, step, inputs) for t in context._tensors]
    context._tensors = ()
    step.context = context
    made = [
        o
        if not isinstance(o, BaseTensor) or o.dtype.kind != "f" or any(o is m for m in context._marked)
        else type(o)._make(o._value_now(), Edge(step, k))
        for k, o in enumerate(outputs)
    ]
    return type(result)(made) if isinstance(result, tuple | list) else made[0]


def _kept(t: Any, outputs: Sequence[Any], step: Step | None, inputs: Sequence[BaseTensor]) -> tuple[Any, Any, Any]:
    """A saved tensor: its class, value and edge."""
    if not isinstance(t, BaseTensor):
        return None, t, None
    edge = t._edge if any(t is x for x in inputs) else None
    for k, o in enumerate(outputs):
        if o is t and step is not None and edge is None:
            edge = Edge(step, k)
    return type(t), t._value_now(), edge


class FunctionContext(Context):
    """The context of a ``Function``."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._get_saved()


class Function:
    """A function with a rule of its own: subclass it with static methods and call ``apply``.

    ``forward(ctx, *args)`` computes the result, unrecorded; ``backward(ctx, *gradients)`` gives one gradient for each
    argument, None where there is none.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("a Function defines forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("a Function defines backward(ctx, ...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result on ``args``, with the rule attached."""
        return apply_rule(
            cls.forward, cls.backward, FunctionContext(), args, {}, name=cls.__name__, tensors_only=False,
            count_error=RuntimeError,
        )  # fmt: skip
