"""``cond``, ``switch``, ``while_loop``, ``fori_loop`` and ``scan`` with the signatures of their namesakes in jax.lax.

Inside a trace they become regions of the graph; on plain values they are plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.frontend.checkpoint import body_of, run_in_blocks
from symgrad.frontend.hooks import prepared
from symgrad.frontend.regions import Steps, branch
from symgrad.frontend.tracer import TracedSize, is_traced, size_of, value
from symgrad.frontend.tracing import constant_value, tracing
from symgrad.frontend.tree import flatten, tree_map, unflatten
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import Size

Function = Callable[..., Any]


def undecided(x: Any) -> bool:
    """Whether the truth of a value is known only when the program runs."""
    return is_traced(x) and constant_value(value(x)) is None


def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """``true_fun(*operands)`` if ``pred``, else ``false_fun(*operands)``; the other function is not run.

    Both give the same structure and shapes. Raises TraceError when they do not.

    >>> import symgrad as sg
    >>> sg.grad(lambda x: sg.cond(x > 0, lambda v: v * v, lambda v: -v, x))(3.0)
    np.float64(6.0)
    """
    if not undecided(pred):
        return (prepared if tracing() else _same)(true_fun if pred else false_fun)(*operands)
    return branch(pred, lambda: prepared(true_fun)(*operands), lambda: prepared(false_fun)(*operands), what="cond")


def _same(function: Function) -> Function:
    return function


def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """``branches[index](*operands)``, with an index out of range clamped.

    >>> import symgrad as sg
    >>> sg.switch(1, [lambda v: v, lambda v: 2 * v], 5.0)
    10.0
    """
    if not branches:
        raise ShapeError("switch: there are no branches")
    if len(branches) == 1:
        return cond(True, branches[0], branches[0], *operands)
    middle = len(branches) // 2
    return cond(
        index < middle,
        lambda *xs: switch(index, branches[:middle], *xs),
        lambda *xs: switch(index - middle, branches[middle:], *xs),
        *operands,
    )


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Apply ``body_fun`` to the value as long as ``cond_fun`` of it is true; reverse mode included.

    >>> import symgrad as sg
    >>> sg.grad(lambda x: sg.while_loop(lambda s: s < 100, lambda s: s * s, x))(3.0)
    np.float64(17496.0)
    """
    if not tracing():
        state = init_val
        while cond_fun(state):
            state = body_fun(state)
        return state
    test, (body, every) = prepared(cond_fun), body_of(body_fun)
    steps = Steps(test=lambda index, state: test(state))
    return run_in_blocks(steps, lambda index, state, slices: (body(state), ()), init_val, every, "while_loop").state


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """``value = body_fun(i, value)`` for i from ``lower`` to ``upper`` (excluded).

    >>> import symgrad as sg
    >>> sg.grad(lambda x: sg.fori_loop(0, 3, lambda i, s: s * x, 1.0))(2.0)
    np.float64(12.0)
    """
    if not tracing():
        state = init_val
        for i in range(lower, upper):
            state = body_fun(i, state)
        return state
    body, every = body_of(body_fun)
    fixed = all(type(x) in (int, TracedSize) for x in (lower, upper))
    steps = Steps(length=_trips(lower, upper)) if fixed else Steps(test=lambda index, state: lower + index < upper)
    return run_in_blocks(
        steps, lambda index, state, slices: (body(lower + index, state), ()), init_val, every, "fori_loop"
    ).state


def _trips(lower: Any, upper: Any) -> Size:
    count = size_of(upper) - size_of(lower)
    return count if current().le(0, count) else 0


def scan(
    f: Function, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: int = 1
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each slice ``x`` of ``xs``; gives the last carry, and the ys stacked.

    ``unroll`` is accepted and ignored: the compiler decides.

    >>> import numpy as np, symgrad as sg
    >>> sg.scan(lambda c, x: (c + x, c), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    leaves, tree = flatten(xs)
    if not tracing():
        return _plain_scan(f, init, leaves, tree, length, reverse)
    nodes = tuple(value(x) for x in leaves)
    count = _length(nodes, length)
    step, every = body_of(f)
    steps = Steps(length=count, xs=nodes, reverse=reverse)
    ran = run_in_blocks(steps, lambda index, state, slices: step(state, unflatten(tree, slices)), init, every, "scan")
    return ran.state, ran.stacked()


def _length(nodes: Sequence[Any], length: Any) -> Size:
    """The number of trips, on which all agree."""
    lengths: list[Size] = [] if length is None else [size_of(length)]
    for n in nodes:
        if not n.shape:
            raise ShapeError("scan: xs has a leaf without an axis to scan over")
        lengths.append(n.shape[0])
    if not lengths:
        raise ShapeError("scan: give xs or a length")
    for other in lengths[1:]:
        if not current().same(lengths[0], other):
            raise ShapeError(f"scan: lengths {shown((lengths[0],))} and {shown((other,))} differ")
    return lengths[0]


def _plain_scan(f: Function, init: Any, leaves: list[Any], tree: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    count = len(leaves[0]) if leaves else int(length)
    carry, ys = init, []
    for k in range(count)[:: -1 if reverse else 1]:
        carry, y = f(carry, unflatten(tree, [x[k] for x in leaves]))
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, tree_map(lambda *parts: np.stack(parts), *ys) if ys else None
