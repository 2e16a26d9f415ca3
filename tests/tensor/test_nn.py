"""Layers and losses against NumPy; modules as containers of parameters."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg

RNG = np.random.default_rng(5)


def slope(f, x, step=1e-6):
    """Central differences of a scalar function of an array."""
    out = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[k] += step
        down[k] -= step
        out[k] = (f(up) - f(down)) / (2 * step)
    return out


def gradient_of(f, x):
    t = sg.tensor(x, requires_grad=True)
    f(t).backward()
    return t.grad.numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, 0),
    "LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "SiLU": lambda x: x * sigmoid(x),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "LogSoftmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "Flatten": lambda x: x.reshape(len(x), -1),
    "Identity": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    x, w = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
    layer, want = getattr(sg.nn, name)(), ACTIVATIONS[name]
    assert_allclose(layer(sg.tensor(x)).numpy(), want(x), rtol=1e-12)
    got = gradient_of(lambda t: (layer(t) * sg.tensor(w)).sum(), x)
    assert_allclose(got, slope(lambda a: (want(a) * w).sum(), x), rtol=1e-6, atol=1e-8)


def test_gelu_at_known_points():
    """x times the normal distribution: at 1, 0.8413447460685429."""
    assert_allclose(sg.nn.GELU()(sg.tensor([0.0, 1.0])).numpy(), [0.0, 0.8413447460685429], rtol=1e-14)


def picked(x, classes):
    return -(x - np.log(np.exp(x).sum(1, keepdims=True)))[np.arange(len(x)), classes]


TARGET, SHARES, CLASSES = RNG.random((3, 4)), RNG.dirichlet(np.ones(4), size=3), np.array([2, 0, 3])
LOSSES = {
    "MSELoss": (lambda x: (x - TARGET) ** 2, TARGET),
    "L1Loss": (lambda x: abs(x - TARGET), TARGET),
    "SmoothL1Loss": (lambda x: np.where(abs(x - TARGET) < 1, (x - TARGET) ** 2 / 2, abs(x - TARGET) - 0.5), TARGET),
    "BCELoss": (lambda x: -(TARGET * np.log(x) + (1 - TARGET) * np.log(1 - x)), TARGET),
    "BCEWithLogitsLoss": (
        lambda x: -(TARGET * np.log(sigmoid(x)) + (1 - TARGET) * np.log(1 - sigmoid(x))),
        TARGET,
    ),
    "CrossEntropyLoss": (lambda x: picked(x, CLASSES), CLASSES),
    "NLLLoss": (lambda x: -x[np.arange(3), CLASSES], CLASSES),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, reduction):
    each, target = LOSSES[name]
    x = RNG.uniform(0.1, 0.9, size=(3, 4))
    reduced = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}[reduction]
    loss = getattr(sg.nn, name)(reduction)
    assert_allclose(loss(sg.tensor(x), sg.tensor(target)).numpy(), reduced(each(x)), rtol=1e-12)
    got = gradient_of(lambda t: np.sum(loss(t, sg.tensor(target))), x)
    assert_allclose(got, slope(lambda a: np.sum(reduced(each(a))), x), rtol=1e-5, atol=1e-8)


def test_cross_entropy_of_shares():
    x = RNG.normal(size=(3, 4))
    want = -((x - np.log(np.exp(x).sum(1, keepdims=True))) * SHARES).sum(1).mean()
    assert_allclose(sg.nn.CrossEntropyLoss()(sg.tensor(x), sg.tensor(SHARES)).item(), want, rtol=1e-13)


def test_cross_entropy_far_out():
    x = sg.tensor([[1000.0, -1000.0]], requires_grad=True)
    loss = sg.nn.CrossEntropyLoss()(x, sg.tensor([1]))
    loss.backward()
    assert loss.item() == 2000.0
    assert_allclose(x.grad.numpy(), [[1.0, -1.0]])


def test_certain_and_wrong_costs_a_finite_amount():
    assert sg.nn.BCELoss()(sg.tensor([1.0]), sg.tensor([0.0])).item() == 100.0


def test_loss_arguments():
    with pytest.raises(ValueError, match="wanted 'mean', 'sum' or 'none'"):
        sg.nn.MSELoss("max")(sg.tensor([1.0]), sg.tensor([0.0]))
    with pytest.raises(ValueError, match=r"shape \(2,\), the target \(1,\)"):
        sg.nn.BCELoss()(sg.tensor([0.5, 0.5]), sg.tensor([0.0]))


def test_linear():
    layer = sg.nn.Linear(4, 2)
    w, b = layer.weight.numpy(), layer.bias.numpy()
    assert w.shape == (2, 4) and abs(w).max() <= 0.5 and layer.weight.dtype == np.float64
    x = RNG.normal(size=(5, 4))
    assert_allclose(layer(sg.tensor(x)).numpy(), x @ w.T + b, rtol=1e-13)
    layer(sg.tensor(x)).sum().backward()
    assert_allclose(layer.weight.grad.numpy(), np.ones((5, 2)).T @ x)
    assert_allclose(layer.bias.grad.numpy(), [5.0, 5.0])
    assert sg.nn.Linear(4, 2, bias=False).bias is None


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    sg.random.seed(1)
    layer, x = sg.nn.Dropout(0.25), sg.tensor(np.ones(100_000), requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert set(np.unique(y.numpy())) == {0.0, 1 / 0.75}
    assert abs(y.numpy().mean() - 1) < 0.01
    assert_allclose(x.grad.numpy(), y.numpy())
    assert layer.eval()(x) is x


class Net(sg.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = sg.nn.Linear(3, 4)
        self.rest = sg.nn.Sequential(sg.nn.Tanh(), sg.nn.Linear(4, 2))
        self.scale = sg.nn.Parameter(np.ones(2))
        self.register_buffer("count", sg.tensor([0.0]))

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


NAMES = ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]


def test_module_knows_its_parts():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert len(list(net.modules())) == 5 and len(list(net.children())) == 2
    assert set(net.state_dict()) == {*NAMES, "count"}
    assert isinstance(net.scale, sg.nn.Parameter) and not isinstance(net.count, sg.nn.Parameter)
    assert "(first): Linear(in_features=3" in repr(net)


def test_state_goes_from_one_module_to_another():
    a, b, x = Net(), Net(), sg.tensor(RNG.normal(size=(2, 3)))
    assert not np.allclose(a(x).detach().numpy(), b(x).detach().numpy())
    b.load_state_dict(pickle.loads(pickle.dumps(a.state_dict())))
    assert_allclose(a(x).detach().numpy(), b(x).detach().numpy(), rtol=0)
    assert b.scale.is_leaf and b.scale.requires_grad
    with pytest.raises(RuntimeError, match=r"missing \['first.weight'"):
        b.load_state_dict({"scale": np.ones(2)})
    with pytest.raises(RuntimeError, match="scale has shape"):
        b.load_state_dict({"scale": np.ones(3)}, strict=False)


def test_module_is_pickled_and_copied():
    net, x = Net(), sg.tensor(RNG.normal(size=(2, 3)))
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert_allclose(other(x).detach().numpy(), net(x).detach().numpy(), rtol=0)
        assert [n for n, _ in other.named_parameters()] == NAMES
        other.scale.data.fill_(0.0)
        assert net.scale.detach().numpy().all()


def test_train_eval_and_zero_grad():
    net = Net()
    assert net.training and not net.eval().rest.training and net.train().rest.training
    net(sg.tensor(np.ones((1, 3)))).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert not any(p.grad.numpy().any() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_frozen_parameters_get_no_gradient():
    net = Net()
    net.first.requires_grad_(False)
    net(sg.tensor(np.ones((1, 3)))).sum().backward()
    assert net.first.weight.grad is None and net.scale.grad is not None


def test_parameter_slot_takes_no_plain_tensor():
    with pytest.raises(TypeError, match="wanted a Parameter or None"):
        Net().scale = sg.tensor([1.0, 2.0])


def test_forward_hook():
    layer = sg.nn.Identity()
    handle = layer.register_forward_hook(lambda module, args, out: out * 2.0)
    assert layer(sg.tensor(3.0)).item() == 6.0
    handle.remove()
    assert layer(sg.tensor(3.0)).item() == 3.0


def test_initialisers():
    sg.random.seed(0)
    w = sg.nn.Parameter(np.zeros((300, 200)))
    init = sg.nn.init
    assert abs(init.xavier_uniform_(w).numpy()).max() <= np.sqrt(6 / 500)
    assert_allclose(init.xavier_normal_(w).numpy().std(), np.sqrt(2 / 500), rtol=0.02)
    assert abs(init.kaiming_uniform_(w).numpy()).max() <= np.sqrt(6 / 200)
    assert_allclose(init.kaiming_normal_(w).numpy().std(), np.sqrt(2 / 200), rtol=0.02)
    assert_allclose(init.normal_(w, 3.0, 0.1).numpy().mean(), 3.0, rtol=0.01)
    assert (init.constant_(w, 7.0).numpy() == 7.0).all() and not init.zeros_(w).numpy().any()
    assert w.is_leaf and w.requires_grad


def test_pure_function_of_a_module():
    net, x = Net(), RNG.normal(size=(2, 3))
    f = sg.func(net)
    weights = {**{n: p.numpy() for n, p in net.named_parameters()}, "count": np.zeros(1)}
    assert_allclose(f(weights, x), net(sg.tensor(x)).numpy(), rtol=1e-13)
    value, slopes = sg.value_and_grad(lambda w, a: np.sum(f(w, a) ** 2))(weights, x)
    (net(sg.tensor(x)) ** 2).sum().backward()
    for name, p in net.named_parameters():
        assert_allclose(slopes[name], p.grad.numpy(), rtol=1e-12)
    assert_allclose(value, (net(sg.tensor(x)).numpy() ** 2).sum(), rtol=1e-13)
    assert net.scale.requires_grad  # as it was
    with pytest.raises(sg.TraceError, match=r"missing \['count'"):
        f({"scale": np.ones(2)}, x)


def test_formula_of_a_module():
    layer = sg.nn.Linear(1, 1)
    f = sg.func(layer)

    def out(w, b, x):
        return f({"weight": np.reshape(w, (1, 1)), "bias": np.reshape(b, (1,))}, np.reshape(x, (1, 1)))[0, 0] ** 2

    assert_allclose(sg.grad(out, argnums=(0, 1))(2.0, 1.0, 3.0), (42.0, 14.0))
