"""Loops that threads share: values are those of one thread, whoever does what."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import blas
from symgrad.lower import turns

LENGTHS = (0, 1, 2, 3, 7, 31, 33, 1000)


@pytest.fixture(autouse=True)
def small_loops_are_shared(monkeypatch):
    monkeypatch.setattr(turns, "WORTH", 0)
    monkeypatch.setattr(turns, "SMALL", 0)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


@pytest.mark.parametrize("workers", [2, 3, 64, 100])
def test_a_sum_and_its_gradient(workers):
    f = sg.value_and_grad(rosenbrock, parallel=workers)
    for n in LENGTHS:
        x = np.random.default_rng(n).uniform(-2, 2, n)
        value, gradient = f(x)
        np.testing.assert_allclose(value, rosenbrock(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, rosenbrock_gradient(x), rtol=1e-12, atol=1e-10)


def test_sums_over_rows_into_arrays():
    f = sg.value_and_grad(lambda w, x: np.sum(np.tanh(x * w)), argnums=(0, 1), parallel=2)
    w = np.linspace(-1, 1, 40)
    for n in LENGTHS:
        x = np.random.default_rng(n).normal(size=(n, 40))
        value, (of_w, of_x) = f(w, x)
        slope = 1 - np.tanh(x * w) ** 2
        np.testing.assert_allclose(value, np.sum(np.tanh(x * w)), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(of_w, np.sum(slope * x, axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(of_x, slope * w, rtol=1e-12)


def test_largest_and_smallest_element():
    f = sg.value_and_grad(lambda x: np.max(np.sin(x)) - 3 * np.min(np.sin(x)), parallel=3)
    for n in (1, 2, 5, 1000):
        x = np.random.default_rng(n).uniform(-1.5, 1.5, n)
        value, gradient = f(x)
        wanted = np.zeros(n)
        wanted[np.argmax(x)] += np.cos(np.max(x))
        wanted[np.argmin(x)] -= 3 * np.cos(np.min(x))
        np.testing.assert_allclose(value, np.sin(np.max(x)) - 3 * np.sin(np.min(x)), rtol=1e-14)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-14)


def softmax_loss(x, t):
    shifted = x - np.max(x, axis=1, keepdims=True)
    return np.sum(t * (shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))))


@pytest.mark.parametrize("shape", [(1, 5), (40, 300), (1000, 9)])
def test_rows_that_stay_in_cache_are_each_workers_own(shape):
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=shape), rng.dirichlet(np.ones(shape[1]), shape[0])
    f = sg.value_and_grad(softmax_loss, parallel=4)
    e = np.exp(x)
    for _ in range(50):
        value, gradient = f(x, t)
        np.testing.assert_allclose(value, softmax_loss(x, t), rtol=1e-12)
        np.testing.assert_allclose(gradient, t - e / e.sum(axis=1, keepdims=True), rtol=1e-11, atol=1e-14)


def test_batches_of_products_are_shared_and_blas_has_its_threads_back():
    rng = np.random.default_rng(3)
    x, m, w = rng.normal(size=(500, 32)), rng.normal(size=(12, 32)), rng.normal(size=(12, 32, 32))
    f = sg.value_and_grad(lambda x, m, w: np.sum(np.tanh((x - m[:, None]) @ w) ** 2), argnums=(0, 1, 2), parallel=3)
    known = blas.thread_count()
    count = ctypes.CFUNCTYPE(ctypes.c_int)(known[0]) if known else lambda: 0
    before = count()
    for _ in range(20):
        value, slopes = f(x, m, w)
    assert count() == before
    h = np.tanh((x - m[:, None]) @ w)
    back = 2 * h * (1 - h * h)
    np.testing.assert_allclose(value, np.sum(h * h), rtol=1e-12)
    np.testing.assert_allclose(slopes[0], np.sum(back @ np.swapaxes(w, 1, 2), axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes[1], -np.sum(back @ np.swapaxes(w, 1, 2), axis=1), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(slopes[2], np.swapaxes(x - m[:, None], 1, 2) @ back, rtol=1e-10, atol=1e-11)


def test_the_same_call_gives_the_same_bits():
    x = np.random.default_rng(1).normal(size=50_000)
    f = sg.value_and_grad(rosenbrock, parallel=2)
    value, gradient = f(x)
    for _ in range(200):
        again, slope = f(x)
        assert again == value and slope.tobytes() == gradient.tobytes()


def test_calls_from_several_threads():
    f = sg.value_and_grad(lambda x: np.sum(np.sin(x) * x), parallel=2)
    arrays = [np.random.default_rng(n).normal(size=20_000 + n) for n in range(4)]
    wanted = [f(a) for a in arrays]

    def many(k):
        found = [f(arrays[k]) for _ in range(100)]
        return all(v == wanted[k][0] and (g == wanted[k][1]).all() for v, g in found)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, [0, 1, 2, 3] * 4))


def test_a_small_loop_is_not_shared(monkeypatch):
    monkeypatch.undo()
    f = sg.jit(rosenbrock, parallel=2)
    assert "parallel for" not in f.lower(np.zeros(400)).as_text("loops")


SHARED = sg.value_and_grad(rosenbrock, parallel=2)


def _in_child(n):
    return SHARED(np.linspace(0, 1, n))[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_works_too():
    wanted = _in_child(10_000)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_in_child, [10_000] * 4) == [wanted] * 4


ENDING = """
import threading
import numpy as np
import symgrad as sg
assert threading.active_count() == 1
f = sg.grad(lambda x: np.sum(x ** 3), parallel=3)
assert threading.active_count() == 1
x = np.arange(200_000.0)
for _ in range(20):
    g = f(x)
assert (g == 3 * x ** 2).all() and threading.active_count() == 3
"""


def test_threads_begin_with_the_first_program_and_end_with_the_process():
    run = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and not run.stderr, run.stderr


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_a_number_of_threads_is_a_positive_int(workers):
    with pytest.raises(ValueError, match="parallel"):
        sg.jit(rosenbrock, parallel=workers)


def test_a_shared_loop_is_shown():
    text = sg.jit(rosenbrock, parallel=2).lower(np.zeros(2000)).as_text("loops")
    assert "parallel for" in text and "in 0..2" in text
