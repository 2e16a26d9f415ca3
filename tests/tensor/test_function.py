"""Functions with a backward rule of their own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg


class Cube(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * x * (3.0 * ctx.scale), None


def test_rule_is_used_and_differentiated_again():
    x = sg.tensor(2.0, requires_grad=True)
    y = Cube.apply(x, 5.0)
    assert y.item() == 40.0 and "Cube" in repr(y)
    (g,) = sg.autograd.grad(y, x, create_graph=True)
    assert g.item() == 60.0
    g.backward()
    assert x.grad.item() == 60.0  # 30 x


def test_rule_need_not_be_the_derivative():
    class Reversed(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return -g

    x = sg.tensor([1.0, 2.0], requires_grad=True)
    (Reversed.apply(x) * sg.tensor([1.0, 10.0])).sum().backward()
    assert_allclose(x.grad.numpy(), [-1.0, -10.0])


def test_result_saved_for_backward():
    class Exp(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = np.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = sg.tensor(0.5, requires_grad=True)
    y = Exp.apply(x)
    y_before = y.item()
    (g,) = sg.autograd.grad(y, x, create_graph=True)
    (h,) = sg.autograd.grad(g, x)
    assert_allclose([y_before, g.item(), h.item()], [np.exp(0.5)] * 3, rtol=1e-15)


def test_several_results():
    class Both(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * y + h, g * x + h

    x, y = sg.tensor(2.0, requires_grad=True), sg.tensor(3.0, requires_grad=True)
    product, _ = Both.apply(x, y)
    product.backward()  # the other result gets zeros
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)


def test_wrong_number_of_gradients():
    class Short(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    x = sg.tensor(2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="returned 1 gradients, forward took 2 inputs"):
        Short.apply(x, x).backward()


def test_freed_rule():
    x = sg.tensor(2.0, requires_grad=True)
    y = Cube.apply(x, 1.0)
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_saved_value_is_kept_when_the_tensor_is_overwritten():
    x = sg.tensor([2.0], requires_grad=True)
    y = x * 1.0
    z = Cube.apply(y, 1.0)
    y.mul_(100.0)
    z.sum().backward()
    assert_allclose(x.grad.numpy(), [12.0])


def test_what_needs_a_gradient():
    seen = []

    class Watch(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, z):
            seen.append(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    out = Watch.apply(sg.tensor(1.0, requires_grad=True), sg.tensor(2.0), 3)
    assert seen == [(True, False, False)] and out.requires_grad
    assert not Watch.apply(sg.tensor(1.0), sg.tensor(2.0), 3).requires_grad


def test_marked_result_has_no_gradient():
    class Parts(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            whole = np.floor(x)
            ctx.mark_non_differentiable(whole)
            return x - whole, whole

        @staticmethod
        def backward(ctx, g, _):
            return g

    part, whole = Parts.apply(sg.tensor([1.25], requires_grad=True))
    assert part.requires_grad and not whole.requires_grad
