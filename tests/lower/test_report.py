"""What the lowering says of its decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, param
from symgrad.ir.types import TensorType, f64
from symgrad.lower.report import decisions
from symgrad.ops import folds, products, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to


def arg(*shape: int) -> Node:
    return param(TensorType(f64, shape))


def test_rows_that_stay_in_cache_and_what_they_keep() -> None:
    x = arg(1000, 300)
    e = p.exp(x)
    s = views.broadcast(folds.sum_(e, axes=(1,)), shape=x.shape, axes=(0,))
    assert decisions(Graph((x,), (e / s,)), workers=2) == [
        "1. loops over 1000 x 300, 2 in turn for each block of rows, shared by up to 2 threads",
        "   exp f64[1000,300] for a block of rows: dear, and read at several times or places",
        "   sum f64[1000] for a block of rows: a reduction",
        "   div f64[1000,300] in memory: a result",
    ]


def test_what_is_cheap_is_computed_again() -> None:
    x = arg(1000)
    y = x * x
    lines = decisions(Graph((x,), (folds.sum_(y, axes=(0,)), folds.sum_(y * p.neg(y), axes=(0,)))))
    assert lines[0] == "1. loops over 1000" and lines[-1] == "read more than once and not kept: mul"
    assert lines[1:3] == ["   sum f64[] in memory: a result"] * 2 and len(lines) == 4


def test_products_read_whole_matrices() -> None:
    x, w = arg(40, 50), arg(50, 60)
    lines = decisions(grad(Graph((x, w), (folds.sum_(p.tanh(products.dot(x, w)), axes=(0, 1)),))))
    assert lines[0] == "1. dot, by statements of its own"
    assert [line for line in lines if "as a whole" in line] == [
        "   mul f64[40,60] in memory: read by dot as a whole",
    ]


def test_batches_of_products_stay_in_cache_with_what_is_between_them() -> None:
    """Attention: the scores and shares of one head at a time."""
    q, k, v = arg(12, 100, 64), arg(12, 100, 64), arg(12, 100, 64)
    scores = p.exp(products.dot(q, views.transpose(k, perm=(0, 2, 1))))
    total = views.broadcast(folds.sum_(scores, axes=(2,)), shape=scores.shape, axes=(0, 1))
    lines = decisions(Graph((q, k, v), (products.dot(scores / total, v),)))
    assert [line for line in lines if not line.startswith(" ")] == [
        "1. loops over 12 x 100 x 100 and 12 x 100 x 64, 4 in turn for each block of rows"
    ]
    assert [line.strip() for line in lines[1:]] == [
        "dot f64[12,100,100] for a block of rows: made by statements of its own",
        "exp f64[12,100,100] for a block of rows: dear, and read at several times or places",
        "sum f64[12,100] for a block of rows: a reduction",
        "div f64[12,100,100] for a block of rows: read by dot as a whole",
        "dot f64[12,100,64] in memory: a result",
    ]


def test_a_cheap_operand_of_two_products_far_apart_is_made_twice() -> None:
    x, m, w = arg(1000, 64), arg(20, 64), arg(20, 64, 64)
    difference = views.broadcast(x, shape=(20, 1000, 64), axes=(1, 2)) - views.broadcast(
        m, shape=(20, 1000, 64), axes=(0, 2)
    )
    y = products.dot(difference, w)
    most = folds.max_(y, axes=(0,))  # after all of the batch
    again = products.dot(views.transpose(difference, perm=(0, 2, 1)), y - broadcast_to(most, y.shape))
    lines = decisions(Graph((x, m, w), (again,)))
    assert sum(line.strip().startswith("copy f64[20,1000,64] for a block of rows") for line in lines) == 2


@pytest.mark.parametrize("width", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("native", [False, True])
def test_an_operand_that_is_made_twice_is_made_whole(run: Any, width: int, native: bool) -> None:
    """Short rows are written out, in several tasks for one operand."""
    x, m, w = arg(30, width), arg(20, width), arg(20, width, width)
    shape = (20, 30, width)
    difference = views.broadcast(x, shape=shape, axes=(1, 2)) - views.broadcast(m, shape=shape, axes=(0, 2))
    y = products.dot(difference, w)
    most = broadcast_to(folds.max_(y, axes=(0,)), y.shape)
    again = products.dot(views.transpose(difference, perm=(0, 2, 1)), y - most)
    rng = np.random.default_rng(width)
    arrays = [rng.normal(size=s) for s in ((30, width), (20, width), (20, width, width))]
    (got,) = run(Graph((x, m, w), (again,)), arrays, {}, native=native)
    d = arrays[0] - arrays[1][:, None]
    product = d @ arrays[2]
    np.testing.assert_allclose(got, np.swapaxes(d, 1, 2) @ (product - product.max(axis=0)), rtol=1e-11, atol=1e-12)
