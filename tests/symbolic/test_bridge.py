"""Graph <-> sympy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

from symgrad.autodiff.reverse import grad
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import constant, param
from symgrad.ir.types import TensorType, f64, size_named
from symgrad.ops import pointwise as p
from symgrad.ops.folds import max_, norm2, sum_
from symgrad.ops.views import broadcast, concatenate, reshape
from symgrad.symbolic.bridge import from_sympy, symbol, to_sympy, translate
from symgrad.symbolic.numbers import exact

X, Y = symbol("x"), symbol("y")


def scalars(count):
    return tuple(param(TensorType(f64)) for _ in range(count))


def test_a_gradient_is_read_as_expressions():
    x, y = scalars(2)
    value, dx, dy = to_sympy(grad(Graph((x, y), (p.sin(x) * y + p.exp(x * y),))), ["x", "y"])
    want = sp.sin(X) * Y + sp.exp(X * Y)
    assert value == want
    assert sp.expand(dx - sp.diff(want, X)) == 0 and sp.expand(dy - sp.diff(want, Y)) == 0


@pytest.mark.parametrize(
    ("value", "want"),
    [(0.5, sp.Rational(1, 2)), (0.1, sp.Rational(1, 10)), (3.0, sp.Integer(3)), (1e-3, sp.Rational(1, 1000)),
     (1 / 3, sp.Rational(1, 3)), (float(np.log(2)), sp.log(2)), (float(np.pi / 2), sp.pi / 2),
     (float(2 / np.sqrt(np.pi)), 2 / sp.sqrt(sp.pi)),
     (float("inf"), sp.oo), (-2, sp.Integer(-2)), (True, sp.true), (1e300, sp.Integer(10) ** 300)],
)  # fmt: skip
def test_constants_are_exact_where_they_can_be(value, want):
    assert exact(value) == want


def test_other_constants_keep_every_bit():
    value = 0.1 * 3
    assert float(exact(value)) == value and str(exact(value)) == repr(value)


def test_views_of_scalars_are_transparent():
    (x,) = scalars(1)
    row = broadcast(reshape(x * x, shape=(1,)), shape=(1, 1), axes=(1,))
    assert to_sympy(Graph((x,), (sum_(row, axes=(0, 1)),)), ["x"]) == [X**2]


def test_arrays_of_few_elements_are_written_out():
    x, y = scalars(2)
    pair = concatenate(reshape(x, shape=(1,)), reshape(y, shape=(1,)), axis=0)
    graph = Graph((x, y), (sum_(pair * pair, axes=(0,)), norm2(pair, axes=(0,)), max_(pair, axes=(0,))))
    assert to_sympy(graph, ["x", "y"]) == [X**2 + Y**2, sp.sqrt(X**2 + Y**2), sp.Max(X, Y)]


def test_choices_become_cases():
    (x,) = scalars(1)
    (e,) = to_sympy(Graph((x,), (p.select(p.lt(x, 0.0), x * x, p.exp(x)),)), ["x"])
    assert e == sp.Piecewise((X**2, X < 0), (sp.exp(X), True))


def test_an_impossible_case_disappears():
    x, y = scalars(2)
    _, dx, _ = to_sympy(grad(Graph((x, y), (p.logaddexp(x, y),))), ["x", "y"])
    assert not dx.has(sp.Piecewise)


def test_masks_are_logic():
    x, y = scalars(2)
    both = p.and_(p.lt(x, y), p.not_(p.eq(x, constant(0.0))))
    (e,) = to_sympy(Graph((x, y), (p.cast(both, dtype=f64),)), ["x", "y"])
    assert e.subs({X: 1, Y: 2}) == 1 and e.subs({X: 0, Y: 2}) == 0 and e.subs({X: 3, Y: 2}) == 0


def test_a_primitive_without_a_form_is_named():
    (x,) = scalars(1)
    with pytest.raises(UnsupportedError, match="rint"):
        to_sympy(Graph((x,), (p.rint(x),)), ["x"])


def test_arrays_are_not_scalar_expressions():
    v = param(TensorType(f64, (size_named("n"),)))
    with pytest.raises(UnsupportedError, match="arrays"):
        to_sympy(Graph((v,), (sum_(v, axes=(0,)),)), ["v"])


def test_deep_sharing_becomes_subexpressions():
    (x,) = scalars(1)
    y = x
    for _ in range(3000):
        y = p.sin(y) * y
    found = translate(Graph((x,), (y,)), ["x"])
    assert len(found.subexpressions) == 2999
    assert max(e.count_ops() for e in found.subexpressions.values()) < 5


def test_small_graphs_are_expanded():
    (x,) = scalars(1)
    y = p.sin(x) * x
    assert translate(Graph((x,), (y * y,)), ["x"]).subexpressions == {}


def test_labels_are_kept_and_made_unique():
    (x,) = scalars(1)
    a = x * x + 1.0
    b = a * a + x
    found = translate(Graph((x,), (b * b,)), ["x"], labels={a: "x", b: "b"})
    assert [str(s) for s in found.subexpressions] == ["x_1", "b"]
    assert found.results[0] == symbol("b") ** 2


EXPRESSIONS = [
    X + 2 * Y - 3, X * Y / (1 + X**2), sp.sqrt(X**2 + 1), 1 / sp.sqrt(X**2 + 1), (X**2 + 1) ** sp.Rational(-3, 2),
    sp.exp(-X) * sp.pi,
    sp.Piecewise((X, X < Y), (Y**2, True)), sp.Piecewise((1, X > Y), (2, sp.Eq(X, Y)), (3, True)), sp.Max(X, Y, 0),
    sp.atan2(X, Y),
    sp.erf(X) + sp.loggamma(X**2 + 1), sp.polygamma(1, X**2 + 1), sp.Abs(X) ** Y, sp.log(X**2 + 1, 2),
    sp.sign(Y) * sp.floor(X),
    -X - Y, sp.Piecewise((X, (X > 0) & (Y > 0)), (Y, True)), sp.tanh(X) ** 2 - 1,
]  # fmt: skip


@pytest.mark.parametrize("e", EXPRESSIONS, ids=str)
def test_expressions_become_nodes(e):
    x, y = scalars(2)
    graph = Graph((x, y), (from_sympy(e, {X: x, Y: y}),))
    for a, b in [(0.7, 1.3), (-0.4, 0.9), (1.6, -0.8)]:
        assert evaluate(graph, a, b)[0] == pytest.approx(float(e.subs({X: a, Y: b})), rel=1e-13)


def test_a_function_without_a_primitive_is_named():
    (x,) = scalars(1)
    with pytest.raises(UnsupportedError, match="airyai"):
        from_sympy(sp.airyai(X), {X: x})


def test_a_symbol_without_a_value_is_named():
    (x,) = scalars(1)
    with pytest.raises(UnsupportedError, match="y"):
        from_sympy(X + Y, {X: x})


def test_a_number_alone_is_a_constant():
    assert evaluate(Graph((), (from_sympy(sp.pi, {}),)))[0] == np.pi


def test_importing_the_package_leaves_sympy_alone():
    code = "import sys, symgrad, symgrad.autodiff.reverse; raise SystemExit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
