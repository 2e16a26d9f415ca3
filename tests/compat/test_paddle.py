"""Paddle's spelling and customs; values by hand or against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad.compat.paddle as paddle
import symgrad.compat.paddle.nn.functional as F
from symgrad.compat.paddle.autograd import PyLayer

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def leaf(data):
    return paddle.to_tensor(data, dtype="float64", stop_gradient=False)


def test_defaults():
    x = paddle.to_tensor([1.0, 2.0])
    assert x.dtype == paddle.float32 and x.stop_gradient and x.shape == [2]
    assert paddle.to_tensor([1, 2]).dtype == paddle.int64 and paddle.to_tensor(X).dtype == paddle.float64


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: paddle.sum(x, axis=1), lambda x: x.sum(1)),
        (lambda x: x.mean(axis=0, keepdim=True), lambda x: x.mean(0, keepdims=True)),
        (lambda x: paddle.max(x, axis=1), lambda x: x.max(1)),
        (lambda x: x.var(axis=1), lambda x: x.var(1, ddof=1)),
        (lambda x: paddle.norm(x), lambda x: np.sqrt((x * x).sum())),
        (lambda x: paddle.transpose(x, perm=[1, 0]), lambda x: x.T),
        (lambda x: paddle.reshape(x, [3, -1]), lambda x: x.reshape(3, 2)),
        (lambda x: paddle.concat([x, x], axis=1), lambda x: np.concatenate([x, x], 1)),
        (lambda x: paddle.stack([x, x], axis=-1), lambda x: np.stack([x, x], -1)),
        (lambda x: x.unsqueeze(axis=0).squeeze(axis=0), lambda x: x),
        (lambda x: paddle.clip(x, min=0.0, max=1.0), lambda x: x.clip(0, 1)),
        (lambda x: paddle.multiply(x, x) - paddle.square(x) + x.cast("float64"), lambda x: x),
        (lambda x: F.softmax(x, axis=0), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (lambda x: paddle.where(x > 0, x, -x), abs),
        (lambda x: paddle.sort(x, axis=1), lambda x: np.sort(x, 1)),
        (lambda x: paddle.flatten(x), lambda x: x.ravel()),
        (lambda x: paddle.add_n([x, x, x]), lambda x: 3 * x),
        (lambda x: paddle.cumsum(x, axis=0), lambda x: x.cumsum(0)),
    ],
)
def test_functions(ours, numpys):
    got, want = ours(paddle.to_tensor(X)), numpys(X)
    assert got.shape == list(np.shape(want))
    assert_allclose(got.numpy(), want, rtol=1e-12)


def test_non_scalar_backward_has_seeds_of_ones():
    x = leaf([1.0, 2.0])
    (x * x).backward()
    assert_allclose(x.grad.numpy(), [2.0, 4.0])


def test_second_backward_is_a_system_error():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(SystemError, match="retain_graph"):
        y.backward()
    assert_allclose(y.grad.numpy(), 1.0)
    assert x.grad.item() == 6.0


def test_clearing_leaves_zeros_or_none():
    x = leaf([1.0, 2.0])
    (x * x).backward()
    x.clear_grad()
    assert_allclose(x.grad.numpy(), [0.0, 0.0])
    assert_allclose(x.gradient(), [0.0, 0.0])
    x.clear_gradient(False)
    assert x.grad is None and x.gradient() is None


def test_backward_of_a_tensor_without_gradient_does_nothing():
    x = paddle.to_tensor([1.0])
    x.backward()
    assert x.grad is None


def test_seeds_are_checked():
    x = leaf([1.0, 2.0])
    with pytest.raises(AssertionError, match=r"shape \(3,\), its tensor \(2,\)"):
        paddle.autograd.backward(x * 2.0, paddle.ones([3]))
    with pytest.raises(AssertionError, match="1 tensors and 2 gradients"):
        paddle.autograd.backward([x * 2.0], [None, None])
    y = x * 2.0
    with pytest.raises(AssertionError, match="twice"):
        paddle.autograd.backward([y, y])


def test_leaf_in_place_is_a_value_error():
    with pytest.raises(ValueError, match="in-place"):
        leaf([1.0]).add_(paddle.to_tensor([1.0]))


def test_numpy_of_a_tensor_that_requires_grad():
    assert_allclose(leaf([1.5]).numpy(), [1.5])


def test_unused_input_is_a_value_error():
    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(ValueError, match="allow_unused"):
        paddle.grad(x * 2.0, [x, y])
    gx, gy = paddle.grad(x * 2.0, [x, y], allow_unused=True)
    assert gx.item() == 2.0 and gy is None


def test_double_gradient():
    x = leaf(2.0)
    (g,) = paddle.grad(x**3, x, create_graph=True)
    assert g.item() == 12.0
    assert paddle.grad(g, x)[0].item() == 12.0


def test_output_keeps_its_gradient_and_the_hooks_result():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * 3.0)
    y.backward()
    assert y.grad.item() == 3.0 and x.grad.item() == 12.0
    z = x * 1.0
    (z * z).backward()
    assert z.grad is None


class Tanh(PyLayer):
    @staticmethod
    def forward(ctx, x, scale):
        y = paddle.tanh(x)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y * scale

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensor()
        return g * (1 - paddle.square(y)) * ctx.scale


def test_pylayer():
    x = leaf([0.3, -0.4])
    Tanh.apply(x, scale=2.0).sum().backward()
    assert_allclose(x.grad.numpy(), 2 * (1 - np.tanh([0.3, -0.4]) ** 2), rtol=1e-14)


def test_pylayer_with_a_wrong_number_of_gradients():
    class Wrong(PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    with pytest.raises(ValueError, match="returned 1 gradients, forward took 2 inputs"):
        Wrong.apply(x, x).backward()


def test_linear_is_in_by_out():
    layer = paddle.nn.Linear(3, 2)
    assert layer.weight.shape == [3, 2] and not layer.bias.numpy().any()
    assert_allclose(layer(paddle.to_tensor(X, dtype="float32")).numpy(), X @ layer.weight.numpy(), rtol=1e-5)


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = paddle.nn.Linear(2, 8)
        self.out = paddle.nn.Linear(8, 1)
        self.shift = self.create_parameter([1], is_bias=True)

    def forward(self, x):
        return self.out(F.tanh(self.hidden(x))) + self.shift


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW"])
def test_training_lowers_the_loss(name):
    paddle.seed(1)
    net = Net()
    assert len(net.parameters()) == 5
    rate = paddle.optimizer.lr.StepDecay(0.05, step_size=40)
    optimizer = getattr(paddle.optimizer, name)(learning_rate=rate, parameters=net.parameters())
    x = paddle.randn([16, 2])
    y = paddle.sum(x * x, axis=1, keepdim=True)
    losses = []
    for _ in range(60):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step()
        losses.append(float(loss))
    assert losses[-1] < 0.7 * losses[0]
    assert_allclose(optimizer.get_lr(), 0.005)


def test_schedules():
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(1.0, T_max=4)
    rates = []
    for _ in range(5):
        rates.append(cosine.last_lr)
        cosine.step()
    assert_allclose(rates, (1 + np.cos(np.pi * np.arange(5) / 4)) / 2)


def test_cross_entropy_takes_a_column_of_classes():
    x, classes = paddle.to_tensor(X), paddle.to_tensor([[2], [0]])
    want = -(X - np.log(np.exp(X).sum(1, keepdims=True)))[[0, 1], [2, 0]].mean()
    assert_allclose(F.cross_entropy(x, classes).item(), want, rtol=1e-12)


def test_initializers():
    p = paddle.nn.Layer().create_parameter([100, 50])
    assert abs(p.numpy()).max() <= np.sqrt(6 / 150)
    paddle.nn.initializer.Constant(2.5)(p)
    assert (p.numpy() == 2.5).all() and not p.stop_gradient
    p.set_value(np.zeros((100, 50)))
    assert not p.numpy().any()
