"""Any memory layout goes in; nothing that goes in is changed."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

BASE = np.arange(48.0).reshape(4, 12) / 7


def unaligned():
    raw = np.zeros(12 * 8 + 1, np.uint8)
    view = raw[1:].view(np.float64).reshape(3, 4)
    view[:] = np.arange(12.0).reshape(3, 4)
    return view


def read_only():
    a = np.arange(12.0).reshape(3, 4)
    a.flags.writeable = False
    return a


LAYOUTS = {
    "contiguous": lambda: np.arange(12.0).reshape(3, 4),
    "Fortran": lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "transposed": lambda: np.arange(12.0).reshape(4, 3).T,
    "sliced": lambda: BASE[1:, ::3],
    "negative strides": lambda: BASE[:3, :4][::-1, ::-1],
    "broadcast": lambda: np.broadcast_to(np.arange(4.0), (3, 4)),
    "unaligned": unaligned,
    "read-only": read_only,
    "big-endian": lambda: np.arange(12.0).reshape(3, 4).astype(">f8"),
    "empty": lambda: np.zeros((0, 4)),
    "empty inside": lambda: np.zeros((3, 0)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_gradients(layout):
    x = LAYOUTS[layout]()
    before = x.copy()
    f = sg.jit(lambda x: np.sum(np.sin(x) * x, axis=0) + x[:0].sum())
    g = sg.grad(lambda x: np.sum(x**3))
    for _ in range(3):  # the first call, then calls by the short way
        same(f(x), np.sum(np.sin(before) * before, axis=0).astype(float))
        same(g(x), 3 * before.astype(float) ** 2)
    assert np.array_equal(x, before)


def test_zero_dimensional_arrays():
    x = np.array(2.0)
    f = sg.jit(lambda x: x * 3)
    for _ in range(3):
        assert f(x) == 6.0
    assert x == 2.0


def test_layouts_share_one_program():
    f = sg.jit(lambda x: x * 2)
    for layout in ("contiguous", "Fortran", "transposed", "sliced", "unaligned"):
        x = LAYOUTS[layout]()
        same(f(x), 2 * x)
    assert f.cache_info().misses == 1


def test_views_of_one_array_as_two_arguments():
    a = np.arange(6.0)
    f = sg.jit(lambda x, y: x * 10 + y)
    same(f(a[:4], a[2:]), a[:4] * 10 + a[2:])
    same(f(a[2:], a[:4]), a[2:] * 10 + a[:4])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
def test_all_dtypes_in_any_layout(dtype):
    x = (np.arange(24).reshape(4, 6) % 2).astype(dtype)[::2, ::-1]
    f = sg.jit(lambda x: (x, x.sum(), x.T))
    same(f(x), (x, x.sum(), x.T))


def test_captured_arrays_in_any_layout():
    for make in LAYOUTS.values():
        w = make()
        same(sg.jit(lambda x, w=w: x * w.sum())(2.0), np.float64(2 * w.sum()), rtol=1e-12)


def test_higher_ranks():
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    y = np.transpose(x, (2, 0, 3, 1))[:, :, ::-2]
    same(sg.jit(lambda y: np.transpose(y, (3, 1, 0, 2)) * 2)(y), np.transpose(y, (3, 1, 0, 2)) * 2)


def test_objects_with_an_array_interface():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    same(sg.jit(lambda x: x * 2)(Wrapped()), np.arange(3.0) * 2)
