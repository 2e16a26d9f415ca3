"""Hooks see the whole gradient once, in order, and may replace it."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

import symgrad as sg


def test_hooks_run_in_order_and_none_keeps():
    x = sg.tensor(2.0, requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda g: g * 2.0)
    y.register_hook(lambda g: g + 1.0)
    y.register_hook(lambda g: None)
    (y * y).backward()
    assert x.grad.item() == (12.0 * 2 + 1) * 3


def test_hook_sees_the_sum_once():
    x = sg.tensor(2.0, requires_grad=True)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(float(g)))
    (y * 3.0 + y * y + y).backward()
    assert seen == [12.0]


def test_hook_of_a_leaf_sees_what_is_added():
    x = sg.tensor(2.0, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(float(g)) or g * 10)
    (x * x).backward()
    (x * 1.0).backward()
    assert seen == [4.0, 1.0] and x.grad.item() == 50.0


def test_removed_hook_is_silent():
    x = sg.tensor(2.0, requires_grad=True)
    handle = x.register_hook(lambda g: g * 0)
    assert handle.remove() is True
    assert handle.remove() is False
    (x * x).backward()
    assert x.grad.item() == 4.0


def test_retained_gradient_is_what_the_hooks_left():
    x = sg.tensor(2.0, requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda g: g * 2.0)
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 24.0 and y.retains_grad


def test_hook_needs_a_gradient():
    with pytest.raises(RuntimeError, match="does not require grad"):
        sg.tensor(2.0).register_hook(print)
    with pytest.raises(RuntimeError, match="does not require grad"):
        sg.tensor(2.0).retain_grad()


def test_hook_of_another_shape():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match=r"shape \(\), wanted \(2,\)"):
        (x * x).sum().backward()


def test_hook_returning_no_tensor():
    x = sg.tensor(1.0, requires_grad=True)
    x.register_hook(lambda g: 2.0)
    with pytest.raises(TypeError, match="a hook returns a tensor or None"):
        (x * x).backward()


def test_hooked_gradient_counts_in_grad():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    y.register_hook(lambda g: g * 5.0)
    (g,) = sg.autograd.grad(y.sum(), x)
    assert_allclose(g.numpy(), [10.0, 10.0])
