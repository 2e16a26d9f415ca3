"""Gradients of tensors: ``backward`` into the leaves, ``grad`` as values, and functions with rules of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.engine import accumulate, flow
from symgrad.tensor.function import Function as Function
from symgrad.tensor.modes import enable_grad as enable_grad
from symgrad.tensor.modes import is_grad_enabled as is_grad_enabled
from symgrad.tensor.modes import no_grad as no_grad
from symgrad.tensor.modes import set_grad_enabled as set_grad_enabled
from symgrad.tensor.program import cache_info as cache_info
from symgrad.tensor.program import record
from symgrad.tensor.tape import Cotangent, Edge
from symgrad.tensor.values import Value

__all__ = [
    "Function",
    "backward",
    "cache_info",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def listed(x: Any) -> list[Any]:
    """One tensor, None, or a sequence of them as a list."""
    return [x] if x is None or isinstance(x, BaseTensor) else list(x)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to ``grad`` of the leaves the gradients of ``tensors``, weighted by ``grad_tensors`` (None: one).

    The graph is freed unless ``retain_graph``. With ``create_graph`` the gradients can be differentiated again.
    """
    roots = seeded(listed(tensors), grad_tensors)
    retain = create_graph if retain_graph is None else bool(retain_graph)
    if inputs is None:
        flow(roots, retain=retain, create=create_graph, wanted=None, sink=accumulate)
        return
    wanted = listed(inputs)
    found = flow(roots, retain=retain, create=create_graph, wanted=[edge_of(x) for x in wanted], sink=accumulate)
    for x, ct in zip(wanted, found, strict=True):
        if ct is not None:
            accumulate(x, ct)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` in ``inputs``, as a tuple; nothing is added to ``grad``.

    RuntimeError when an input does not count, unless ``allow_unused``, which gives None.

    >>> import symgrad as sg
    >>> x = sg.tensor(3.0, requires_grad=True)
    >>> (g,) = sg.autograd.grad(x**3, x, create_graph=True)
    >>> sg.autograd.grad(g, x)
    (tensor(18.),)
    """
    wanted = listed(inputs)
    roots = seeded(listed(outputs), grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    found = flow(roots, retain=retain, create=create_graph, wanted=[edge_of(x) for x in wanted], sink=accumulate)
    for k, ct in enumerate(found):
        if ct is None and not allow_unused:
            raise RuntimeError(
                f"input {k} was not used to compute the outputs; with allow_unused=True its gradient is None"
            )
    return tuple(None if ct is None else type(x)._make(ct.value, ct.edge) for x, ct in zip(wanted, found, strict=True))


def edge_of(x: BaseTensor) -> Edge:
    """Where the gradient of a tensor arrives."""
    if not x.requires_grad or x._edge is None:
        raise RuntimeError("one of the differentiated tensors does not require grad")
    return x._edge


def seeded(tensors: Sequence[Any], seeds: Any) -> list[tuple[Edge, Cotangent]]:
    """The outputs to go back from, each with its seed."""
    given = [None] * len(tensors) if seeds is None else listed(seeds)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients for them")
    roots = []
    for x, seed in zip(tensors, given, strict=True):
        if not x.requires_grad or x._edge is None:
            raise RuntimeError("the tensor does not require grad and has no grad_fn, so there is no gradient of it")
        roots.append((x._edge, _seed(x, seed)))
    return roots


def _seed(x: BaseTensor, seed: Any) -> Cotangent:
    if seed is None:
        if math.prod(x._dims) != 1:
            raise RuntimeError(
                f"a gradient is made without a seed only for scalar outputs, this one has shape {x._dims}: "
                "reduce it to a number, or pass a tensor of its shape"
            )
        return Cotangent(ones_like(x))
    if not isinstance(seed, BaseTensor):
        seed = type(x)._make(as_value(seed, x.dtype))
    if seed._dims != x._dims:
        if math.prod(seed._dims) != 1 or math.prod(x._dims) != 1:
            raise RuntimeError(f"a gradient of shape {seed._dims} was given for a tensor of shape {x._dims}")
        seed = seed.reshape(x._dims)
    if seed.dtype != x.dtype:
        seed = seed.astype(x.dtype)
    return Cotangent(seed._value_now(), None, seed._edge)


def ones_like(x: BaseTensor) -> Value:
    """The seed of ones, part of the program."""
    return record(_ones, (x._value_now(),))[0][0]


def _ones(x: Any) -> Any:
    return np.ones_like(x)
