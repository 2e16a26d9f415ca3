"""What a function reads from outside has the value it has at each call."""

from __future__ import annotations

import enum
import functools
import types
from collections import namedtuple

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0, 3.0])
SCALE = 2.0
WEIGHTS = np.array([1.0, 10.0, 100.0])
MODE = "sin"


def helper(x):
    return x * SCALE


def test_global_numbers(monkeypatch):
    here = globals()
    f = sg.jit(lambda x: x * SCALE)
    same(f(X), 2 * X)
    for k in range(5):
        monkeypatch.setitem(here, "SCALE", float(k))
        same(f(X), k * X)
    assert f.cache_info().misses == 1


def test_global_arrays_are_read_again(monkeypatch):
    f = sg.jit(lambda x: x * WEIGHTS)
    same(f(X), X * WEIGHTS)
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([0.0, 1.0, 2.0]))
    same(f(X), X * np.arange(3))
    assert f.cache_info().misses == 1


def test_arrays_changed_in_place():
    w = np.ones(3)
    f = sg.grad(lambda x: np.sum(w * x**2))
    same(f(X), 2 * X)
    w[1] = 5.0
    same(f(X), 2 * X * [1, 5, 1])
    assert f.cache_info().misses == 1


def test_closure_cells_are_bound_late():
    k = 1.0

    @sg.jit
    def f(x):
        return x * k

    same(f(X), X)
    k = 4.0
    same(f(X), 4 * X)
    assert f.cache_info().misses == 1


def test_through_helpers_of_helpers(monkeypatch):
    def outer(x):
        return helper(helper(x))

    f = sg.grad(lambda x: np.sum(outer(x)))
    same(f(X), np.full(3, 4.0))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    same(f(X), np.full(3, 9.0))


def test_a_helper_that_is_replaced(monkeypatch):
    f = sg.jit(lambda x: helper(x))
    same(f(X), 2 * X)
    monkeypatch.setitem(globals(), "helper", lambda x: x + 1)
    same(f(X), X + 1)
    monkeypatch.undo()
    same(f(X), 2 * X)
    assert f.cache_info().misses == 2


def test_dtype_rank_and_type_may_change():
    w = 2.0

    @sg.jit
    def f(x):
        return x * w

    same(f(X), 2 * X)
    for w in (3, np.float32(2), np.array([1.0, 0.0, 2.0]), np.array([[1.0], [2.0]]), np.arange(3), True, 2.0):
        same(f(X), X * w)


def test_length_of_a_captured_array_changes():
    w = np.ones(3)

    @sg.jit
    def f(x):
        return x * np.sum(w)

    for n in (3, 5, 2, 9, 0):
        w = np.ones(n)
        same(f(X), n * X)
    assert f.cache_info().misses == 2


def test_strings_are_traced_again(monkeypatch):
    f = sg.jit(lambda x: np.sin(x) if MODE == "sin" else np.cos(x))
    same(f(X), np.sin(X))
    monkeypatch.setitem(globals(), "MODE", "cos")
    same(f(X), np.cos(X))
    monkeypatch.setitem(globals(), "MODE", "sin")
    same(f(X), np.sin(X))
    assert f.cache_info().misses == 2


def test_bools_enums_none_and_functions():
    class Kind(enum.Enum):
        A = 1
        B = 2

    options = {"flag": True, "kind": Kind.A, "act": np.tanh, "extra": None}

    @sg.jit
    def f(x):
        y = options["act"](x)
        y = y if options["flag"] else -y
        y = y * 2 if options["kind"] is Kind.B else y
        return y if options["extra"] is None else y + options["extra"]

    same(f(X), np.tanh(X))
    options["flag"] = False
    same(f(X), -np.tanh(X))
    options["kind"] = Kind.B
    same(f(X), -2 * np.tanh(X))
    options["act"] = np.exp
    same(f(X), -2 * np.exp(X))
    options["extra"] = 1.0
    same(f(X), -2 * np.exp(X) + 1)
    options["extra"] = 2.0
    same(f(X), -2 * np.exp(X) + 2)


def test_modules_are_noticed():
    module = types.ModuleType("settings")
    module.rate = 2.0
    f = sg.jit(lambda x: x * module.rate)
    same(f(X), 2 * X)
    module.rate = 5.0
    same(f(X), 5 * X)
    assert f.cache_info().misses == 1


