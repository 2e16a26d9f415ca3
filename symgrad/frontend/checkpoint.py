"""``checkpoint``: compute again on the way back instead of keeping what was computed on the way there.

A checkpointed function is a loop of one trip: the pullback of a loop keeps what enters a trip, and runs the trip again.
A loop whose body is checkpointed every k trips becomes loops of k trips inside a loop, which keeps one state in k.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.frontend.hooks import prepared
from symgrad.frontend.lengths import make_size
from symgrad.frontend.regions import Ran, Steps, run_loop
from symgrad.frontend.tracer import wrap
from symgrad.frontend.tracing import tracing
from symgrad.frontend.tree import unflatten
from symgrad.ir.node import Node
from symgrad.ir.types import Size, i64
from symgrad.ops.kinds import number
from symgrad.ops.views import concatenate, reshape, slice_

Function = Callable[..., Any]


class Checkpointed:
    """A function whose intermediate values are computed again where its derivative needs them."""

    __symgrad_transform__ = True

    def __init__(self, fun: Function, every: int) -> None:
        functools.update_wrapper(self, fun)
        self.__wrapped__ = fun
        self.every = every

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not tracing():
            return self.__wrapped__(*args, **kwargs)
        fun = prepared(self.__wrapped__)
        ran = run_loop(Steps(length=1), lambda index, state, slices: ((), fun(*args, **kwargs)), (), what="checkpoint")
        first = (
            reshape(slice_(y, starts=(0,) * y.ndim, sizes=(1, *y.shape[1:]), steps=(1,) * y.ndim), shape=y.shape[1:])
            for y in ran.ys
        )
        return unflatten(ran.ys_tree, [wrap(y) for y in first])


def body_of(fun: Function) -> tuple[Function, int]:
    """A loop body to be traced, and how many trips lie between two states that are kept."""
    if isinstance(fun, Checkpointed) and fun.every > 1:
        return prepared(fun.__wrapped__), fun.every
    return prepared(fun), 1


def run_in_blocks(steps: Steps, body: Function, init: Any, every: int, what: str) -> Ran:
    """A loop, in blocks of ``every`` trips when that is more than one."""
    if every == 1:
        return run_loop(steps, body, init, what=what)
    if steps.test is not None:
        return _while_blocks(steps.test, body, init, every, what)
    assert steps.length is not None
    return _scan_blocks(steps, body, init, every, what)


def _while_blocks(test: Function, body: Function, init: Any, every: int, what: str) -> Ran:
    """While the test holds, a loop of up to ``every`` trips."""

    def block(index: Any, state: Any, slices: list[Any]) -> Any:
        start, value = state
        inner = Steps(test=lambda k, s: (k < every) & test(start + k, s))

        def trip(k: Any, s: Any, none: list[Any]) -> Any:
            after, _ = body(start + k, s, none)
            return after, ()

        return (start + every, run_loop(inner, trip, value, what=what).state), ()

    begin = wrap(number(0, i64), weak=True)
    ran = run_loop(Steps(test=lambda index, state: test(state[0], state[1])), block, (begin, init), what=what)
    return Ran(ran.state[1], [], ran.ys_tree)


def _scan_blocks(steps: Steps, body: Function, init: Any, every: int, what: str) -> Ran:
    """Whole blocks first, then what is left over; with ``reverse``, the other way round."""
    assert steps.length is not None
    whole: Size = steps.length // every
    rest: Size = steps.length - whole * every

    def shifted(start: Size) -> Function:
        return lambda index, state, slices: body(index + make_size(start), state, slices)

    def blocks(state: Any) -> Ran:
        xs = tuple(reshape(_part(x, 0, whole * every), shape=(whole, every, *x.shape[1:])) for x in steps.xs)

        def block(index: Any, value: Any, slices: list[Any]) -> Any:
            inner = Steps(length=every, xs=tuple(s.node for s in slices), reverse=steps.reverse)
            ran = run_loop(inner, lambda k, s, part: body(index * every + k, s, part), value, what=what)
            return ran.state, ran.stacked()

        ran = run_loop(Steps(length=whole, xs=xs, reverse=steps.reverse), block, state, what=what)
        return Ran(ran.state, [reshape(y, shape=(whole * every, *y.shape[2:])) for y in ran.ys], ran.ys_tree)

    def left(state: Any) -> Ran:
        xs = tuple(_part(x, whole * every, rest) for x in steps.xs)
        return run_loop(Steps(length=rest, xs=xs, reverse=steps.reverse), shifted(whole * every), state, what=what)

    first, second = (left, blocks) if steps.reverse else (blocks, left)
    one = first(init)
    two = second(one.state)
    low, high = (two, one) if steps.reverse else (one, two)
    ys = [concatenate(a, b, axis=0) for a, b in zip(low.ys, high.ys, strict=True)]
    return Ran(two.state, ys, two.ys_tree)


def _part(x: Node, start: Size, count: Size) -> Node:
    zeros = (0,) * (x.ndim - 1)
    return slice_(x, starts=(start, *zeros), sizes=(count, *x.shape[1:]), steps=(1,) * x.ndim)
