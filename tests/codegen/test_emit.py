"""Native results of small Programs against NumPy (and, in the fixture, against the evaluator)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symgrad.codegen.elementary import ARITY
from symgrad.codegen.llvm import emit, load
from symgrad.errors import UnsupportedError
from symgrad.ir.loops import (
    ADD,
    DIV,
    EQ,
    LE,
    LT,
    MAX,
    MIN,
    MUL,
    NOT,
    REM,
    SUB,
    Address,
    Apply,
    Assign,
    Block,
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
    LetAll,
    Load,
    Parallel,
    Program,
    Store,
    Text,
    Var,
    While,
    add,
    const_index,
    extent,
    fn,
    mul,
)
from symgrad.ir.programs import verify_program
from symgrad.ir.types import DTYPES, DType, boolean, f32, f64, i8, i32, i64, size_named, u8, u64
from tests.codegen.conftest import call

Run = Callable[..., dict[str, Any]]
N, M = size_named("n"), size_named("m")
I, J = Var("i", i64), Var("j", i64)
ZERO = const_index(0)
EXP = fn("exp", "exp{f}({0})", f="libm exp")
SQRT = fn("sqrt", "sqrt{f}({0})", f="@llvm.sqrt")
NEG = fn("neg", "(-{0})", f="fneg", i="neg", u="neg")


def ap(f: Any, *args: Expr) -> Apply:
    return Apply(f, args)


def over(var: Var, stop: Any, *body: Any) -> For:
    return For(var, ZERO, extent(stop), body)


def pointwise(source: DType, target: DType, value: Callable[[Expr], Expr]) -> Program:
    """``o[i] = value(x[i])``."""
    buffers = (Buffer("x", source, N, "input"), Buffer("o", target, N, "output"))
    return Program("pointwise", ("n",), buffers, (over(I, N, Store("o", I, value(Load("x", I, source)))),))


def scalar(value: Expr, *before: Any) -> Program:
    """``o[0] = value``."""
    return Program("scalar", (), (Buffer("o", value.dtype, 1, "output"),), (*before, Store("o", ZERO, value)))


def test_dot_product(run: Run) -> None:
    total = Var("total", f64)
    step = Assign(total, Apply(ADD, (total, ap(MUL, Load("x", I, f64), Load("y", I, f64))), reassoc=True))
    body = (Declare(total, Const(0.0, f64)), over(I, N, step), Store("o", ZERO, total))
    buffers = (Buffer("x", f64, N, "input"), Buffer("y", f64, N, "input"), Buffer("o", f64, 1, "output"))
    x, y = np.random.default_rng(0).normal(size=(2, 1003))
    assert run(Program("dot", ("n",), buffers, body), {"x": x, "y": y}, n=1003)["o"] == pytest.approx([x @ y])


def test_row_sums_with_symbolic_sizes(run: Run) -> None:
    total = Var("total", f32)
    index = add(mul(I, extent(M)), J)
    inner = over(J, M, Assign(total, Apply(ADD, (total, Load("x", index, f32)), reassoc=True)))
    body = (over(I, N, Declare(total, Const(0.0, f32)), inner, Store("o", I, total)),)
    buffers = (Buffer("x", f32, N * M, "input"), Buffer("o", f32, N, "output"))
    x = np.random.default_rng(0).uniform(size=(5, 37)).astype(np.float32)
    got = run(Program("rows", ("n", "m"), buffers, body), {"x": x}, n=5, m=37)["o"]
    np.testing.assert_allclose(got, x.sum(1), rtol=1e-6)


def test_prefix_sums_read_what_was_just_written(run: Run) -> None:
    before = Load("o", ap(SUB, I, const_index(1)), f64)
    body = (
        Store("o", ZERO, Load("x", ZERO, f64)),
        For(I, const_index(1), extent(N), (Store("o", I, ap(ADD, before, Load("x", I, f64))),)),
    )
    program = Program("scan", ("n",), (Buffer("x", f64, N, "input"), Buffer("o", f64, N, "output")), body)
    x = np.arange(1.0, 20.0)
    np.testing.assert_array_equal(run(program, {"x": x}, n=19)["o"], x.cumsum())


def test_loop_without_iterations_leaves_memory_alone(run: Run) -> None:
    loop = For(I, const_index(3), const_index(2), (Store("o", ZERO, Const(5.0, f64)),))
    program = Program("none", (), (Buffer("o", f64, 1, "output"),), (Store("o", ZERO, Const(1.0, f64)), loop))
    assert run(program, {})["o"] == [1.0]


def test_while_with_names_of_its_head(run: Run) -> None:
    """Newton's square root: the head's residual is seen by condition and body."""
    x, a, r = Var("x", f64), Const(2.0, f64), Var("r", f64)
    head = (Let(r, ap(SUB, ap(MUL, x, x), a)),)
    body = (Assign(x, ap(SUB, x, ap(DIV, r, ap(MUL, Const(2.0, f64), x)))),)
    loop = While(head, ap(LT, Const(1e-12, f64), ap(MUL, r, r)), body)
    assert run(scalar(x, Declare(x, a), loop), {})["o"] == pytest.approx([math.sqrt(2.0)])


def test_value_read_before_an_assignment_is_not_reused_after_it(run: Run) -> None:
    x, old = Var("x", f64), Var("old", f64)
    double = ap(ADD, x, x)
    before = (Declare(x, Const(1.0, f64)), Let(old, double), Assign(x, Const(10.0, f64)))
    assert run(scalar(ap(ADD, double, old), *before), {})["o"] == [22.0]


def test_load_is_not_reused_over_a_store(run: Run) -> None:
    e, old = ap(MUL, Load("o", ZERO, f64), Const(3.0, f64)), Var("old", f64)
    body: Block = (Store("o", ZERO, Const(1.0, f64)), Let(old, e), Store("o", ZERO, Const(2.0, f64)))
    program = Program("p", (), (Buffer("o", f64, 1, "output"),), (*body, Store("o", ZERO, ap(ADD, e, old))))
    assert run(program, {})["o"] == [9.0]


def test_load_is_not_carried_round_a_loop(run: Run) -> None:
    e = ap(ADD, Load("o", ZERO, f64), Const(1.0, f64))
    first = Var("first", f64)
    body: Block = (Store("o", ZERO, Const(0.0, f64)), Let(first, e), over(I, 5, Store("o", ZERO, e)))
    program = Program("p", (), (Buffer("o", f64, 1, "output"),), (*body, Store("o", ZERO, ap(ADD, e, first))))
    assert run(program, {})["o"] == [7.0]


def test_shared_object_is_emitted_once() -> None:
    x: Expr = Load("x", I, f64)
    for _ in range(40):  # 2**40 instructions if it were a tree
        x = ap(ADD, x, x)
    buffers = (Buffer("x", f64, N, "input"), Buffer("o", f64, N, "output"))
    assert emit(Program("p", ("n",), buffers, (over(I, N, Store("o", I, x)),))).count("fadd") == 40


def test_equal_expression_is_emitted_once_a_scope() -> None:
    def e() -> Expr:
        return ap(MUL, Load("x", I, f64), Load("x", I, f64))

    text = emit(pointwise(f64, f64, lambda _: ap(ADD, e(), e())))
    assert (text.count("fmul"), text.count("= load double")) == (1, 1)


def test_value_of_an_arm_is_not_used_outside_it(run: Run) -> None:
    e, x = ap(EXP, Load("x", ZERO, f64)), Var("v", f64)
    arms = If(ap(LT, Load("x", ZERO, f64), Const(0.0, f64)), (Assign(x, e),))
    body = (Declare(x, Const(0.0, f64)), arms, Store("o", ZERO, ap(ADD, x, e)))
    program = Program("p", (), (Buffer("x", f64, 1, "input"), Buffer("o", f64, 1, "output")), body)
    for value in (-1.0, 1.0):
        got = run(program, {"x": [value]}, {"exp": np.exp})["o"]
        assert got == pytest.approx([math.exp(value) * (1 + (value < 0))])


def test_chain_of_three_thousand_operations(run: Run) -> None:
    e: Expr = Load("x", ZERO, f64)
    for k in range(3000):
        e = ap(ADD if k % 2 else MUL, e, Const(1.0 + k % 3, f64))
    program = Program("p", (), (Buffer("x", f64, 1, "input"), Buffer("o", f64, 1, "output")), (Store("o", ZERO, e),))
    x = 1e-300
    for k in range(3000):
        x = x + (1.0 + k % 3) if k % 2 else x * (1.0 + k % 3)
    np.testing.assert_array_equal(run(program, {"x": [1e-300]})["o"], [x])


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308])
def test_f64_literals_are_exact(run: Run, value: float) -> None:
    got = run(scalar(Const(value, f64)), {})["o"]
    assert got.tobytes() == np.array([value]).tobytes()


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45, 1e300, 16777217.0])
def test_f32_literals_are_the_nearest(run: Run, value: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.array([value]).astype(np.float32)
    assert run(scalar(Const(value, f32)), {})["o"].tobytes() == expected.tobytes()


@pytest.mark.parametrize(("value", "dtype"), [(2**64 - 1, u64), (-(2**63), i64), (255, u8), (300, i8), (True, boolean)])
def test_integer_literals_wrap(run: Run, value: int, dtype: DType) -> None:
    expected = np.array(value & (2 ** (8 * dtype.bytes) - 1)).astype(dtype.numpy)
    assert run(scalar(Const(value, dtype)), {})["o"] == [expected]


@pytest.mark.parametrize("target", DTYPES.values(), ids=str)
@pytest.mark.parametrize("source", [f64, f32, i64, i32, i8, u64, u8, boolean], ids=str)
def test_conversions(run: Run, source: DType, target: DType) -> None:
    """Like astype where C defines it; the evaluator checks the rest."""
    small = [0, 1, 1, 0] if source == boolean else [0, 1, 7, 100]
    if source.kind in "if" and target.kind != "u":
        small += [-1, -100]
    x = np.array(small, source.numpy)
    got = run(pointwise(source, target, lambda v: Convert(v, target)), {"x": x}, n=len(x))["o"]
    np.testing.assert_array_equal(got, x.astype(target.numpy))


@pytest.mark.parametrize(
    ("target", "low", "high"), [(i8, -128, 127), (i64, -(2**63), 2**63 - 1), (u8, 0, 255), (u64, 0, 2**64 - 1)], ids=str
)
def test_float_to_integer_truncates_and_saturates(run: Run, target: DType, low: int, high: int) -> None:
    x = np.array([math.nan, math.inf, -math.inf, 1e30, -1e30, 2.9])
    got = run(pointwise(f64, target, lambda v: Convert(v, target)), {"x": x}, n=6)["o"]
    assert got.tolist() == [0, high, low, high, low, 2]


def test_bool_buffers_and_logic(run: Run) -> None:
    program = pointwise(boolean, boolean, lambda v: ap(NOT, v))
    assert run(program, {"x": [True, False, True]}, n=3)["o"].tolist() == [False, True, False]


def test_choose_and_comparison(run: Run) -> None:
    program = pointwise(f64, f64, lambda v: Choose(ap(LE, v, Const(0.0, f64)), ap(NEG, v), v))
    assert run(program, {"x": [-2.0, 3.0, math.nan]}, {"neg": np.negative}, n=3)["o"][:2].tolist() == [2.0, 3.0]


def test_integer_division_min_max(run: Run) -> None:
    three = Const(3, i64)
    x = [-7, -6, 7, 8]
    assert run(pointwise(i64, i64, lambda v: ap(DIV, v, three)), {"x": x}, n=4)["o"].tolist() == [-2, -2, 2, 2]
    assert run(pointwise(i64, i64, lambda v: ap(REM, v, three)), {"x": x}, n=4)["o"].tolist() == [-1, 0, 1, 2]
    assert run(pointwise(i64, i64, lambda v: ap(MAX, v, three)), {"x": x}, n=4)["o"].tolist() == [3, 3, 7, 8]
    assert run(pointwise(u8, u8, lambda v: ap(MIN, v, Const(200, u8))), {"x": [255, 3]}, n=2)["o"].tolist() == [200, 3]


def test_integers_wrap(run: Run) -> None:
    factor = Const(6364136223846793005, i64)
    x = np.array([1, 2, 3, 2**62], np.int64)
    got = run(pointwise(i64, i64, lambda v: ap(MUL, v, factor)), {"x": x}, n=4)["o"]
    assert got.tolist() == [((int(v) * 6364136223846793005 + 2**63) % 2**64) - 2**63 for v in x]


def test_large_multiples_of_a_loop_counter_wrap(run: Run) -> None:
    """A counter-based generator multiplies its counter by a large constant: that is no index."""
    value = ap(MUL, I, Const(2**62, i64))
    program = Program("p", ("n",), (Buffer("o", i64, N, "output"),), (over(I, N, Store("o", I, value)),))
    assert run(program, {}, n=5)["o"].tolist() == [0, 2**62, -(2**63), -(2**62), 0]


def test_libm_and_intrinsics_in_both_precisions(run: Run) -> None:
    for dtype in (f64, f32):
        x = np.linspace(0.1, 3.0, 20).astype(dtype.numpy)
        program = pointwise(dtype, dtype, lambda v: ap(SQRT, ap(EXP, v)))
        got = run(program, {"x": x}, {"exp": np.exp, "sqrt": np.sqrt}, n=20)["o"]
        np.testing.assert_allclose(got, np.sqrt(np.exp(x)), rtol=1e-6)


def test_function_without_an_instruction_for_its_dtype() -> None:
    with pytest.raises(UnsupportedError, match="exp has no LLVM instruction for i64"):
        emit(scalar(ap(EXP, Const(1, i64))))


def test_constant_buffer(run: Run) -> None:
    data = np.array([1.5, -2.0, 1e10])
    buffers = (Buffer("c", f64, 3, "constant", data=data.tobytes()), Buffer("o", f64, 3, "output"))
    program = Program("p", (), buffers, (over(I, 3, Store("o", I, Load("c", I, f64))),))
    assert run(program, {})["o"].tolist() == data.tolist()


def test_workspace_temporaries_at_symbolic_offsets(run: Run) -> None:
    room = (N * 8 + 63) // 64 * 64
    buffers = (
        Buffer("x", f64, N, "input"),
        Buffer("a", f64, N, "temp"),
        Buffer("b", f64, N, "temp", offset=room),
        Buffer("o", f64, N, "output"),
    )
    k = Var("k", i64)
    body = (
        over(I, N, Store("a", I, ap(MUL, Load("x", I, f64), Const(2.0, f64)))),
        over(J, N, Store("b", J, ap(ADD, Load("a", J, f64), Const(1.0, f64)))),
        over(k, N, Store("o", k, ap(ADD, Load("a", k, f64), Load("b", k, f64)))),
    )
    x = np.arange(11.0)
    program = Program("p", ("n",), buffers, body, workspace_bytes=room * 2)
    assert run(program, {"x": x}, n=11)["o"].tolist() == (4 * x + 1).tolist()


def test_workspace_that_is_reused_is_not_taken_for_two_places(run: Run) -> None:
    """``a`` and ``b`` lie in the same bytes: nothing may move the load of ``a`` below the store to ``b``."""
    buffers = (Buffer("a", f64, 8, "temp"), Buffer("b", f64, 8, "temp", offset=32), Buffer("o", f64, 8, "output"))
    k = Var("k", i64)
    body = (
        over(I, 8, Store("a", I, Convert(I, f64))),
        over(J, 8, Store("o", J, Load("a", J, f64)), Store("b", J, Const(-1.0, f64))),
        over(k, 8, Store("o", k, ap(ADD, Load("o", k, f64), Load("b", k, f64)))),
    )
    got = run(Program("p", (), buffers, body, workspace_bytes=96), {})["o"]
    assert got.tolist() == [-1.0, 0.0, 1.0, 2.0, -2.0, -2.0, -2.0, -2.0]


@pytest.mark.parametrize(("n", "m"), [(7, 2), (-7, 2), (7, -2), (6, 3), (5, 0)])
def test_floor_quotient_of_sizes(run: Run, n: int, m: int) -> None:
    quotient = Store("o", ZERO, extent(N // M))
    by_four = Store("o", const_index(1), extent((N + 1) // 4 + M * M * 2 - 3))
    program = Program("p", ("n", "m"), (Buffer("o", i64, 2, "output"),), (quotient, by_four))
    assert run(program, {}, n=n, m=m)["o"].tolist() == [n // m if m else 0, (n + 1) // 4 + 2 * m * m - 3]


def test_failure_leaves_with_its_number(status: Callable[..., int]) -> None:
    negative = ap(LT, Load("x", I, f64), Const(0.0, f64))
    failures = (Failure("ValueError", "unused"), Failure("ValueError", "negative"))
    body = (over(I, N, If(negative, (Fail(2),), (Store("o", I, Load("x", I, f64)),))),)
    buffers = (Buffer("x", f64, N, "input"), Buffer("o", f64, N, "output"))
    program = Program("p", ("n",), buffers, body, failures=failures)
    assert [status(program, {"x": x}, n=3) for x in ([1.0, 2.0, 3.0], [1.0, -2.0, 3.0])] == [0, 2]


def test_statements_after_a_failure_are_dropped(status: Callable[..., int]) -> None:
    end = (Fail(1), Store("o", ZERO, Const(1.0, f64)))
    both = If(ap(EQ, extent(N), const_index(1)), end, end)
    body = (over(I, N, both, Store("o", ZERO, Const(2.0, f64))), While((), Const(True, boolean), (Fail(1),)))
    program = Program("p", ("n",), (Buffer("o", f64, 1, "output"),), body, failures=(Failure("ValueError", "x"),))
    assert status(program, {}, n=3) == 1


@pytest.mark.parametrize(("dtype", "name"), [(f64, "sg_dgemm"), (f32, "sg_sgemm")], ids=str)
def test_matrix_product_by_blas(run: Run, dtype: DType, name: str) -> None:
    """Column-major BLAS on row-major arrays: C' = B' A'."""
    n, k, m = (ByReference(Const(v, i64), i32) for v in (3, 4, 5))
    one, zero = ByReference(Const(1.0, dtype), dtype), ByReference(Const(0.0, dtype), dtype)
    a, b, o = (Address(x, ZERO) for x in "abo")
    call = Extern(name, (Text("N"), Text("N"), m, n, k, one, b, m, a, k, zero, o, m))
    buffers = (Buffer("a", dtype, 12, "input"), Buffer("b", dtype, 20, "input"), Buffer("o", dtype, 15, "output"))
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=s).astype(dtype.numpy) for s in ((3, 4), (4, 5)))

    def gemm(*args: Any) -> None:
        args[11][:] = (args[8].reshape(3, 4) @ args[6].reshape(4, 5)).reshape(-1)

    got = run(Program("p", (), buffers, (call,)), {"a": x, "b": y}, {name: gemm})["o"]
    np.testing.assert_allclose(got.reshape(3, 5), x @ y, rtol=1e-5)