def test_nested_containers():
    params = {"layers": [{"w": np.ones(3), "b": 0.0}, {"w": np.full(3, 2.0), "b": 1.0}], "name": "net"}

    @sg.jit
    def f(x):
        for layer in params["layers"]:
            x = x * layer["w"] + layer["b"]
        return x

    same(f(X), 2 * X + 1)
    params["layers"][0]["b"] = 1.0
    same(f(X), 2 * X + 3)
    params["layers"][1] = {"w": np.zeros(3), "b": 7.0}
    same(f(X), np.full(3, 7.0))
    assert f.cache_info().misses == 1
    params["layers"].append({"w": X, "b": 0.0})
    same(f(X), 7 * X)


def test_tuples_unpacked_and_namedtuples():
    Point = namedtuple("Point", "a b")
    pair, point = (2.0, 3.0), Point(1.0, WEIGHTS)

    @sg.jit
    def f(x):
        a, b = pair
        c, d = point
        return x * a + b + c * d + point.a

    same(f(X), 2 * X + 3 + WEIGHTS + 1)
    pair, point = (5.0, 0.0), Point(0.0, WEIGHTS)
    same(f(X), 5 * X)
    assert f.cache_info().misses == 1


def test_attributes_of_objects():
    config = types.SimpleNamespace(rate=0.5, inner=types.SimpleNamespace(w=np.ones(3)))
    f = sg.jit(lambda x: x * config.rate + config.inner.w)
    same(f(X), 0.5 * X + 1)
    config.rate = 2.0
    config.inner.w = X
    same(f(X), 3 * X)
    config.inner = types.SimpleNamespace(w=np.zeros(3))
    same(f(X), 2 * X)


def test_partial_arguments():
    w = np.ones(3)
    f = sg.jit(functools.partial(lambda w, x, k: w * x * k, w, k=2.0))
    same(f(X), 2 * X)
    w[:] = 3.0
    same(f(X), 6 * X)


def test_partial_of_a_function_that_captures():
    k = 2.0
    f = sg.jit(functools.partial(lambda a, x: a * k * float(x), a=1.0))
    assert f(x=3.0) == 6.0
    k = 5.0
    assert f(x=3.0) == 15.0


def test_default_values_of_helpers():
    w = np.ones(3)

    def inner(x, w=w, *, v=[w]):  # noqa: B006  # a default that is changed is the point
        return x * w + v[0]

    f = sg.jit(lambda x: inner(x))
    same(f(X), X + 1)
    w[:] = 2.0
    same(f(X), 2 * X + 2)


def test_default_values_under_vmap():
    f = sg.vmap(lambda x, k=3.0: x * k)
    same(f(X), 3 * X)


def test_gradient_through_a_captured_value_is_that_of_a_constant():
    w = np.array([1.0, 2.0, 3.0])
    same(sg.grad(lambda x: np.sum(w * x))(X), w)


def test_nested_functions_and_nonlocal():
    @sg.jit
    def f(x):
        total = 0.0

        def add(y):
            nonlocal total
            total = total + y

        add(x)
        add(x * x)
        return total

    same(f(X), X + X * X)
    same(f(2 * X), 2 * X + 4 * X * X)


def test_late_binding_in_loops():
    @sg.jit
    def f(x):
        late = [lambda: x * i for i in range(3)]  # noqa: B023  # late binding is the point
        early = [lambda i=i: x * i for i in range(3)]
        return [g() for g in late] + [g() for g in early]

    same(f(X), [2 * X] * 3 + [0 * X, X, 2 * X])


def test_recursive_helpers():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    f = sg.grad(lambda x: np.sum(power(x, 5)))
    same(f(X), 5 * X**4)


def test_recursive_helper_with_a_number_argument():
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    f = sg.grad(lambda x, n: np.sum(power(x, n)))
    same(f(X, 3), 3 * X**2)
    same(f(X, 2), 2 * X)
    same(f(X, 3), 3 * X**2)


def test_mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x * 2, n - 1)

    def odd(x, n):
        return even(x * 3, n - 1)

    same(sg.jit(lambda x: even(x, 4))(X), 36 * X)


