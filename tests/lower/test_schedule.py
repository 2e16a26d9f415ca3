"""Which values are stored, which groups run together, and what needs no memory of the inputs' size."""

from __future__ import annotations

import time

import pytest

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph
from symgrad.ir.node import Node, param, size_node
from symgrad.ir.types import DType, Shape, TensorType, f64, i64, size_named
from symgrad.lower.bands import banded
from symgrad.lower.expand import expand
from symgrad.lower.program import lower
from symgrad.lower.schedule import Schedule, schedule
from symgrad.ops import folds, indexing, products, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to
from symgrad.passes.simplify import simplify

N, M = size_named("n"), size_named("m")


def arg(*shape: object, dtype: DType = f64) -> Node:
    return param(TensorType(dtype, shape))  # type: ignore[arg-type]  # ints and names


def planned(*results: Node) -> tuple[Graph, Schedule]:
    graph = expand(Graph(tuple(n for n in Graph((), results).nodes() if n.op.name == "param"), results))
    return graph, schedule(graph)


def stored_names(*results: Node) -> list[str]:
    graph, plan = planned(*results)
    return [n.op.name for n in graph.nodes() if n in plan.stored]


def total(x: Node) -> Node:
    return folds.sum_(x, axes=tuple(range(x.ndim)))


def along(x: Node, shape: Shape, axis: int) -> Node:
    return views.broadcast(x, shape=shape, axes=(axis,))


def rosenbrock(x: Node) -> Node:
    tail = views.slice_(x, starts=(1,), sizes=(N - 1,), steps=(1,))
    head = views.slice_(x, starts=(0,), sizes=(N - 1,), steps=(1,))
    return total(100.0 * p.ipow(tail - p.ipow(head, n=2), n=2) + p.ipow(1.0 - head, n=2))


def test_a_chain_and_its_sum_need_nothing_but_the_result() -> None:
    x = arg(N)
    assert stored_names(total(p.exp(x * 2.0) + p.sin(x))) == ["sum"]


@pytest.mark.parametrize("f", [rosenbrock, lambda x: total(p.exp(p.sin(x) * x))])
def test_value_and_gradient_together_need_no_temporaries(f: object) -> None:
    x = arg(N)
    assert callable(f)
    program = lower(simplify(grad(Graph((x,), (f(x),)))), "f")
    assert [b.name for b in program.buffers if b.kind == "temp"] == []


def test_a_cheap_value_is_computed_again_in_another_loop_and_a_dear_one_stored() -> None:
    x = arg(N)
    cheap, dear = x * 3.0, p.exp(x)
    assert stored_names(cheap / broadcast_to(total(cheap), (N,))) == ["sum", "div"]
    assert stored_names(dear / broadcast_to(total(dear), (N,))) == ["exp", "sum", "div"]


def test_a_value_that_an_outer_loop_repeats_is_stored() -> None:
    x, a = arg(M), arg(N, M)
    assert stored_names(a + along(p.sin(x), (N, M), 1)) == ["sin", "add"]


def test_a_dear_value_of_each_row_is_stored_so_that_it_is_computed_in_a_loop_of_its_own() -> None:
    x, a = arg(N), arg(N, M)
    assert stored_names(a + along(p.sin(x), (N, M), 0)) == ["sin", "add"]
    assert stored_names(a + along(x * 2.0, (N, M), 0)) == ["add"]


def test_what_a_maximum_is_compared_with_is_stored() -> None:
    """Computed twice, products and sums might be contracted in two ways, and nothing would equal the maximum."""
    a, b = arg(N), arg(N)
    x = a * b + a
    tied = p.eq(x, broadcast_to(folds.max_(x, axes=(0,)), (N,)))
    assert stored_names(tied) == ["add", "max", "eq"]
    assert stored_names(p.eq(a, broadcast_to(folds.max_(a, axes=(0,)), (N,)))) == ["max", "eq"]


def test_a_sum_of_few_elements_is_written_out() -> None:
    x = arg(N, 3)
    assert stored_names(total(p.sqrt(folds.sum_(x * x, axes=(1,))))) == ["sum"]


def test_products_with_vectors_and_small_ones_are_sums_and_others_are_calls() -> None:
    a, b = arg(N, M), arg(M, 5)
    assert stored_names(products.dot(a, arg(M, 1))) == ["sum"]
    assert stored_names(products.dot(arg(N, 3, 3), arg(N, 3, 3))) == ["sum"]
    assert stored_names(products.dot(a, b)) == ["dot"]


def test_elementwise_tasks_of_one_shape_share_a_loop() -> None:
    x = arg(N)
    _, plan = planned(x + 1.0, p.exp(x), total(x))
    assert [len(g.tasks) for g in plan.groups] == [3]


def softmax(x: Node) -> Node:
    return folds.softmax(x, axes=(1,))


def test_reductions_of_rows_and_what_uses_them_run_in_one_band_of_blocks() -> None:
    graph, plan = planned(softmax(arg(N, M)))
    (band,) = banded(plan, graph.results)
    assert [n.op.name for n in graph.nodes() if n in band.local] == ["max", "exp", "sum"]


def test_memory_of_a_band_is_that_of_a_block() -> None:
    program = lower(Graph((x := arg(N, 100),), (softmax(x),)), "f")
    assert program.workspace_bytes == 2 * 320 + 32_000  # 40 rows: of maxima, of sums, of exponentials
    assert [b.elements for b in program.buffers if b.kind == "temp"] == [40, 4000, 40]


def test_a_matrix_is_read_once_by_a_product_and_its_adjoint() -> None:
    a, w = arg(N, M), arg(M, 1)
    program = simplify(grad(Graph((w, a), (total(p.tanh(products.dot(a, w))),))))
    graph, plan = planned(program.results[0], program.results[1])
    assert [len(b.groups) for b in banded(plan, graph.results)] == [3]


def test_a_group_that_needs_all_rows_begins_another_band() -> None:
    x = arg(N, M)
    centred = x - along(folds.sum_(x, axes=(0,)), (N, M), 1)
    graph, plan = planned(centred)
    assert [len(b.groups) for b in banded(plan, graph.results)] == [1, 1]


def test_rows_that_are_read_elsewhere_are_kept_whole() -> None:
    e = p.exp(arg(N, M))
    rows = e / along(folds.sum_(e, axes=(1,)), (N, M), 0)
    turned = views.slice_(e, starts=(N - 1, 0), sizes=(N, M), steps=(-1, 1))
    graph, plan = planned(rows, p.sin(turned))
    local = set().union(*(b.local for b in banded(plan, graph.results)))
    assert "exp" not in {n.op.name for n in local}


def test_small_arrays_have_no_loops() -> None:
    x = arg(7)
    program = lower(Graph((x,), (total(p.sin(x)), p.cos(x))), "f")
    assert {type(s).__name__ for s in program.body} == {"Let", "LetAll", "Store"}


def test_a_gather_in_a_loop_reads_memory_and_not_a_recomputed_value() -> None:
    x, i = arg(N), arg(M, dtype=i64)
    where = p.minimum(p.maximum(i, 0), broadcast_to(size_node(N - 1), (M,)))
    assert stored_names(indexing.gather(p.exp(x), where, axes=(0,))) == ["exp", "gather"]


@pytest.mark.parametrize("shape", [(), (N,)])
def test_a_very_long_chain_is_lowered_in_linear_time(shape: Shape) -> None:
    x = y = arg(*shape)
    for _ in range(10_000):
        y = y * 1.0001 + x
    started = time.process_time()
    program = lower(Graph((x,), (y,)), "f")
    assert time.process_time() - started < 8.0
    assert program.workspace_bytes == 0
