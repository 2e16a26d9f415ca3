"""Loop nests: interiors without conditions, accumulators, unrolled rows, blocks of rows."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.loops import Block, Choose, For, If, Let, Store, operands, statements
from symgrad.ir.node import Node, param
from symgrad.ir.programs import program_text
from symgrad.ir.types import TensorType, f64, size_named
from symgrad.lower.memory import column_of
from symgrad.lower.program import lower
from symgrad.ops import folds, products, views
from symgrad.ops import pointwise as p
from symgrad.passes.simplify import simplify

N, M = size_named("n"), size_named("m")


def arg(*shape: Any) -> Node:
    return param(TensorType(f64, shape))


def text(*results: Node) -> str:
    params = tuple(n for n in Graph((), results).nodes() if n.op.name == "param")
    return program_text(lower(Graph(params, results), "f")).split("\n\n", 1)[1]


def has_conditions(body: Block) -> bool:
    return any(isinstance(s, If) or (isinstance(s, Let) and isinstance(s.value, Choose)) for s in statements(body))


def rosenbrock(x: Node) -> Node:
    tail = views.slice_(x, starts=(1,), sizes=(N - 1,), steps=(1,))
    head = views.slice_(x, starts=(0,), sizes=(N - 1,), steps=(1,))
    return folds.sum_(100.0 * p.ipow(tail - p.ipow(head, n=2), n=2) + p.ipow(1.0 - head, n=2), axes=(0,))


def test_an_elementwise_function_and_its_sum_are_one_plain_loop() -> None:
    x = arg(N)
    assert text(folds.sum_(x * x, axes=(0,)), x + 1.0) == dedent("""\
        var acc0: f64 = 0
        for i2 in 0..n {
          v3: f64 = a0[i2]
          v4: f64 = (v3 * v3)
          acc0 = (acc0 + v4)
          v5: f64 = (v3 + 1.0)
          r1[i2] = v5
        }
        r0[0] = acc0
        """)


def test_value_and_gradient_of_rosenbrock_are_one_loop_with_peeled_ends() -> None:
    x = arg(N)
    program = lower(simplify(grad(Graph((x,), (rosenbrock(x),)))), "f")
    head, interior, tail = (s for s in program.body if isinstance(s, For))
    assert has_conditions(head.body) and has_conditions(tail.body)
    assert not has_conditions(interior.body)
    assert [s.buffer for s in interior.body if isinstance(s, Store)] == ["r1"]


def test_a_row_value_is_computed_outside_the_inner_loop() -> None:
    a, x = arg(N, M), arg(N)
    program = lower(Graph((a, x), (a * views.broadcast(x * x, shape=(N, M), axes=(0,)),)), "f")
    (rows,) = (s for s in program.body if isinstance(s, For))
    *before, inner = rows.body
    assert isinstance(inner, For)
    assert len(before) == 2 and all(isinstance(s, Let) for s in before)  # the load, and the square


def test_sums_over_rows_take_several_at_once() -> None:
    x = arg(N, M)
    program = lower(Graph((x,), (folds.sum_(x, axes=(0,)),)), "f")
    inner = [s for s in statements(program.body) if isinstance(s, For) and not any(isinstance(b, For) for b in s.body)]
    assert [sum(isinstance(s, Store) for s in loop.body) for loop in inner] == [1, 4, 1]  # zeros, four rows, the rest


def test_short_rows_are_unrolled_inside_the_loop_over_rows() -> None:
    x = arg(N, 3)
    assert text(x * 2.0) == dedent("""\
        for i1 in 0..n {
          v2: f64 = a0[(i1 * 3)]
          v3: f64 = (v2 * 2.0)
          r0[(i1 * 3)] = v3
          v4: f64 = a0[((i1 * 3) + 1)]
          v5: f64 = (v4 * 2.0)
          r0[((i1 * 3) + 1)] = v5
          v6: f64 = a0[((i1 * 3) + 2)]
          v7: f64 = (v6 * 2.0)
          r0[((i1 * 3) + 2)] = v7
        }
        """)


def test_pairs_of_points_are_never_in_memory() -> None:
    x = arg(N, 3)
    pairs = views.broadcast(x, shape=(N, N, 3), axes=(0, 2)) - views.broadcast(x, shape=(N, N, 3), axes=(1, 2))
    energy = folds.sum_(1.0 / (1.0 + folds.sum_(pairs * pairs, axes=(2,))), axes=(0, 1))
    program = lower(simplify(grad(Graph((x,), (energy,)))), "f")
    assert all(b.elements in (1, 3 * N, 3 * column_of(N, f64)) for b in program.buffers)
    assert (
        sum(isinstance(s, For) and any(isinstance(b, For) for b in s.body) for s in program.body) == 2
    )  # two rows at a time, the rest


def test_a_source_that_may_be_empty_is_not_read(run: Any) -> None:
    x = arg(N)
    graph = Graph((x,), (views.place(p.exp(x), shape=(N + 3,), starts=(2,), steps=(1,)),))
    for n in range(4):
        x0 = np.linspace(0, 1, n)
        (got,) = run(graph, [x0], {"n": n}, native=False)
        np.testing.assert_allclose(got, evaluate(graph, x0)[0])


def test_no_index_in_the_interior_depends_on_a_condition() -> None:
    x = arg(N, M)
    padded = views.place(x, shape=(N + 2, M + 2), starts=(1, 1), steps=(1, 1))
    shifted = views.slice_(padded, starts=(0, 2), sizes=(N, M), steps=(1, 1))
    program = lower(Graph((x,), (shifted + x,)), "f")
    loops = [s for s in statements(program.body) if isinstance(s, For) and not any(isinstance(b, For) for b in s.body)]
    assert sum(not has_conditions(s.body) for s in loops) == 1


def test_blocks_of_rows_cover_all_rows(run: Any) -> None:
    a, w = arg(N, M), arg(M, 1)
    f = folds.sum_(folds.logsumexp(a, axes=(1,)) * views.reshape(products.dot(a, w), shape=(N,)), axes=(0,))
    graph = simplify(grad(Graph((a, w), (f,))))
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 1000), (50, 300), (9000, 1), (3, 5000), (0, 4), (4, 0)):
        arrays = [rng.standard_normal((n, m)), rng.standard_normal((m, 1))]
        if m == 0:
            continue
        for got, expected in zip(run(graph, arrays, {"n": n, "m": m}), evaluate(graph, *arrays), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max(initial=0)))


def test_loads_are_shared_between_value_and_gradient() -> None:
    x = arg(N)
    program = lower(simplify(grad(Graph((x,), (folds.sum_(p.exp(x) * x, axes=(0,)),)))), "f")
    (loop,) = (s for s in program.body if isinstance(s, For))
    calls = [s for s in loop.body if isinstance(s, Let) and operands(s.value) != ()]
    assert sum("exp" in str(getattr(s.value, "fn", "")) for s in calls) == 1
