"""``vmap``: every axis specification, nesting, and other transforms inside and outside; against a loop."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

RNG = np.random.default_rng(4)
A = RNG.normal(size=(4, 3))
B = RNG.normal(size=(4, 3))
M = RNG.normal(size=(4, 3, 3))

INSIDE = {
    "pow": lambda x: np.abs(x) ** x[0] + x**2,
    "where": lambda x: np.where(x > 0, x, x * x),
    "indexing": lambda x: x[1] * x[::-1] + x[[0, 0, 2]],
    "newaxis": lambda x: x[:, None] * x[None, :],
    "dot": lambda x: x @ x + np.dot(x, x * 2),
    "sort": lambda x: np.sort(x),
    "argsort": lambda x: np.argsort(x),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x),
    "max": lambda x: (np.max(x), np.argmax(x)),
    "mean var std": lambda x: (np.mean(x), np.var(x), np.std(x)),
    "concatenate": lambda x: np.concatenate([x, x[:1], np.zeros(2)]),
    "stack": lambda x: np.stack([x, x + 1], axis=1),
    "reshape": lambda x: np.stack([x, x]).reshape(3, 2),
    "einsum": lambda x: np.einsum("i,j->ij", x, x),
    "norm": lambda x: np.linalg.norm(x),
    "assignment": lambda x: _assigned(x),
    "clip": lambda x: np.clip(x, -0.5, x[0]),
    "constant": lambda x: np.ones(2),
    "minimum": lambda x: np.minimum(x, 0.1) + np.maximum(x[0], x),
    "prod": lambda x: np.prod(x),
    "roll": lambda x: np.roll(x, 1),
    "outer": lambda x: np.outer(x, x),
    "gather by traced index": lambda x: x[np.argmax(x)],
    "median": lambda x: np.median(x),
    "any all": lambda x: (np.any(x > 0), np.all(x > 0)),
    "searchsorted": lambda x: np.searchsorted(np.array([-1.0, 0.0, 1.0]), x),
    "interp": lambda x: np.interp(x, np.array([-1.0, 0.0, 1.0]), np.array([1.0, 3.0, 2.0])),
    "diff": lambda x: np.diff(x),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "float": lambda x: float(x[0]) * x,
    "length": lambda x: x * len(x),
}


def _assigned(x):
    out = np.zeros(4)
    out[1:] = x
    out[0] = x[2] * 2
    return out


def looped(fun, *xs):
    """Results of each example, stacked."""
    rows = [fun(*row) for row in zip(*xs, strict=True)]
    if isinstance(rows[0], tuple):
        return tuple(np.stack(column) for column in zip(*rows, strict=True))
    return np.stack(rows)


@pytest.mark.parametrize("name", INSIDE)
def test_each_operation_inside(name):
    same(sg.vmap(INSIDE[name])(A), looped(INSIDE[name], A), rtol=1e-11)


@pytest.mark.parametrize(
    "name", ["pow", "where", "indexing", "dot", "sort", "cumsum", "max", "norm", "assignment", "einsum"]
)
def test_gradient_of_the_batched_sum_is_the_batched_gradient(name):
    def total(x):
        out = INSIDE[name](x)
        return np.sum(out[0] if isinstance(out, tuple) else out)

    batched = sg.grad(lambda xs: np.sum(sg.vmap(total)(xs)))(A)
    same(batched, sg.vmap(sg.grad(total))(A), rtol=1e-11)
    same(batched, np.stack([sg.grad(total)(row) for row in A]), rtol=1e-11)


def test_in_axes_of_numbers_and_none():
    def f(x, y, s):
        return x * y + s

    same(sg.vmap(f, in_axes=(0, None, None))(A, B[0], 2.0), A * B[0] + 2)
    same(sg.vmap(f, in_axes=(1, 1, 0))(A, B, np.arange(3.0)), (A * B + np.arange(3.0)).T)
    same(sg.vmap(f, in_axes=(-1, 1, None))(A, B, 1.0), (A * B + 1).T)
    same(sg.vmap(f, in_axes=(0, 1, None))(A, B.T, 1.0), A * B + 1)


def test_out_axes():
    same(sg.vmap(lambda x: x * 2, out_axes=1)(A), 2 * A.T)
    same(sg.vmap(lambda x: x * 2, out_axes=-1)(A), 2 * A.T)
    same(
        sg.vmap(lambda x: (x, np.outer(x, x)), out_axes=(0, 2))(A),
        (A, np.moveaxis(looped(lambda x: np.outer(x, x), A), 0, 2)),
    )
    same(sg.vmap(lambda m: m, in_axes=1, out_axes=2)(M), np.moveaxis(M, 1, 2))


def test_out_axes_of_a_scalar_result():
    same(sg.vmap(np.sum, out_axes=-1)(A), A.sum(axis=1))


def test_trees():
    p = {"w": A, "b": (RNG.normal(size=4), RNG.normal(size=2))}

    def f(p, x):
        return {"y": p["w"] @ x + p["b"][0], "z": p["b"][1] * 2}

    got = sg.vmap(f, in_axes=({"w": 0, "b": (0, None)}, None))(p, np.ones(3))
    same(got, {"y": A.sum(axis=1) + p["b"][0], "z": np.stack([p["b"][1] * 2] * 4)})


def test_in_axes_for_whole_containers():
    same(sg.vmap(lambda p, x: p["a"] * p["b"] * x, in_axes=(None, 0))({"a": 2.0, "b": 3.0}, A), 6 * A)
    same(sg.vmap(lambda p: p[0] + p[1], in_axes=(0,))((A, B)), A + B)
    same(sg.vmap(lambda p: p[0] + p[1], in_axes=1)([A, B]), (A + B).T)


def test_keyword_arguments_are_mapped_over_the_first_axis():
    same(sg.vmap(lambda x, *, s: x * s)(A, s=np.arange(4.0)), A * np.arange(4.0)[:, None])


def test_nested():
    same(sg.vmap(sg.vmap(lambda x: x * x))(A), A * A)
    same(sg.vmap(sg.vmap(lambda x, y: x * y, in_axes=(0, None)), in_axes=(None, 0))(A[0], B[0]), np.outer(B[0], A[0]))
    same(sg.vmap(sg.vmap(sg.vmap(np.sin), in_axes=1), in_axes=2)(M), np.sin(np.transpose(M, (2, 1, 0))))


def test_of_jacobian_and_hessian():
    def f(x):
        return np.sin(x) * x[0]

    same(sg.vmap(sg.jacobian(f))(A), looped(sg.jacobian(f), A))
    same(sg.vmap(sg.jacfwd(f))(A), looped(sg.jacrev(f), A))

    def g(x):
        return np.sum(x**3) * x[1]

    same(sg.vmap(sg.hessian(g))(A), looped(sg.hessian(g), A), rtol=1e-11)


def test_of_hvp_jvp_and_vjp():
    def g(x):
        return np.sum(x**3)

    same(sg.vmap(sg.hvp(g))(A, B), 6 * A * B)
    same(sg.vmap(lambda x, t: sg.jvp(np.sin, (x,), (t,))[1])(A, B), np.cos(A) * B)
    same(sg.vmap(lambda x, t: sg.vjp(np.sin, x)[1](t)[0])(A, B), np.cos(A) * B)


def test_jacobian_of_vmap():
    j = sg.jacobian(sg.vmap(lambda x: x**2))(A[0])
    same(j, np.diag(2 * A[0]))


def test_matrix_products_inside():
    same(sg.vmap(lambda m, x: m @ x)(M, A), np.einsum("nij,nj->ni", M, A), rtol=1e-11)
    same(sg.vmap(lambda m, x: m @ x, in_axes=(None, 0))(M[0], A), A @ M[0].T, rtol=1e-11)
    same(sg.vmap(lambda m: m.T @ m)(M), np.einsum("nki,nkj->nij", M, M), rtol=1e-11)
    same(sg.vmap(lambda x: M[0] @ x)(A), A @ M[0].T, rtol=1e-11)


def test_per_example_gradients():
    w = RNG.normal(size=3)
    y = RNG.normal(size=4)

    def loss(w, x, y):
        return (np.tanh(x @ w) - y) ** 2

    h = np.tanh(A @ w)
    wanted = (2 * (h - y) * (1 - h**2))[:, None] * A
    same(sg.vmap(sg.grad(loss), in_axes=(None, 0, 0))(w, A, y), wanted, rtol=1e-11)


def test_of_numbers_under_none():
    same(sg.vmap(lambda x, k: x[k], in_axes=(0, None))(A, 1), A[:, 1])
    same(sg.vmap(lambda x, axis: np.sum(x, axis=axis), in_axes=(0, None))(M, 1), M.sum(axis=2))


def test_indexing_by_a_mapped_index():
    k = np.array([0, 2, 1, -1])
    same(sg.vmap(lambda x, k: x[k])(A, k), A[np.arange(4), k])
    same(sg.vmap(lambda x, k: x[k], in_axes=(None, 0))(A[0], k), A[0][k])


def test_float32_and_integers():
    same(sg.vmap(lambda x: x * 2)(A.astype(np.float32)), A.astype(np.float32) * 2)
    same(sg.vmap(lambda x: x * 2 + 1)(np.arange(3)), np.arange(3) * 2 + 1)


def test_empty_batches():
    same(sg.vmap(lambda x: np.sum(x))(np.zeros((0, 3))), np.zeros(0))
    same(sg.vmap(lambda x: x[0])(np.zeros((0, 3))), np.zeros(0))


def test_decorator():
    @sg.vmap
    def f(x):
        return x.sum()

    @sg.vmap(in_axes=(0, None))
    def g(x, y):
        return x * y

    same(f(A), A.sum(axis=1))
    same(g(A, 2.0), 2 * A)


def test_inside_a_compiled_function_with_captures():
    w = np.array([1.0, 2.0, 3.0])
    f = sg.jit(lambda xs: sg.vmap(lambda x: x @ w)(xs))
    same(f(A), A @ w, rtol=1e-11)
    w[0] = 10.0
    same(f(A), A @ w, rtol=1e-11)


def test_closing_over_a_traced_value():
    f = sg.grad(lambda s: np.sum(sg.vmap(lambda x: np.sum(x) * s**2)(A)))
    same(f(3.0), np.float64(6 * A.sum()), rtol=1e-11)


def test_values_that_are_no_numbers_go_through():
    f = sg.vmap(lambda x, mode: (x * 2 if mode == "double" else x, mode), in_axes=(0, None), static_argnames="mode")
    same(f(A, "double"), (2 * A, "double"))
    same(f(A, "plain"), (A, "plain"))


def test_out_axes_of_none():
    same(sg.vmap(lambda x, y: (x, y), in_axes=(0, None), out_axes=(0, None))(A, 2.0), (A, np.float64(2.0)))
    with pytest.raises(sg.ShapeError, match="out_axes is None"):
        sg.vmap(lambda x: x, out_axes=None)(A)


def test_in_axes_reach_keywords_and_defaults():
    f = sg.vmap(lambda x, y=3.0: x * y, in_axes=(0, None))
    same((f(A), f(A, 2.0), f(A, y=2.0)), (3 * A, 2 * A, 2 * A))


def test_out_axes_of_a_dict():
    same(sg.vmap(lambda x: {"a": x, "b": x}, out_axes={"a": 0, "b": 1})(A), {"a": A, "b": A.T})


def test_out_axes_that_do_not_fit_are_an_error():
    with pytest.raises(sg.ShapeError, match=r"out_axes.*2.*1"):
        sg.vmap(lambda x: x, out_axes=(0, 0))(A)
    with pytest.raises(sg.ShapeError, match=r"out_axes|axis"):
        sg.vmap(lambda x: x, out_axes=3)(A)
