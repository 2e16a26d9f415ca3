"""Jacobians and Hessians: shapes, containers, modes that agree, symmetry."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same, slope

RNG = np.random.default_rng(2)
X = RNG.normal(size=3)
M = RNG.normal(size=(2, 3))
BOTH = pytest.mark.parametrize("jac", [sg.jacrev, sg.jacfwd, sg.jacobian])


@BOTH
def test_of_a_vector_function(jac):
    def f(x):
        return np.sin(M @ x) * x[0]

    same(jac(f)(X), slope(f, X), rtol=1e-8, atol=1e-10)


@BOTH
def test_of_a_matrix_argument_and_result(jac):
    def f(m):
        return m.T @ m

    assert jac(f)(M).shape == (3, 3, 2, 3)
    same(jac(f)(M), slope(f, M), rtol=1e-8, atol=1e-10)


@BOTH
def test_of_scalars(jac):
    got = jac(lambda x: x**2)(3.0)
    same(got, np.float64(6.0))
    same(jac(lambda x: np.sum(x**2))(X), 2 * X)
    same(jac(lambda x: x * X)(3.0), X)


@BOTH
def test_argnums_tuple(jac):
    same(jac(lambda a, x: a * x, argnums=(0, 1))(2.0, X), (X, 2 * np.eye(3)))
    same(jac(lambda a, x: a * x, argnums=(1,))(2.0, X), (2 * np.eye(3),))


@BOTH
def test_containers(jac):
    got = jac(lambda p: {"u": p["x"] * p["s"], "v": (np.sum(p["x"]),)})({"x": X, "s": 2.0})
    same(got, {"u": {"x": 2 * np.eye(3), "s": X}, "v": ({"x": np.ones(3), "s": np.float64(0.0)},)})


@BOTH
def test_of_what_does_not_depend(jac):
    same(jac(lambda x: np.ones(2))(X), np.zeros((2, 3)))


@BOTH
def test_empty(jac):
    assert jac(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)
    assert jac(lambda x: np.array([1.0, 2.0]) * np.sum(x))(np.zeros(0)).shape == (2, 0)


@BOTH
def test_float32(jac):
    got = jac(lambda x: x * x)(np.ones(2, np.float32))
    same(got, 2 * np.eye(2, dtype=np.float32))


def test_modes_agree_on_indexing_sort_and_folds():
    def f(x):
        return np.concatenate([np.sort(x)[::-1], np.cumsum(x * x), np.array([np.prod(x), np.max(x)]), x[[0, 0, 2]]])

    same(sg.jacfwd(f)(X), sg.jacrev(f)(X), rtol=1e-13)
    same(sg.jacfwd(f)(X), slope(f, X), rtol=1e-8, atol=1e-10)


def test_hessian_of_a_quadratic_form():
    a = RNG.normal(size=(3, 3))
    same(sg.hessian(lambda x: x @ a @ x)(X), a + a.T)


def test_hessian_is_symmetric_and_the_slope_of_the_gradient():
    def f(x):
        return np.log(np.sum(np.exp(x))) * x[0] + np.prod(x)

    h = sg.hessian(f)(X)
    same(h, h.T, rtol=1e-12, atol=1e-13)
    same(h, slope(sg.grad(f), X), rtol=1e-7, atol=1e-9)


def test_hessian_of_a_matrix_argument():
    h = sg.hessian(lambda m: np.sum(m**3))(M)
    assert h.shape == (2, 3, 2, 3)
    same(h.reshape(6, 6), np.diag(6 * M.ravel()))


def test_hessian_of_two_arguments_has_the_cross_blocks():
    b = np.array([1.0, 2.0])
    (haa, hab), (hba, hbb) = sg.hessian(lambda a, b: b @ (M @ a) ** 2, argnums=(0, 1))(X, b)
    same(haa, 2 * M.T @ np.diag(b) @ M)
    same(hab, (2 * (M @ X)[:, None] * M).T)
    same(hba, hab.T)
    same(hbb, np.zeros((2, 2)))


def test_hessian_of_a_dict():
    h = sg.hessian(lambda p: p["a"] ** 2 * np.sum(p["x"]))({"a": 3.0, "x": X})
    same(h["a"]["a"], np.float64(2 * X.sum()))
    same(h["a"]["x"], np.full(3, 6.0))
    same(h["x"]["a"], np.full(3, 6.0))
    same(h["x"]["x"], np.zeros((3, 3)))


def test_four_ways_to_the_hessian():
    def f(x):
        return np.sum(np.tanh(x) * x[::-1])

    ways = [outer(inner(f)) for outer in (sg.jacfwd, sg.jacrev) for inner in (sg.jacfwd, sg.jacrev)]
    for way in ways:
        same(way(X), sg.hessian(f)(X), rtol=1e-12, atol=1e-13)


def test_third_derivatives():
    third = sg.jacfwd(sg.hessian(lambda x: np.sum(x**4)))(X)
    wanted = np.zeros((3, 3, 3))
    wanted[range(3), range(3), range(3)] = 24 * X
    same(third, wanted)


def test_newton_step_solves_a_separable_quadratic():
    a, b = np.array([1.0, 2.0, 4.0]), np.array([3.0, -1.0, 2.0])

    @sg.jit
    def step(x):
        def f(x):
            return 0.5 * np.sum(a * x * x) - b @ x

        return x - sg.grad(f)(x) / np.diagonal(sg.hessian(f)(x))

    same(step(X), b / a)
