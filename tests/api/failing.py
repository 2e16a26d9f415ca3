"""Functions that raise under conditions on their argument: plain Python, outside the reach of pytest's own asserts."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg


class OutOfReachError(Exception):
    """An exception with an initialiser and attributes of its own."""

    def __init__(self, x: Any, *, limit: float) -> None:
        super().__init__(f"{x} is out of reach")
        self.x, self.limit = x, limit


def one_arm(x):
    if x < 0.0:
        raise ValueError(f"x = {x}: {x:.3f}, {x!r:>10}, {-x:+8.2e}")
    return x * x


def other_arm(x):
    if x > 0.0:
        y = 3.0 * x
    else:
        raise OutOfReachError(x, limit=0.5 * x)
    return y * x


def elif_chain(x):
    if x > 10.0:
        raise KeyError(x)
    elif x > 5.0:
        y = x
    elif x > 4.0:
        raise ValueError("between", x, [x, {"twice": 2.0 * x}])
    else:
        y = x * x
    return np.sin(y)


def both_arms(x):
    if x > 0.0:
        raise ValueError("positive")
    else:
        raise KeyError(f"{x} is not")


def always(x):
    raise RuntimeError(f"always, {x}")


def assertions(x):
    assert x < 5.0
    assert x > -1.0, f"{x} is too small"
    assert x != 2.0, (x, "two")
    return x * x


def helper(y):
    if y > 3.0:
        raise ZeroDivisionError(f"helper got {y}")
    return y + 1.0


def in_a_helper(x):
    return helper(x) * x if x > 0.0 else x


def in_and_or(x):
    if x > 1.0 and helper(x) > 0.0:
        return x
    return x * x


def in_a_while(x):
    n = 0
    while x < 100.0:
        if x <= 0.0:
            raise ValueError(f"{x} will never reach it")
        x = 2.0 * x
        n += 1
    assert n < 9, f"{n} steps"
    return x


def in_the_condition_of_a_while(x):
    while helper(x) < 3.5:
        x = x + 0.75
    return x


def before_a_loop_that_never_ends(x):
    if x <= 0.0:
        raise ValueError("no end")
    while x < 10.0:
        x = x * 2.0
    return x


def in_a_rolled_for(x):
    y = x
    for i in range(100):
        y = 1.01 * y
        if y > 2.0:
            raise ValueError(f"step {i}: {y:.6f}")
    return y


def in_nested_loops(x):
    s = 0.0
    for i in range(40):
        for j in range(40):
            s = s + x
            if s > 500.0:
                raise ValueError(f"{i} {j} {s:.6g}")
        assert s < 450.0 or i < 38, i
    return s


def break_or_raise(x):
    for i in range(60):
        if x * i > 50.0:
            if i % 2 == 0:
                break
            raise ValueError(i)
        x = x + 0.01 * i
    else:
        raise RuntimeError("no break")
    return x


def always_in_a_loop(x):
    while x > 1.0:
        raise ValueError(f"in the first trip at {x}")
    return x * x


def in_combinators(x):
    def step(carry, y):
        if carry > 3.0:
            raise ValueError(f"carry {carry:.3f}")
        return carry + y * x, carry

    carry, _ = sg.scan(step, x, np.arange(5.0))
    carry = sg.cond(carry < 2.9, lambda v: v, lambda v: helper(v), carry)
    return sg.while_loop(lambda v: v < 10.0, lambda v: v * helper(0.1 * v + 1.0), carry)


def in_checkpointed_loops(x):
    @sg.checkpoint
    def square(v):
        if v > 50.0:
            raise ValueError(f"{v} is large")
        return v * v

    def trip(i, v):
        assert v < 3.0, i
        return 1.1 * v

    return square(square(x)) * sg.fori_loop(0, 12, sg.checkpoint(trip, every=4), 0.5 * x)


def the_first_of_two(x):
    if x < -1.0:
        raise ValueError("first")
    y = x if x > 0.0 else 2.0 * x
    if y < -1.0:
        raise KeyError("second")
    return y * x


def with_a_cause(x):
    if x < 0.0:
        try:
            {}["a"]
        except KeyError as e:
            e.add_note(f"at {x}")
            raise ValueError(f"x = {x}") from e
    return x * x


def the_class_alone(x):
    if x < 0.0:
        raise StopIteration
    return x * x


CASES = [
    (one_arm, (1.5, -2.0)),
    (other_arm, (1.5, -2.0, -0.0)),
    (elif_chain, (1.5, 4.5, 6.0, 11.0)),
    (both_arms, (1.5, -2.0)),
    (always, (1.5,)),
    (assertions, (1.5, 7.0, -3.0, 2.0)),
    (in_a_helper, (1.5, 4.0, -4.0)),
    (in_and_or, (0.5, 1.5, 4.0)),
    (in_a_while, (1.5, -1.0, 0.001, 200.0)),
    (in_the_condition_of_a_while, (1.25, 4.0)),
    (before_a_loop_that_never_ends, (1.5, -1.0)),
    (in_a_rolled_for, (0.5, 1.5)),
    (in_nested_loops, (0.125, 1.0, 0.28125)),
    (break_or_raise, (0.125, 1.0, 2.0, 4.0, 7.0)),
    (always_in_a_loop, (0.5, 1.5)),
    (in_combinators, (0.125, 0.28125, 1.0, 5.0)),
    (in_checkpointed_loops, (1.5, 8.0, 2.5)),
    (the_first_of_two, (1.5, -0.75, -3.0)),
    (with_a_cause, (1.5, -1.0)),
    (the_class_alone, (1.5, -1.0)),
]