def test_conditions_on_captured_numbers_hold_for_a_range_of_values():
    level = 5

    @sg.jit
    def f(x):
        return x * level if level > 3 else -x

    same(f(X), 5 * X)
    level = 4
    same(f(X), 4 * X)
    level = 1
    same(f(X), -X)
    assert f.cache_info().misses <= 2


def test_captured_numbers_that_python_needs_are_pinned():
    axis, count = 0, 2

    @sg.jit
    def f(x):
        return [np.sum(x, axis=axis) * k for k in range(count)]

    a = np.arange(6.0).reshape(2, 3)
    same(f(a), [a.sum(0) * 0, a.sum(0)])
    axis = 1
    same(f(a), [a.sum(1) * 0, a.sum(1)])
    count = 3
    same(f(a), [a.sum(1) * 0, a.sum(1), 2 * a.sum(1)])
    axis, count = 0, 2
    same(f(a), [a.sum(0) * 0, a.sum(0)])
    assert f.cache_info().misses == 3


def test_numpy_bools_are_like_bools():
    flag = np.bool_(True)
    f = sg.jit(lambda x: x if flag else -x)
    same(f(X), X)
    flag = np.bool_(False)
    same(f(X), -X)


def test_a_deleted_global_is_a_name_error(monkeypatch):
    f = sg.jit(lambda x: x * SCALE)
    same(f(X), 2 * X)
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(NameError, match="SCALE"):
        f(X)
    monkeypatch.undo()
    same(f(X), 2 * X)


def test_a_memo_of_plain_values_is_kept():
    memo = {}

    def table(n):
        if n not in memo:
            memo[n] = tuple(range(n))
        return memo[n]

    f = sg.jit(lambda x: x * len(table(3)))
    same(f(X), 3 * X)
    assert memo == {3: (0, 1, 2)}
    same(f(X), 3 * X)


def test_a_list_collecting_traced_values_is_an_error_and_untouched():
    seen = [1.0]

    @sg.jit
    def f(x):
        seen.append(x)
        return x

    with pytest.raises(sg.TraceError, match=r"list.*return"):
        f(X)
    assert seen == [1.0]


def test_integer_arrays_and_lists_as_indices():
    index, table = [2, 0], np.array([1, 1, 0])
    f = sg.jit(lambda x: x[index] + x[table][:2])
    same(f(X), X[[2, 0]] + X[[1, 1]])
    index = [1, 1]
    same(f(X), X[[1, 1]] + X[[1, 1]])


def test_captured_random_generator_is_an_error():
    rng = np.random.default_rng(0)
    with pytest.raises(sg.UnsupportedError, match="random"):
        sg.jit(lambda x: x + rng.normal())(X)


def test_two_compiled_functions_share_nothing_but_values():
    k = 1.0
    f, g = sg.jit(lambda x: x + k), sg.jit(lambda x: x - k)
    same((f(X), g(X)), (X + 1, X - 1))
    k = 2.0
    same((f(X), g(X)), (X + 2, X - 2))


class Vector:
    """An object whose methods Python calls by itself."""

    def __init__(self, data):
        self.data = data

    def __add__(self, other):
        return Vector(self.data + other.data)

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        return iter(self.data)


def test_objects_with_operators_are_traced_again_when_they_change():
    v = Vector(np.ones(3))
    total, count, walked = (
        sg.jit(lambda x: (v + Vector(x)).data),
        sg.jit(lambda x: x * len(v)),
        sg.jit(lambda x: sum(x * k for k in v)),
    )
    same((total(X), count(X), walked(2.0)), (X + 1, 3 * X, np.float64(6.0)))
    v.data = np.zeros(3)
    same((total(X), walked(2.0)), (X, np.float64(0.0)))
    v.data[1] = 5.0
    same((total(X), walked(2.0)), (X + np.array([0.0, 5.0, 0.0]), np.float64(10.0)))
    v.data = np.ones(5)
    same((count(X), walked(2.0)), (5 * X, np.float64(10.0)))


def test_builtins_over_captured_containers():
    table = {"a": [1, 2, 3]}
    f = sg.jit(lambda x: x * sum(table["a"]) + max(table["a"]) - min(table["a"]) * len(table["a"]))
    same(f(1.0), np.float64(6 + 3 - 3))
    table["a"][0] = 10
    same(f(1.0), np.float64(15 + 10 - 6))
    table["a"].append(0)
    same(f(1.0), np.float64(15 + 10 - 0))
