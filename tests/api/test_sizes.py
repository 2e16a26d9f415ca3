"""Lengths are not baked in: at most two programs for all of them, with right values for each."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

RNG = np.random.default_rng(3)
LENGTHS = (5, 7, 2, 11, 0, 64, 3, 1000)


def vector(n):
    return RNG.normal(size=n)


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


PROGRAMS = {
    "elementwise": lambda x: np.sin(x) * x + 1,
    "sum": lambda x: np.sum(x**2),
    "mean": lambda x: np.sum(x) / x.shape[0] if x.shape[0] else np.sum(x),
    "length as a number": lambda x: x * len(x) + x.size / 2,
    "stencil": lambda x: x[1:] - x[:-1],
    "backwards": lambda x: x[::-1] * 2,
    "every other": lambda x: x[::2] + x[::2],
    "concatenate": lambda x: np.concatenate([x, x * 2, np.ones(3)]),
    "stack": lambda x: np.stack([x, -x], axis=1),
    "reshape(-1)": lambda x: np.stack([x, x]).reshape(-1),
    "outer": lambda x: x[:, None] * x[None, :] if x.shape[0] < 100 else x,
    "cumsum": lambda x: np.cumsum(x),
    "zeros_like and assignment": lambda x: _assigned(x),
    "arange": lambda x: x * np.arange(x.shape[0]),
    "linspace": lambda x: x * np.linspace(0.0, 1.0, x.shape[0]),
    "where": lambda x: np.where(x > 0, x, 2 * x),
    "dot": lambda x: x @ x,
    "tile": lambda x: np.tile(x, 3),
    "roll": lambda x: np.roll(x, 1),
    "sort": lambda x: np.sort(x),
    "pad": lambda x: np.pad(x, 2),
}


def _assigned(x):
    out = np.zeros(x.shape[0] + 2)
    out[1:-1] = x
    out[0] = 5.0
    return out


MORE = {"outer", "mean", "stencil", "linspace", "roll"}  # these ask for a length, or have another formula for length 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_most_two_programs_for_all_lengths(name):
    fun = PROGRAMS[name]
    f = sg.jit(fun)
    for n in LENGTHS:
        x = vector(n)
        same(f(x), fun(x), rtol=1e-11)
    assert f.cache_info().misses <= (3 if name in MORE else 2)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: np.sum(np.tanh(x) ** 2),
        lambda x: np.sum((x[1:] - x[:-1]) ** 2),
        lambda x: np.log(np.sum(np.exp(x))),
        lambda x: np.prod(x),
        lambda x: np.sum(np.cumsum(x) ** 2),
        lambda x: np.sum(np.concatenate([x, x[::-1]]) * np.arange(2 * x.shape[0])),
        lambda x: np.max(x) - np.min(x),
    ],
)
def test_gradients_at_all_lengths(fun):
    g = sg.grad(fun)
    for n in (4, 6, 2, 9, 17):
        x = vector(n)
        eps = 1e-6
        wanted = [(fun(x + eps * e) - fun(x - eps * e)) / (2 * eps) for e in np.eye(n)]
        same(g(x), np.array(wanted), rtol=1e-5, atol=1e-7)
    assert g.cache_info().misses == 2


def test_one_length_needs_one_program():
    f = sg.jit(lambda x: x * 2)
    for _ in range(3):
        f(vector(5))
    assert f.cache_info()[:2] == (2, 1)


def test_two_arguments_with_lengths_of_their_own():
    f = sg.jit(lambda x, y: np.sum(x) * y)
    for n, m in [(3, 4), (5, 2), (4, 4), (0, 3), (7, 0), (100, 3)]:
        x, y = vector(n), vector(m)
        same(f(x, y), np.sum(x) * y)
    assert f.cache_info().misses == 2


def test_two_arguments_whose_lengths_agree():
    f = sg.jit(lambda x, y: x * y)
    for n in LENGTHS:
        x, y = vector(n), vector(n)
        same(f(x, y), x * y)
    assert f.cache_info().misses == 2
    with pytest.raises(sg.ShapeError, match=r"\(3,\).*\(4,\)"):
        f(vector(3), vector(4))
    x = vector(6)
    same(f(x, x + 1), x * (x + 1))


def test_matrices():
    f = sg.jit(lambda a, b: (a @ b, a.T, np.einsum("ij,jk->ki", a, b), a.sum(axis=0), a.reshape(-1)))
    for n, k, m in [(2, 3, 4), (4, 3, 2), (5, 5, 5), (3, 0, 2), (30, 20, 10)]:
        a, b = RNG.normal(size=(n, k)), RNG.normal(size=(k, m))
        same(f(a, b), (a @ b, a.T, (a @ b).T, a.sum(axis=0), a.reshape(-1)), rtol=1e-11, atol=1e-12)
    assert f.cache_info().misses == 2


def test_network_over_batch_sizes():
    w, v = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    g = sg.grad(lambda w, v, x, y: np.mean((np.tanh(x @ w) @ v - y) ** 2), argnums=(0, 1))
    for n in (8, 5, 32, 2, 100):
        x, y = RNG.normal(size=(n, 3)), RNG.normal(size=n)
        gw, gv = g(w, v, x, y)
        h = np.tanh(x @ w)
        r = 2 * (h @ v - y) / n
        same(gv, h.T @ r, rtol=1e-10)
        same(gw, x.T @ (r[:, None] * v * (1 - h**2)), rtol=1e-10)
    assert g.cache_info().misses == 2


def test_length_one_that_broadcasts_is_like_a_rank():
    f = sg.jit(lambda x, y: x + y)
    same(f(vector(3) * 0, np.ones(3)), np.ones(3))
    same(f(np.zeros(4), np.ones(4)), np.ones(4))
    same(f(np.zeros(1), np.ones(4)), np.ones(4))
    same(f(np.zeros(1), np.ones(9)), np.ones(9))
    same(f(np.zeros(1), np.ones(20)), np.ones(20))
    assert f.cache_info().misses <= 4


def test_length_one():
    for fun in (lambda x: np.sum(x * x), lambda x: x[::-1] + 1, lambda x: np.concatenate([x, x]), np.sort):
        f = sg.jit(fun)
        for n in (3, 1, 4, 1):
            x = vector(n)
            same(f(x), fun(x))


def test_computed_lengths_of_one():
    f = sg.jit(lambda x: x[1:] + x)
    same(f(np.array([1.0, 2.0])), np.array([3.0, 4.0]))
    with pytest.raises(sg.ShapeError):
        f(np.ones(3))
    with pytest.raises(sg.ShapeError):
        f(np.ones(4))
    same(f(np.array([1.0, 2.0])), np.array([3.0, 4.0]))


def test_conditions_on_lengths_give_a_program_each():
    f = sg.jit(lambda x: x * 2 if x.shape[0] > 4 else x * 3)
    for n in (3, 4, 5, 6, 2, 100, 0):
        same(f(np.ones(n)), np.full(n, 2.0 if n > 4 else 3.0))
    assert f.cache_info().misses <= 3


def test_lengths_that_python_needs_are_compiled_in():
    f = sg.jit(lambda x: sum(x[i] * i for i in range(len(x))))
    for n in (3, 4, 6, 3, 4):
        same(f(np.ones(n)), np.float64(sum(range(n))))
    assert f.cache_info().misses == 3


def test_slices_with_numbers_past_the_end():
    f = sg.jit(lambda x: (x[:4], x[-3:], x[2:]))
    for n in (5, 10, 3, 1, 0, 4, 20):
        x = vector(n)
        same(f(x), (x[:4], x[-3:], x[2:]))


def test_index_out_of_range_for_a_shorter_array():
    f = sg.jit(lambda x: x[3])
    same(f(np.arange(5.0)), np.float64(3))
    same(f(np.arange(9.0)), np.float64(3))
    with pytest.raises(IndexError, match=r"3.*out of bounds.*2"):
        f(np.arange(2.0))


def test_halves_of_even_and_odd_lengths():
    f = sg.jit(lambda x: (x[: len(x) // 2], x[len(x) // 2 :], len(x) % 2))
    for n in (4, 6, 7, 1, 0, 9):
        x = vector(n)
        half = n // 2
        same(f(x)[:2], (x[:half], x[half:]))
        assert f(x)[2] == n % 2


def test_reshape_to_computed_shapes():
    f = sg.jit(lambda x: x.reshape(x.shape[0] // 2, 2).sum(axis=0))
    for n in (4, 8, 10, 2):
        x = vector(n)
        same(f(x), x.reshape(n // 2, 2).sum(axis=0), rtol=1e-11)
    assert f.cache_info().misses <= 3
    with pytest.raises((sg.ShapeError, ValueError)):
        f(vector(5))


def test_huge_arrays():
    f = sg.value_and_grad(lambda x: np.sum(x * x))
    f(np.ones(3))
    f(np.ones(4))
    x = np.ones(2_000_001)
    value, g = f(x)
    assert value == 2_000_001
    same(g, 2 * x)
    assert f.cache_info().misses == 2


def test_mean_of_nothing_is_nan_as_in_numpy():
    f = sg.jit(np.mean)
    same(f(np.ones(3)), np.float64(1))
    same(f(np.ones(4)), np.float64(1))
    assert np.isnan(f(np.zeros(0)))


def test_maximum_of_nothing_is_an_error_as_in_numpy():
    f = sg.jit(np.max)
    same(f(np.ones(3)), np.float64(1))
    same(f(np.ones(4)), np.float64(1))
    with pytest.raises(ValueError, match=r"zero-size|empty|no identity"):
        f(np.zeros(0))


def test_lists_of_other_lengths_are_other_structures():
    f = sg.jit(lambda xs: sum(xs))
    assert f([1.0, 2.0]) == 3.0
    assert f([1.0, 2.0, 3.0]) == 6.0


def test_jacobian_at_many_lengths():
    f = sg.jacobian(lambda x: x[1:] * x[:-1])
    for n in (4, 5, 2, 8):
        x = vector(n)
        wanted = np.zeros((n - 1, n))
        wanted[range(n - 1), range(n - 1)] = x[1:]
        wanted[range(n - 1), range(1, n)] = x[:-1]
        same(f(x), wanted)
    assert f.cache_info().misses <= 3


def test_vmap_over_batches_of_many_lengths():
    f = sg.vmap(sg.grad(lambda x: np.sum(x**3)))
    for n, m in [(2, 3), (5, 3), (4, 7), (0, 2), (3, 0)]:
        x = RNG.normal(size=(n, m))
        same(f(x), 3 * x**2)
    assert f.cache_info().misses == 2


def test_a_list_times_a_length_repeats_it():
    f = sg.jit(lambda x: [0] * len(x))
    for n in (3, 4, 2):
        assert f(np.ones(n)) == [0] * n
