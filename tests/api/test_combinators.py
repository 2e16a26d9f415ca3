"""The combinators: values as plain Python gives them, derivatives in both modes and twice against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg


def difference(f, x, h=1e-5):
    return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)


def newton(a):
    return sg.while_loop(
        lambda s: s[1] > 1e-13,
        lambda s: (s[0] - (s[0] ** 3 - a) / (3 * s[0] ** 2), abs(s[0] ** 3 - a)),
        (1.0 + 0.0 * a, 1.0 + 0.0 * a),
    )[0]


def test_while_reverse_forward_and_second_order():
    root = 7.3 ** (1 / 3)
    assert sg.jit(newton)(7.3) == pytest.approx(root, rel=1e-14)
    first, second = 7.3 ** (-2 / 3) / 3, -2 / 9 * 7.3 ** (-5 / 3)
    assert sg.grad(newton)(7.3) == pytest.approx(first, rel=1e-12)
    assert sg.jvp(newton, (7.3,), (1.0,))[1] == pytest.approx(first, rel=1e-12)
    assert sg.grad(sg.grad(newton))(7.3) == pytest.approx(second, rel=1e-10)
    assert sg.hessian(newton)(7.3) == pytest.approx(second, rel=1e-10)


def test_one_program_serves_every_trip_count():
    f = sg.value_and_grad(lambda x: sg.while_loop(lambda s: s < 100.0, lambda s: s * 1.5, x))
    for x in (200.0, 90.0, 1.0, 1e-300):
        trips = 0
        y = x
        while y < 100.0:
            y, trips = y * 1.5, trips + 1
        value, slope = f(x)
        assert value == pytest.approx(y, rel=1e-13) and slope == pytest.approx(1.5**trips, rel=1e-13)
    assert f.cache_info().misses == 1


def test_a_tape_longer_than_the_room_for_it_grows():
    f = sg.grad(lambda x, n: sg.fori_loop(0, n, lambda i, s: s + 1e-4 * np.sin(s), x))
    for n in (10, 5000, 3, 20_000):
        y, dy = 0.4, 1.0
        for _ in range(n):
            y, dy = y + 1e-4 * math.sin(y), dy * (1 + 1e-4 * math.cos(y))
        assert f(0.4, n) == pytest.approx(dy, rel=1e-10)
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("x", [3.0, -3.0, 0.0])
def test_cond_runs_one_arm(x):
    f = lambda x: sg.cond(x > 0, lambda v: np.sqrt(v) * v, lambda v: v * v - 1.0, x)  # noqa: E731
    want = 1.5 * math.sqrt(x) if x > 0 else 2 * x
    assert sg.grad(f)(x) == pytest.approx(want, rel=1e-13)
    assert sg.jvp(f, (x,), (1.0,))[1] == pytest.approx(want, rel=1e-13)


def test_what_the_other_arm_does_cannot_poison():
    f = sg.value_and_grad(lambda x: sg.cond(x > 0, lambda: np.log(x), lambda: 0.0 * x))
    assert f(-1.0) == (0.0, 0.0)
    assert f(2.0) == (pytest.approx(math.log(2.0)), 0.5)


def test_arms_of_different_shapes_name_both():
    with pytest.raises(sg.TraceError, match=r"\(3,\).*\(\)"):
        sg.jit(lambda x: sg.cond(x[0] > 0, lambda: x, lambda: x[0]))(np.ones(3))


def test_switch_clamps_its_index():
    f = sg.grad(lambda i, x: sg.switch(i, [lambda v: v, lambda v: v**2, lambda v: v**3], x), argnums=1)
    assert [f(i, 2.0) for i in (-1, 0, 1, 2, 9)] == [1.0, 1.0, 4.0, 12.0, 12.0]
    assert f.cache_info().misses == 1


def test_fori_loop_gives_the_index():
    f = lambda x: sg.fori_loop(2, 6, lambda i, s: s * x + i, 1.0)  # noqa: E731
    plain = lambda x: x**4 + 2 * x**3 + 3 * x**2 + 4 * x + 5  # noqa: E731
    assert sg.jit(f)(1.3) == pytest.approx(plain(1.3), rel=1e-14)
    assert sg.grad(f)(1.3) == pytest.approx(4 * 1.3**3 + 6 * 1.3**2 + 6 * 1.3 + 4, rel=1e-14)
    assert f(1.3) == pytest.approx(plain(1.3), rel=1e-14)


def test_a_state_that_becomes_a_float_is_promoted_once():
    assert sg.jit(lambda x: sg.fori_loop(0, 3, lambda i, s: s + x, 0))(0.5) == 1.5


def test_a_state_that_changes_shape_is_named():
    with pytest.raises(sg.TraceError, match=r"state.*shape"):
        sg.jit(lambda x: sg.fori_loop(0, 3, lambda i, s: s + x, 0.0))(np.ones(2))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_with_arrays_and_containers(reverse):
    rng = np.random.default_rng(0)
    w, xs = 0.4 * rng.standard_normal((3, 3)), {"a": rng.standard_normal((6, 3)), "b": rng.standard_normal(6)}

    def f(w, xs):
        h, ys = sg.scan(lambda h, x: (np.tanh(w @ h + x["a"]) * x["b"], h[0]), np.ones(3), xs, reverse=reverse)
        return np.sum(h) + ys @ np.arange(6.0)

    assert sg.jit(f)(w, xs) == pytest.approx(f(w, xs), rel=1e-13)
    gw, gx = sg.grad(f, argnums=(0, 1))(w, xs)
    e = np.zeros((3, 3))
    e[1, 2] = 1
    assert gw[1, 2] == pytest.approx(difference(lambda t: f(w + t * e, xs), 0.0), rel=1e-8)
    bump = np.zeros((6, 3))
    bump[2, 0] = 1
    assert gx["a"][2, 0] == pytest.approx(difference(lambda t: f(w, {**xs, "a": xs["a"] + t * bump}), 0.0), rel=1e-8)
    b = np.zeros(6)
    b[4] = 1
    assert gx["b"][4] == pytest.approx(difference(lambda t: f(w, {**xs, "b": xs["b"] + t * b}), 0.0), rel=1e-8)


def test_scan_serves_every_length():
    f = sg.value_and_grad(lambda x, a: sg.scan(lambda c, v: (c * v, ()), x, a)[0])
    for n in (2, 3, 7, 50):
        a = np.linspace(0.5, 1.5, n)
        value, slope = f(2.0, a)
        assert value == pytest.approx(2 * np.prod(a), rel=1e-13) and slope == pytest.approx(np.prod(a), rel=1e-13)
    assert f.cache_info().misses <= 2


def test_lanes_with_different_trips_are_left_alone_when_done():
    f = lambda x: sg.while_loop(lambda s: s < 50.0, lambda s: s * s, x)  # noqa: E731
    x = np.array([3.0, 60.0, 7.5, 1.5])
    np.testing.assert_allclose(sg.vmap(f)(x), [f(v) for v in x], rtol=1e-14)
    np.testing.assert_allclose(sg.vmap(sg.grad(f))(x), [sg.grad(f)(v) for v in x], rtol=1e-13)
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(sg.vmap(f)(x)))(x), [sg.grad(f)(v) for v in x], rtol=1e-13)
    np.testing.assert_allclose(sg.vmap(sg.hessian(f))(x), [sg.hessian(f)(v) for v in x], rtol=1e-12)


def test_branches_by_lane():
    f = lambda x: sg.cond(x > 0, lambda v: np.sqrt(v), lambda v: v * v, x)  # noqa: E731
    x = np.array([4.0, -2.0, 0.0])
    np.testing.assert_allclose(sg.vmap(f)(x), [2.0, 4.0, 0.0])
    np.testing.assert_array_equal(sg.vmap(sg.grad(f))(x), [0.25, -4.0, 0.0])


def test_nested_loops_against_unrolled_ones():
    def f(x, trips):
        def outer(i, s):
            return sg.while_loop(lambda t: t[0] < i + 2, lambda t: (t[0] + 1, np.sin(t[1] * x) + t[0]), (0, s))[1]

        return sg.fori_loop(0, trips, outer, x)

    assert sg.jit(f)(0.7, 5) == pytest.approx(f(0.7, 5), rel=1e-13)
    d1 = difference(lambda x: f(x, 5), 0.7)
    assert sg.grad(f)(0.7, 5) == pytest.approx(d1, rel=1e-8)
    assert sg.jvp(lambda x: f(x, 5), (0.7,), (1.0,))[1] == pytest.approx(sg.grad(f)(0.7, 5), rel=1e-12)
    assert sg.grad(sg.grad(f))(0.7, 5) == pytest.approx(difference(lambda x: sg.grad(f)(x, 5), 0.7), rel=1e-7)


@pytest.mark.parametrize("every", [1, 3, 10, 64])
def test_checkpoints_keep_less_and_change_nothing(every):
    def f(x, k):
        step = (
            sg.checkpoint(lambda i, y: y + 0.01 * np.sin(y) * y, every=k)
            if k
            else lambda i, y: y + 0.01 * np.sin(y) * y
        )
        return np.sum(sg.fori_loop(0, 200, step, x))

    x = np.linspace(0.1, 0.5, 100)
    plain, kept = sg.grad(lambda x: f(x, 0)), sg.grad(lambda x: f(x, every))
    np.testing.assert_allclose(kept(x), plain(x), rtol=1e-12)
    if every >= 10:
        assert kept.lower(x).cost()["bytes"] < plain.lower(x).cost()["bytes"] / 2


def test_checkpoint_of_scan_with_what_it_gives():
    def f(x, every):
        c, ys = sg.scan(sg.checkpoint(lambda c, a: (np.sin(c * a), c * c), every=every), x, np.arange(1.0, 24.0))
        return c + np.sum(ys)

    assert sg.jit(lambda x: f(x, 5))(0.7) == pytest.approx(f(0.7, 1), rel=1e-13)
    assert sg.grad(lambda x: f(x, 5))(0.2) == pytest.approx(sg.grad(lambda x: f(x, 1))(0.2), rel=1e-12)


def test_checkpoint_every_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        sg.checkpoint(lambda x: x, every=0)
