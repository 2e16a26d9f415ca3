"""Formulas of scalar functions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy as sp

from symgrad.autodiff.reverse import grad
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.node import param
from symgrad.ir.types import TensorType, f64, size_named
from symgrad.ops import pointwise as p
from symgrad.ops.folds import max_, norm2, sum_
from symgrad.ops.products import dot
from symgrad.ops.views import reshape, slice_
from symgrad.symbolic.bridge import symbol
from symgrad.symbolic.formula import Formula, scalar_formula

X, Y = symbol("x"), symbol("y")


def formula(build, names="x", **options) -> Formula:
    params = tuple(param(TensorType(f64)) for _ in names)
    graph = grad(Graph(params, (build(*params),)))
    return scalar_formula(graph, title="f", names=list(names), wrt=range(len(names)), **options)


@pytest.fixture(scope="module")
def example():
    return formula(lambda x, y: p.sin(x) * y + p.exp(x * y), "xy")


def test_it_reads_as_mathematics(example):
    assert str(example).splitlines() == [
        "f(x, y) = y*sin(x) + exp(x*y)",
        "∂f/∂x = y*(exp(x*y) + cos(x))",
        "∂f/∂y = x*exp(x*y) + sin(x)",
    ]


def test_its_parts_are_expressions(example):
    assert example.value == Y * sp.sin(X) + sp.exp(X * Y)
    assert list(example.grads) == ["x", "y"]
    assert example.subexpressions == {}


def test_latex(example):
    assert r"\frac{\partial f}{\partial x} &= y" in example.latex()
    assert example._repr_latex_().startswith("$") and example._repr_latex_().endswith("$")


def test_pretty(example):
    text = example.pretty()
    assert "∂f/∂x = y⋅" in text and "x⋅y" in text


def test_lambdify(example):
    x, y = 0.5, 1.5
    want = (np.sin(x) * y + np.exp(x * y), y * (np.exp(x * y) + np.cos(x)), x * np.exp(x * y) + np.sin(x))
    assert example.lambdify()(x, y) == pytest.approx(want)


def test_verify_proves(example):
    report = example.verify()
    assert report and all(c.how == "proved by sympy" for c in report.checks)


def test_verify_finds_a_wrong_gradient(example):
    report = dataclasses.replace(example, grads={**example.grads, "y": example.grads["y"] + X / 1000}).verify()
    assert not report and "FAIL ∂f/∂y" in str(report)


def test_verify_finds_a_wrong_case():
    right = formula(lambda x: p.maximum(x, 0.0) + p.exp(x))
    assert right.verify()
    assert not dataclasses.replace(right, grads={"x": sp.Piecewise((2, X > 1), (sp.exp(X), True))}).verify()


@pytest.mark.parametrize(
    ("build", "textbook"),
    [
        (lambda x: p.log(1.0 + p.exp(x)), "exp(x)/(exp(x) + 1)"),
        (lambda x: p.logaddexp(x, 0.0), "exp(x)/(exp(x) + 1)"),
        (lambda x: x / p.sqrt(1.0 + x * x), "(x**2 + 1)**(-3/2)"),
        (lambda x: x / p.hypot(x, 1.0), "(x**2 + 1)**(-3/2)"),
        (lambda x: p.tanh(x), "1 - tanh(x)**2"),
        (lambda x: 1.0 / (1.0 + p.exp(-x)), "exp(-x)/(1 + exp(-x))**2"),
        (lambda x: p.sigmoid(x), "exp(-x)/(1 + exp(-x))**2"),
        (lambda x: p.ipow(p.sin(x), n=2) + p.ipow(p.cos(x), n=2), "0"),
        (lambda x: p.ipow(x, n=3) - 2.0 * x + 5.0, "3*x**2 - 2"),
    ],
)  # fmt: skip
def test_no_longer_than_the_textbook(build, textbook):
    found, want = formula(build).grads["x"], sp.sympify(textbook, locals={"x": X})
    assert sp.count_ops(found) <= sp.count_ops(want) + 2
    for point in (-3.7, -0.4, 0.9, 5.2):
        assert abs((found - want).evalf(30, subs={X: sp.Float(point, 40)})) < 1e-25


def test_simplification_can_be_left_out():
    raw = formula(lambda x: p.sin(x) * x + p.cos(x) * x, simplify=False)
    assert raw.value == X * sp.sin(X) + X * sp.cos(X)


def chain(x):
    for k in range(14):
        x = p.sin(x) * x + 0.1 * k
    return x


def test_a_deep_recurrence_stays_small():
    found = formula(chain)
    assert len(str(found)) < 3000 and len(found.subexpressions) > 10
    assert found.verify()


def test_temporaries_stand_below_the_first_line_that_needs_them():
    lines = str(formula(chain)).splitlines()
    heads = [k for k, line in enumerate(lines) if not line.startswith(" ")]
    assert len(heads) == 2 and heads[1] > 10
    assert lines[1].strip().startswith(("t1 = ", "t[1] = "))


def test_a_shared_formula_can_be_called():
    x, step = 0.6, 1e-6
    found = formula(chain).lambdify()

    def plain(x):
        for k in range(14):
            x = np.sin(x) * x + 0.1 * k
        return x

    assert found(x)[0] == pytest.approx(plain(x))
    assert found(x)[1] == pytest.approx((plain(x + step) - plain(x - step)) / (2 * step), rel=1e-7)


def test_repeated_steps_are_one_line_each():
    def iterate(x):
        for _ in range(50):
            x = x + 0.1 * p.sin(x)
        return x

    text = str(formula(iterate))
    assert len(text.splitlines()) < 12
    assert "t[k] = sin(t[k - 1])/10 + t[k - 1] for k = 2, …, 49" in text
    assert "cos(t[" in text


def test_names_of_intermediates_survive():
    w, t = param(TensorType(f64)), param(TensorType(f64))
    pred = w * t + p.ipow(w, n=2)
    err = pred - 3.0
    graph = grad(Graph((w, t), (err * err,)))
    found = scalar_formula(
        graph, title="loss", names=["w", "t"], wrt=[0, 1], expand=False, labels={pred: "pred", err: "err"}
    )
    text = str(found)
    assert "pred = t*w + w**2" in text and "err = pred - 3" in text
    assert "∂loss/∂t = 2*err*w" in text
    assert found.verify()


def test_gradients_are_those_asked_for():
    x, y = param(TensorType(f64)), param(TensorType(f64))
    graph = grad(Graph((x, y), (x * y,)))
    found = scalar_formula(Graph((x, y), (graph.results[0], graph.results[2])), title="f", names=["x", "y"], wrt=[1])
    assert found.grads == {"y": X}


def test_a_title_with_an_underscore_in_latex():
    x = param(TensorType(f64))
    found = scalar_formula(grad(Graph((x,), (x * x,))), title="my_loss", names=["x"], wrt=[0])
    assert r"\operatorname{my\_loss}" in found.latex()


# --- arrays ----------------------------------------------------------------------------------------------------------

N, D = size_named("n"), size_named("d")


def of_vector(build, name="f", **options) -> Formula:
    x = param(TensorType(f64, (N,)))
    return scalar_formula(grad(Graph((x,), (build(x),))), title=name, names=["x"], wrt=[0], **options)


def rosenbrock(x):
    a, b = (slice_(x, starts=(s,), sizes=(N - 1,), steps=(1,)) for s in (1, 0))
    return sum_(100.0 * p.ipow(a - b * b, n=2) + p.ipow(1.0 - b, n=2), axes=(0,))


def test_a_fold_is_a_sum_over_an_index():
    found = of_vector(lambda x: sum_(x * x, axes=(0,)), "sphere")
    assert str(found).splitlines() == ["sphere(x) = Sum(x[i]**2, (i, 0, n - 1))", "∂sphere/∂x[i] = 2*x[i]"]
    assert r"\frac{\partial \operatorname{sphere}}{\partial {x}_{i}}" in found.latex()
    assert found.verify()


def test_shifted_views_are_shifted_indices():
    text = str(of_vector(rosenbrock))
    assert "x[i + 1]" in text and "x[i - 1]" in text and "i >= 1" in text and "i <= n - 2" in text


def test_an_array_formula_is_verified_element_by_element():
    found = of_vector(rosenbrock)
    assert found.verify()
    assert not dataclasses.replace(found, grads={"x": found.grads["x"] + 1e-6}).verify()


def test_indices_of_nested_sums_do_not_clash():
    found = of_vector(lambda x: sum_(p.exp(x), axes=(0,)) * norm2(x, axes=(0,)))
    assert "Sum(exp(x[j]), (j, 0, n - 1))" in str(found.grads["x"])
    assert found.verify()


def matrix_loss(build) -> Formula:
    w, x, y = param(TensorType(f64, (D,))), param(TensorType(f64, (N, D))), param(TensorType(f64, (N,)))
    z = reshape(dot(x, reshape(w, shape=(D, 1))), shape=(N,))
    graph = grad(Graph((w, x, y), (sum_(build(z - y), axes=(0,)),)))
    return scalar_formula(graph, title="f", names=["w", "X", "y"], wrt=[0, 1, 2])


def test_linear_algebra_is_written_with_matrices():
    found = matrix_loss(lambda r: r * r)
    assert "X.T*" in str(found).splitlines()[1]
    assert found.verify()
    assert not dataclasses.replace(found, grads={k: 2 * g for k, g in found.grads.items()}).verify()


def test_other_functions_of_matrices_are_written_with_indices():
    found = matrix_loss(p.sin)
    assert "∂f/∂X[i, j]" in str(found)
    assert found.verify()


def test_what_has_no_form_in_indices_is_named():
    with pytest.raises(UnsupportedError, match="max"):
        of_vector(lambda x: max_(x, axes=(0,)))


def test_formulas_of_arrays_are_not_called():
    with pytest.raises(UnsupportedError, match="scalars"):
        of_vector(rosenbrock).lambdify()
