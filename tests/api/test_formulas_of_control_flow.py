"""Formulas of branches and loops: read off the program, equal to it, and short."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.errors import UnsupportedError


def branches(x, y):
    if x > y:
        z = x * np.exp(y)
    elif x > 0:
        z = np.sin(x)
    else:
        z = y**2
    return z + 1


def recurrence(x):
    y = x
    for _ in range(50):
        y = y + 0.1 * np.sin(y)
    return y if y > 0 else -y


def nested(x, y):
    total = 0.0
    for i in range(20):
        z = y
        for _ in range(3):
            z = z * x + i
        total = total + np.tanh(z) if z < 5.0 else total - 0.5 * z
    return total


FUNCTIONS = {f.__name__: f for f in (branches, recurrence, nested)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_formula_is_what_the_program_computes(name):
    function = FUNCTIONS[name]
    count = function.__code__.co_argcount
    formula = sg.grad(function, argnums=tuple(range(count))).formula()
    called = formula.lambdify()
    compiled = sg.value_and_grad(function, argnums=tuple(range(count)))
    rng = np.random.default_rng(0)
    for _ in range(20):
        point = [float(v) for v in rng.uniform(-1.5, 1.5, count)]
        value, slopes = compiled(*point)
        np.testing.assert_allclose([float(v) for v in called(*point)], [value, *slopes], rtol=1e-9)
    assert formula.verify()


def test_arms_are_cases():
    formula = sg.grad(branches, argnums=(0, 1)).formula()
    x, y = sp.symbols("x y", real=True)
    assert formula.grads["x"] == sp.Piecewise((sp.exp(y), x > y), (sp.cos(x), x > 0), (0, True))
    assert formula.grads["y"] == sp.Piecewise((x * sp.exp(y), x > y), (0, x > 0), (2 * y, True))


def test_steps_are_one_line_each_way():
    assert str(sg.grad(recurrence).formula(simplify=False)).splitlines() == [
        "recurrence(x) = Piecewise((t[50], t[50] > 0), (-t[50], True))",
        "    t[1] = x + sin(x)/10",
        "    t[k] = sin(t[k - 1])/10 + t[k - 1] for k = 2, …, 50",
        "∂recurrence/∂x = cos(x)*t[100]/10 + t[100]",
        "    t[51] = Piecewise((1, t[50] > 0), (-1, True))",
        "    t[k] = cos(t[101 - k])*t[k - 1]/10 + t[k - 1] for k = 52, …, 100",
    ]


def test_steps_of_several_lines():
    """A pendulum by the symplectic Euler method; the way back runs down as the way there ran up."""

    def pendulum(angle, speed):
        for _ in range(100):
            speed = speed - 0.01 * np.sin(angle)
            angle = angle + 0.01 * speed
        return angle

    assert str(sg.grad(pendulum, argnums=(0, 1)).formula(simplify=False)).splitlines() == [
        "pendulum(angle, speed) = -sin(t[198])/10000 + t[197]/100 + t[198]",
        "    t[1] = speed - sin(angle)/100",
        "    t[2] = angle + t[1]/100",
        "    t[k] = -sin(t[k - 1])/100 + t[k - 2]",
        "    t[k + 1] = t[k - 1] + t[k]/100 for k = 3, 5, …, 197",
        "∂pendulum/∂angle = (-t[394]/100 - t[395]/10000)*cos(angle) + t[395]",
        "    t[199] = 1 - cos(t[198])/10000",
        "    t[200] = t[199]/100 + 1/100",
        "    t[k] = -cos(t[397 - k])*t[k - 1]/100 + t[k - 2]",
        "    t[k + 1] = t[k - 1] + t[k]/100 for k = 201, 203, …, 393",
        "    t[395] = -cos(t[2])*t[394]/100 + t[393]",
        "∂pendulum/∂speed = t[394] + t[395]/100",
    ]


def test_a_loop_over_the_rows_of_an_array_has_none_yet():
    def walk(w, x):
        h = 0.0
        for v in x:
            h = np.tanh(w * h + v)
        return h

    with pytest.raises(UnsupportedError, match="walk: a loop over arrays has no formula yet"):
        sg.grad(walk).formula(x="f64[300]")


def test_a_loop_that_ends_by_itself_has_none_yet():
    def kepler(m):
        e = m
        while abs(e - 0.3 * np.sin(e) - m) > 1e-12:
            e = e - (e - 0.3 * np.sin(e) - m) / (1 - 0.3 * np.cos(e))
        return e

    def escape(x):
        for k in range(60):
            x = x * 1.5
            if x > 10.0:
                return x + k
        return x

    for f in (kepler, escape):
        with pytest.raises(
            UnsupportedError, match=f"{f.__name__}: a formula of a loop needs to know how often it runs"
        ):
            sg.grad(f).formula()


def test_too_many_steps_are_named():
    def long(x):
        for _ in range(100_000):
            x = x * 0.999 + 0.001
        return x

    with pytest.raises(UnsupportedError, match="100000 steps is too long to read"):
        sg.grad(long).formula()
