"""``raise`` and ``assert`` under traced conditions: a call raises exactly what Python would have raised, and when."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.api.failing import (
    CASES,
    OutOfReachError,
    assertions,
    elif_chain,
    helper,
    in_a_helper,
    in_a_rolled_for,
    one_arm,
    other_arm,
    with_a_cause,
)

WAYS = [
    pytest.param(lambda f: sg.jit(f), id="jit"),
    pytest.param(lambda f: sg.grad(f), id="grad"),
    pytest.param(lambda f: sg.value_and_grad(f), id="value_and_grad"),
    pytest.param(lambda f: lambda x: sg.jvp(f, (x,), (1.0,)), id="jvp"),
    pytest.param(lambda f: lambda x: sg.vjp(f, x), id="vjp"),
    pytest.param(lambda f: sg.jacrev(f), id="jacrev"),
    pytest.param(lambda f: sg.jacfwd(f), id="jacfwd"),
    pytest.param(lambda f: sg.jacobian(f), id="jacobian"),
    pytest.param(lambda f: sg.hessian(f), id="hessian"),
    pytest.param(lambda f: sg.jit(sg.grad(sg.jit(f))), id="jit of grad of jit"),
    pytest.param(lambda f: lambda x: sg.vmap(f)(np.array([x])), id="vmap"),
    pytest.param(lambda f: lambda x: sg.vmap(sg.grad(f))(np.array([x])), id="vmap of grad"),
    pytest.param(lambda f: lambda x: sg.grad(lambda xs: sg.vmap(f)(xs).sum())(np.array([x])), id="grad of vmap"),
]


def outcome(f: Any, *args: Any) -> Any:
    """What a call raises, and the exception itself; None when it returns."""
    try:
        f(*args)
    except Exception as e:
        return (type(e), str(e)), e
    return None, None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f, xs", CASES, ids=[f.__name__ for f, _ in CASES])
def test_a_compiled_function_raises_what_python_raises(f: Any, xs: tuple[float, ...], way: Any) -> None:
    for x in xs:
        as_float, as_scalar = outcome(f, x)[0], outcome(f, np.float64(x))[0]
        assert outcome(way(f), x)[0] in (as_float, as_scalar), f"at {x}"


@pytest.mark.parametrize("f, xs", CASES, ids=[f.__name__ for f, _ in CASES])
def test_one_program_serves_calls_that_raise_and_others(f: Any, xs: tuple[float, ...]) -> None:
    compiled = sg.value_and_grad(f)
    for x in (*xs, *xs):
        wanted, _ = outcome(f, x)
        assert outcome(compiled, x)[0] == wanted, f"at {x}"
        if wanted is None:
            value, slope = compiled(x)
            t = 1e-6
            np.testing.assert_allclose(value, f(x), rtol=1e-13)
            np.testing.assert_allclose(slope, (f(x + t) - f(x - t)) / (2 * t), rtol=1e-6)
    assert compiled.cache_info().misses == 1


# --- exceptions ------------------------------------------------------------------------------------------------------


def test_arguments_and_attributes_have_the_values_of_the_call() -> None:
    (_, e), (_, plain) = outcome(sg.jit(elif_chain), 4.5), outcome(elif_chain, 4.5)
    assert e.args == plain.args == ("between", 4.5, [4.5, {"twice": 9.0}])
    _, e = outcome(sg.jit(other_arm), -2.0)
    assert type(e) is OutOfReachError and e.x == -2.0 and type(e.x) is float and e.limit == -1.0
    assert outcome(sg.jit(elif_chain), 11.0)[1].args == (11.0,)


def test_values_in_messages_look_as_they_do_in_python() -> None:
    def f(x, a, k):
        total = f"{a.sum():.2f} in all"
        if x < 0.0:
            raise ValueError(f"{x} {a} {a[0]!r} {[a[1], x]} {a.shape} {k:3d} {total} {(a > 0.5)}")
        return x

    args = -1.5, np.array([0.25, 1.0]), 7
    assert outcome(sg.jit(f), *args)[0] == outcome(f, *args)[0]


def test_arrays_of_any_length_are_told() -> None:
    def f(x, a):
        if x < 0.0:
            raise ValueError(f"{2.0 * a}", a[1:])
        return x * np.sum(a)

    compiled = sg.grad(f)
    for n in (3, 5, 8):
        a = np.arange(float(n))
        _, e = outcome(compiled, -1.0, a)
        assert e.args[0] == f"{2.0 * a}"
        np.testing.assert_array_equal(e.args[1], a[1:])
    assert compiled.cache_info().misses == 2


def test_the_cause_is_made_of_the_values_of_the_call() -> None:
    _, e = outcome(sg.grad(with_a_cause), -1.0)
    assert type(e.__cause__) is KeyError and e.__suppress_context__
    assert e.__cause__.__notes__ == ["at -1.0"]


def test_the_traceback_ends_at_the_users_line() -> None:
    _, e = outcome(sg.grad(in_a_helper), 4.0)
    *_, outer, inner = traceback.extract_tb(e.__traceback__)
    assert (inner.filename, inner.name) == (inspect.getfile(helper), "helper")
    assert inner.line == 'raise ZeroDivisionError(f"helper got {y}")'
    assert (outer.name, outer.line) == ("in_a_helper", "return helper(x) * x if x > 0.0 else x")
    assert "~" not in (shown := "".join(traceback.format_tb(e.__traceback__)[-2:])) and "^" not in shown


def test_each_call_raises_an_exception_of_its_own() -> None:
    compiled = sg.jit(one_arm)
    (_, first), (_, second) = outcome(compiled, -1.0), outcome(compiled, -2.0)
    assert first is not second and str(first).startswith("x = -1.0") and str(second).startswith("x = -2.0")


def test_an_exception_of_python_alone_is_raised_while_tracing() -> None:
    def f(x, n=3):
        if n == 3:
            raise ValueError("plain")
        return x

    with pytest.raises(ValueError, match=r"^plain$"):
        sg.jit(f, static_argnames=("n",))(1.0)


# --- lanes -----------------------------------------------------------------------------------------------------------


def lanes(x):
    if x > 10.0:
        if x > 100.0:
            raise ValueError(f"large: {x}")
        y = 3.0 * x
    else:
        y = helper(x)
    n = 0
    while y < 60.0:
        if n > 5:
            raise KeyError(n)
        y = 2.0 * y
        n += 1
    return y * x


@pytest.mark.parametrize(
    "xs, error",
    [
        ([2.5, 20.0, 1.0, 3.0], None),
        ([2.5, 20.0, 200.0], "large: 200.0"),
        ([20.0, 2.5, 4.0, 5.0], "helper got 4.0"),
        ([20.0, -0.5, 2.0], "6"),
    ],
)
@pytest.mark.parametrize("mapped", [lambda f: sg.vmap(f), lambda f: sg.vmap(sg.grad(f)), lambda f: sg.jit(sg.vmap(f))])
def test_a_lane_that_fails_raises_and_one_that_is_elsewhere_does_not(xs: Any, error: Any, mapped: Any) -> None:
    got, _ = outcome(mapped(lanes), np.array(xs))
    assert (got and got[1]) == error
    plain = [outcome(lanes, x)[0] for x in xs]
    assert got is None if not any(plain) else got in plain


TABLE = np.arange(1.0, 4.0)


def rows_until(x, n, k):
    s, i = 0.0, 0
    while i < n:
        s = s + x[i] * x[i]
        i = i + k
    return s


def test_the_index_of_a_lane_that_has_left_a_loop_is_not_checked() -> None:
    ns, ks = np.array([3, 3, 1, 0]), np.array([1, 2, 1, 1])
    wanted = [rows_until(TABLE, int(n), int(k)) for n, k in zip(ns, ks, strict=True)]
    np.testing.assert_allclose(sg.vmap(rows_until, in_axes=(None, 0, 0))(TABLE, ns, ks), wanted)
    slopes = sg.vmap(sg.grad(rows_until), in_axes=(None, 0, 0))(TABLE, ns, ks)
    np.testing.assert_allclose(slopes, [[2, 4, 6], [2, 0, 6], [2, 0, 0], [0, 0, 0]])
    with pytest.raises(IndexError, match=r"^index 4 is out of bounds for axis 0 with size 3$"):
        sg.vmap(rows_until, in_axes=(None, 0, 0))(TABLE, np.array([3, 5]), np.array([1, 2]))


def test_the_index_of_a_lane_in_the_other_arm_is_not_checked() -> None:
    def f(x, i):
        y = x[i] * x[i] if i < 3 else 0.0
        if i > 5:
            for j in range(40):
                if j > 37:
                    y = y + x[j - i - 30]
        return y

    with pytest.raises(IndexError):
        f(TABLE, 6)
    lanes = sg.vmap(f, in_axes=(None, 0))(TABLE, np.array([0, 4, 2, 9]))
    np.testing.assert_allclose(lanes, [1.0, 0.0, 9.0, TABLE[-1] + TABLE[0]])


def doubled_while_small(x):
    if x > 0.0:
        while x < 10.0:
            x = x * 2.0
    return x


@pytest.mark.parametrize("mapped", [lambda f: sg.vmap(f), lambda f: sg.vmap(lambda x: sg.jvp(f, (x,), (1.0,))[0])])
def test_a_loop_that_would_never_end_in_a_lane_that_is_elsewhere(mapped: Any) -> None:
    np.testing.assert_allclose(mapped(doubled_while_small)(np.array([1.0, -1.0, 3.0])), [16.0, -1.0, 12.0])
    np.testing.assert_allclose(sg.vmap(sg.grad(doubled_while_small))(np.array([1.0, -1.0, 3.0])), [16.0, 1.0, 4.0])


# --- indices and divisions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("i", [3, -4, np.int64(7), np.array([1, -5, 9]), np.array([[0], [3]])])
def test_an_index_out_of_range_raises_as_in_numpy(i: Any) -> None:
    def f(x, i):
        return np.sum(x[i] * x[i])

    assert outcome(sg.grad(f), TABLE, i)[0] == outcome(f, TABLE, i)[0]

    def second_axis(x, i):
        return np.sum(x[:, i])

    assert outcome(sg.grad(second_axis), np.ones((2, 3)), i)[0] == outcome(second_axis, np.ones((2, 3)), i)[0]


def test_a_check_before_an_index_comes_first() -> None:
    def f(x, i):
        if i > 3:
            raise ValueError(f"{i} is too far")
        y = x[i]
        if y > 2.0:
            raise KeyError(i)
        return y

    for i in (0, 2, 3, 5):
        assert outcome(sg.grad(f), TABLE, i)[0] == outcome(f, TABLE, i)[0]


@pytest.mark.parametrize("f", [lambda x, n, m: x * (n // m), lambda x, n, m: x * (n % m), lambda x, n, m: x + n // m])
def test_python_ints_are_not_divided_by_zero(f: Any) -> None:
    compiled = sg.grad(f)
    for args in ((1.5, 7, 2), (1.5, 7, 0), (1.5, -7, -2)):
        assert outcome(compiled, *args)[0] == outcome(f, *args)[0]
    assert compiled.cache_info().misses == 1


def test_numpy_ints_divided_by_zero_are_zero_and_floats_are_inf() -> None:
    assert sg.jit(lambda n, m: n // m)(np.int64(7), np.int64(0)) == 0
    assert sg.jit(lambda x, y: x / y)(1.0, 0.0) == np.inf


def test_lanes_within_lanes() -> None:
    def inner(x, y):
        k = 0
        while y < 10.0:
            y = y + x
            k += 1
            if k > 15:
                raise ValueError(f"too many: {y:.3f}")
        return y

    starts = np.array([1.0, 20.0, 3.0])
    both = sg.vmap(lambda x: sg.vmap(lambda y: inner(x, y))(starts))
    xs = np.array([1.0, 2.0])
    np.testing.assert_allclose(both(xs), [[inner(x, y) for y in starts] for x in xs])
    assert outcome(both, np.array([1.0, 0.5]))[0] == (ValueError, "too many: 9.000")


# --- what there is of it in the program ------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [sg.jit, sg.grad, sg.value_and_grad, sg.hessian])
def test_a_derivative_checks_once(transform: Any) -> None:
    text = transform(in_a_rolled_for).lower("f64").as_text("loops")
    assert sum(line.strip() == "fail 1" for line in text.splitlines()) == 1


def test_checks_are_in_the_listings() -> None:
    lowered = sg.jit(one_arm).lower("f64")
    assert "check[" in lowered.as_text("graph") and "ValueError('x = …: …, …, …')" in lowered.as_text("graph")
    assert "failure 1: ValueError: x = …" in lowered.as_text("loops") and "fail 1" in lowered.as_text("loops")


def test_a_program_without_checks_has_no_flags() -> None:
    def f(x):
        return x * x if x > 0.0 else -x

    lowered = sg.value_and_grad(f).lower("f64")
    assert "check" not in lowered.as_text("graph") and "fail" not in lowered.as_text("loops")
    assert len(lowered.graph.results) == 2


def test_a_result_that_nobody_checks_needs_no_check_to_be_right() -> None:
    def f(x):
        assert x < 5.0, f"{x}"
        return 2.0

    assert sg.jit(f)(1.0) == 2.0
    assert outcome(sg.jit(f), 6.0)[0] == (AssertionError, "6.0")


# --- what is refused -------------------------------------------------------------------------------------------------


def caught(x):
    try:
        if x < 0.0:
            raise ValueError("caught")
        y = x
    except ValueError:
        y = 0.0
    return y


def caught_by_all(x):
    try:
        y = helper(x)
    except:  # noqa: E722  # what is under test
        y = 0.0
    return y


def caught_with_others(x):
    try:
        y = helper(x)
    except (KeyError, ArithmeticError):
        return 0.0
    return y


def suppressed(x):
    with contextlib.suppress(KeyError, ZeroDivisionError):
        x = helper(x)
    return x


@pytest.mark.parametrize("f", [caught, caught_by_all, caught_with_others, suppressed])
def test_a_try_that_would_catch_it_is_refused(f: Any) -> None:
    with pytest.raises(sg.TraceError, match=r"in a try that catches it: write what the except clause does"):
        sg.jit(f)(1.0)


def test_a_try_that_catches_others_is_no_matter() -> None:
    def f(x):
        done = []
        try:
            y = helper(x)
        except KeyError:
            y = 0.0
        finally:
            done.append(1)
        return y * len(done)

    assert sg.jit(f)(1.0) == 2.0
    assert outcome(sg.jit(f), 4.0)[0] == (ZeroDivisionError, "helper got 4.0")


def test_contexts_that_catch_nothing_are_no_matter() -> None:
    def f(x):
        with np.errstate(all="ignore"), contextlib.suppress(KeyError):
            x = helper(x)
            {}["missing"]
        return x * x

    assert sg.jit(f)(1.0) == 4.0
    assert outcome(sg.jit(f), 4.0)[0] == (ZeroDivisionError, "helper got 4.0")


def test_an_exception_may_be_caught_in_the_arm_that_raises_it() -> None:
    def f(x):
        if x < 0.0:
            try:
                raise KeyError("inside")
            except KeyError:
                y = -x
        else:
            y = 2.0 * x
        return y

    assert [float(sg.jit(f)(x)) for x in (3.0, -3.0)] == [6.0, 3.0]


def test_what_is_refused_in_a_part_is_refused_while_tracing() -> None:
    def f(x):
        if x > 0.0:
            y = x
            while x < 10.0:
                y, x = "a text", x * 2.0
            return x if y is not None else 0.0
        return x

    with pytest.raises(sg.TraceError, match=r"y is not an array or a number after a trip of the while at line \d+"):
        sg.jit(f)(np.float64(-1.0))


def test_a_derivative_rule_cannot_check() -> None:
    @sg.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, ct: (helper(x) * ct,))
    with pytest.raises(sg.TraceError, match="raise and assert on traced values have no place in a derivative rule"):
        sg.grad(lambda x: f(x))(1.0)


def test_the_line_of_the_assertion_is_told() -> None:
    _, e = outcome(sg.jit(assertions), -3.0)
    last = traceback.extract_tb(e.__traceback__)[-1]
    assert last.lineno == inspect.getsourcelines(assertions)[1] + 2 and last.name == "assertions"
