"""NEP 50 with Python numbers as arguments: they adapt, and changing them compiles nothing."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

F32 = np.array([1.5, -2.0], np.float32)
I32 = np.array([3, -4], np.int32)


@pytest.mark.parametrize(
    "x", [F32, I32, F32.astype(np.float64), np.array([1, 2], np.uint8), np.float32(2), np.int8(3), 2, 2.5]
)
@pytest.mark.parametrize("k", [2, 2.5, True, np.float32(1.5), np.int64(3), np.float64(0.5)])
@pytest.mark.parametrize(
    "fun",
    [
        lambda x, k: x + k,
        lambda x, k: k * x,
        lambda x, k: x / k,
        lambda x, k: np.maximum(x, k),
        lambda x, k: np.where(x > k, x, k),
    ],
)
def test_promotion_is_numpys(x, k, fun):
    got, wanted = sg.jit(fun)(x, k), fun(x, k)
    same(got, wanted, rtol=1e-6)


def test_numbers_may_change_without_compiling():
    f = sg.jit(lambda x, k: x * k)
    for k in (1.0, 2.5, -3.0, float("inf"), 0.0):
        same(f(F32, k), F32 * np.float32(k))
    assert f.cache_info()[:2] == (4, 1)


def test_ints_may_change_without_compiling():
    f = sg.jit(lambda x, k: x * k + k)
    for k in (0, 1, -5, 7):
        same(f(I32, k), I32 * k + k)
    assert f.cache_info().misses == 1


def test_int_and_float_are_different_programs():
    f = sg.jit(lambda x, k: x * k)
    assert f(I32, 2).dtype == np.int32
    assert f(I32, 2.0).dtype == np.float64
    assert f(I32, 3).dtype == np.int32
    assert f.cache_info().misses == 2


def test_arithmetic_of_numbers_is_pythons():
    f = sg.jit(lambda a, b: (a + b, a * b, a / b, a // b, a % b, a - b))
    for a, b in [(7, 2), (-7, 2), (7.5, 2.0), (7, 2.0), (-7.5, 2)]:
        got = f(a, b)
        assert got == (a + b, a * b, a / b, a // b, a % b, a - b)


def test_numbers_stay_weak_through_arithmetic():
    got = sg.jit(lambda x, k: x * (k * 2 + 1))(F32, 0.5)
    same(got, F32 * np.float32(2))


def test_gradients_of_numbers_are_float64():
    dx, dk = sg.grad(lambda x, k: np.sum(x * k), argnums=(0, 1))(F32, 2.0)
    assert dx.dtype == np.float32 and type(dk) is np.float64
    same(dk, np.float64(F32.sum()), rtol=1e-6)


def test_an_axis_is_pinned():
    f = sg.jit(lambda x, axis: np.sum(x, axis=axis))
    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1, -1, 0, 1):
        same(f(x, axis), x.sum(axis=axis))
    assert f.cache_info().misses == 3


def test_shapes_counts_and_indices_of_lists_are_pinned():
    f = sg.jit(lambda x, n: (np.zeros(n) + x, [x] * n, [x, 2 * x, 3 * x][n]))
    for n in (1, 2, 1, 0):
        got = f(2.0, n)
        same(got[0], np.full(n, 2.0))
        assert len(got[1]) == n and got[2] == 2.0 * (n + 1)
    assert f.cache_info().misses == 3


def test_positions_in_arrays_are_not_pinned():
    f = sg.jit(lambda x, k: x[k])
    x = np.arange(5.0)
    for k in (0, 4, -1, 2):
        assert f(x, k) == x[k]
    assert f.cache_info().misses <= 4


def test_a_pinned_number_still_has_a_derivative_elsewhere():
    f = sg.grad(lambda x, n: x**2 * np.sum(np.ones(int(n))))
    same(f(3.0, 4), np.float64(24.0))
    same(f(3.0, 5), np.float64(30.0))


def test_unrolled_loops_are_pinned():
    def power(x, n):
        out = 1.0
        for _ in range(n):
            out = out * x
        return out

    f = sg.grad(power)
    for n in (3, 5, 3, 0, 1):
        same(f(2.0, n), np.float64(n * 2.0 ** (n - 1)))


def test_powers():
    f = sg.jit(lambda x, n: x**n)
    for x, n in [(2.0, 3), (-2.0, 3), (2.0, -1), (2.0, 0), (0.0, 0), (-2.0, 2), (3, 4), (2.0, 0.5)]:
        assert f(x, n) == x**n
    same(sg.jit(lambda x, n: x**n)(F32, 2), F32**2)
    same(sg.jit(lambda x, n: x**n)(I32, 2), I32**2)


def test_large_ints_wrap_or_are_refused():
    f = sg.jit(lambda k: k + 1)
    assert f(2**62) == 2**62 + 1
    with pytest.raises(sg.DTypeError, match="64 bits"):
        f(2**63)
    assert f(5) == 6


def test_bools_are_static():
    f = sg.jit(lambda x, flag: x if flag else -x)
    assert (f(1.0, True), f(1.0, False), f(2.0, True)) == (1.0, -1.0, 2.0)
    assert f.cache_info().misses == 2


def test_none_is_static():
    f = sg.jit(lambda x, y=None: x if y is None else x + y)
    assert (f(1.0), f(1.0, None), f(1.0, 2.0), f(1.0, y=3.0)) == (1.0, 1.0, 3.0, 4.0)
