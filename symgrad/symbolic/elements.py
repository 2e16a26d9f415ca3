"""Graph over arrays of Python objects: every float is an exact or high-precision scalar instead of a machine number.

What the scalars are is a ``Scalars``: sympy expressions (``bridge``) or mpmath numbers (``precise``). Primitives that
only move and add elements run through their NumPy reference, which works on objects as it does on numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, map_attribute
from symgrad.ir.node import CONSTANT, GET, SIZE, Node, TupleType, literal, param
from symgrad.ir.op import REGISTRY, Expand, Op, Region
from symgrad.ir.types import Dim, DType, Shape, Size, TensorType, boolean, evaluate_size

EXTREMES = {"max": "maximum", "min": "minimum"}


class Scalars(Protocol):
    """One kind of scalar: how its literals are written and what a pointwise primitive does to it."""

    def literal(self, value: Any, dtype: DType) -> Any:
        """A NumPy scalar as an element."""

    def function(self, op: Op, attrs: dict[str, Any], types: Sequence[TensorType]) -> Callable[..., Any] | None:
        """What a pointwise primitive does to elements; None when it has no form of this kind."""

    def array(self, values: Any, dtype: DType) -> Any:
        """Values as they come out of a NumPy reference, as an array of elements; TypeError when they are not."""

    def positions(self, values: Any) -> Any:
        """Elements of an integer array as machine integers; TypeError when they are not known numbers."""


def bind_sizes(graph: Graph, arrays: Sequence[Any]) -> dict[str, int]:
    """The lengths of the named sizes that are axes of the arguments."""
    known: dict[str, int] = {}
    for p, a in zip(graph.params, arrays, strict=True):
        for size, length in zip(p.shape, np.shape(a), strict=True):
            if isinstance(size, Dim) and size.terms == (((str(size),), 1),):
                known[str(size)] = length
    return known


def fixed(shape: Shape) -> tuple[int, ...]:
    """A shape without free sizes."""
    return tuple(evaluate_size(s, {}) for s in shape)


def evaluate_elements(
    graph: Graph,
    args: Sequence[Any],
    scalars: Scalars,
    *,
    sizes: dict[str, int] | None = None,
    keep: Callable[[Node, Any], Any] | None = None,
) -> list[Any]:
    """The results of ``graph`` on arrays of elements; ``keep`` sees each value and may put another in its place.

    UnsupportedError names the primitive that cannot be done.
    """
    known = bind_sizes(graph, args) | (sizes or {})
    env: dict[Node, Any] = dict(zip(graph.params, args, strict=True))
    for n in graph.nodes():
        if n not in env:
            value = _emit(n, tuple(env[a] for a in n.args), scalars, known)
            env[n] = value if keep is None else keep(n, value)
    return [env[r] for r in graph.results]


def _emit(n: Node, args: tuple[Any, ...], scalars: Scalars, sizes: dict[str, int]) -> Any:
    def number(size: Size) -> Size:
        return evaluate_size(size, sizes)

    attrs = {k: map_attribute(v, number) for k, v in n.attrs}
    if n.op is CONSTANT:
        return elementwise(lambda v: scalars.literal(v, n.dtype), literal(n))
    if n.op is SIZE:
        return scalars.array(np.int64(attrs["size"]), n.dtype)
    if n.op is GET:
        return args[0][attrs["index"]]
    if n.op.prepare is not None:
        function = scalars.function(n.op, attrs, [a.type for a in n.args])
        if function is not None:
            return scalars.array(elementwise(function, *args), n.dtype)
    if isinstance(n.op.lower, Expand):
        return _expanded(n, args, scalars, sizes)
    if n.op.prepare is not None:
        raise UnsupportedError(f"{n.op.name} has no symbolic form")
    return _moved(n, args, attrs, scalars)


def _expanded(n: Node, args: tuple[Any, ...], scalars: Scalars, sizes: dict[str, int]) -> Any:
    assert isinstance(n.op.lower, Expand)
    params = tuple(param(a.type) for a in n.args)
    inner = Graph(params, (n.op.lower.build(*params, **dict(n.attrs)),))
    return evaluate_elements(inner, args, scalars, sizes=sizes)[0]


def _moved(n: Node, args: tuple[Any, ...], attrs: dict[str, Any], scalars: Scalars) -> Any:
    """A primitive that is not pointwise, by its NumPy reference."""
    if isinstance(n.op.lower, Region):
        raise UnsupportedError("a compiled branch or loop has no symbolic form")
    reduction = "or" if n.op.name == "sum" and n.dtype == boolean else EXTREMES.get(n.op.name)
    try:
        if reduction is not None:
            return _reduce(args[0], attrs["axes"], scalars, reduction, n.args[0].type)
        ready = (scalars.positions(a) if t.type.dtype.kind in "iu" else a for a, t in zip(args, n.args, strict=True))
        out = n.op.numpy(*ready, **attrs)
        if isinstance(n.type, TupleType):
            return tuple(scalars.array(o, t.dtype) for o, t in zip(out, n.type.items, strict=True))
        return scalars.array(out, n.dtype)
    except (TypeError, AttributeError, ValueError, KeyError) as e:
        raise UnsupportedError(f"{n.op.name} cannot be computed symbolically: {e}") from e


def _reduce(x: Any, axes: tuple[int, ...], scalars: Scalars, name: str, type_: TensorType) -> Any:
    function = scalars.function(REGISTRY[name], {}, [type_, type_])
    assert function is not None
    rows = np.moveaxis(np.asarray(x, object), axes, range(len(axes)))
    flat = rows.reshape((-1, *rows.shape[len(axes) :]))
    total = functools.reduce(lambda a, b: elementwise(function, a, b), flat)
    return scalars.array(total, type_.dtype)


def elementwise(function: Callable[..., Any], *arrays: Any) -> Any:
    """An object array of ``function`` at each position."""
    shape = np.shape(arrays[0])
    out = np.empty(shape, object)
    for at in np.ndindex(shape):
        out[at] = function(*(np.asarray(a)[at] if np.shape(a) else _item(a) for a in arrays))
    return out


def _item(a: Any) -> Any:
    return a[()] if isinstance(a, np.ndarray) else a
