"""Pending programs: when they run, what is compiled, and how long ones are cut."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg
from symgrad.tensor import program, tape, values


def misses():
    return sg.autograd.cache_info().misses


def test_a_repeated_step_compiles_once():
    w, x = sg.tensor(np.eye(3), requires_grad=True), sg.tensor(np.ones(3))
    counts = []
    for _ in range(20):
        w.grad = None
        (w @ x).tanh().sum().backward()
        counts.append(misses())
    assert counts[1] == counts[-1]
    assert_allclose(w.grad.numpy(), np.full((3, 3), 1 - np.tanh(1.0) ** 2), rtol=1e-14)


def test_other_numbers_compile_nothing():
    x = sg.tensor([1.0, 2.0])
    for _ in range(2):  # the first may have found something pending before it
        float((x * 2.5 + 0.5).sum())
    before = misses()
    total = float((x * 3.5 + 1.5).sum())
    assert total == 13.5 and misses() == before


def test_equal_numbers_of_other_types_are_told_apart():
    x = sg.tensor([1, 2])
    assert (x * 2).dtype == np.int64 and (x * 2.0).dtype == np.float64
    assert (x**2).dtype == np.int64 and (x**2.0).dtype == np.float64
    zero = sg.tensor([1.0])
    assert (zero / 0.0).item() == np.inf and (zero / -0.0).item() == -np.inf


def test_nothing_runs_before_a_value_is_read():
    x = sg.tensor([1.0, 2.0])
    y = x * 2.0
    assert y._value.pending and y.shape == (2,) and y.dtype == np.float64
    assert repr(y) == "tensor([2., 4.])"
    assert not y._value.pending


def test_values_out_of_use_are_not_computed():
    x = sg.tensor([1.0, 2.0])
    float(x.sum())
    kept = x * 2.0
    x.exp()  # dropped at once
    pending = program.pending().values
    assert sum(v.pending for v in pending) == 2
    kept.numpy()
    assert_allclose(kept.numpy(), [2.0, 4.0])


def test_long_chain_is_cut_and_differentiated():
    """y_n = x (1 + c)**n."""
    x, n, c = sg.tensor(1.0, requires_grad=True), 4000, 1e-4
    y = x
    for _ in range(n):
        y = y + y * c
    y.backward()
    assert_allclose(y.item(), (1 + c) ** n, rtol=1e-11)
    assert_allclose(x.grad.item(), (1 + c) ** n, rtol=1e-11)


@pytest.mark.slow
def test_very_long_chain():
    x = y = sg.tensor(1.0, requires_grad=True)
    for _ in range(60_000):
        y = y * 1.00001
    y.backward()
    assert_allclose([y.item(), x.grad.item()], 1.00001**60_000, rtol=1e-11)


def test_long_loop_without_reading_compiles_few_programs():
    before = misses()
    x = sg.tensor([1.0, 2.0])
    for _ in range(3000):
        x = x * 0.5 + 1.0 - x * 0.25
    want = np.full(2, 1 / 0.75)
    assert_allclose(x.numpy(), want, rtol=1e-14)
    assert misses() - before <= 4


def test_many_steps_leave_memory_as_it_was():
    w, x = sg.tensor([[0.5]], requires_grad=True), sg.tensor([[2.0]])
    optimizer = sg.optim.SGD([w], lr=0.01)

    def steps(n):
        for _ in range(n):
            optimizer.zero_grad()
            ((x @ w - 1.0) ** 2).sum().backward()
            optimizer.step()

    def alive():
        kinds = (values.Value, program.Segment, tape.Step, np.ndarray)
        return sum(isinstance(x, kinds) for x in gc.get_objects())

    steps(50)
    gc.collect()
    gc.disable()  # nothing may be left to it
    before = alive()
    steps(200)
    after = alive()
    gc.enable()
    assert after == before
    assert_allclose(w.item(), 0.5, rtol=1e-6)


def test_python_decides_on_values():
    def doubled(x):
        y = x * 2.0
        while (y * y).sum() < 1000.0:
            y = y * 2.0
        return y if y.sum() > 0 else y * 100.0

    for start, factor in (([1.0, 2.0], 16.0), ([-1.0, -2.0], 1600.0)):
        x = sg.tensor(start, requires_grad=True)
        doubled(x).backward(sg.tensor([1.0, 1.0]))
        assert_allclose(x.grad.numpy(), [factor, factor])


def test_threads_record_at_once():
    results = {}

    def work(k):
        w = sg.tensor([float(k)], requires_grad=True)
        for _ in range(50):
            w.grad = None
            (w * w * 3.0).sum().backward()
        results[k] = w.grad.item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 6.0 * k for k in range(4)}


def test_masked_cotangents_add_up():
    """Both uses of y are chosen away at the first element, where the root has an infinite slope."""
    x = sg.tensor([0.0, 4.0], requires_grad=True)
    y = x.sqrt()
    (np.where(x > 0, y, 1.0) + np.where(x > 1, y * 3.0, 1.0)).sum().backward()
    assert_allclose(x.grad.numpy(), [0.0, 1.0])
