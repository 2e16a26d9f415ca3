"""Indexing of traced arrays against NumPy's on the same data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from symgrad.errors import TraceError, UnsupportedError
from symgrad.frontend.tracer import argument
from symgrad.ir.sizes import Sizes
from tests.frontend.harness import agree, parameters, traced

CUBE = np.arange(24.0).reshape(2, 3, 4)
LINE = np.arange(7.0)


@st.composite
def cases(draw):
    """An array and a key of any kind for it."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(float(np.prod(shape))).reshape(shape)
    if draw(st.booleans()):
        return x, draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    return x, draw(mixed_keys(shape))


@st.composite
def mixed_keys(draw, shape):
    """Index arrays, lists, masks, integers, slices and None in any order."""
    lead = draw(st.sampled_from([(), (2,), (3,), (2, 1), (1, 3)]))
    key, axis = [], 0
    while axis < len(shape):
        n = shape[axis]
        kinds = ["array", "list", "int", "slice", "none"] + ["mask"] * (lead == ())
        kind = draw(st.sampled_from(kinds))
        if kind == "none":
            key.append(None)
            continue
        axis += 1
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            key.append(draw(st.slices(n)))
        elif kind == "mask":
            key.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
            lead = (int(key[-1].sum()),)
        else:
            array = draw(hnp.arrays(np.int64, lead, elements=st.integers(-n, n - 1)))
            key.append(array.tolist() if kind == "list" and array.ndim else array)
    return tuple(key)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_reading_any_key(case):
    x, key = case
    agree(lambda a: a[key], x)


@settings(max_examples=150, deadline=None)
@given(cases(), st.booleans())
def test_writing_at_any_key(case, scalar):
    x, key = case
    new = -1.0 if scalar else -1.0 - np.arange(float(np.size(x[key]))).reshape(np.shape(x[key]))

    def f(a):
        a = a.copy()
        a[key] = new
        return a

    agree(f, x)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_views_and_bases_see_each_others_writes(data):
    chain = [data.draw(hnp.basic_indices((4, 5), allow_newaxis=True, allow_ellipsis=True))]
    first = np.zeros((4, 5))[chain[0]]
    if np.ndim(first):
        chain.append(data.draw(hnp.basic_indices(np.shape(first))))

    def f(a):
        base = a * 1.0
        view = base
        seen = []
        for key in chain:
            view = view[key]
            if not isinstance(view, np.ndarray):
                break
            view[...] = view + 10
            base[1:, ::2] = base[1:, ::2] * 2
            seen += [view * 1, base * 1]
        return (*seen, base)

    agree(f, np.arange(20.0).reshape(4, 5))


@settings(max_examples=60, deadline=None)
@given(st.slices(7))
def test_slices_of_a_free_size(s):
    agree(lambda a: a[s], LINE, sizes={"n": 7})


