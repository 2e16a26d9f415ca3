"""Batches of compositions; the rules of single primitives are tested with the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import GET, Node, TupleType, make, param
from symgrad.ir.op import REGISTRY, Leaf, Op
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import TensorType, f64, size_named
from symgrad.ops.folds import logsumexp, sum_
from symgrad.ops.indexing import gather, scatter_add
from symgrad.ops.pointwise import cast, exp, select, tanh
from symgrad.ops.products import dot
from symgrad.ops.running import cumsum, iota
from symgrad.ops.views import batched, broadcast, reshape
from symgrad.passes.batch import batch

DRAW = np.random.default_rng(0)


def matrix(*shape: Any) -> Node:
    return param(TensorType(f64, shape))


def looped(graph: Graph, axis: int, of: int, *arrays: Any) -> list[Any]:
    """The graph for each part of argument ``of`` along ``axis``, stacked in front."""
    parts = np.moveaxis(arrays[of], axis, 0)
    rows = [evaluate(graph, *arrays[:of], part, *arrays[of + 1 :]) for part in parts]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def check(graph: Graph, axis: int, of: int, *arrays: Any) -> None:
    p = graph.params[of]
    size = arrays[of].shape[axis]
    outer = matrix(*p.shape[:axis], size, *p.shape[axis:])
    found = batch(graph.results, {p: (outer, axis)}, size)
    params = (*graph.params[:of], outer, *graph.params[of + 1 :])
    got = evaluate(Graph(params, tuple(n for n, _ in found)), *arrays)
    for value, (_, at), want in zip(got, found, looped(graph, axis, of, *arrays), strict=True):
        assert at is not None
        np.testing.assert_allclose(np.moveaxis(value, at, 0), want, rtol=1e-13)


def layer(x: Node, w: Node) -> Graph:
    y = tanh(dot(reshape(x, shape=(1, 3)), w))
    return grad(Graph((x, w), (logsumexp(reshape(y, shape=(4,)), axes=(0,)),)))


@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_a_layer_for_many_points(axis):
    check(
        layer(matrix(3), matrix(3, 4)),
        axis,
        0,
        np.moveaxis(DRAW.normal(size=(5, 3)), 0, axis),
        DRAW.normal(size=(3, 4)),
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gradients_of_a_layer_for_many_weights(axis):
    check(
        layer(matrix(3), matrix(3, 4)), axis, 1, DRAW.normal(size=3), np.moveaxis(DRAW.normal(size=(5, 3, 4)), 0, axis)
    )


def test_positions_that_are_the_same_for_all():
    x, positions = matrix(4), broadcast(iota(size=3), shape=(3,), axes=(0,))
    graph = Graph((x,), (scatter_add(gather(x, positions, axes=(0,)) * x.shape[0], positions, shape=(3,), axes=(0,)),))
    check(graph, 1, 0, DRAW.normal(size=(4, 2)))


def test_what_does_not_depend_on_the_batch_is_computed_once():
    x, w = matrix(3), matrix(3)
    same = exp(w)
    (product,) = (n for n, _ in batch([x * same], {x: (matrix(5, 3), 0)}, 5))
    assert product.args[1] is batched(5, same, None)
    assert batch([same], {x: (matrix(5, 3), 0)}, 5) == [(same, None)]


def test_a_batch_may_have_a_free_size():
    n, x = size_named("n"), matrix(3)
    with assuming(Sizes({"n": 4})):
        outer = matrix(n, 3)
        ((y, axis),) = batch([cumsum(exp(x), axis=0, reverse=True)], {x: (outer, 0)}, n)
    assert (y.shape, axis) == ((n, 3), 0)
    values = DRAW.normal(size=(7, 3))
    np.testing.assert_allclose(
        evaluate(Graph((outer,), (y,)), values)[0], np.cumsum(np.exp(values)[:, ::-1], 1)[:, ::-1]
    )


def test_a_batched_condition_over_values_that_are_not():
    x, a = matrix(), matrix(3)
    graph = Graph((x, a), (select(broadcast(cast(x, dtype=REGISTRY["lt"](x, x).dtype), shape=(3,), axes=()), a, 0.0),))
    check(graph, 0, 0, np.array([0.0, 1.0]), DRAW.normal(size=3))


def test_a_primitive_without_a_rule_is_named():
    ruleless = replace(REGISTRY["cumsum"], name="ruleless", batch=None)
    x = matrix(3)
    with pytest.raises(UnsupportedError, match="vmap: ruleless has no batching rule"):
        batch([make(ruleless, x, axis=0, reverse=False)], {x: (matrix(2, 3), 0)}, 2)


def two_results(rule: Callable[..., Any]) -> Op:
    return Op(
        name="split", doc="", infer=lambda x, c: TupleType((x, c)), numpy=lambda x, c: (x, c), lower=Leaf(), batch=rule
    )  # fmt: skip


def as_nodes(size: Any, args: Any, axes: Any) -> Any:
    return args, axes


def as_one_node(size: Any, args: Any, axes: Any) -> Any:
    return two_results(as_one_node)(*(batched(size, a, axis) for a, axis in zip(args, axes, strict=True))), 0


@pytest.mark.parametrize(("rule", "second"), [(as_nodes, None), (as_one_node, 0)])
def test_primitives_with_several_results(rule, second):
    x, c = matrix(3), matrix(3)
    whole = make(two_results(rule), x, c)
    outer = matrix(3, 2)
    parts = batch([make(GET, whole, index=k) for k in (0, 1)], {x: (outer, 1)}, 2)
    assert [axis for _, axis in parts] == [1 if second is None else 0, second]
    values, constants = DRAW.normal(size=(3, 2)), DRAW.normal(size=3)
    first, last = evaluate(Graph((outer, c), tuple(n for n, _ in parts)), values, constants)
    np.testing.assert_array_equal(first if second is None else first.T, values)
    np.testing.assert_array_equal(last, constants if second is None else [constants, constants])


def test_sums_of_several_batched_inputs_on_different_axes():
    x, y = matrix(2, 3), matrix(2, 3)
    outer = matrix(5, 2, 3), matrix(2, 3, 5)
    ((z, axis),) = batch([sum_(x * y, axes=(1,))], {x: (outer[0], 0), y: (outer[1], 2)}, 5)
    assert axis == 0
    a, b = DRAW.normal(size=(5, 2, 3)), DRAW.normal(size=(2, 3, 5))
    np.testing.assert_allclose(evaluate(Graph(outer, (z,)), a, b)[0], np.einsum("bij,ijb->bi", a, b))
