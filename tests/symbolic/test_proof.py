"""The checker finds right derivatives right and wrong ones wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph
from symgrad.ir.node import constant, param
from symgrad.ir.op import Op
from symgrad.ir.types import TensorType, f32, f64, size_named
from symgrad.ops import pointwise as p
from symgrad.ops.custom import outputs_of
from symgrad.ops.folds import logsumexp, max_, norm2, sum_
from symgrad.ops.indexing import gather
from symgrad.ops.products import dot
from symgrad.ops.running import cumsum
from symgrad.ops.views import reshape, slice_
from symgrad.symbolic.differences import richardson
from symgrad.symbolic.precise import evaluate_precisely, to_elements
from symgrad.symbolic.proof import Check, Report, verify_gradient, verify_rules

N, D = size_named("n"), size_named("d")


def scalar():
    return param(TensorType(f64))


def rosenbrock():
    x = param(TensorType(f64, (N,)))
    a, b = (slice_(x, starts=(s,), sizes=(N - 1,), steps=(1,)) for s in (1, 0))
    return Graph((x,), (sum_(100.0 * p.ipow(a - b * b, n=2) + p.ipow(1.0 - b, n=2), axes=(0,)),))


def wrong(op: Op, **changes) -> Op:
    return dataclasses.replace(op, **changes)


@pytest.mark.parametrize("op", [p.sin, p.tanh, p.log, p.sqrt, p.exp2, p.sigmoid, p.arcsinh], ids=lambda op: op.name)
def test_partials_are_proved(op):
    x = scalar()
    (check,) = verify_rules(Graph((x,), (op(x),)))
    assert check == Check(op.name, "proved by sympy", True)


def test_a_proof_says_where_it_holds():
    x = scalar()
    (check,) = verify_rules(Graph((x,), (p.cbrt(x),)))
    assert check.passed and check.detail == "for positive arguments"


def test_where_sympy_cannot_tell_digits_decide():
    x, y = scalar(), scalar()
    (check,) = verify_rules(Graph((x, y), (p.maximum(x, y),)))
    assert check.passed and "50 digits" in check.how


def test_a_wrong_partial_is_found():
    square = wrong(p.ipow, name="square", partials=lambda y, x, *, n: (2.001 * x,))
    x = scalar()
    report = Report(tuple(verify_rules(Graph((x,), (square(x, n=2) + p.sin(x),)))))
    assert not report
    assert "FAIL square" in str(report).splitlines()[1]
    assert "sin: proved by sympy" in str(report)


def test_a_wrong_partial_in_one_branch_is_found():
    leaky = wrong(
        p.abs_,
        name="leaky",
        sympy=lambda sp, x: sp.Max(x, x / 10),
        partials=lambda y, x: (p.select(p.lt(0.0, x), 1.0, x * 0.0),),
    )
    x = scalar()
    (check,) = verify_rules(Graph((x,), (leaky(x),)))
    assert not check.passed


def test_a_wrong_vjp_is_found_and_named():
    double = wrong(
        sum_, name="double", vjp=lambda ct, y, x, *, axes: (sum_.vjp(ct, y, x, axes=axes)[0] * 1.001,), linear=False
    )
    x = param(TensorType(f64, (4,)))
    (check,) = verify_rules(Graph((x,), (double(x, axes=(0,)),)))
    assert not check.passed and check.name == "double"


def test_a_wrong_forward_rule_is_found():
    crooked = wrong(sum_, name="crooked", linear=False, jvp=lambda ts, y, x, *, axes: sum_(ts[0], axes=axes) * 2.0)
    x = param(TensorType(f64, (4,)))
    (check,) = verify_rules(Graph((x,), (crooked(x, axes=(0,)),)))
    assert not check.passed


@dataclasses.dataclass(frozen=True)
class Cube:
    name: str
    factor: float

    def vjp(self, cts, outputs, inputs):
        return [self.factor * cts[0] * inputs[0] * inputs[0]]

    def jvp(self, tangents, outputs, inputs):
        return [self.factor * tangents[0] * inputs[0] * inputs[0]]

    def batched(self, size, types):
        return self


def called_cube(x, factor):
    (y,) = outputs_of([p.ipow(x, n=3)], [x], Cube("cube", factor))
    return y + x


@pytest.mark.parametrize(("factor", "right"), [(3.0, True), (2.9, False), (3.003, False)])
@pytest.mark.parametrize("inputs", [None, [np.array(1.3)]])
def test_a_rule_of_the_user_goes_by_its_own_name(factor, right, inputs):
    x = scalar()
    report = Report(tuple(verify_rules(Graph((x,), (called_cube(x, factor),)), inputs)))
    assert bool(report) is right and "cube" in {c.name for c in report.checks}


def test_a_rule_of_the_user_on_an_intermediate_of_free_size():
    x = param(TensorType(f64, (N,)))
    graph = Graph((x,), (sum_(called_cube(p.sin(x), 3.0), axes=(0,)),))
    assert Report(tuple(verify_rules(graph, [np.array([0.3, 1.0, -0.2])])))
    assert Report(tuple(verify_rules(graph)))


def test_the_whole_gradient_shows_a_wrong_rule_too():
    x = scalar()
    graph = Graph((x,), (called_cube(x, 2.9),))
    assert not Report(tuple(verify_gradient(graph, grad(graph), [np.array(1.3)])))


def test_structural_rules_of_free_size_are_checked():
    x = param(TensorType(f64, (N,)))
    shape = cumsum(slice_(x, starts=(2,), sizes=(N - 2,), steps=(1,)), axis=0, reverse=False)
    picked = gather(shape, constant(np.array([0, 1, 0])), axes=(0,))
    report = Report(tuple(verify_rules(Graph((x,), (norm2(picked, axes=(0,)),)))))
    assert report
    assert {"slice", "cumsum", "gather", "norm2"} <= {c.name for c in report.checks}


def test_a_right_gradient_passes_at_many_digits():
    graph = rosenbrock()
    checks = verify_gradient(graph, grad(graph), [np.random.default_rng(0).standard_normal(6)])
    assert len(checks) == 6 and all(c.passed and "50 digits" in c.how for c in checks)


def test_a_long_argument_is_checked_in_a_few_directions():
    graph = rosenbrock()
    checks = verify_gradient(graph, grad(graph), [np.random.default_rng(0).standard_normal(40)])
    assert all(c.passed for c in checks) and 1 < len(checks) < 10


def test_a_wrong_gradient_fails():
    x = scalar()
    graph = Graph((x,), (x * x,))
    (check,) = verify_gradient(graph, Graph((x,), (x * x, 2.001 * x)), [np.array(1.3)])
    assert not check.passed and "2.6" in check.detail


def test_numbers_computed_elsewhere_can_be_checked():
    x = scalar()
    graph = Graph((x,), (p.sin(x),))
    (good,) = verify_gradient(graph, grad(graph), [np.array(0.3)], computed=[np.cos(0.3)])
    (bad,) = verify_gradient(graph, grad(graph), [np.array(0.3)], computed=[np.sin(0.3)])
    assert good.passed and not bad.passed


def test_matrices_and_folds_are_done_in_high_precision():
    w, x = param(TensorType(f64, (D,))), param(TensorType(f64, (N, D)))
    z = reshape(dot(x, reshape(w, shape=(D, 1))), shape=(N,))
    graph = Graph((w, x), (logsumexp(p.tanh(z), axes=(0,)) + max_(w, axes=(0,)),))
    draw = np.random.default_rng(1)
    checks = verify_gradient(graph, grad(graph), [draw.standard_normal(3), draw.standard_normal((5, 3))])
    assert all(c.passed and "50 digits" in c.how for c in checks)


def test_what_objects_cannot_do_falls_back_and_says_so():
    lapack = wrong(
        sum_,
        name="lapack",
        numpy=lambda x, *, axes: np.linalg.norm(np.asarray(x, np.float64)) ** 2,
        vjp=lambda ct, y, x, *, axes: (2.0 * sum_.vjp(ct, y, x, axes=axes)[0] * x,),
        linear=False,
    )
    x = param(TensorType(f64, (3,)))
    graph = Graph((x,), (lapack(x, axes=(0,)),))
    checks = verify_gradient(graph, grad(graph), [np.array([0.1, 0.7, -0.4])])
    assert all(c.passed and "float64" in c.how and "lapack" in c.how for c in checks)


def test_single_precision_is_judged_as_such():
    x = param(TensorType(f32, (3,)))
    graph = Graph((x,), (sum_(p.exp(x), axes=(0,)),))
    assert all(c.passed for c in verify_gradient(graph, grad(graph), [np.array([0.1, 0.7, -0.4])]))


def test_integer_arguments_stay_where_they_are():
    x, k = param(TensorType(f64, (3,))), param(TensorType(constant(1).dtype, (2,)))
    graph = Graph((x, k), (sum_(p.exp(gather(x, k, axes=(0,))), axes=(0,)),))
    assert all(
        c.passed
        for c in verify_gradient(
            graph,
            grad(Graph((x, k), graph.results)),
            [np.ones(3), np.array([2, 2])],
            wrt=[0],
            computed=[[0, 0, 2 * np.e]],
        )
    )


def test_division_by_zero_in_a_branch_not_taken_does_no_harm():
    x = scalar()
    graph = Graph((x,), (p.select(p.eq(x, 0.0), x * 3.0, p.sin(x) / x),))
    (value,) = evaluate_precisely(graph, [to_elements(0.0, f64)])
    assert value[()] == 0


def test_extrapolation_is_accurate():
    assert richardson(lambda h: np.exp(1 + h)) == pytest.approx(np.e, rel=1e-12)


def test_an_empty_report_is_true_and_failures_come_first():
    assert Report(())
    report = Report((Check("a", "tried", True), Check("b", "tried", False, "off")))
    assert str(report).splitlines() == ["1 of 2 checks failed", "FAIL b: tried (off)", "ok   a: tried"]