def test_bounds_made_of_sizes():
    def f(a):
        n = len(a) if isinstance(a, float) else a.shape[0]
        return a[n // 2 :], a[: n - 2], a[n - 1], a[1 : n - 1][::-1], a[None, -n:]

    agree(f, LINE, sizes={"n": 7})


def test_slices_of_free_sizes_hold_for_other_lengths():
    held = Sizes({"n": 7})
    traced(lambda a: a[1:-1] + a[:-2] + a[::-1][2:], LINE, sizes={"n": 7}, assumptions=held)
    assert all(g.holds({"n": 50}) for g in held.guards)
    assert not all(g.holds({"n": 1}) for g in held.guards)


@pytest.mark.parametrize("i", [1, -1, 0])
def test_traced_integers(i):
    def f(a, i):
        b = a.copy()
        b[i] += 1
        row = b[i]
        row[0] = 100.0
        row[0, i] = 7
        return b, row, a[i, i, i], a[:, i], a[i, :, [1, 2]], a[i, [1, 2], 0], a[..., i, None]

    agree(f, CUBE, np.int64(i))


def test_traced_index_arrays():
    def f(a, i):
        b = a.copy()
        b[i] = a[0] * 2
        b[:, i, 1] = -3
        b[0, 0][i] += 1
        return b, a[i], a[:, i], a[i, i], a[i[:2], None, 1:], a[np.array([[0], [1]]), i]

    agree(f, CUBE, np.array([0, 1, 1, 0]))


@pytest.mark.parametrize("i", [1, 2, 4])
def test_windows_between_traced_bounds(i):
    def f(a, i):
        b = a.copy()
        b[i : i + 2] *= 10
        part = b[i - 1 : i + 1]
        part[0] = -7
        b[None, i + 1 : i + 3, ...][0, 1] = 55
        c = np.outer(b, b)
        c[1:, i : i + 2][::-1] = 3
        return b, part, a[i : 3 + i][::-1], a[i:i], c[:, i - 1 : i + 2].T

    agree(f, LINE, np.int64(i))


def test_windows_do_not_leave_the_array():
    for i in (-1, 6):
        with pytest.raises(IndexError, match="out of bounds"):
            traced(lambda a, i: a[i : i + 2], LINE, np.int64(i))


def test_slices_of_a_traced_length_are_refused():
    for f in (lambda a, i: a[:i], lambda a, i: a[i:], lambda a, i: a[i : 2 * i], lambda a, i: a[i : i + 3 : 2]):
        with pytest.raises(UnsupportedError, match="length of this slice"):
            traced(f, LINE, np.int64(2))


def test_slice_bounds_that_are_python_numbers_are_pinned():
    agree(lambda a, k: (a[:k], a[k : k + 9], a[-k:]), LINE, 3)


def test_repeated_positions_are_written_once_by_an_operator_and_added_up_by_at():
    def f(a, i):
        once, every, less = a.copy(), a.copy(), a.copy()
        once[i] += 1
        np.add.at(every, i, 1.0)
        np.add.at(every, (slice(1, 3), None), 2)
        np.subtract.at(less, i, np.arange(4.0))
        return once, every, less

    agree(f, LINE, np.array([2, 2, -1, 0]))


def test_traced_masks():
    def f(a):
        b = a * 1
        m = b > 5
        b[m] *= 2
        b[b > 30] = 0.5
        b[~m] = b[~m] ** 2 - a[~m]
        chosen = b[m]
        return (
            b,
            chosen.sum(),
            np.mean(chosen),
            chosen.max(),
            np.min(chosen),
            np.std(chosen * 2),
            np.exp(-b[m]).sum(),
            chosen.size,
            (chosen > 20).any(),
            np.all(chosen > 3),
            np.prod(a[a < 3] + 1),
            np.count_nonzero(chosen > 20),
            np.clip(chosen, 1, 2).sum(),
            (2 - chosen).sum(),
            np.add.reduce(chosen),
            np.maximum(chosen, 20).sum(),
        )

    expected, got = f(CUBE.copy()), traced(f, CUBE)
    for e, g in zip(expected, got, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-14)


def test_traced_masks_of_some_axes():
    def f(a):
        b, m = a.copy(), a[0, :, 0] > 3
        b[:, m] = 9
        b[0, m] = np.array([1.0, 2, 3, 4])
        b[0, :, 1][m] = 4
        b[1][m] -= np.array([1.0, 2, 3, 4])
        b[:, :, 3][a[:, :, 3] > 12] = 0
        return (
            b,
            a[0][m].sum(axis=0),
            a[0, m].max(axis=0),
            a[0, m, 1].sum(),
            (a[0][m] * np.arange(4.0)).mean(axis=(0, 1)),
        )

    agree(f, CUBE)


def test_masks_known_while_tracing_select_like_numpy():
    mask = np.array([True, False, True])

    def f(a):
        b = a.copy()
        b[:, mask] = -1
        return b, a[:, mask], a[0, mask, :2], a[np.array([True, False])][:, mask]

    agree(f, CUBE)


def test_a_selection_has_no_shape():
    for f in (
        lambda a: a[a > 3].shape,
        lambda a: a[a > 3] + np.ones(4),
        lambda a: np.sort(a[a > 3]),
        lambda a: a[a > 3].reshape(-1),
    ):
        with pytest.raises(UnsupportedError, match="length of a selection"):
            traced(f, LINE)


@pytest.mark.parametrize(
    "key",
    [7, -8, (0, 0), [0, 9], 1.5, np.array([0.5]), np.array([True, False]), (..., ...), "a", slice(None, None, 0)],
    ids=str,
)
def test_bad_keys_are_numpys_errors(key):
    with pytest.raises((IndexError, ValueError)) as numpys:
        LINE[key]
    with pytest.raises(numpys.type) as ours:
        traced(lambda a: a[key], LINE)
    first = str(ours.value).splitlines()[0]
    assert first == str(numpys.value)
    assert "test_indexing.py" in str(ours.value)


def test_traced_positions_are_checked_when_the_code_runs():
    with pytest.raises(IndexError, match="out of bounds"):
        traced(lambda a, i: a[i], LINE, np.int64(7))


def test_assigning_a_shape_that_does_not_fit():
    def f(a):
        b = a.copy()
        b[1:3] = np.ones(4)

    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(4,\) into shape \(2,\)"):
        traced(f, LINE)


def test_arguments_are_not_assigned_into():
    (n,) = parameters(LINE)
    x = argument(n)
    for change in (lambda: x.__setitem__(0, 1.0), lambda: x[1:].__setitem__(0, 1.0), lambda: x.__iadd__(1)):
        with pytest.raises(TraceError, match="make a copy first"):
            change()
