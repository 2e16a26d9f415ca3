"""Programs with control flow, made at random: values are Python's, derivatives those of differences.

``PROGRAMS=2000`` in the environment makes a long run.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import symgrad as sg
from tests.api.random_programs import Truth, module_of, slopes, source_of

COUNT = int(os.environ.get("PROGRAMS", "60"))
POINTS: list[tuple[float, list[float], int]] = [
    (0.3, [0.7, -0.4, 0.2], 3),
    (-0.8, [0.1, 0.9, -0.6], 0),
    (1.4, [-0.3, 0.6, 1.1], 5),
]
TWO_NAMES = re.compile(r"b = a(\[::-1\])?$", re.MULTILINE)
OVER_AN_ARRAY = re.compile(r"^ *for .*\b[abq]\b", re.MULTILINE)  # the loop holds the array as well
DIRECTION = (0.8, np.array([0.5, -0.7, 0.3]))


@st.composite
def programs(draw: Any) -> str:
    return source_of(lambda count: draw(st.integers(0, count - 1)))


def close(got: Any, wanted: float, tolerance: float, what: str) -> None:
    scale = tolerance * max(1.0, abs(wanted))
    assert abs(float(got) - wanted) <= scale, f"{what}: {float(got)!r}, not {wanted!r}"


def check_program(text: str, folder: Path, extra: int, counts: Counter[str]) -> None:
    """Compare a program with its truth. ``extra``: 1 for the second derivative, 2 and 3 for vmap as well.

    One with two names for an array may be refused: they can be the same array in some of its runs only.
    """
    module, truth = module_of(text, folder), Truth(text)
    arguments = [(x, np.array(y), n) for x, y, n in POINTS]
    exact = [truth(*point) for point in arguments]
    plain = [float(module.f(*point)) for point in arguments]
    noise = max(abs(v - float(e)) for v, (e, _) in zip(plain, exact, strict=True))
    if not np.all(np.isfinite(plain)) or noise > 1e-13:  # chaotic, or a decision at the edge of rounding
        counts["unstable"] += 1
        return
    counts["programs"] += 1
    two_names = TWO_NAMES.search(text) is not None
    try:
        misses = check_values(module.f, arguments, plain)
        assert two_names or misses == 1, "one program serves all branches"
        check_derivatives(module.f, arguments, truth, extra == 1, counts)
        if extra >= 2:
            check_lanes(module.f, arguments, extra == 2, counts)
    except sg.TraceError as e:
        if not (two_names or OVER_AN_ARRAY.search(text)) or "make a copy" not in str(e):
            raise
        counts["refused"] += 1


def check_values(f: Any, arguments: Any, plain: list[float]) -> int:
    """Call one compiled function at points that take other branches; returns how many programs that took."""
    compiled = sg.jit(f, stabilize=False)
    for point, value in zip(arguments, plain, strict=True):
        close(compiled(*point), value, 1e-12, f"value at {point}")
    return int(compiled.cache_info().misses)


def check_lanes(f: Any, arguments: Any, counts_differ: bool, counts: Counter[str]) -> None:
    x, y, n = (np.stack([point[k] for point in arguments]) for k in range(3))
    lanes = sg.vmap(f, in_axes=(0, 0, 0))(x, y, n) if counts_differ else sg.vmap(f, in_axes=(0, 0, None))(x, y, 3)
    counts["vmap"] += 1
    for k, (a, b, c) in enumerate(arguments):
        close(lanes[k], float(f(a, b, c if counts_differ else 3)), 1e-12, f"lane {k}")


def check_derivatives(f: Any, arguments: Any, truth: Truth, twice: bool, counts: Counter[str]) -> None:
    reverse = sg.value_and_grad(f, argnums=(0, 1))
    second = sg.grad(sg.grad(f)) if twice else None
    dx, dy = DIRECTION
    for x, y, n in arguments:
        value, (gx, gy) = reverse(x, y, n)
        close(value, float(f(x, y, n)), 1e-11, "value beside the gradient")
        by_reverse = gx * dx + gy @ dy
        _, by_forward = sg.jvp(lambda a, b, n=n: f(a, b, n), (x, y), (dx, dy))
        close(by_forward, by_reverse, 1e-11, f"forward against reverse at {(x, y, n)}")
        steps = np.longdouble(dx), dy.astype(np.longdouble)
        found = slopes(lambda t, at=(x, y, n), by=steps: truth(at[0] + t * by[0], at[1] + t * by[1], at[2]))  # type: ignore[misc]  # bound now
        if found is None or found.doubt > 1e-6:
            counts["no difference"] += 1
            continue
        counts["slopes"] += 1
        close(by_reverse, found.first, 1e-8 + 10 * found.doubt, f"gradient at {(x, y, n)}")
        along = slopes(lambda t, x=x, y=y, n=n: truth(x + t, y, n))  # type: ignore[misc]  # bound now if second is not None else None
        if second is not None and along is not None and along.doubt < 1e-6:
            counts["second"] += 1
            close(second(x, y, n), along.second, 1e-6 + 100 * along.doubt, f"second derivative at {(x, y, n)}")


@settings(max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(text=programs(), extra=st.integers(0, 5))
def test_random_programs(tmp_path_factory: Any, text: str, extra: int) -> None:
    note(text)
    check_program(text, tmp_path_factory.mktemp("programs"), extra, Counter())


# --- programs that raise ---------------------------------------------------------------------------------------------


def outcome(f: Any, *args: Any) -> Any:
    """The value of a call, or the type and message of what it raises."""
    try:
        return f(*args)
    except (AssertionError, KeyError, RuntimeError, ValueError) as e:
        if isinstance(e, sg.SymgradError):
            raise
        return type(e), str(e)


def check_raising(text: str, folder: Path, lanes: bool, counts: Counter[str]) -> None:
    """Compiled functions raise exactly when Python does, and the same; where they do not, they are right."""
    module, truth = module_of(text, folder), Truth(text)
    arguments = [(x, np.array(y), n) for x, y, n in POINTS]
    plain = [outcome(module.f, *point) for point in arguments]
    exact = [outcome(truth, *point) for point in arguments]
    if any(
        isinstance(v, tuple) != isinstance(e[0], type) or (not isinstance(v, tuple) and abs(v - float(e[0])) > 1e-13)
        for v, e in zip(plain, exact, strict=True)
    ):
        counts["unstable"] += 1
        return
    fine = [point for point, v in zip(arguments, plain, strict=True) if not isinstance(v, tuple)]
    counts["raise"] += len(plain) - len(fine)
    f = module.f
    try:
        compiled, both = sg.jit(f, stabilize=False), sg.value_and_grad(f, argnums=(0, 1))
        for point, want in zip(arguments, plain, strict=True):
            got = outcome(compiled, *point)
            if not isinstance(want, tuple):
                close(got, want, 1e-12, f"value at {point}")
                continue
            x, y, n = point
            assert got == want, f"jit at {point}: {got}, not {want}"
            assert outcome(both, *point) == want
            assert outcome(sg.jvp, lambda a, b, n=n: f(a, b, n), (x, y), DIRECTION) == want
        check_derivatives(f, fine, truth, False, counts)
        if lanes:
            stacked = [np.stack([point[k] for point in arguments]) for k in range(3)]
            got = outcome(sg.vmap(f, in_axes=(0, 0, 0)), *stacked)
            if len(fine) < len(plain):
                assert got in [v for v in plain if isinstance(v, tuple)], f"vmap: {got}, not one of {plain}"
            else:
                np.testing.assert_allclose(got, plain, rtol=1e-12, atol=1e-12)
    except sg.TraceError as e:
        if not (TWO_NAMES.search(text) or OVER_AN_ARRAY.search(text)) or "make a copy" not in str(e):
            raise
        counts["refused"] += 1


@st.composite
def raising_programs(draw: Any) -> str:
    return source_of(lambda count: draw(st.integers(0, count - 1)), raising=True)


@settings(max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(text=raising_programs(), lanes=st.booleans())
def test_random_programs_that_raise(tmp_path_factory: Any, text: str, lanes: bool) -> None:
    note(text)
    check_raising(text, tmp_path_factory.mktemp("programs"), lanes, Counter())


# --- what random programs have found ---------------------------------------------------------------------------------

Y = np.array([0.7, -0.4, 0.2])
TABLE = np.arange(120.0).reshape(40, 3) / 64


def in_place_in_one_arm_rebound_in_the_other(x, y, n):
    a = y * 1.0
    if x > 1.0:
        a = 0.5 * a
    else:
        a[:] = 0.25 * x
    return a[1]


def in_place_and_rebound_in_a_loop(x, y, n):
    a = 0.5 * y
    k = 0
    while k < 5 and x > 0.1:
        k += 1
        if n == k:
            return x
        a[k % 3] += 0.125 * x
        a = np.tanh(a)
    return np.sum(a)


def another_name_sees_what_a_loop_does(x, y, n):
    a = y * 1.0
    b = a
    for _ in range(n):
        a += x
    return b[0]


def a_new_array_filled_in_each_trip(x, y, n):
    s = 0.0
    for i in range(n):
        a = np.zeros(3)
        a[i % 3] = x
        s = s + np.sum(a) * y[i % 3]
    return s


def a_view_first_read_in_a_branch(x, y, n):
    a = y.copy()
    b = a[::-1]
    for _ in range(n):
        if x > 0.5:
            x = np.sum(b)
        b[0] += 0.125 * np.tanh(b @ a)
    return x + np.sum(b)


def a_capture_first_read_in_a_branch(x, y, n):
    a = y * 1.0
    if x > 0.5:
        for v in TABLE:
            a = np.tanh(a + v)
    return np.sum(a)


def helper_on_the_same_line(x, n):
    return (x if x > 0.0 else -x) if n % 2 == 0 else (0.5 * x if n > 2 else x)


def conditions_within_conditions_on_one_line(x, y, n):
    return helper_on_the_same_line(x, n) if n > 0 else helper_on_the_same_line(x, n + 1) if n < 0 else x


@pytest.mark.parametrize(
    "f",
    [
        in_place_in_one_arm_rebound_in_the_other,
        in_place_and_rebound_in_a_loop,
        another_name_sees_what_a_loop_does,
        a_new_array_filled_in_each_trip,
        a_view_first_read_in_a_branch,
        a_capture_first_read_in_a_branch,
        conditions_within_conditions_on_one_line,
    ],
)
def test_one_program_gives_what_python_gives(f: Any) -> None:
    compiled = sg.jit(f, stabilize=False)
    for x, n in itertools.product((0.3, 1.4, -0.8), (3, 0, 5)):
        close(compiled(x, Y, n), float(f(x, Y, n)), 1e-13, f"{(x, n)}")
    assert compiled.cache_info().misses == 1


def shared_after_one_arm(x, y, n):
    a, b = y * 1.0, y * 2.0
    if x > 0:
        b = a
    b[0] = 7.0
    return a[0]


def shared_unless_the_loop_runs(x, y, n):
    a = y * 1.0
    b = a
    for _ in range(n):
        b = 0.5 * b
    b[0] = x
    return a[0]


def leaves_a_loop_over_rows(x, y):
    for v in np.outer(np.arange(40.0), y) * x:
        if v[0] > 3.0:
            return np.sin(v[0]) + x
        x = x + 0.125 * np.tanh(v[1])
    return x


def test_the_rows_that_a_loop_does_not_reach_have_no_slope() -> None:
    x, t = 1.3, 1e-5
    along = [leaves_a_loop_over_rows(x + k * t, Y) for k in (-2, -1, 1, 2)]
    want = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * t)
    close(sg.grad(leaves_a_loop_over_rows)(x, Y), want, 1e-9, "slope")
    twice = sg.grad(lambda x: sg.grad(leaves_a_loop_over_rows)(x, Y))(x)
    slope = [sg.jvp(lambda x: leaves_a_loop_over_rows(x, Y), (x + k * t,), (1.0,))[1] for k in (-1, 1)]
    close(twice, (slope[1] - slope[0]) / (2 * t), 1e-8, "second derivative")


def returns_after_an_inner_loop(x, n):
    r = np.sin(x)
    for _ in range(36, 0, -1):
        for _ in range(n):
            r *= 0.75
        return x * x + 0.5
    return x + r


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_way_back_of_the_way_back_of_a_loop_that_ends_early(n: int) -> None:
    assert sg.grad(sg.grad(returns_after_an_inner_loop))(-0.8, n) == 2.0


@pytest.mark.parametrize("f", [shared_after_one_arm, shared_unless_the_loop_runs])
def test_names_that_are_the_same_array_in_some_runs_only_are_refused(f: Any) -> None:
    with pytest.raises(sg.TraceError, match=r"make a copy there \(b = a.copy\(\)\)\n.*in f|in shared"):
        sg.jit(f)(np.float64(0.3), Y, np.int64(3))


def shared_but_not_in_use(x, y, n):
    a = y * 1.0
    for _ in range(n):
        if x > 0.0:
            if x > 0.5:
                a[0] = 1.0
            else:
                a = 2.0 * a
            a[1] += x
        a *= 0.5
    return np.sum(a)


def test_an_array_that_no_other_name_uses_can_be_changed_in_place() -> None:
    compiled = sg.jit(shared_but_not_in_use)
    for x, n in ((0.3, 3), (1.4, 4), (-0.8, 0)):
        close(compiled(x, Y, n), float(shared_but_not_in_use(x, Y, n)), 1e-13, f"{(x, n)}")
    assert compiled.cache_info().misses == 1
