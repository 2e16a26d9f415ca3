"""``lower``: stages as text, cost, specs with named sizes, and the compiled function of a lowering."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

STAGES = ("graph", "loops", "llvm", "asm")


@pytest.mark.parametrize("stage", STAGES)
def test_stages_are_text(stage):
    text = sg.grad(lambda x: np.sum(np.sin(x) ** 2)).lower("f64[n]").as_text(stage)
    assert isinstance(text, str) and len(text.splitlines()) > 2
    assert {"graph": "sin", "loops": "for", "llvm": "define", "asm": "ret"}[stage] in text


@pytest.mark.parametrize(
    "arguments", [("f64[n]", "f64[n]"), (np.ones(5), np.ones(5)), ("f64[5]", "f64[5]"), (np.ones(5), "f64[5]")]
)
def test_from_specs_or_arrays(arguments):
    f = sg.jit(lambda x, y: x * y).lower(*arguments).compile()
    same(f(np.arange(5.0), np.full(5, 2.0)), 2 * np.arange(5.0))


def test_free_names_fit_any_length():
    f = sg.grad(lambda x: np.sum(x**3)).lower("f64[n]").compile()
    for n in (0, 1, 2, 100):
        same(f(np.full(n, 2.0)), np.full(n, 12.0))


def test_nothing_is_compiled_into_the_function_by_lowering():
    f = sg.jit(lambda x: x + 1)
    f.lower("f64[n]")
    assert f.cache_info() == (0, 0, 0, 0)


def test_equal_names_are_equal_lengths():
    f = sg.jit(lambda x, y: x @ y).lower("f64[n]", "f64[n]").compile()
    same(f(np.ones(4), np.ones(4)), np.float64(4))
    with pytest.raises(sg.ShapeError, match=r"\(3,\).*\(4,\)"):
        f(np.ones(3), np.ones(4))


@pytest.mark.parametrize(
    "fun", [lambda x, y: x + y, lambda x, y: x @ y, lambda x, y: np.stack([x, y]), lambda x, y: np.where(x > 0, x, y)]
)
def test_different_names_are_never_assumed_equal(fun):
    with pytest.raises((sg.ShapeError, ValueError), match=r"n.*m") as caught:
        sg.jit(fun).lower("f64[n]", "f64[m]")
    assert "test_lowered.py" in str(caught.value)


def test_different_names_where_nothing_needs_them_equal():
    f = sg.jit(lambda x, y: np.outer(x, y).sum(axis=0)).lower("f64[n]", "f64[m]").compile()
    for n, m in ((2, 3), (3, 3), (5, 0)):
        same(f(np.ones(n), np.arange(float(m))), n * np.arange(float(m)))


def test_matrices_with_shared_names():
    f = sg.jit(lambda a, b: a @ b).lower("f64[n,k]", "f64[k,m]").compile()
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    same(f(a, b), a @ b)
    with pytest.raises(sg.ShapeError):
        f(a, a)


@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32", "u8", "bool"])
def test_dtypes_of_specs(dtype):
    kind = {"f": "float", "i": "int", "u": "uint", "b": "bool"}[dtype[0]] + (dtype[1:] if dtype != "bool" else "")
    f = sg.jit(lambda x: x).lower(f"{dtype}[n]").compile()
    x = np.array([0, 1, 1]).astype(kind)
    same(f(x), x)


def test_scalars_numbers_containers_and_keywords():
    f = (
        sg.jit(lambda p, k, *, s: p["a"] * k + p["b"][0] * s)
        .lower({"a": "f64[n]", "b": ["f64"]}, 2.0, s="f64")
        .compile()
    )
    got = f({"a": np.ones(2), "b": [np.float64(3.0)]}, 2.0, s=np.float64(10.0))
    same(got, np.full(2, 32.0))


def test_type_like_objects_and_static_strings():
    class Type:
        shape, dtype = (3,), np.dtype("float32")

    f = sg.jit(lambda x, mode: x * 2 if mode == "f64" else x, static_argnames="mode").lower(Type(), "f64").compile()
    same(f(np.ones(3, np.float32), "f64"), np.full(3, 2, np.float32))


def test_the_compiled_function_checks_structure_dtype_and_rank():
    f = sg.jit(lambda p: p["a"] * 2).lower({"a": "f64[n]"}).compile()
    with pytest.raises(sg.ShapeError, match="other arguments"):
        f({"b": np.ones(2)})
    with pytest.raises(sg.ShapeError, match="other lengths"):
        f({"a": np.ones((2, 2))})
    with pytest.raises(sg.DTypeError, match=r"float64.*int64"):
        f({"a": np.ones(2, dtype=np.int64)})


def test_cost_of_elementwise_work():
    low = sg.jit(lambda x: x * 2 + 1).lower("f64[n=1000]").cost()
    assert 1000 <= low["flops"] <= 2000
    assert low["bytes"] == 16_000


def test_cost_of_a_sum():
    low = sg.jit(lambda x: np.sum(x * x)).lower("f64[n=500]").cost()
    assert 500 <= low["flops"] <= 1100
    assert 4000 <= low["bytes"] <= 4100


def test_cost_grows_with_given_sizes():
    def cost(n):
        return sg.jit(lambda a, b: a @ b).lower(f"f64[n={n},n]", "f64[n,n]").cost()["flops"]

    assert 7.5 < cost(64) / cost(32) < 8.5


def test_captured_values_are_read_at_each_call():
    w = np.array([1.0, 2.0])
    f = sg.jit(lambda x: x * w).lower("f64[2]").compile()
    same(f(np.ones(2)), w)
    w[0] = 7.0
    same(f(np.ones(2)), np.array([7.0, 2.0]))


def test_of_other_transforms():
    x = np.array([1.0, 2.0])
    same(sg.hessian(lambda x: np.sum(x**3)).lower("f64[n]").compile()(x), np.diag(6 * x))
    same(sg.vmap(lambda x: x.sum()).lower("f64[b,n]").compile()(np.ones((2, 3))), np.full(2, 3.0))
    value, g = sg.value_and_grad(lambda x: x @ x).lower("f64[n]").compile()(x)
    same((value, g), (np.float64(5.0), 2 * x))


def test_graph_text_is_that_of_the_simplified_program():
    text = sg.jit(lambda x: (x * 1.0 + 0.0) - (x - x)).lower("f64[n]").as_text("graph")
    assert "f64[n]" in text
    same(sg.jit(lambda x: (x * 1.0 + 0.0) - (x - x))(np.ones(2)), np.ones(2))
