"""Partials that sympy derives from the declared forms."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import symgrad.ops.special
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, param
from symgrad.ir.op import REGISTRY, Op
from symgrad.ir.types import TensorType, f64
from symgrad.ops import pointwise as p
from symgrad.symbolic.derive import partials

assert symgrad.ops.special
DECLARED = [op for op in REGISTRY.values() if op.partials is not None and op.sympy is not None and not op.constant]


def number(d, params, values):
    return float(evaluate(Graph(params, (d,)), *values)[0]) if isinstance(d, Node) else d


@pytest.mark.parametrize("op", DECLARED, ids=lambda op: op.name)
def test_declared_partials_are_those_of_the_form(op: Op):
    assert op.partials is not None
    attrs = op.examples()[-1][1] if op.examples is not None else {}
    params = tuple(
        param(TensorType(f64)) for _ in range(len(inspect.signature(op.partials).parameters) - 1 - len(attrs))
    )
    y = op(*params, **attrs)
    draw = np.random.default_rng(0)
    values = [draw.uniform(*op.sample.of(k)) for k in range(len(params))]
    for declared, derived in zip(op.partials(y, *params, **attrs), partials(op)(y, *params, **attrs), strict=True):
        if declared is not None:
            assert number(derived, params, values) == pytest.approx(
                number(declared, params, values), rel=1e-9, abs=1e-12
            )


def test_the_result_is_used_where_it_occurs():
    x = param(TensorType(f64))
    y = p.exp(x)
    assert partials(p.exp)(y, x) == (y,)


def test_they_are_derived_once():
    assert partials(p.tanh) is partials(p.tanh)


def test_a_primitive_without_a_form_is_named():
    x = param(TensorType(f64))
    with pytest.raises(UnsupportedError, match="rint"):
        partials(p.rint)(p.rint(x), x)
