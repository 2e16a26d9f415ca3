"""Random tensor programs, alike and not alike, read half-way or not: gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg

STEPS = (
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: np.sin(a),
    lambda a, b: a - b * 2.0,
    lambda a, b: a * 0.5,
    lambda a, b: np.where(a > b, a, b * b),
)


def program(seed, inputs):
    """The same steps for tensors and for arrays."""
    rng = np.random.default_rng(seed)
    pool = list(inputs)
    for _ in range(8):
        a, b = (pool[rng.integers(len(pool))] for _ in range(2))
        pool.append(STEPS[rng.integers(len(STEPS))](a, b))
    return (pool[-1] * pool[-2]).sum()


def differences(seed, values, k, step=1e-6):
    out = np.zeros_like(values[k])
    for j in range(out.size):
        up, down = ([v.copy() for v in values] for _ in range(2))
        up[k][j] += step
        down[k][j] -= step
        out[j] = (program(seed, up) - program(seed, down)) / (2 * step)
    return out


@pytest.mark.parametrize("trial", range(45))
def test_gradient(trial):
    seed, rng = trial % 15, np.random.default_rng(100 + trial)
    values = [rng.normal(size=3) for _ in range(3)]
    tensors = [sg.tensor(v, requires_grad=k == 0 or rng.random() < 0.7) for k, v in enumerate(values)]
    out = program(seed, tensors)
    if trial % 3 == 0:
        assert_allclose(float(out), program(seed, values), rtol=1e-12)
    if out.requires_grad:
        out.backward()
    for k, x in enumerate(tensors):
        slope = np.zeros(3) if x.grad is None else x.grad.numpy()
        if x.requires_grad:
            assert_allclose(slope, differences(seed, values, k), rtol=1e-5, atol=1e-7)
        else:
            assert x.grad is None
