"""NumPy's products on traced values against NumPy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.errors import ShapeError, UnsupportedError
from tests.frontend.traced import check, traced

RNG = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape)


SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((3,), (5, 3, 4)), ((1, 2, 3), (5, 3, 1)), ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(np.matmul, array(*a), array(*b))
    check(lambda x, y: x @ y, array(*a).astype(np.float32), array(*b).astype(np.float32))


DOTS = [*SHAPES[:6], ((2, 3), (5, 3, 4)), ((2, 5, 3), (4, 3, 6)), ((), (2, 3)), ((2,), ()), ((2, 0), (0, 3))]


@pytest.mark.parametrize(("a", "b"), DOTS, ids=str)
def test_dot(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(np.dot, array(*a), array(*b))


def test_products_of_other_dtypes() -> None:
    check(np.matmul, np.arange(6).reshape(2, 3), np.arange(3))
    check(np.matmul, np.arange(6).reshape(2, 3), array(3))
    check(np.dot, array(2, 3).astype(np.float32), array(3))
    check(lambda x: x @ [[1, 0], [2, 1], [0, 3]], array(2, 3))


@pytest.mark.parametrize(("a", "b"), [((2, 4), (3,)), ((2, 4), (3, 5)), ((7, 2, 4), (6, 4, 5))], ids=str)
def test_shapes_that_do_not_fit(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for symbolic in (False, True):
        with pytest.raises(ShapeError) as e:
            traced(np.matmul, array(*a), array(*b), symbolic=symbolic)
        assert str(a) in str(e.value) and str(b) in str(e.value)


def test_a_number_has_no_matrix_product() -> None:
    with pytest.raises(ShapeError, match="enough dimensions"):
        traced(lambda x: x @ np.float64(2.0), array(2))


@pytest.mark.parametrize("axes", [0, 1, 2, ([1], [0]), ([0, 2], [1, 0]), (2, 0)], ids=str)
def test_tensordot(axes: Any) -> None:
    shapes = {
        "0": ((2, 3), (4,)), "1": ((2, 3), (3, 4)), "2": ((2, 3, 4), (3, 4, 5)), "([1], [0])": ((2, 3, 4), (3, 5)),
        "([0, 2], [1, 0])": ((2, 3, 4), (4, 2, 5)), "(2, 0)": ((2, 3, 4), (4, 2)),
    }  # fmt: skip
    a, b = shapes[str(axes)]
    check(lambda x, y: np.tensordot(x, y, axes), array(*a), array(*b))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("i,i", (3,), (3,)), ("i,j->ij", (3,), (2,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ba", (2, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("...i,...i->...", (5, 2, 3), (2, 3)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->i", (2, 3), (2, 3)), ("ij,j,i->", (2, 3), (3,), (2,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("iij->j", (3, 3, 2)), ("ij,kj->ik", (2, 3), (4, 3)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("i...->...", (2, 3)), ("...->...", (2, 3)), ("ij,jk->", (2, 3), (3, 4)), ("i,->i", (3,), ()),
    ("ab,ab,c->", (2, 3), (2, 3), (4,)),
    ("ij , jk -> ki", (2, 3), (3, 4)), ("ij,jk->ik", (2, 1), (3, 4)), ("ii,ij->j", (3, 3), (3, 2)),
    ("ij,jk->ik", (0, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(case: Any) -> None:
    subscripts, *shapes = case
    check(lambda *xs: np.einsum(subscripts, *xs), *(array(*s) for s in shapes), rtol=1e-11)


def test_einsum_of_integers() -> None:
    check(lambda x, y: np.einsum("ij,jk", x, y), np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("subscripts", ["ij,jk->ii", "ij,jk->iz", "ijk,jk->i", "ij->i"])
def test_einsum_with_wrong_subscripts(subscripts: str) -> None:
    with pytest.raises(ValueError, match="einsum"):
        traced(lambda x, y: np.einsum(subscripts, x, y), array(2, 3), array(3, 4))


def test_einsum_sizes_that_differ() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(2, 4\)"):
        traced(lambda x, y: np.einsum("ij,ij", x, y), array(2, 3), array(2, 4))


def test_other_products() -> None:
    check(np.outer, array(2, 2), array(3))
    check(np.inner, array(3), array(3))
    check(np.inner, array(2, 3), array(4, 3))
    check(np.inner, array(2, 3), np.float64(2.0))
    check(np.vdot, array(2, 3), array(3, 2))
    check(np.kron, array(2, 3), array(3, 2))
    check(np.kron, array(2), array(2, 3))
    check(np.vecdot, array(2, 3), array(3))
    check(np.linalg.vecdot, array(2, 3), array(2, 3))
    check(np.matvec, array(5, 2, 3), array(3))
    check(np.vecmat, array(2), array(5, 2, 3))
    check(np.multiply.outer, array(2), array(3, 2))


@pytest.mark.parametrize(("a", "b"), [((3,), (3,)), ((4, 3), (3,)), ((4, 3), (2, 1, 3))], ids=str)
def test_cross(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(np.cross, array(*a), array(*b))


def test_cross_along_other_axes() -> None:
    check(lambda x, y: np.cross(x, y, axis=0), array(3, 4), array(3, 4))
    check(lambda x, y: np.cross(x, y, axisa=0, axisc=0), array(3, 4), array(4, 3))


def test_chains_and_powers() -> None:
    check(lambda *xs: np.linalg.multi_dot(xs), array(5, 2), array(2, 7), array(7, 3))
    check(lambda *xs: np.linalg.multi_dot(xs), array(5), array(5, 7), array(7))
    for n in (0, 1, 2, 3, 6):
        check(lambda x, n=n: np.linalg.matrix_power(x, n), array(3, 3))
    with pytest.raises(UnsupportedError, match="negative powers"):
        traced(lambda x: np.linalg.matrix_power(x, -1), array(2, 2))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution(mode: Any) -> None:
    for n, m in ((7, 3), (3, 7), (5, 4), (20, 18), (4, 1)):
        check(lambda a, v: np.convolve(a, v, mode), array(n), array(m))
        if n >= m:
            check(lambda a, v: np.correlate(a, v, mode), array(n), array(m))


def test_polynomials() -> None:
    check(np.polyval, array(4), array(2, 3))
    check(lambda x: np.polyval([1, 0, -2], x), array(3))
    check(np.vander, array(3))
    check(lambda x: np.vander(x, 4, increasing=True), np.arange(3))
