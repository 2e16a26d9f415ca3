"""Formulas, reports and explanations of compiled functions."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import symgrad as sg

x, y = sympy.symbols("x y", real=True)


def f(x, y):
    return y * np.sin(x) + np.exp(x * y)


def test_formula_of_the_documentation():
    assert str(sg.grad(f, argnums=(0, 1)).formula()).splitlines() == [
        "f(x, y) = y*sin(x) + exp(x*y)",
        "∂f/∂x = y*(exp(x*y) + cos(x))",
        "∂f/∂y = x*exp(x*y) + sin(x)",
    ]


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda x: x**3, x**3),
        (lambda x: np.log(1 + np.exp(x)), sympy.log(1 + sympy.exp(x))),
        (lambda x: np.sqrt(x) / 2, sympy.sqrt(x) / 2),
        (lambda x: np.tanh(x) * x, sympy.tanh(x) * x),
        (lambda x: sum(x**k for k in range(4)), 1 + x + x**2 + x**3),
        (lambda x: 1 / (1 + x * x), 1 / (1 + x**2)),
    ],
)
def test_values_and_gradients_are_sympys(fun, expected):
    formula = sg.grad(fun).formula()
    assert sympy.simplify(formula.value - expected) == 0
    assert sympy.simplify(formula.grads["x"] - sympy.diff(expected, x)) == 0
    assert formula.verify()


def test_lambdify_agrees_with_the_compiled_function():
    g = sg.value_and_grad(f, argnums=(0, 1))
    value, dx, dy = g.formula().lambdify()(0.3, 1.2)
    want_value, want = g(0.3, 1.2)
    np.testing.assert_allclose([value, dx, dy], [want_value, *want], rtol=1e-13)


def test_formula_of_jit_has_the_value_only():
    formula = sg.jit(lambda x: x * x + 1).formula()
    assert sympy.simplify(formula.value - (x**2 + 1)) == 0 and not formula.grads


def test_title_of_a_lambda_is_f():
    assert str(sg.grad(lambda x: x * 2).formula()).startswith("f(x) =")


def test_unknown_arguments_of_formula():
    with pytest.raises(TypeError, match="no argument z"):
        sg.grad(f).formula(z="f64")


def test_formula_of_a_transform_that_has_none():
    with pytest.raises(sg.UnsupportedError, match="vmap"):
        sg.vmap(f).formula()


def test_verify_accepts_a_right_gradient():
    report = sg.grad(lambda w, a: np.sum(np.tanh(a @ w) ** 2)).verify(
        np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2)
    )
    assert report, str(report)
    assert "tanh" in str(report)


def test_verify_catches_a_wrong_custom_rule():
    @sg.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (2 * ct * x**2,))
    report = sg.grad(lambda x: np.sum(cube(x))).verify(np.array([0.5, 1.5]))
    assert not report
    assert "cube" in str(report)


def test_verify_accepts_a_right_custom_rule():
    @sg.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * ct * x**2,))
    assert sg.grad(lambda x: np.sum(cube(x))).verify(np.array([0.5, 1.5]))


def test_verify_with_captures_and_several_arguments():
    w = np.array([1.0, 2.0])
    assert sg.value_and_grad(lambda a, b: np.sum(w * a * np.exp(b["k"])), argnums=(0, 1)).verify(np.ones(2), {"k": 0.3})


def test_explain_before_and_after():
    g = sg.grad(lambda x: np.sum(np.log(1 + np.exp(x))))
    assert "not compiled" in g.explain()
    g(np.ones(3))
    g(np.ones(4))
    text = g.explain()
    assert text.count("program") == 2
    assert "any lengths" in text and "[(3,)]" in text
    assert "loops" in text


def test_explain_names_what_is_read_from_outside():
    scale = 2.0
    h = sg.jit(lambda x: x * scale)
    h(1.0)
    assert "scale" in h.explain()


def test_inspection_leaves_calls_as_they_were():
    g = sg.grad(f)
    before = g(0.3, 1.2)
    g.formula()
    g.verify(0.3, 1.2)
    g.explain()
    assert g(0.3, 1.2) == before
    assert g.cache_info().misses == 1


def test_verify_goes_through_branches_and_loops():
    def root(a):
        x = 1.0
        while True:
            step = (x * x * x - a) / (3.0 * x * x)
            x = x - step
            if abs(step) < 1e-13:
                break
        return x if x > 1 else -x

    report = sg.grad(root).verify(7.3)
    assert report, str(report)
    assert "as Python runs it" in str(report)


def test_verify_compares_the_value_with_python():
    numbers = iter([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    report = sg.grad(lambda x: x * next(numbers)).verify(1.5)
    assert not report
    assert "instead of" in str(report)
