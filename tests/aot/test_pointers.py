"""Function pointers: called by ctypes, by SciPy's integrators, as C would call them."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from scipy import LowLevelCallable
from scipy.integrate import nquad, quad

import symgrad as sg
from symgrad.errors import ExportError


def bell(x):
    return np.exp(-x * x) * np.cos(2.0 * x)


def test_a_function_of_a_number_and_its_derivative():
    f, slope = sg.jit(bell).cfunc("double (double)"), sg.grad(bell).cfunc("double (double)")
    for x in (-1.5, 0.0, 0.3, 4.0):
        assert f(x) == pytest.approx(bell(x), rel=1e-15)
        wanted = -np.exp(-x * x) * (2 * x * np.cos(2 * x) + 2 * np.sin(2 * x))
        assert slope(x) == pytest.approx(wanted, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("signature", ["double (double)", "double (double, void *)"])
def test_an_integral_by_scipy(signature):
    value, _ = quad(LowLevelCallable(sg.jit(bell).cfunc(signature)), -np.inf, np.inf)
    assert value == pytest.approx(math.sqrt(math.pi) * math.exp(-1), rel=1e-12)


def test_the_integral_of_a_derivative():
    value, _ = quad(LowLevelCallable(sg.grad(bell).cfunc("double (double)")), 0.0, 1.3)
    assert value == pytest.approx(bell(1.3) - bell(0.0), rel=1e-12)


@pytest.mark.parametrize("signature", ["double (int, double *)", "double (int, double *, void *)"])
def test_an_integral_over_a_square(signature):
    product = sg.jit(lambda x: np.exp(-x[0]) * np.sin(x[1]))
    value, _ = nquad(LowLevelCallable(product.cfunc(signature)), [(0, 1), (0, np.pi)])
    assert value == pytest.approx((1 - math.exp(-1)) * 2, rel=1e-12)


def test_where_it_raises_the_number_is_nan():
    f = sg.jit(lambda x: x[2] * 1.0).cfunc("double (int, double *)")
    short = (ctypes.c_double * 2)(1.0, 2.0)
    assert math.isnan(f(2, short))
    assert f(3, (ctypes.c_double * 3)(1.0, 2.0, 5.0)) == 5.0


def test_a_loop_that_ends_by_itself():
    def root(a):
        x = 1.0
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    assert sg.grad(root).cfunc("double (double)")(7.0) == pytest.approx(0.5 / math.sqrt(7.0), rel=1e-11)


def test_a_pointer_with_the_interface_of_a_library():
    loss = sg.value_and_grad(lambda w, x: np.sum(np.tanh(x @ w)))
    call = loss.ctypes("f64[d]", "f64[n,d]")
    assert loss.address("f64[d]", "f64[n,d]") == ctypes.cast(call, ctypes.c_void_p).value
    w, x = np.array([0.5, -0.25]), np.arange(6.0).reshape(3, 2)
    value, slope = np.zeros(()), np.zeros(2)
    size = call.pointer.workspace(d=2, n=3)
    workspace = np.zeros(size, np.uint8)
    places = [a.ctypes.data for a in (w, x, value, slope, workspace)]
    assert call(2, 3, *places, size) == 0
    h = np.tanh(x @ w)
    np.testing.assert_allclose(value, h.sum(), rtol=1e-13)
    np.testing.assert_allclose(slope, x.T @ (1 - h * h), rtol=1e-12)
    assert call(2, 3, *places, size - 1) == 2


@pytest.mark.parametrize(
    ("function", "signature", "message"),
    [
        (sg.jit(bell), "float (float)", "signature 'float .float.' is not known; there are double .double."),
        (sg.value_and_grad(bell), "double (double)", "does not give one number"),
        (sg.jit(lambda x: x * 2.0), "double (int, double *)", "does not give one number"),
    ],
)
def test_what_cannot_be_is_named(function, signature, message):
    with pytest.raises(ExportError, match=message):
        function.cfunc(signature)
