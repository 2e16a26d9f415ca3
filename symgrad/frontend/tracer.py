"""What people write -> nodes: promotion of operands, views, Python's operators and NumPy's protocols on traced values.

The other modules of the front end import what they need of traced values from here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, TraceError, UnsupportedError
from symgrad.frontend.cell import PYTHON, Read, Tracer, View, Write, spelled, wrap
from symgrad.frontend.lengths import TracedSize, make_size, size_of
from symgrad.frontend.lines import located, where, with_line
from symgrad.frontend.masked import Masked, lift_masked
from symgrad.frontend.memory import contiguous, strides_through
from symgrad.frontend.tracing import (
    FUNCTIONS,
    REDUCTIONS,
    Trace,
    activate,
    call,
    constant_value,
    current_trace,
    implements,
    tracing,
)
from symgrad.ir.node import Node, constant, size_node
from symgrad.ir.sizes import broadcast_shapes, current, same_shape, shown
from symgrad.ir.types import DType, boolean, dtype_of, f64, i64
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.views import concatenate, reshape


def is_traced(x: Any) -> bool:
    """Whether ``x`` is a traced array or number (isinstance would be fooled)."""
    return type(x) is Tracer


def argument(node: Node, *, weak: bool = False) -> Tracer:
    """A traced value that the caller owns: assigning into it is an error."""
    out = wrap(node, weak=weak)
    out.readonly = True
    return out


def view_of(base: Any, read: Read, write: Write | None) -> Tracer:
    """``read`` of ``base`` as a view, read-only without ``write``; a copy where NumPy has to copy, or of a scalar."""
    if type(base) is not Tracer:
        base = wrap(value(base))
    below = base.node
    node = read(below)
    memory = contiguous(below.shape) if base.view is None else base.view.strides
    strides = None if base.fixed else strides_through(node, below, memory)
    if strides is None:
        return wrap(node)
    out = Tracer(node, view=View(base, base if base.view is None else base.view.root, read, write, strides))
    out.readonly = out.readonly or write is None
    return out


# --- values of any kind -> nodes -------------------------------------------------------------------------------------


def value(x: Any, dtype: DType | None = None) -> Node:
    """The node of anything that NumPy takes for an array, cast to ``dtype``; numbers take ``dtype`` from the start."""
    if type(x) is Tracer:
        return x.node if dtype is None else p.as_dtype(x.node, dtype)
    if isinstance(x, Node):
        return x if dtype is None else p.as_dtype(x, dtype)
    if type(x) is TracedSize:
        n = size_node(current().canonical(x.size))
        return n if dtype is None else p.as_dtype(n, dtype)
    if type(x) is Masked:
        raise located(
            UnsupportedError("a selection by a traced mask is not an array: its length is not known; use np.where")
        )
    if isinstance(x, list | tuple) and contains_traced(x):
        return _stacked(x, dtype)
    return _literal(x, dtype)


def contains_traced(x: Any) -> bool:
    """Whether there is anything traced in nested lists and tuples."""
    if type(x) in (list, tuple):
        return any(contains_traced(item) for item in x)
    return type(x) in (Tracer, TracedSize, Masked)


def _stacked(items: Any, dtype: DType | None) -> Node:
    nodes: list[Node] = list(operands(*(value(i) if type(i) in (list, tuple) else i for i in items)))
    first = nodes[0].shape
    if not all(same_shape(n.shape, first) for n in nodes[1:]):
        shapes = " and ".join(shown(n.shape) for n in nodes)
        raise ValueError(with_line(f"the parts of a nested list have different shapes: {shapes}"))
    out = concatenate(*(reshape(n, shape=(1, *n.shape)) for n in nodes), axis=0)
    return out if dtype is None else p.as_dtype(out, dtype)


def _literal(x: Any, dtype: DType | None) -> Node:
    if isinstance(x, str | bytes | type(None) | dict | set):
        raise located(DTypeError(f"a {type(x).__name__} is not a number or an array"))
    if type(x) in (int, float, bool) and dtype is not None:
        return constant(x, dtype)
    try:
        n = constant(x)
    except DTypeError as e:
        raise e.at(where()) from None
    return n if dtype is None else p.as_dtype(n, dtype)


class Operands(list[Node]):
    """Operands of one dtype, and whether all were Python numbers, so that the result of an operator is one."""

    weak: bool = False


def weak_kind(x: Any) -> type | None:
    """The Python type of a number that adapts its dtype, else None."""
    if type(x) is Tracer:
        return PYTHON[x.node.dtype.kind] if x.weak else None
    if type(x) is TracedSize:
        return int
    return type(x) if type(x) in (int, float, bool) else None


@functools.lru_cache(4096)
def _common(strong: tuple[DType, ...], weak: tuple[type, ...]) -> DType:
    """NEP 50: Python numbers only raise the kind."""
    return dtype_of(np.result_type(*(d.numpy for d in strong), *(k(0) for k in weak)))


def operands(*xs: Any) -> Operands:
    """Nodes of one dtype by NumPy's promotion; shapes are as they were."""
    kinds = [weak_kind(x) for x in xs]
    nodes = [value(x) if k is None else None for x, k in zip(xs, kinds, strict=True)]
    dtype = _common(tuple(n.dtype for n in nodes if n is not None), tuple(k for k in kinds if k is not None))
    out = Operands(value(x if n is None else n, dtype) for x, n in zip(xs, nodes, strict=True))
    out.weak = all(k is not None for k in kinds)
    return out


