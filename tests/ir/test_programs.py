"""The text, the checks and the evaluator of Programs."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from symgrad.errors import SymgradError
from symgrad.ir.loops import (
    ADD,
    DIV,
    LT,
    MIN,
    MUL,
    Address,
    Apply,
    Assign,
    Buffer,
    ByReference,
    Choose,
    Const,
    Convert,
    Declare,
    Expr,
    Extern,
    Fail,
    Failure,
    For,
    If,
    Let,
    Load,
    Parallel,
    Program,
    Stmt,
    Store,
    Text,
    Var,
    While,
    const_index,
    extent,
    fn,
)
from symgrad.ir.programs import ProgramFailure, program_text, run_program, verify_program
from symgrad.ir.types import DType, boolean, f32, f64, i8, i32, i64, size_named, u64

N, I, ZERO = size_named("n"), Var("i", i64), const_index(0)
X, O = Buffer("x", f64, N, "input"), Buffer("o", f64, N, "output")
LOAD = Load("x", I, f64)
ONE = Const(1.0, f64)


def program(*body: Stmt, **more: Any) -> Program:
    return Program("p", ("n",), more.pop("buffers", (X, O)), body, **more)


def over(*body: Stmt) -> For:
    return For(I, ZERO, extent(N), body)


def test_text_of_loops_and_branches() -> None:
    s = Var("s", f64)
    body = (
        Declare(s, Const(0.0, f64)),
        over(If(Apply(LT, (LOAD, s)), (Assign(s, Apply(ADD, (s, LOAD))),), (Store("o", I, s),))),
        While((), Apply(LT, (s, ONE)), (Fail(1),)),
    )
    assert program_text(program(*body, failures=(Failure("ValueError", "no"),))) == dedent("""\
        program p(n)
          input x: f64[n]
          output o: f64[n]
          failure 1: ValueError: no

        var s: f64 = 0.0
        for i in 0..n {
          if (x[i] < s) {
            s = (s + x[i])
          } else {
            o[i] = s
          }
        }
        loop {
          if not (s < 1.0) { break }
          fail 1
        }
        """)


def test_text_names_what_is_used_twice() -> None:
    e = Apply(ADD, (LOAD, ONE))
    for _ in range(60):
        e = Apply(MUL, (e, e))
    text = program_text(program(over(Store("o", I, e))))
    assert "  %1 = (x[i] + 1.0)\n  %2 = (%1 * %1)\n" in text
    assert "  o[i] = (%60 * %60)\n" in text


def test_text_of_functions_and_calls() -> None:
    buffers = (Buffer("t", i64, 4, "temp", offset=64), Buffer("o", i64, N, "output"))
    call = Extern("routine", (Text("N"), ByReference(Const(3, i64), i32), Address("t", I)))
    smaller = Store("o", I, Apply(MIN, (I, Convert(ONE, i64))))
    loop = Parallel(I, Var("w", i64), extent(N), 2, (call, smaller))
    text = program_text(program(loop, buffers=buffers, workspace_bytes=96))
    assert "  temp t: i64[4] at byte 64\n" in text
    assert "  workspace 96 bytes\n" in text
    assert "parallel for i in 0..n, w in 0..2 {\n  routine('N', &i32(3), &t[i])\n  o[i] = min(i, i64(1.0))\n}" in text


def shared(*body: Stmt) -> Stmt:
    return Parallel(I, Var("w", i64), extent(N), 2, body)


J, ONE_MORE = Var("j", i64), extent(N)
GOOD = over(Store("o", I, LOAD))
V, B = Var("v", f64), Const(True, boolean)
BROKEN: dict[str, tuple[Program, str]] = {
    "unbound": (program(Store("o", ZERO, V)), "v is used before it is bound"),
    "out of scope": (program(GOOD, Store("o", I, ONE)), "i is used before it is bound"),
    "arm out of scope": (program(If(B, (Let(V, ONE),)), Store("o", ZERO, V)), "v is used before"),
    "bound twice": (program(Let(V, ONE), Let(V, ONE)), "v is bound twice"),
    "counter twice": (program(GOOD, GOOD), "i is bound twice"),
    "let is assigned": (program(Let(V, ONE), Assign(V, ONE)), "v is assigned and not a mutable f64"),
    "var dtype": (program(Let(V, ONE), Let(Var("w", f32), Var("v", f32))), "v is not f32"),
    "let dtype": (program(Let(V, Const(1, i64))), "v is i64, not f64"),
    "no buffer": (program(Store("z", ZERO, ONE)), "buffer z does not exist"),
    "no loaded buffer": (program(Store("o", ZERO, Load("z", ZERO, f64))), "buffer z does not exist"),
    "store dtype": (program(Store("o", ZERO, Const(1, i64))), "what is stored in o is i64, not f64"),
    "load dtype": (program(Let(Var("w", f32), Load("x", ZERO, f32))), "a load from x is not f32"),
    "index dtype": (program(Store("o", Const(0, i32), ONE)), "an index of o is i32, not i64"),
    "operands": (program(Let(V, Apply(ADD, (ONE, Const(1, i64))))), "operands of add are f64, i64"),
    "condition": (program(If(ONE, ())), "the condition of an if is f64"),
    "choice": (program(Let(V, Choose(B, ONE, Const(1, i64)))), "an arm of a choice is i64"),
    "bound dtype": (program(For(I, ONE, extent(N), ())), "the start of i is f64"),
    "size": (program(Let(I, extent(size_named("m") + 1))), "size m is not a parameter"),
    "buffer size": (program(buffers=(Buffer("x", f64, size_named("m"), "input"),)), "size m is not a parameter"),
    "same name": (program(buffers=(X, X)), "two buffers have one name"),
    "constant data": (program(buffers=(Buffer("c", f64, 2, "constant", data=b"1"),)), "constant c has 1 bytes"),
    "failure": (program(Fail(1)), "failure 1 is not declared"),
    "shared assignment": (program(Declare(V, ONE), shared(Assign(V, ONE))), "v is assigned and not a mutable f64"),
    "shared failure": (program(shared(If(B, (Fail(1),)))), "the loop over i may end the call"),
    "shared twice": (program(shared(Parallel(J, Var("u", i64), ONE_MORE, 2, ()))), "shares turns inside shared ones"),
    "while condition": (program(While((), ONE, ())), "the condition of a while is f64"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verifier_names_what_is_wrong(name: str) -> None:
    broken, message = BROKEN[name]
    with pytest.raises(SymgradError, match=message):
        verify_program(broken)


def test_verifier_returns_a_good_program() -> None:
    assert verify_program(good := program(GOOD)) is good


def test_names_of_a_loop_head_are_seen_by_condition_and_body() -> None:
    loop = While((Let(V, ONE),), Apply(LT, (V, ONE)), (Store("o", ZERO, V),))
    verify_program(program(loop))
    with pytest.raises(SymgradError, match="v is used before"):
        verify_program(program(loop, Store("o", ZERO, V)))


def test_verifier_visits_shared_expressions_once() -> None:
    e: Expr = LOAD
    for _ in range(3000):
        e = Apply(ADD, (e, e))
    verify_program(program(over(Store("o", I, e))))


def run(p: Program, **inputs: Any) -> Any:
    return run_program(verify_program(p), inputs, {"n": 3})["o"]


def test_arrays_are_taken_flat() -> None:
    squares = program(over(Store("o", I, Apply(MUL, (LOAD, LOAD)))))
    assert run(squares, x=np.array([[1.0], [2.0], [3.0]])).tolist() == [1.0, 4.0, 9.0]


@pytest.mark.parametrize("index", [-1, 3])
def test_access_out_of_bounds_is_an_error(index: int) -> None:
    for s in (Store("o", const_index(index), ONE), Store("o", ZERO, Load("x", const_index(index), f64))):
        with pytest.raises(IndexError, match=rf"\[{index}\] of 3 elements"):
            run(program(s), x=np.zeros(3))


def test_arm_of_a_choice_that_is_not_taken_is_checked_too() -> None:
    e = Choose(Const(False, boolean), Load("x", const_index(9), f64), ONE)
    with pytest.raises(IndexError):
        run(program(Store("o", ZERO, e)), x=np.zeros(3))


def test_temporary_outside_the_workspace_is_an_error() -> None:
    p = program(buffers=(Buffer("t", f64, 2, "temp", offset=8), O), workspace_bytes=16)
    with pytest.raises(IndexError, match="bytes 8 to 24 of a workspace of 16"):
        run(p)


def test_memory_that_was_not_written_is_nan() -> None:
    assert np.isnan(run(program(), x=np.zeros(3))).all()


def test_input_of_another_size_is_an_error() -> None:
    with pytest.raises(SymgradError, match="input x has 2 elements, not 3"):
        run(program(), x=np.zeros(2))


def test_division_of_integers_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        run(program(over(Let(Var("d", i64), Apply(DIV, (I, ZERO))))), x=np.zeros(3))


def test_failure_has_message_and_number() -> None:
    with pytest.raises(ProgramFailure, match="too small") as caught:
        run(program(Fail(2), failures=(Failure("ValueError", "a"), Failure("ValueError", "too small"))), x=np.zeros(3))
    assert caught.value.code == 2


def test_other_functions_are_given() -> None:
    double = fn("double", "double({0})", f="libm double")
    p = program(over(Store("o", I, Apply(double, (LOAD,)))))
    got = run_program(p, {"x": np.arange(3.0)}, {"n": 3}, functions={"double": lambda v: 2 * v})["o"]
    assert got.tolist() == [0.0, 2.0, 4.0]


CONVERSIONS: list[tuple[float, DType, DType, Any]] = [
    (2.9, f64, i8, 2),
    (-2.9, f64, i8, -2),
    (1e9, f64, i8, 127),
    (-1e9, f64, u64, 0),
    (float("inf"), f64, i64, 2**63 - 1),
    (float("nan"), f64, i32, 0),
    (300, i64, i8, 44),
    (-1, i64, u64, 2**64 - 1),
    (0.5, f64, boolean, True),
    (7, i64, f32, 7.0),
]


@pytest.mark.parametrize(("value", "source", "target", "expected"), CONVERSIONS)
def test_conversion(value: float, source: DType, target: DType, expected: Any) -> None:
    p = program(Store("r", ZERO, Convert(Const(value, source), target)), buffers=(Buffer("r", target, 1, "output"),))
    assert run_program(p, {}, {"n": 3})["r"][0] == expected


def test_integers_wrap() -> None:
    e = Apply(ADD, (Const(2**63 - 1, i64), Const(1, i64)))
    p = program(Store("r", ZERO, e), buffers=(Buffer("r", i64, 1, "output"),))
    assert run_program(p, {}, {"n": 3})["r"][0] == -(2**63)
