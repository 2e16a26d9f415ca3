"""In-place operations, views and item assignment: the right derivative, or an error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg


def leaf(data):
    return sg.tensor(data, dtype=np.float64, requires_grad=True)


def test_leaf_is_not_changed_outside_no_grad():
    w = leaf([1.0, 2.0])
    for change in (lambda: w.sub_(1.0), lambda: w.__setitem__(0, 1.0), lambda: w[0].mul_(2.0), lambda: w.zero_()):
        with pytest.raises(RuntimeError, match="in-place"):
            change()
    assert_allclose(w.detach().numpy(), [1.0, 2.0])


def test_leaf_is_changed_in_no_grad_and_stays_a_leaf():
    w = leaf([1.0, 2.0])
    with sg.autograd.no_grad():
        w -= 0.5
        w[1] = 9.0
    assert_allclose(w.detach().numpy(), [0.5, 9.0])
    assert w.is_leaf and w.requires_grad


def test_value_saved_before_it_was_overwritten():
    x = leaf([0.5, -1.0])
    y = x.exp()
    z = y * y
    y *= 2.0
    (y.sum() + z.sum()).backward()
    e = np.exp([0.5, -1.0])
    assert_allclose(x.grad.numpy(), 2 * e + 2 * e * e, rtol=1e-14)


def test_chain_of_in_place_operations():
    x = leaf([1.0, 2.0, 3.0])
    y = x * x
    y.mul_(3.0).add_(x).div_(2.0).sub_(1.0)
    y.sum().backward()
    assert_allclose(x.grad.numpy(), 3 * np.array([1.0, 2.0, 3.0]) + 0.5)


def test_overwritten_elements_have_no_gradient():
    x, b = leaf([1.0, 2.0, 3.0]), leaf(4.0)
    y = x * 2.0
    y[1] = b * b
    (y * sg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert_allclose(x.grad.numpy(), [2.0, 0.0, 200.0])
    assert b.grad.item() == 80.0


def test_plain_tensor_begins_to_require_grad():
    p, m = leaf([2.0, -1.0]), sg.tensor(np.zeros((2, 2)))
    m[1, :] = p * 3.0
    m[0, 1] = p[0] * p[1]
    assert m.requires_grad and not m.is_leaf
    (m * sg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert_allclose(p.grad.numpy(), [9.0 - 2.0, 12.0 + 4.0])


def test_view_writes_through_to_its_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1.0
    row = y[1]
    row.mul_(10.0)
    assert_allclose(y.detach().numpy(), [[1, 2], [30, 40]])
    (y * y).sum().backward()
    assert_allclose(x.grad.numpy(), [[2, 4], [600, 800]])


def test_view_sees_its_base_change():
    y = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1.0
    column, flat = y[:, 0], y.reshape(-1)
    y.add_(100.0)
    assert_allclose(column.detach().numpy(), [101, 103])
    assert_allclose(flat.detach().numpy(), [101, 102, 103, 104])


def test_view_of_a_view():
    y = sg.tensor(np.arange(12.0).reshape(3, 4))
    part = y[1:][:, ::2]
    part[0, 1] = -1.0
    part.T.add_(0.5)
    want = np.arange(12.0).reshape(3, 4)
    inner = want[1:][:, ::2]
    inner[0, 1] = -1.0
    inner += 0.5
    assert_allclose(y.numpy(), want)


def test_gradient_through_a_transposed_view_written_to():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1.0
    y.T[0] *= sg.tensor([5.0, 7.0])
    y.sum().backward()
    assert_allclose(x.grad.numpy(), [[5.0, 1.0], [7.0, 1.0]])


def test_detached_shares_memory():
    w = leaf([1.0, 2.0])
    y = w * w
    w.data -= 0.5
    w.detach().mul_(2.0)
    assert_allclose(w.detach().numpy(), [1.0, 3.0])
    y.sum().backward()
    assert_allclose(w.grad.numpy(), [2.0, 4.0])  # of the values that the product saw


def test_shape_cannot_change_in_place():
    y = leaf([1.0]) * 1.0
    with pytest.raises(RuntimeError, match=r"shape \(1,\) to \(2,\)"):
        y.add_(sg.tensor([1.0, 2.0]))


def test_index_arrays_and_masks_read_and_write():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x * 1.0
    y[np.array([0, 2])] = y[np.array([2, 0])] * 10.0
    y[y > 25.0] = 0.0
    assert_allclose(y.detach().numpy(), [0.0, 2.0, 10.0, 4.0])
    y.sum().backward()
    assert_allclose(x.grad.numpy(), [10.0, 1.0, 0.0, 1.0])


def test_slices_of_data_compile_nothing():
    data, w = sg.tensor(np.arange(20.0).reshape(10, 2)), leaf([1.0, -1.0])
    counts = []
    for k in range(0, 10, 2):
        w.grad = None
        (data[k : k + 2] @ w).sum().backward()
        assert_allclose(w.grad.numpy(), data.numpy()[k : k + 2].sum(0))
        counts.append(sg.autograd.cache_info().misses)
    assert counts[1] == counts[-1]


def test_slice_of_data_is_a_view():
    data = sg.tensor(np.zeros((3, 2)))
    row = data[1]
    row.add_(5.0)
    data[1, 0] = 7.0
    assert_allclose(data.numpy(), [[0, 0], [7, 5], [0, 0]])
    assert_allclose(row.numpy(), [7, 5])


def test_repeated_index_adds_gradients():
    x = leaf([1.0, 2.0])
    x[np.array([0, 0, 1])].sum().backward()
    assert_allclose(x.grad.numpy(), [2.0, 1.0])


def test_index_out_of_range_raises_and_other_values_stay_readable():
    x = sg.tensor([1.0, 2.0])
    good = x * 3.0
    bad = good[sg.tensor([5])]
    worse = bad * 2.0
    other = leaf(3.0)
    with pytest.raises(IndexError):
        (other * other).backward()  # what was pending ran with it
    assert other.grad.item() == 6.0
    (other * other).backward()  # but only once
    for failed in (bad, worse):
        with pytest.raises(IndexError):
            failed.numpy()
    with pytest.raises(IndexError):
        bad + 1.0
    assert_allclose(good.numpy(), [3.0, 6.0])
    with pytest.raises(IndexError):
        x[sg.tensor([5])]


def test_gradient_is_changed_by_item():
    a = leaf([1.0, 2.0])
    (a * 1.0).sum().backward()
    a.grad[0] = 99.0
    (a * 1.0).sum().backward()
    assert_allclose(a.grad.numpy(), [100.0, 2.0])


def test_clone_is_a_copy_in_the_graph():
    x = leaf([1.0, 2.0])
    y = x.clone()
    y.add_(1.0)
    (y * y).sum().backward()
    assert_allclose(x.detach().numpy(), [1.0, 2.0])
    assert_allclose(x.grad.numpy(), [4.0, 6.0])