def float_operands(*xs: Any) -> Operands:
    """Like ``operands``, with integers and bools as f64."""
    nodes = operands(*xs)
    if nodes[0].dtype.is_float:
        return nodes
    out = Operands(value(x, f64) for x in xs)
    out.weak = nodes.weak
    return out


# --- operators and protocols -----------------------------------------------------------------------------------------

_ON_BOOLS = {
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
}


@implements("operator")
def operator(name: str, *xs: Any) -> Any:
    """The operator of a ufunc's name; of Python numbers it gives a Python number, and counts with bools."""
    function = FUNCTIONS[getattr(np, name)]
    kinds = [weak_kind(x) for x in xs]
    if None in kinds:
        return function(*xs)
    if name not in _ON_BOOLS:
        xs = tuple(wrap(value(x, i64), weak=True) if k is bool else x for x, k in zip(xs, kinds, strict=True))
    if name in ("floor_divide", "remainder") and not any(value(x).dtype.is_float for x in xs):
        FUNCTIONS["divisor"](name, value(xs[1]))
    return wrap(function(*xs).node, weak=True)


@implements("store")
def store(target: Tracer, result: Any, name: str, mask: Any = True) -> Tracer:
    """The result of a ufunc into an array, as ``out=`` and operators in place do."""
    new, old = value(result), target.node
    if not np.can_cast(new.dtype.numpy, old.dtype.numpy, "same_kind"):
        raise TypeError(
            with_line(
                f"Cannot cast ufunc {name!r} output from {new.dtype.numpy!r} to {old.dtype.numpy!r} "
                "with casting rule 'same_kind'"
            )
        )
    if not same_shape(call(broadcast_shapes, new.shape, old.shape), old.shape):
        raise ValueError(
            with_line(
                f"non-broadcastable output operand with shape {shown(old.shape)} "
                f"doesn't match the broadcast shape {shown(new.shape)}"
            )
        )
    new = broadcast_to(p.as_dtype(new, old.dtype), old.shape)
    if mask is not True:
        new = p.select(broadcast_to(value(mask, boolean), old.shape), new, old)
    target.assign(new)
    return target


def _known(function: Any) -> Callable[..., Any] | None:
    """The version of a function for traced values; those of scipy are entered once it is loaded."""
    found = FUNCTIONS.get(function)
    return found if found is not None or "resolve" not in FUNCTIONS else FUNCTIONS["resolve"](function)


_ACCUMULATIONS: dict[Any, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


@implements("ufunc")
def array_ufunc(ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, where: Any = True, **keywords: Any) -> Any:
    """NumPy's hook for ufuncs and their methods."""
    if method == "at":
        return _at(ufunc, *inputs)
    if method == "outer":
        a, b = (wrap(value(x)) for x in inputs)
        inputs = (a.reshape(*a.shape, *(1 for _ in b.shape)), b)
    if method in ("__call__", "outer"):
        function = _known(ufunc)
    elif method == "reduce":
        function = FUNCTIONS.get(REDUCTIONS.get(ufunc))
        keywords = {"axis": 0, **keywords, **({} if where is True else {"where": where})}
        where = True
    else:
        function = FUNCTIONS.get(_ACCUMULATIONS.get(ufunc, (ufunc, method))) if method == "accumulate" else None
        keywords = {"axis": 0, **keywords}
    if function is None:
        suffix = "" if method == "__call__" else f".{method}"
        raise located(UnsupportedError(f"{spelled(ufunc)}{suffix} is not supported on traced values"))
    result = call(function, *inputs, **keywords)
    if out is None:
        if where is not True:
            raise located(UnsupportedError(f"{spelled(ufunc)}: where= needs out=, which has the other elements"))
        return result
    targets = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    stored = tuple(r if t is None else _into(t, r, ufunc, where) for t, r in zip(targets, results, strict=True))
    return stored if len(stored) > 1 else stored[0]


def _into(target: Any, result: Any, ufunc: np.ufunc, where: Any) -> Tracer:
    if type(target) is not Tracer:
        raise located(
            TraceError(
                f"{spelled(ufunc)} would store a traced value into a NumPy array (as out= or by an operator like +=): "
                "make that array with symgrad.numpy, or write a = a + x"
            )
        )
    return store(target, result, ufunc.__name__, where)


def _at(ufunc: np.ufunc, target: Any, *rest: Any) -> None:
    function = FUNCTIONS.get((ufunc, "at"))
    if function is None:
        raise located(UnsupportedError(f"{spelled(ufunc)}.at is not supported on traced values"))
    if type(target) is not Tracer:
        raise located(
            TraceError(
                f"{spelled(ufunc)}.at would store a traced value into a NumPy array: make that array with symgrad.numpy"
            )
        )
    call(function, target, *rest)


@implements("function")
def array_function(function: Any, args: Any, keywords: Any) -> Any:
    """NumPy's hook for its other functions."""
    known = _known(function)
    if known is None:
        raise located(UnsupportedError(f"{spelled(function)} is not supported on traced values in this version"))
    return call(known, *args, **keywords)


__all__ = [
    "FUNCTIONS",
    "Masked",
    "Operands",
    "Trace",
    "TracedSize",
    "Tracer",
    "View",
    "activate",
    "argument",
    "call",
    "constant_value",
    "contains_traced",
    "current_trace",
    "float_operands",
    "implements",
    "is_traced",
    "lift_masked",
    "make_size",
    "operands",
    "size_of",
    "spelled",
    "store",
    "tracing",
    "value",
    "view_of",
    "wrap",
]
