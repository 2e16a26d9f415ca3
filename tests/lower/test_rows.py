"""Rows whose elements depend on each other are written out: one loop, nothing stored, the values of the meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.loops import Choose, Const, Expr, For, Stmt, operands, statements
from symgrad.ir.loops import roots as expressions
from symgrad.ir.node import Node, constant, literal, param
from symgrad.ir.types import TensorType, boolean, f64, size_named
from symgrad.lower.literals import with_literals
from symgrad.lower.memory import PAGE, column_of
from symgrad.lower.program import lower
from symgrad.lower.rows import WIDE, rows_of
from symgrad.ops import folds, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.running import iota
from symgrad.passes.simplify import simplify

N = size_named("n")


def arg(*shape: object) -> Node:
    return param(TensorType(f64, shape))  # type: ignore[arg-type]  # ints and names


def columns(x: Node, start: int, size: int) -> Node:
    return views.slice_(x, starts=(0, start), sizes=(x.shape[0], size), steps=(1, 1))


def rotated(x: Node) -> Node:
    """Rows turned by one place, times themselves."""
    width = x.shape[1]
    assert isinstance(width, int)
    return x * views.concatenate(columns(x, 1, width - 1), columns(x, 0, 1), axis=1)


def everything(program: Any) -> list[Stmt]:
    return list(statements(program.body))


def test_rows_that_mix_run_in_one_loop_without_temporaries(run: Any) -> None:
    x = arg(N, 9)
    graph = Graph((x,), (rotated(p.sin(x)), folds.sum_(rotated(p.exp(x)), axes=(1,))))
    program = lower(graph, "f")
    assert [b.kind for b in program.buffers] == ["input", "output", "output"]
    assert [isinstance(s, For) for s in program.body] == [True]
    value = np.random.default_rng(0).standard_normal((5, 9))
    first, second = run(graph, [value], {"n": len(value)})
    np.testing.assert_allclose(first, np.sin(value) * np.roll(np.sin(value), -1, axis=1), rtol=1e-15)
    np.testing.assert_allclose(second, np.sum(np.exp(value) * np.roll(np.exp(value), -1, axis=1), axis=1), rtol=1e-14)


def test_the_gradient_of_rows_that_mix_is_one_loop_too(run: Any) -> None:
    x = arg(N, 6)
    graph = simplify(grad(Graph((x,), (folds.sum_(rotated(p.exp(x)), axes=(0, 1)),))))
    assert sum(isinstance(s, For) for s in everything(lower(graph, "f"))) == 1
    value = np.random.default_rng(1).standard_normal((4, 6))
    e = np.exp(value)
    np.testing.assert_allclose(
        run(graph, [value], {"n": len(value)})[1], e * (np.roll(e, -1, axis=1) + np.roll(e, 1, axis=1)), rtol=1e-14
    )


@pytest.mark.parametrize("width", [WIDE, WIDE + 1])
def test_long_rows_keep_their_loops(width: int) -> None:
    x = arg(N, width)
    y = rotated(x)
    assert (y in rows_of(Graph((x,), (y,)).nodes()).mixed) == (width <= WIDE)


def test_rows_whose_elements_stay_apart_keep_their_loops() -> None:
    x = arg(N, 9)
    y = p.exp(x) * 2.0
    assert not rows_of(Graph((x,), (y, folds.sum_(y, axes=(1,)))).nodes()).mixed


def test_a_reduction_over_all_rows_ends_the_group(run: Any) -> None:
    """What needs all rows waits for them; what it is used for is computed row by row again."""
    x = arg(N, 7)
    mean = folds.sum_(rotated(x), axes=(0, 1))
    y = rotated(x - broadcast_to(mean, x.shape))
    value = np.random.default_rng(2).standard_normal((6, 7))
    shifted = value - np.sum(value * np.roll(value, -1, axis=1))
    expected = shifted * np.roll(shifted, -1, axis=1)
    rows, total, columns_ = run(
        Graph((x,), (y, folds.sum_(y, axes=(0, 1)), folds.max_(y, axes=(0,)))), [value], {"n": len(value)}
    )
    np.testing.assert_allclose(rows, expected, rtol=1e-13)
    np.testing.assert_allclose(total, np.sum(expected), rtol=1e-13)
    np.testing.assert_allclose(columns_, np.max(expected, axis=0), rtol=1e-13)


# --- literals --------------------------------------------------------------------------------------------------------


def identity(n: int) -> Node:
    row = views.broadcast(iota(size=n), shape=(n, n), axes=(0,))
    return p.as_dtype(p.eq(row, views.broadcast(iota(size=n), shape=(n, n), axes=(1,))), f64)


def test_small_arrays_of_nothing_become_literals() -> None:
    (result,) = with_literals(Graph((), (identity(3),))).results
    np.testing.assert_array_equal(literal(result), np.eye(3))
    (large,) = with_literals(Graph((), (identity(17),))).results
    assert literal(large) is None  # 289 elements


def test_arithmetic_of_floats_is_left_to_the_program() -> None:
    (result,) = with_literals(Graph((), (p.exp(identity(2)),))).results
    assert literal(result) is None
    np.testing.assert_array_equal(evaluate(Graph((), (result,)))[0], np.exp(np.eye(2)))


def test_a_mask_that_is_known_leaves_no_choice_in_the_loop(run: Any) -> None:
    x = arg(N, 2)
    mask = views.broadcast(constant([True, False], boolean), shape=(N, 2), axes=(1,))
    graph = Graph((x,), (p.select(mask, p.log(x), 0.0),))
    assert not any(isinstance(e, Choose) for s in everything(lower(graph, "f")) for e in below(s))
    np.testing.assert_array_equal(run(graph, [np.array([[1.0, -1.0]])], {"n": 1})[0], [[0.0, 0.0]])


def test_what_is_added_where_nothing_was_put_is_the_other_summand(run: Any) -> None:
    x = arg(N, 1)
    put = views.place(x, shape=(N, 3), starts=(0, 1), steps=(1, 1))
    other = views.place(x * 2.0, shape=(N, 3), starts=(0, 0), steps=(1, 1))
    graph = Graph((x,), (put + other,))
    zeros = [e for s in everything(lower(graph, "f")) for e in below(s) if isinstance(e, Const) and e.dtype == f64]
    assert [z.value for z in zeros] == [2.0, 0]  # the factor, and what is stored where neither was put
    np.testing.assert_array_equal(
        run(graph, [np.array([[np.inf], [3.0]])], {"n": 2})[0], [[np.inf, np.inf, 0], [6, 3, 0]]
    )


def below(s: Stmt) -> list[Expr]:
    out, stack = [], list(expressions(s))
    while stack:
        e = stack.pop()
        out.append(e)
        stack += operands(e)
    return out


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elements", [1, 7, 100, 500, 512, 4096, 100_000])
def test_columns_begin_cache_lines_at_offsets_of_their_own(elements: int) -> None:
    column = column_of(elements, f64)
    assert isinstance(column, int)
    assert column >= elements and column * f64.bytes % 64 == 0
    if elements * f64.bytes >= PAGE:
        starts = [k * column * f64.bytes % PAGE for k in range(5)]
        assert min(abs(a - b) for a in starts for b in starts if a is not b) >= 64
