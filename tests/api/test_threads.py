"""Compiled functions called from many threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same


def in_threads(work, count=8):
    """Run ``work(k)`` in ``count`` threads that start together; the first error is raised."""
    ready = threading.Barrier(count)

    def start(k):
        ready.wait()
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def test_first_calls_at_once_compile_once():
    f = sg.grad(lambda x: np.sum(np.sin(x) * x))
    x = np.linspace(0, 1, 50)
    for got in in_threads(lambda k: f(x)):
        same(got, np.cos(x) * x + np.sin(x))
    assert f.cache_info().misses == 1


def test_different_arguments_give_their_own_results():
    f = sg.value_and_grad(lambda x, k: np.sum(x**2 * k))

    def work(k):
        for n in range(2, 40):
            x = np.full(n, float(k))
            value, g = f(x, 3.0)
            assert value == 3.0 * n * k * k
            same(g, np.full(n, 6.0 * k))

    in_threads(work)
    assert f.cache_info().misses == 2


def test_different_functions_traced_at_once():
    def work(k):
        fs = [sg.grad(lambda x, j=j: x ** (j + 2) * k) for j in range(5)]
        for j, f in enumerate(fs):
            same(f(1.5), np.float64((j + 2) * 1.5 ** (j + 1) * k))

    in_threads(work, 4)


def test_an_error_in_one_thread_does_not_disturb_another():
    f = sg.jit(lambda x: x[2] * 2)

    def work(k):
        for _ in range(20):
            if k % 2:
                with pytest.raises(IndexError):
                    f(np.ones(2))
            else:
                assert f(np.ones(3 + k)) == 2.0

    in_threads(work)


def test_methods_of_different_objects():
    class Model:
        def __init__(self, w):
            self.w = w

        @sg.jit
        def at(self, x):
            return self.w * x

    def work(k):
        m = Model(float(k))
        for _ in range(50):
            assert m.at(2.0) == 2.0 * k

    in_threads(work)
    assert Model.at.cache_info().misses == 1


def test_big_workspaces_are_each_threads_own():
    f = sg.jit(lambda x: np.cumsum(np.sort(np.cumsum(x) * -1.0)))
    x = np.random.default_rng(0).normal(size=20_000)

    def work(k):
        for _ in range(5):
            same(f(x * (k + 1)), np.cumsum(np.sort(np.cumsum(x * (k + 1)) * -1.0)), rtol=1e-9, atol=1e-9)

    in_threads(work, 4)
