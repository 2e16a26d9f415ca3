"""Paddle's ``paddle.autograd``: seeds of ones by default, outputs keep their gradient, its types of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symgrad.tensor import autograd
from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.common import numel
from symgrad.tensor.function import Context, apply_rule
from symgrad.tensor.modes import no_grad
from symgrad.tensor.program import cache_info as cache_info
from symgrad.tensor.tape import FREED

__all__ = ["PyLayer", "PyLayerContext", "backward", "cache_info", "grad", "no_grad"]


def _seeds(tensors: list[Any], given: Any) -> list[Any]:
    """A seed for each tensor, ones where there is none."""
    seeds = [None] * len(tensors) if given is None else autograd.listed(given)
    if len(seeds) != len(tensors):
        raise AssertionError(f"got {len(tensors)} tensors and {len(seeds)} gradients for them")
    out: list[Any] = []
    for k, (x, seed) in enumerate(zip(tensors, seeds, strict=True)):
        if seed is not None and not isinstance(seed, BaseTensor):
            seed = type(x)._make(as_value(seed, x.dtype))
        if seed is not None and seed._dims != x._dims and (numel(seed), numel(x)) != (1, 1):
            raise AssertionError(f"gradient {k} has shape {seed._dims}, its tensor {x._dims}; they must be the same")
        out.append(type(x)._make(autograd.ones_like(x)) if seed is None else seed)
    return out


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Add gradients to the leaves, and set those of ``tensors`` themselves to their seeds.

    A tensor without gradient is passed over; freed graphs raise SystemError.
    """
    given = autograd.listed(tensors)
    if len({id(x) for x in given}) != len(given):
        raise AssertionError("backward: a tensor is given twice")
    pairs = [(x, s) for x, s in zip(given, _seeds(given, grad_tensors), strict=True) if not x.stop_gradient]
    if not pairs:
        return
    roots, seeds = [x for x, _ in pairs], [s for _, s in pairs]
    inner = [x for x in roots if not x.is_leaf]
    before = [(x, x._grad, x.retains_grad) for x in inner]
    for x in inner:
        x._grad = None
        x.retain_grad()
    try:
        with _freed_as_system_error():
            autograd.backward(roots, seeds, retain_graph=retain_graph)
    except BaseException:
        for x, old, _ in before:
            x._grad = old
        raise
    finally:
        for x, _, kept in before:
            if not kept:
                del x._edge.record.kept[x._edge.index]


@contextmanager
def _freed_as_system_error() -> Iterator[None]:
    try:
        yield
    except RuntimeError as e:
        if str(e) == FREED:
            raise SystemError(FREED) from None
        raise


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Any]:
    """The gradients of ``outputs`` in ``inputs``; ValueError when one does not count, unless ``allow_unused``."""
    roots = autograd.listed(outputs)
    with _freed_as_system_error():
        found = autograd.grad(roots, inputs, _seeds(roots, grad_outputs), retain_graph, create_graph, allow_unused=True)
    for k, g in enumerate(found):
        if g is None and not allow_unused:
            raise ValueError(
                f"input {k} was not used to compute the outputs; with allow_unused=True its gradient is None"
            )
    return list(found)


class PyLayerContext(Context):
    """The context of a ``PyLayer``."""

    def saved_tensor(self) -> tuple[Any, ...]:
        return self._get_saved()


class PyLayer:
    """A function with a rule of its own: ``forward(ctx, *args)`` and ``backward(ctx, *gradients)``, then ``apply``.

    ``backward`` gives one gradient for each argument that is a tensor.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **keywords: Any) -> Any:
        raise NotImplementedError("a PyLayer defines forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("a PyLayer defines backward(ctx, ...)")

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """The result on ``args``, with the rule attached."""
        return apply_rule(
            cls.forward, cls.backward, PyLayerContext(), args, keywords, name=cls.__name__, tensors_only=True,
            count_error=ValueError,
        )  # fmt: skip
