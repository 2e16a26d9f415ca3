"""Realistic NumPy programs: the compiled value is NumPy's, the gradient is that of central differences."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.programs import PROGRAMS
from tests.api.truth import same, slope


def differentiable(args):
    """Positions of the float arguments."""
    return tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f")


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient(name):
    fun, make = PROGRAMS[name]
    args = make(np.random.default_rng(sum(map(ord, name))))
    kept = [np.copy(a) for a in args]
    wrt = differentiable(args)
    value, grads = sg.value_and_grad(fun, argnums=wrt, stabilize=False)(*args)
    same(value, np.float64(fun(*args)), rtol=1e-13, atol=1e-14)
    for k, g in zip(wrt, grads, strict=True):
        wanted = slope(fun, *args, argnum=k)
        scale = max(1.0, float(np.abs(wanted).max()))
        same(g, wanted if wanted.ndim else wanted[()], rtol=2e-7, atol=2e-8 * scale)
    assert all(np.array_equal(a, b) for a, b in zip(args, kept, strict=True))


@pytest.mark.parametrize("name", sorted(PROGRAMS)[::3])
def test_stable_rewrites_do_not_change_ordinary_values(name):
    fun, make = PROGRAMS[name]
    args = make(np.random.default_rng(sum(map(ord, name))))
    wrt = differentiable(args)
    plain = sg.value_and_grad(fun, argnums=wrt, stabilize=False)(*args)
    stable = sg.value_and_grad(fun, argnums=wrt)(*args)
    same(stable[0], plain[0], rtol=1e-12, atol=1e-13)
    for a, b in zip(stable[1], plain[1], strict=True):
        same(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(PROGRAMS)[1::4])
def test_forward_mode_agrees(name):
    fun, make = PROGRAMS[name]
    args = make(np.random.default_rng(sum(map(ord, name))))
    k = differentiable(args)[0]
    same(sg.jacfwd(fun, argnums=k)(*args), sg.grad(fun, argnums=k)(*args), rtol=1e-10, atol=1e-12)
