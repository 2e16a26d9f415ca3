"""Formulas as text to run: in NumPy and in C, compared with the compiled gradient."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from scipy.special import erf

import symgrad as sg
from symgrad.errors import UnsupportedError


def plain(x, y):
    return np.sin(x) * y + np.exp(x * y)


def option(spot, strike, volatility):
    d1 = (np.log(spot / strike) + 0.5 * volatility**2) / volatility
    return spot * 0.5 * (1 + erf(d1 / np.sqrt(2))) - strike * 0.5 * (1 + erf((d1 - volatility) / np.sqrt(2)))


def cases(x, y):
    if x > y:
        return x**3 * np.tanh(y)
    return np.sqrt(x * x + 1.0) - np.arctan(y)


def recurrence(x):
    for k in range(14):
        x = np.sin(x) * x + 0.1 * k
    return x


FUNCTIONS = {f.__name__: f for f in (plain, option, cases, recurrence)}
each = pytest.mark.parametrize("name", FUNCTIONS)


def made(name):
    function = FUNCTIONS[name]
    count = function.__code__.co_argcount
    every = tuple(range(count))
    rng = np.random.default_rng(0)
    points = [[float(v) for v in rng.uniform(0.3, 1.7, count)] for _ in range(10)]
    compiled = sg.value_and_grad(function, argnums=every)
    wanted = [np.array([value, *slopes]) for value, slopes in (compiled(*p) for p in points)]
    return sg.grad(function, argnums=every).formula(), points, wanted


@each
def test_in_numpy(name):
    formula, points, wanted = made(name)
    space = {}
    exec(formula.numpy(), space)
    for point, right in zip(points, wanted, strict=True):
        np.testing.assert_allclose([float(v) for v in space[name](*point)], right, rtol=1e-9)


@each
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_in_c(name, tmp_path):
    formula, points, wanted = made(name)
    (tmp_path / "f.c").write_text(formula.c())
    flags = ["-std=c99", "-pedantic", "-Wall", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "f.c", "-lm", "-o", "f.so"], cwd=tmp_path, check=True)
    function = ctypes.CDLL(str(tmp_path / "f.so"))[name]
    function.restype = ctypes.c_double
    for point, right in zip(points, wanted, strict=True):
        slopes = [ctypes.c_double() for _ in formula.grads]
        value = function(*map(ctypes.c_double, point), *map(ctypes.byref, slopes))
        np.testing.assert_allclose([value, *(s.value for s in slopes)], right, rtol=1e-9)


def test_the_text_is_short_and_complete():
    formula = sg.grad(lambda x: x * np.exp(x)).formula()
    assert formula.numpy() == "import numpy\n\n\ndef f(x):\n    return x*numpy.exp(x), (x + 1)*numpy.exp(x)\n"
    assert formula.c() == (
        "#include <math.h>\n\ndouble f(double x, double *grad_x)\n{\n"
        "    *grad_x = (x + 1)*exp(x);\n    return x*exp(x);\n}\n"
    )
    assert formula.markdown().startswith("$$\n\\begin{aligned}") and formula.markdown().endswith("\n$$")


def test_arrays_have_programs_instead():
    formula = sg.grad(lambda x: np.sum(x * x)).formula(x="f64[n]")
    for text in (formula.numpy, formula.c):
        with pytest.raises(UnsupportedError, match="formulas of numbers"):
            text()
