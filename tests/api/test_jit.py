"""``jit``: what comes back, and that it never shares memory with what went in."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("fun", "args", "kind"),
    [
        (lambda x: np.sum(x), (X,), np.float64),
        (lambda x: x * 2, (3.0,), np.float64),
        (lambda x: x * 2, (3,), np.int64),
        (lambda x: x > 2, (3.0,), np.bool_),
        (lambda x: x * 2, (np.float32(3),), np.float32),
        (lambda x: np.argmax(x), (X,), np.int64),
        (lambda x: np.any(x > 0), (X,), np.bool_),
        (lambda x: x * 2, (np.array(3.0),), np.float64),
        (lambda x: x[0], (X.astype(np.int32),), np.int32),
    ],
)
def test_scalars_are_numpy_scalars_of_their_dtype(fun, args, kind):
    got = sg.jit(fun)(*args)
    assert type(got) is kind
    assert got == fun(*args)


def test_arrays_are_plain_writable_arrays():
    got = sg.jit(lambda x: x + 1)(X)
    assert type(got) is np.ndarray and got.flags.writeable and got.flags.c_contiguous
    same(got, X + 1)


@pytest.mark.parametrize(
    "fun",
    [lambda x: x, lambda x: x[:], lambda x: x.reshape(3, 1), lambda x: (x, x), lambda x: np.asarray(x), lambda x: x.T],
)
def test_results_do_not_alias_arguments_or_each_other(fun):
    x = X.copy()
    got = sg.jit(fun)(x)
    parts = got if isinstance(got, tuple) else (got,)
    for k, part in enumerate(parts):
        assert not np.shares_memory(part, x)
        assert not any(np.shares_memory(part, other) for other in parts[k + 1 :])
        same(part.ravel(), X)


def test_a_captured_array_is_not_aliased():
    w = X.copy()
    got = sg.jit(lambda x: (w, x))(1.0)[0]
    got[0] = 99.0
    same(w, X)


def test_static_results_come_through():
    got = sg.jit(lambda x: {"none": None, "text": "a", "flag": True, "empty": [], "x": x, "n": 3, "f": 0.5})(X)
    assert (got["none"], got["text"], got["flag"], got["empty"]) == (None, "a", True, [])
    assert type(got["flag"]) is bool
    assert got["n"] == 3 and got["f"] == 0.5
    same(got["x"], X)


def test_nothing_returned_is_none():
    assert sg.jit(lambda x: None)(X) is None


def test_containers_of_results():
    Pair = namedtuple("Pair", "a b")

    @dataclass
    class State:
        x: np.ndarray
        extra: list

    got = sg.jit(lambda x: (Pair(x, 1.0), State(x * 2, [x[0], "s"]), OrderedDict(b=x, a=(x,))))(X)
    assert isinstance(got[0], Pair) and isinstance(got[1], State) and type(got[2]) is OrderedDict
    same(got[0].a, X)
    same(got[1].x, 2 * X)
    assert got[1].extra == [1.0, "s"]
    assert list(got[2]) == ["b", "a"]


def test_dict_results_keep_their_order():
    assert list(sg.jit(lambda x: {"z": x, "a": x})(X)) == ["z", "a"]


def test_shapes_as_results():
    got = sg.jit(lambda x: (x.shape, x.ndim, x.size, len(x)))(np.ones((2, 3)))
    assert got == ((2, 3), 2, 6, 2)


@pytest.mark.parametrize("length", [2, 5, 9])
def test_lengths_as_results_are_those_of_the_call(length):
    f = sg.jit(lambda x: (x.shape[0], 2 * len(x), x.size))
    for n in (3, length, 7):
        assert f(np.ones(n)) == (n, 2 * n, n)


def test_dtypes_as_results():
    got = sg.jit(lambda x: (x.dtype, x.astype(np.float32)))(X)
    assert got[0] == np.float64 and got[1].dtype == np.float32


def test_decorator_forms():
    @sg.jit
    def f(x):
        return x + 1

    @sg.jit(stabilize=False)
    def g(x):
        return x + 1

    assert f(1.0) == g(1.0) == 2.0


def test_it_needs_a_function():
    with pytest.raises(TypeError, match="function"):
        sg.jit(3)


def test_unknown_options_are_an_error():
    with pytest.raises(TypeError, match="static_argnum"):
        sg.jit(lambda x: x, static_argnum=1)


def test_repr_names_transform_and_function():
    def curve(x):
        return x

    assert "jit" in repr(sg.jit(curve)) and "curve" in repr(sg.jit(curve))


def test_a_masked_selection_comes_back_with_its_length():
    f = sg.jit(lambda x: x[x > 0] * 2)
    same(f(X), np.array([2.0, 6.0]))
    same(f(-X), np.array([4.0]))
    same(f(np.full(3, -1.0)), np.zeros(0))


def test_numpy_matrices_and_subclasses_count_as_arrays():
    class Named(np.ndarray):
        pass

    got = sg.jit(lambda x: x * 2)(X.view(Named))
    assert type(got) is np.ndarray
    same(got, 2 * X)


def test_lists_of_numbers_are_containers_not_arrays():
    got = sg.jit(lambda xs: [x * 2 for x in xs])([1.0, 2, 3.5])
    assert got == [2.0, 4, 7.0]
    assert [type(x) for x in got] == [np.float64, np.int64, np.float64]


def test_same_object_twice_as_arguments():
    f = sg.jit(lambda x, y: x * y[::-1])
    same(f(X, X), X * X[::-1])
    same(f(X, X + 1), X * (X + 1)[::-1])
    same(f(X, X), X * X[::-1])


def test_compiled_functions_call_each_other():
    @sg.jit
    def inner(x):
        return np.sin(x) * 2

    @sg.jit
    def outer(x):
        return inner(x) + inner(x + 1)

    same(outer(X), 2 * np.sin(X) + 2 * np.sin(X + 1))
    assert inner.cache_info().misses == 0


def test_recursion_over_python_structure():
    def total(tree):
        return sum(total(t) for t in tree) if isinstance(tree, list) else np.sum(tree**2)

    same(sg.grad(total)([X, [X, [2.0]]]), [2 * X, [2 * X, [np.float64(4.0)]]])


def test_plain_calls_outside_leave_the_function_as_it_was():
    def f(x):
        return np.sin(x)

    sg.jit(f)(X)
    assert type(f(X)) is np.ndarray and f.__code__.co_name == "f"
