"""Calls of elementary functions side by side: the same bits as one by one, and never before what they wait for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.loops import (
    ADD,
    LT,
    MUL,
    Apply,
    Assign,
    Block,
    Buffer,
    Const,
    Declare,
    Expr,
    Fail,
    Failure,
    For,
    If,
    Let,
    LetAll,
    Load,
    Program,
    Store,
    Var,
    const_index,
    fn,
    statements,
)
from symgrad.ir.node import Node, param
from symgrad.ir.programs import verify_program
from symgrad.ir.types import TensorType, f64, i64
from symgrad.lower.program import lower
from symgrad.lower.together import together
from symgrad.ops import pointwise as p
from symgrad.ops import views

SIN, COS = fn("sin", "sin{f}({0})", f="libm sin"), fn("cos", "cos{f}({0})", f="libm cos")


def let(name: str, value: Expr) -> Let:
    return Let(Var(name, f64), value)


def v(name: str) -> Var:
    return Var(name, f64)


def x(k: int) -> Load:
    return Load("x", const_index(k), f64)


def out(k: int, value: Expr) -> Store:
    return Store("o", const_index(k), value)


def gathered(*body: Any, failures: tuple[Failure, ...] = ()) -> Block:
    buffers = (Buffer("x", f64, 8, "input"), Buffer("o", f64, 8, "output"))
    return verify_program(together(Program("f", (), buffers, body, failures=failures))).body


def names(block: Block) -> list[tuple[str, ...]]:
    return [tuple(w.name for w in s.vars) for s in statements(block) if isinstance(s, LetAll)]


def sines(n: int) -> list[Let]:
    return [let(f"s{k}", Apply(SIN, (x(k),))) for k in range(n)]


def test_calls_that_are_far_apart_come_together_with_what_they_need() -> None:
    a, b, c = sines(3)
    y = let("y", Apply(ADD, (v("s0"), x(7))))
    z = let("z", Apply(MUL, (x(5), x(6))))
    d = let("d", Apply(SIN, (v("z"),)))
    block = gathered(a, y, b, c, z, d, out(0, v("d")))
    assert block[:3] == (z, LetAll((v("s0"), v("s1"), v("s2"), v("d")), SIN, (x(0), x(1), x(2), v("z"))), y)


def test_calls_of_calls_are_a_group_of_their_own() -> None:
    inner = sines(3)
    outer = [let(f"t{k}", Apply(SIN, (v(f"s{k}"),))) for k in range(3)]
    pairs = [s for pair in zip(inner, outer, strict=True) for s in pair]
    assert names(gathered(*pairs)) == [("s0", "s1", "s2"), ("t0", "t1", "t2")]


def test_two_calls_are_left_alone() -> None:
    assert gathered(*sines(2), out(0, v("s1"))) == (*sines(2), out(0, v("s1")))


def test_calls_in_loops_are_left_to_the_loop() -> None:
    loop = For(Var("i", i64), const_index(0), const_index(4), (*sines(3), out(0, v("s0"))))
    assert gathered(loop) == (loop,)


def test_arms_are_gathered_each_by_itself() -> None:
    condition = Apply(LT, (x(0), x(1)))
    block = gathered(If(condition, tuple(sines(3)), (let("c", Apply(COS, (x(0),))),)))
    assert names(block) == [("s0", "s1", "s2")]


def test_nothing_moves_before_a_store_that_it_reads() -> None:
    written = [let(f"s{k}", Apply(SIN, (Load("o", const_index(k), f64),))) for k in range(3)]
    assert names(gathered(written[0], out(1, Const(2.0, f64)), *written[1:])) == []


def test_nothing_moves_before_an_assignment_of_what_it_reads() -> None:
    total = v("total")
    calls = [let(f"s{k}", Apply(SIN, (Apply(ADD, (total, x(k))),))) for k in range(5)]
    body = (Declare(total, x(0)), *calls[:2], Assign(total, x(1)), *calls[2:])
    assert names(gathered(*body)) == []  # two and three: together they are not what they were
    assert names(gathered(Declare(total, x(0)), *calls)) == [("s0", "s1", "s2", "s3", "s4")]


def test_nothing_moves_before_a_check() -> None:
    """A load may be in range only because of it."""
    check = If(Apply(LT, (x(0), Const(0.0, f64))), (Fail(1),))
    a, b, c, d = sines(4)
    failures = (Failure("IndexError", "no"),)
    assert names(gathered(a, b, check, c, d, failures=failures)) == []
    assert names(gathered(check, a, b, c, d, failures=failures)) == [("s0", "s1", "s2", "s3")]


def step(rng: random.Random, pool: list[Node]) -> Node:
    a, b = rng.choice(pool), rng.choice(pool)
    unary, binary = rng.choice([p.sin, p.cos, p.tanh]), rng.choice([p.add, p.mul, p.sub])
    return unary(a) if rng.random() < 0.5 else binary(a, b)


@pytest.mark.parametrize("seed", range(30))
def test_random_scalar_code(run: Any, seed: int) -> None:
    rng = random.Random(seed)
    q = param(TensorType(f64, (6,)))
    pool = [views.reshape(views.slice_(q, starts=(k,), sizes=(1,), steps=(1,)), shape=()) for k in range(6)]
    for _ in range(rng.randint(10, 60)):
        pool.append(step(rng, pool))
    graph = Graph((q,), tuple(dict.fromkeys(pool[-4:])))
    numbers = np.random.default_rng(seed).uniform(-2, 2, 6)
    wanted = evaluate(graph, numbers, sizes={})
    for native in (False, True) if seed % 3 == 0 else (False,):
        for got, want in zip(run(graph, [numbers], {}, native=native), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_random_scalar_code_is_brought_together() -> None:
    """Else the test above would see nothing."""
    rng, q = random.Random(0), param(TensorType(f64, (6,)))
    pool = [views.reshape(views.slice_(q, starts=(k,), sizes=(1,), steps=(1,)), shape=()) for k in range(6)]
    for _ in range(60):
        pool.append(step(rng, pool))
    assert names(lower(Graph((q,), tuple(pool[-30:])), "f").body)