def test_store_before_and_load_after_an_external_call_stay_in_order(run: Run) -> None:
    """y := 2 y by gemv with a zero matrix; y is written just before and read just after."""
    one, two, zero = (
        ByReference(Const(1, i64), i32),
        ByReference(Const(2.0, f64), f64),
        ByReference(Const(0.0, f64), f64),
    )
    a, y = Address("a", ZERO), Address("t", ZERO)
    call = Extern("sg_dgemv", (Text("N"), one, one, zero, a, one, a, one, two, y, one))
    buffers = (Buffer("a", f64, 1, "input"), Buffer("t", f64, 1, "temp"), Buffer("o", f64, 1, "output"))
    body = (Store("t", ZERO, Const(21.0, f64)), call, Store("o", ZERO, Load("t", ZERO, f64)))

    def gemv(*args: Any) -> None:
        args[9][0] *= 2

    program = Program("p", (), buffers, body, workspace_bytes=8)
    assert run(program, {"a": [1.0]}, {"sg_dgemv": gemv})["o"] == [42.0]


def test_program_named_like_a_function_that_it_calls(run: Run) -> None:
    gamma = fn("tgamma", "tgamma{f}({0})", f="libm tgamma")
    program = Program("tgamma", (), (Buffer("o", f64, 1, "output"),), (Store("o", ZERO, ap(gamma, Const(5.0, f64))),))
    assert run(program, {}, {"tgamma": np.vectorize(math.gamma)})["o"] == pytest.approx([24.0])
    with pytest.raises(UnsupportedError, match="two meanings"):
        emit(program)


