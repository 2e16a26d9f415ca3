"""Traced values in the roles of NumPy's arrays, NumPy's scalars and Python's numbers."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.errors import DTypeError, TraceError, UnsupportedError
from symgrad.frontend.lines import where
from symgrad.frontend.tracer import (
    Trace,
    TracedSize,
    activate,
    argument,
    float_operands,
    is_traced,
    make_size,
    operands,
    size_of,
    tracing,
    value,
    wrap,
)
from symgrad.ir.node import constant, literal
from symgrad.ir.sizes import Guard, Sizes, assuming
from symgrad.ir.types import f32, f64, i8, i64, size_named
from tests.frontend.harness import agree, parameters, traced

A = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])
DTYPES = [np.float64, np.float32, np.int64, np.int32, np.int8, np.uint8, np.bool_]


def tracer(x, **how):
    (n,) = parameters(x)
    return wrap(n, **how)


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.eq,
        operator.ne,
        divmod,
    ],
)
def test_operators_both_ways(op):
    b = np.array([2.0, 0.5, 3.0])
    agree(lambda x, y: (op(abs(x), y), op(x, 2), op(abs(x), 2.5)) if op is not divmod else (*op(x, y), *op(x, 2)), A, b)
    agree(lambda x: op(3.0, abs(x)) if op is not divmod else divmod(3.0, x), A)
    agree(lambda x: op(b, abs(x)) if op is not divmod else divmod(b, x), A)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from([*DTYPES, int, float]),
    st.sampled_from(["add", "multiply", "true_divide", "maximum"]),
)
def test_dtypes_follow_numpy(left, right, name):
    f = getattr(np, name)
    a = np.ones(3, left)
    if right in (int, float):
        agree(lambda x: (f(x, right(1)), f(right(1), x)), a)
    else:
        agree(f, a, np.ones(3, right))
        agree(f, a, np.ones(3, right)[0])


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bits_and_truths(op):
    agree(lambda x, y: (op(x > 0, y > 1), op(np.array([True, False, True]), x[0] > 0)), A, A + 1)
    agree(lambda x: (op(x, 6), op(5, x), ~x), np.array([1, 2, 12]))


def test_operators_in_place_keep_dtype_and_object():
    def f(x):
        a = x.astype(np.float32)
        same = a
        a += np.float64(1.5)
        a *= np.ones(3)
        a -= 1
        a /= 2
        a **= 2
        return same, a

    agree(f, A)


def test_an_operator_in_place_does_not_narrow():
    def f(x):
        x = x.copy()
        x += 1.5

    with pytest.raises(TypeError, match="same_kind"):
        traced(f, np.arange(3))
    with pytest.raises(ValueError, match="non-broadcastable output"):
        traced(lambda x: x[0].copy().__iadd__(x), A)


def test_scalars_are_rebound_by_operators_in_place():
    def f(x):
        y = x.copy()
        s = y[0, 0]
        t = y.sum()
        u = t
        s += 1
        t += 1
        return y, s, t, u

    agree(f, A)


def test_arrays_of_no_axes_change_in_place():
    def f(x):
        y = x.copy()
        view = y[0, ..., 0]
        view += 5
        return y, view

    agree(f, A)


def test_matmul():
    agree(lambda x, y: (x @ y.T, x @ x[0], np.ones(2) @ x), A, A + 1)


def test_numbers_from_numpy_on_the_left():
    agree(lambda x: (np.float64(2) * x, np.float32(2) - x, np.int64(3) / x, np.float64(1) < x), A)


def test_unknown_operands_are_type_errors():
    for other in (None, "a", object()):
        with pytest.raises(TypeError):
            tracer(A) + other
    with pytest.raises(DTypeError, match="complex"):
        tracer(A) + 1j
    assert (tracer(A) == "a") is False


# --- Python numbers --------------------------------------------------------------------------------------------------


def test_python_numbers_adapt_to_arrays():
    agree(lambda x, k, c: (x * k, c - x, x * (k + c)), A.astype(np.float32), 3, 2.5)
    agree(lambda x, c: x * c, np.arange(3), 2.5)


def test_python_numbers_compute_as_python_does():
    def f(i, x, b):
        return i / 2, i // 2, i % 3, i * x, b + b, -b, i > 2, round(x), math.floor(x), 2**i, abs(-i), i + True

    got = traced(f, 7, 2.5, True)
    for e, g in zip(f(7, 2.5, True), got, strict=True):
        assert g == e
        assert g.dtype == np.asarray(e).dtype


def test_numpy_functions_of_python_numbers_are_strong():
    assert not np.sin(tracer(1.0, weak=True)).weak
    assert (tracer(1.0, weak=True) * 2).weak
    assert (tracer(A.astype(np.float32)) * np.sin(tracer(1.0, weak=True))).dtype == np.float64


def test_classes_are_those_of_numpy_and_python():
    assert isinstance(tracer(A), np.ndarray)
    assert isinstance(tracer(1.0, weak=True), float)
    assert isinstance(tracer(1, weak=True), int)
    assert isinstance(tracer(A)[0, 0], np.float64)
    assert not isinstance(tracer(A), list | float)
    assert is_traced(tracer(A))
    assert not is_traced(A)


def test_promotion_of_operands():
    single, number, big = tracer(A.astype(np.float32)), tracer(1.0, weak=True), tracer(np.ones(2, np.int8))
    assert [n.dtype for n in operands(single, number, 2)] == [f32] * 3
    assert [n.dtype for n in operands(big, 3)] == [i8] * 2
    assert [n.dtype for n in operands(big, 1.5)] == [f64] * 2
    assert operands(number, 1).weak
    assert not operands(number, np.float64(1)).weak
    assert [n.dtype for n in float_operands(big, tracer(1, weak=True))] == [f64] * 2


def test_nested_lists_with_traced_parts():
    agree(lambda x: x[:, :2] + [x[0, 0], 1.0], A)
    assert value([[tracer(A)[0, 0], 1], [2, 3.5]]).shape == (2, 2)


@pytest.mark.parametrize(
    "bad", [1j, "x", None, np.array([1j]), np.array(["a"]), np.array([None]), np.float16(1)], ids=repr
)
def test_values_that_are_no_numbers(bad):
    with pytest.raises(DTypeError):
        value(bad)


# --- what Python needs now -------------------------------------------------------------------------------------------


def test_truth_of_a_traced_value_names_the_line():
    with pytest.raises(TraceError, match=r"np\.where") as e:
        traced(lambda x: 1 if x.sum() > 0 else 2, A)
    assert "if x.sum() > 0" in str(e.value)
    with pytest.raises(ValueError, match="ambiguous"):
        traced(lambda x: bool(x > 0), A)


def test_truth_of_constants():
    assert wrap(constant(3.0)) > 2
    assert not (wrap(constant(3.0)) > 4)


def test_conversions_are_refused():
    x = tracer(np.float64(1.0))
    for f in (float, int, complex, lambda v: v.item(), lambda v: v.tolist(), np.array, np.asarray, math.sin):
        with pytest.raises(TraceError):
            f(x)
    assert float(wrap(constant(2.5))) == 2.5
    with pytest.raises(TraceError, match=r"symgrad\.numpy"):
        np.zeros(3)[:] = tracer(A[0])


def test_functions_that_are_not_supported_are_named():
    for f, name in ((np.linalg.lstsq, r"np\.linalg\.lstsq"), (np.unwrap, r"np\.unwrap")):
        with pytest.raises(UnsupportedError, match=name) as e:
            f(tracer(A), tracer(A))
        assert "test_tracer.py" in str(e.value)


def test_numpy_arrays_do_not_take_traced_values():
    plain = np.zeros(3)
    with pytest.raises(TraceError, match=r"symgrad\.numpy"):
        plain += tracer(np.ones(3))
    with pytest.raises(TraceError, match=r"symgrad\.numpy"):
        np.add(tracer(np.ones(3)), 1, out=plain)


def test_integers_that_python_needs_are_pinned():
    (n,) = parameters(3)
    trace = Trace({n: 3})
    with activate(trace):
        assert list(range(wrap(n, weak=True) + 1)) == [0, 1, 2, 3]
    assert trace.pins == {n: 3}
    with pytest.raises(TraceError, match="known only when"):
        operator.index(tracer(np.int64(3)))
    with pytest.raises(TypeError):
        operator.index(tracer(1.0, weak=True))


def test_printing():
    assert f"{tracer(A)}" == str(tracer(A)) == "Traced f64[2,3]"


def test_hashes():
    with pytest.raises(TypeError, match="unhashable"):
        hash(tracer(A))


# --- ufunc methods ---------------------------------------------------------------------------------------------------


def test_ufunc_methods():
    def f(x):
        return (
            np.add.reduce(x),
            np.add.reduce(x, axis=None),
            np.multiply.reduce(x, axis=1, keepdims=True),
            np.maximum.reduce(x, axis=1),
            np.add.accumulate(x),
            np.multiply.accumulate(x, 1),
            np.subtract.outer(x, x[0]),
            np.logical_or.reduce(x > 3, axis=1),
        )

    agree(f, A)
    with pytest.raises(UnsupportedError, match=r"np\.add\.reduceat"):
        np.add.reduceat(tracer(A), [0, 1])


def test_out_and_where():
    def f(x):
        y = x * 0
        z = np.add(x, 1, out=y, where=x > 0)
        np.multiply(x[0], x[1], out=y[1])
        return y, z

    agree(f, A)


# --- methods and shapes ----------------------------------------------------------------------------------------------


def test_methods():
    def f(x):
        return (
            x.sum(),
            x.sum(axis=0),
            x.mean(1),
            x.max(),
            x.min(axis=0, keepdims=True),
            x.prod(),
            x.std(),
            x.var(axis=1),
            (x > 0).all(),
            (x > 3).any(axis=1),
            x.argmax(),
            x.argmin(axis=1),
            x.cumsum(),
            x.cumprod(axis=0),
            x.reshape(3, 2),
            x.reshape((-1,)),
            x.ravel(),
            x.flatten(),
            x.T,
            x.transpose(1, 0),
            x.swapaxes(0, 1),
            x[None].squeeze(),
            x.astype(np.float32),
            x.astype(int),
            x.clip(0, 1),
            x.round(),
            x.dot(x.T),
            x.repeat(2, axis=0),
            x.take([0, 1], axis=1),
            x.trace(),
            x.diagonal(),
            x.argsort(axis=1),
            x.conj(),
        )

    expected, got = f(A), traced(f, A)
    for e, g in zip(expected, got, strict=True):
        assert np.asarray(e).dtype == g.dtype
        np.testing.assert_allclose(g, e, rtol=1e-14)


def test_methods_that_change_the_array():
    def f(x):
        y, z = x.copy(), x.copy()
        y.sort(axis=0)
        z[0].fill(3)
        z[1].sort()
        return y, z

    agree(f, A)


def test_views_by_methods_write_through():
    def f(x):
        y = x.copy()
        y.T[0] = -1
        y.reshape(-1)[4] = 7
        y.ravel()[2:4] += 100
        y.swapaxes(0, 1)[1, 1] *= 2
        np.expand_dims(y, 0)[0, 0, 0] = 9
        y[None, 1].squeeze()[2] = 8
        copy = y.T.reshape(-1)
        copy[:] = 0
        y.flatten()[:] = 0
        part = y[:, :2].reshape(-1)
        part[:] = 0
        y[:, 1:][::-1].reshape(2, 1, 2)[0] = 55
        return y

    agree(f, A)


def test_broadcast_views_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        traced(lambda x: np.broadcast_to(x.copy(), (2, 2, 3)).__setitem__(0, 1.0), A)


def test_iteration_and_length():
    agree(lambda x: sum(row[0] * len(x) for row in x), A)
    with pytest.raises(TypeError, match="0-d"):
        iter(tracer(A).sum())


def test_attributes_numpy_has_and_we_do_not():
    with pytest.raises(UnsupportedError, match="byteswap"):
        tracer(A).byteswap()
    assert not hasattr(tracer(A), "no_such_thing")


# --- sizes -----------------------------------------------------------------------------------------------------------

N = size_named("n")


def test_sizes_stay_symbols_under_arithmetic():
    n = make_size(N)
    with assuming(Sizes({"n": 7})) as held:
        for made, size in (
            (n + 1, N + 1),
            (2 * n - n, N),
            (n * n, N * N),
            (10 - n, 10 - N),
            (n // 2, N // 2),
            (-n, -N),
            (n**2, N * N),
        ):
            assert type(made) is TracedSize
            assert made.size == size
        assert n % 7 == 0
        assert n - n == 0
    assert isinstance(n, int)
    assert list(held.guards) == [Guard(N - (N // 7) * 7, "==", 0)]


def test_sizes_divide_into_numbers():
    agree(
        lambda x: (x.sum() / x.shape[0], x * (1 / x.shape[0]), x.shape[0] * 0.5 * x, x.shape[0] / 2),
        np.arange(7.0),
        sizes={"n": 7},
    )
    agree(lambda x: (x.shape[0] * x, x - x.shape[0], np.float32(2) * x.shape[0]), np.arange(7.0), sizes={"n": 7})


def test_comparing_sizes_guards():
    n = make_size(N)
    with assuming(Sizes({"n": 7})) as held:
        assert n > 3
        assert not n <= 2.5
        assert n < 7.5
        assert n != 8
        assert min(n, 3) == 3
    assert all(g.holds({"n": 6}) for g in held.guards)
    assert not all(g.holds({"n": 3}) for g in held.guards)


def test_python_pins_sizes():
    n = make_size(N)
    with assuming(Sizes({"n": 7})) as held:
        assert [k for k in range(n)] == list(range(7))
        assert f"{n}" == "7"
        assert {n: 1}[7] == 1
    assert held.canonical(N) == 7


def test_size_of():
    assert size_of(np.int32(3)) == 3
    assert size_of(make_size(N)) == N
    assert size_of(wrap(value(make_size(N)), weak=True)) == N
    assert size_of(wrap(constant(3))) == 3
    with pytest.raises(TraceError):
        size_of(2.5)


# --- lines and traces ------------------------------------------------------------------------------------------------


def test_nodes_know_the_users_line():
    with activate(Trace()):
        assert tracing()
        n = (tracer(A) * 2.0).node
    assert n.where is not None
    assert n.where.text == "n = (tracer(A) * 2.0).node"
    assert n.where.function == "test_nodes_know_the_users_line"
    assert not tracing()


def test_where_is_the_line_that_asks():
    line = where()
    assert line is not None
    assert line.text == "line = where()"


def test_arguments_may_be_read_and_scalars_rebound():
    (n,) = parameters(np.float64(2.0))
    x = argument(n)
    x += 1
    assert literal(x.node) is None
    assert x.node.dtype == f64
    assert value(True).dtype.name == "bool"
    assert value(3).dtype == i64
