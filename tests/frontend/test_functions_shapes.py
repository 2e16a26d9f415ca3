"""NumPy's changes of shape, joins, creations and selections on traced values against NumPy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad.numpy as snp
from symgrad.errors import ShapeError, TraceError, UnsupportedError
from tests.frontend.traced import check, traced

X = np.random.default_rng(1).normal(size=(3, 4))
Y = np.random.default_rng(2).normal(size=(2, 3, 4))
V = np.array([3.0, -1.0, 2.0, 3.0, 0.5])
I = np.array([[3, -1, 2], [0, 5, -4]])


def test_reshape() -> None:
    check(lambda x: np.reshape(x, (2, 6)), X)
    check(lambda x: x.reshape(-1, 3), Y, symbolic=False)
    check(lambda x: x.reshape(len(x), -1), Y)
    check(lambda x: x.reshape(-1), Y)
    check(lambda x: np.reshape(x, (4, -1), order="F"), X)
    check(lambda x: x.reshape(()), np.array([[2.0]]))


def test_reshape_that_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"\(3, 4\)"):
        traced(lambda x: x.reshape(5, -1), X)
    with pytest.raises(ShapeError, match=r"\(3, 4\)"):
        traced(lambda x: x.reshape(5, 5), X)


MOVES: list[Any] = [
    np.ravel, np.transpose, lambda x: np.transpose(x, (1, 0, 2)), lambda x: x.transpose(2, 0, 1), lambda x: x.T,
    lambda x: x.mT,
    lambda x: np.swapaxes(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, (0, 1), (2, 0)),
    lambda x: np.rollaxis(x, 2), lambda x: np.rollaxis(x, 0, 3), lambda x: np.expand_dims(x, (0, 2)),
    lambda x: x[None, :, None],
    lambda x: np.broadcast_to(x, (5, *x.shape)), lambda x: np.squeeze(x[None]), lambda x: np.squeeze(x[:, :1], axis=1),
    np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip, lambda x: np.flip(x, (0, 2)), np.fliplr, np.flipud,
    lambda x: x.flatten(),
    np.rot90, lambda x: np.rot90(x, 2, (1, 2)), lambda x: np.rot90(x, -1), lambda x: np.roll(x, 2),
    lambda x: np.roll(x, -1, axis=1),
    lambda x: np.roll(x, (7, 1), axis=(0, 2)), lambda x: np.repeat(x, 2), lambda x: np.repeat(x, 3, axis=1),
    lambda x: np.repeat(x, [0, 2, 1], axis=1), lambda x: np.tile(x, 2), lambda x: np.tile(x, (2, 1, 3)),
    lambda x: np.tile(x, (2, 1, 1, 2)),
    lambda x: np.matrix_transpose(x), lambda x: np.copy(x), lambda x: np.concatenate([x, 2 * x], axis=1),
    lambda x: np.concatenate([x, x], axis=None), lambda x: np.stack([x, -x], axis=2), lambda x: np.stack(x),
    lambda x: np.vstack(x),
    lambda x: np.hstack([x, x]), lambda x: np.vstack([x, x]), lambda x: np.dstack([x, x]),
    lambda x: np.append(x, [1, 2]),
    lambda x: np.append(x, x, axis=0), lambda x: np.split(x, 2), lambda x: np.split(x, [1], axis=1),
    lambda x: np.array_split(x, 3, axis=2),
    lambda x: np.hsplit(x, 3), lambda x: np.vsplit(x, 2), lambda x: np.dsplit(x, 2), lambda x: np.unstack(x, axis=1),
    lambda x: np.take(x, [0, -1, 2], axis=1), lambda x: np.take(x, [[5, 0], [1, 2]]), lambda x: np.take(x, 1, axis=2),
    lambda x: np.compress([True, False, True], x, axis=1), lambda x: np.delete(x, 1, axis=2),
    lambda x: np.insert(x, 1, 9.0, axis=1),
    lambda x: np.diagonal(x), lambda x: np.diagonal(x, 1, 1, 2), lambda x: np.diagonal(x, -1, 0, 2),
    lambda x: np.trace(x, axis1=1, axis2=2),
    np.tril, lambda x: np.triu(x, 1), lambda x: np.tril(x, -1), lambda x: np.broadcast_arrays(x, x[0]),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(MOVES)))
def test_moves(k: int) -> None:
    check(MOVES[k], Y)


@pytest.mark.parametrize("k", [0, 1, 4, 18, 19, 21, 27, 30, 33, 38, 46])
def test_moves_of_short_arrays(k: int) -> None:
    check(MOVES[k], np.zeros((0, 3)))
    check(MOVES[k], np.ones((1, 3), np.float32))


@pytest.mark.parametrize("axis", [0, 1])
def test_joins_promote(axis: int) -> None:
    check(lambda x, y: np.concatenate([x, y], axis=axis), X[:3, :3].astype(np.float32), np.ones((3, 3), int))
    check(lambda x, y: np.stack((x, y), axis=axis), X.astype(np.float32), X)
    check(lambda x, y: np.column_stack([x, y]), V, np.arange(5))
    check(lambda x: np.hstack([x, x[:2], 1.0]), V)
    check(lambda x: np.block([[x, x], [2 * x, np.ones((3, 4))]]), X)
    check(lambda x: np.vstack([x, np.arange(5)]), V)


def test_joins_of_shapes_that_differ() -> None:
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(2, 3\)"):
        traced(lambda x, i: np.concatenate([x, i]), X, I)
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(2, 3\)"):
        traced(lambda x, i: np.stack([x, i]), X, I)
    with pytest.raises(ValueError, match="equal division"):
        traced(lambda x: np.split(x, 2), X)


pad: Any = np.pad
PADS: list[Any] = [
    (1, "constant", {}), (((1, 2), (0, 3)), "constant", {}), (2, "constant", {"constant_values": 7}),
    (((1, 2), (2, 1)), "constant", {"constant_values": ((1, 2), (3, 4))}), (2, "edge", {}),
    (((1, 0), (2, 2)), "reflect", {}),
    (2, "symmetric", {}), (((2, 1), (0, 3)), "wrap", {}),
]  # fmt: skip


@pytest.mark.parametrize(("width", "mode", "keywords"), PADS)
def test_pad(width: Any, mode: str, keywords: dict[str, Any]) -> None:
    check(lambda x: pad(x, width, mode, **keywords), X)
    check(lambda x: pad(x, width, mode, **keywords), I)


def test_pad_that_reflects_again() -> None:
    check(lambda x: np.pad(x, 7, "reflect"), V, symbolic=False)
    with pytest.raises(UnsupportedError, match="mode='mean'"):
        traced(lambda x: np.pad(x, 1, "mean"), V)


def test_diagonals() -> None:
    check(np.diag, X)
    check(lambda x: np.diag(x, 1), V)
    check(lambda x: np.diag(x, -2), X)
    check(np.diag, V)
    check(np.diagflat, I)
    check(lambda x: np.trace(x, 1), I)
    check(np.tril, V)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorting(axis: Any) -> None:
    for x in (X, I, np.array([[2.0, np.nan, 1.0], [-0.0, 0.0, -np.inf]]), np.array([[True, False], [False, True]])):
        check(lambda x: np.sort(x, axis=axis), x)
        check(lambda x: np.argsort(x, axis=axis, kind="stable"), x)


def test_sorting_in_place() -> None:
    def f(x):
        y = x.copy()
        y.sort(axis=0)
        return y

    check(f, X)


def test_taking_along_an_axis() -> None:
    check(lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), X)
    check(lambda x, i: np.take_along_axis(x, i, axis=0), X, np.array([[0, 2, 1, -1]]))
    check(lambda x, i: np.take(x, i, axis=0), X, np.array([0, 2, -1]))
    check(lambda x: np.take(x, [0, 9, -9], mode="clip"), V)
    check(lambda x: np.take(x, [0, 9, -9], mode="wrap"), V)


def test_positions_out_of_bounds() -> None:
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        traced(lambda x: np.take(x, [0, 5]), V)


def test_searching() -> None:
    table = np.array([0.0, 1.0, 1.0, 2.5])
    check(np.searchsorted, table, np.array([-1.0, 0.0, 1.0, 2.0, 3.0]))
    check(lambda a, v: np.searchsorted(a, v, side="right"), table, np.array([[1.0], [2.5]]))
    check(np.digitize, np.array([0.5, 1.0, 9.0]), table)


def test_interpolation() -> None:
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([2.0, -1.0, 5.0])
    x = np.array([-1.0, 0.0, 0.25, 1.0, 2.0, 3.0, 4.0])
    check(np.interp, x, xp, fp)
    check(lambda x, xp, fp: np.interp(x, xp, fp, left=-7.0, right=8.0), x, xp, fp)
    check(np.interp, np.float64(2.0), xp, fp)


def test_results_of_unknown_length_say_so() -> None:
    for f in (np.nonzero, np.unique, np.argwhere, np.flatnonzero):
        with pytest.raises(UnsupportedError, match=f"np.{f.__name__}"):
            traced(f, V)


def test_index_arithmetic() -> None:
    check(lambda k: np.unravel_index(k, (3, 4)), np.array([0, 5, 11]))
    check(lambda k: np.ravel_multi_index((k, k + 1), (3, 4)), np.array([0, 1, 2]))
    check(lambda k, x: np.choose(k, [x, -x]), np.array([0, 1, 1, 0, 1]), V)
    check(lambda x: x[np.ix_([0, 2], [1, 3])], X)


# --- creation --------------------------------------------------------------------------------------------------------

CREATIONS: list[Any] = [
    lambda m, x: m.zeros((2, 3)), lambda m, x: m.ones(3, dtype=np.float32), lambda m, x: m.full((2, 2), 7), lambda m,
    x: m.full(3, x[0]),
    lambda m, x: m.zeros(x.shape, int), lambda m, x: m.zeros_like(x), lambda m, x: m.ones_like(x, dtype=int),
    lambda m, x: m.full_like(x, 3), lambda m, x: m.zeros_like(x, shape=(2,)), lambda m, x: m.arange(5), lambda m,
    x: m.arange(len(x)),
    lambda m, x: m.arange(2, 11, 3), lambda m, x: m.arange(9, 0, -2), lambda m, x: m.arange(3, 0), lambda m,
    x: m.arange(0, 1, 0.25),
    lambda m, x: m.arange(4, dtype=float), lambda m, x: m.arange(x.size) * x, lambda m, x: m.linspace(0, 1, 7),
    lambda m, x: m.linspace(x[0], 2.0, 5), lambda m, x: m.linspace(0, x, 4, endpoint=False), lambda m,
    x: m.linspace(0, 1, len(x)),
    lambda m, x: m.linspace(1, 2, 1), lambda m, x: m.linspace(x, x + 1, 3, axis=1), lambda m,
    x: m.linspace(0, 9, 4, dtype=int),
    lambda m, x: m.linspace(0, 1, 5, retstep=True), lambda m, x: m.eye(3), lambda m, x: m.eye(3, 4, k=1), lambda m,
    x: m.eye(3, k=-1, dtype=int),
    lambda m, x: m.identity(2), lambda m, x: m.tri(3, 5, 1), lambda m, x: m.eye(len(x)), lambda m,
    x: m.array([x, 2 * x]),
    lambda m, x: m.array([x[0], 1, 2.5]), lambda m, x: m.array([[x[0], x[1]], [0, 1]]), lambda m,
    x: m.array(x, dtype=int),
    lambda m, x: m.array([1, 2, 3]), lambda m, x: m.array(x, ndmin=3), lambda m,
    x: m.array([x.sum(), 3], dtype=np.float32),
    lambda m, x: m.asarray(x), lambda m, x: m.asarray([1, 2]) * x[0], lambda m, x: m.indices((2, 3)), lambda m,
    x: m.meshgrid(x, [1, 2]),
    lambda m, x: m.meshgrid(x, x[:2], x[:3], indexing="ij"), lambda m, x: m.logspace(0, 2, 5), lambda m,
    x: m.geomspace(1, 16, 5),
    lambda m, x: m.shape(x), lambda m, x: m.ndim(x), lambda m, x: m.size(x), lambda m, x: m.size(m.stack([x, x]), 1),
    lambda m, x: m.zeros(()), lambda m, x: m.array(3.5), lambda m, x: m.empty_like(x) * 0,
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CREATIONS)))
def test_creations(k: int) -> None:
    for x in (V, V.astype(np.float32)):
        wanted = CREATIONS[k](np, x)
        for symbolic in (False, True):
            got = traced(lambda x: CREATIONS[k](snp, x), x, symbolic=symbolic)
            from tests.frontend.traced import assert_same

            assert_same(got, wanted, 1e-14)


def test_creations_may_be_assigned_into() -> None:
    def f(x, m=snp):
        out = m.zeros(x.shape)
        out[1:] = x[:-1]
        out[0] += 5
        return out

    np.testing.assert_array_equal(traced(f, V), f(V, np))


CHANGES: list[Any] = [
    lambda a, v: np.copyto(a, v[:3]), lambda a, v: np.copyto(a, v[0], where=a > 0), lambda a,
    v: np.putmask(a, a > 0, v),
    lambda a, v: np.place(a, a > 0, v), lambda a, v: np.put(a, [0, -1, 5], v), lambda a, v: np.put(a, 3, 7.0),
    lambda a, v: np.put_along_axis(a, np.array([[1], [0], [2]]), 9.0, axis=1), lambda a, v: np.fill_diagonal(a, v[0]),
    lambda a, v: np.fill_diagonal(a, v[:3]),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CHANGES)))
def test_changes_in_place(k: int) -> None:
    def f(x, v):
        a = x[:, :3].copy()
        CHANGES[k](a, v)
        return a

    check(f, X, V)


def test_changing_a_numpy_array_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"np\.copyto"):
        traced(lambda v: np.copyto(np.zeros(5), v), V)


def test_outside_a_trace_the_namespace_is_numpy() -> None:
    assert type(snp.zeros(3)) is np.ndarray
    assert snp.sin(0.5) == np.sin(0.5)
    assert snp.linalg.norm([3.0, 4.0]) == 5.0
    assert snp.pi == np.pi
    assert snp.special.expit(0.0) == 0.5
    assert "einsum" in dir(snp)
    assert snp.any([False, True]) and snp.sum([1, 2]) == 3


def test_lists_of_traced_lengths() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.arange"):
        traced(lambda x: snp.arange(x[0]), V)