def test_names_that_llvm_must_quote(run: Run) -> None:
    program = Program('<lambda> "é"', (), (Buffer("o[0]", f64, 1, "output"),), (Store("o[0]", ZERO, Const(4.0, f64)),))
    assert run(program, {})["o[0]"] == [4.0]


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_turns_that_threads_share_see_what_is_around_them(run: Run, n: int) -> None:
    """Names of every kind from outside: a let, a mutable scalar, a bool, a counter, a constant buffer, a size."""
    count, k, turn, worker = (Var(name, i64) for name in ("count", "k", "turn", "worker"))
    factor, total, is_odd = Var("factor", f64), Var("total", f64), Var("is_odd", boolean)
    at = add(mul(k, extent(N)), turn)
    value = Apply(ADD, (Apply(MUL, (Load("x", turn, f64), factor)), Apply(ADD, (total, Load("c", k, f64)))))
    turns = Parallel(turn, worker, count, 3, (Store("y", at, Choose(is_odd, value, Apply(SUB, (value, factor)))),))
    body = (
        Let(count, extent(N)),
        Let(factor, Const(2.5, f64)),
        Let(is_odd, Apply(EQ, (Apply(REM, (count, const_index(2))), const_index(1)))),
        Declare(total, Const(0.0, f64)),
        For(k, const_index(0), const_index(3), (Assign(total, Apply(ADD, (total, Const(10.0, f64)))), turns)),
    )
    c = np.array([0.25, 0.5, 0.75])
    buffers = (
        Buffer("x", f64, N, "input"),
        Buffer("y", f64, N * 3, "output"),
        Buffer("c", f64, 3, "constant", data=c.tobytes()),
    )
    x = np.arange(float(n))
    out = run(Program("p", ("n",), buffers, body), {"x": x}, n=n)["y"].reshape(3, n)
    wanted = 2.5 * x + np.array([[10.25], [20.5], [30.75]]) - (0.0 if n % 2 else 2.5)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", [f64, f32], ids=str)
