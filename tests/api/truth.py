"""Independent truths: central differences of plain NumPy functions, and comparison of nested results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def same(got: Any, wanted: Any, *, rtol: float = 1e-12, atol: float = 1e-14) -> None:
    """Equal structure, dtypes, shapes and (nearly) values."""
    if isinstance(wanted, dict):
        assert isinstance(got, dict) and list(got) == list(wanted)
        for k in wanted:
            same(got[k], wanted[k], rtol=rtol, atol=atol)
        return
    if isinstance(wanted, list | tuple):
        assert type(got) is type(wanted) and len(got) == len(wanted), (got, wanted)
        for g, w in zip(got, wanted, strict=True):
            same(g, w, rtol=rtol, atol=atol)
        return
    if wanted is None or isinstance(wanted, str):
        assert got == wanted
        return
    assert np.asarray(got).dtype == np.asarray(wanted).dtype, (np.asarray(got).dtype, np.asarray(wanted).dtype)
    assert np.shape(got) == np.shape(wanted), (np.shape(got), np.shape(wanted))
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


def slope(fun: Callable[..., Any], *args: Any, argnum: int = 0) -> Array:
    """The Jacobian of ``fun`` in one array argument: central differences with one Richardson step."""
    x = np.array(args[argnum], dtype=float)

    def difference(index: tuple[int, ...], h: float) -> Array:
        ends = []
        for sign in (1.0, -1.0):
            moved = x.copy()
            moved[index] += sign * h
            given = moved if moved.ndim else moved[()]
            ends.append(np.asarray(fun(*args[:argnum], given, *args[argnum + 1 :]), dtype=float))
        return np.asarray((ends[0] - ends[1]) / (2 * h))

    out_shape = np.shape(fun(*args))
    out = np.zeros((*out_shape, *x.shape))
    for index in np.ndindex(x.shape):
        h = 1e-3 * max(1.0, abs(float(x[index])))
        out[(..., *index)] = (4 * difference(index, h / 2) - difference(index, h)) / 3
    return out