@pytest.mark.parametrize("name", sorted(n for n, count in ARITY.items() if count == 1))
def test_several_operands_side_by_side_give_the_same_bits(name: str, dtype: DType) -> None:
    """In lanes that are all used, some unused, and more than a vector has; huge arguments take the rare way."""
    numbers = [
        0.1,
        -0.7,
        0.99,
        0.0,
        -0.0,
        1e-300,
        1.5,
        -2.5,
        30.0,
        1e5,
        1e22,
        -1e300,
        math.inf,
        math.nan,
        0.3,
        5.0,
        1.0,
    ]
    function = fn(name, name, f=f"libm {name}")
    operands = tuple(Load("x", const_index(k), dtype) for k in range(len(numbers)))
    variables = tuple(Var(f"v{k}", dtype) for k in range(len(numbers)))
    together = LetAll(variables, function, operands)
    stores = tuple(Store("o", const_index(k), v) for k, v in enumerate(variables))
    buffers = (Buffer("x", dtype, len(numbers), "input"), Buffer("o", dtype, len(numbers), "output"))
    with np.errstate(over="ignore"):  # as f32, the largest is infinite
        x = np.array(numbers, dtype.numpy)
    bits = []
    before: tuple[Block, ...] = ((together,), together.lets())
    for lets in before:
        program = verify_program(Program("p", (), buffers, (*lets, *stores)))
        bits.append(call(load(program), program, {"x": x}, {})[1]["o"].tobytes())
    assert bits[0] == bits[1]
