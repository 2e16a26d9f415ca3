"""PyTorch's spelling and customs; values by hand or against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad.compat.torch as torch
import symgrad.compat.torch.nn.functional as F
from symgrad.compat.torch import nn, optim

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def double(data, requires_grad=False):
    return torch.tensor(data, dtype=torch.float64, requires_grad=requires_grad)


def test_dtypes_of_new_tensors():
    assert torch.tensor([1.0, 2.0]).dtype == torch.float32
    assert torch.tensor([1, 2]).dtype == torch.int64
    assert torch.tensor([True]).dtype == torch.bool
    assert torch.tensor(X).dtype == torch.float64
    assert torch.ones(2, 3).dtype == torch.float32 and torch.ones(2, 3).shape == (2, 3)
    assert torch.arange(3).dtype == torch.int64 and torch.arange(0, 1, 0.5).dtype == torch.float32
    assert torch.full((2,), 7).dtype == torch.int64


def test_integers_divide_to_float32():
    x = torch.tensor([1, 2])
    assert (x / 2).dtype == torch.float32 and (x * 0.5).dtype == torch.float32
    assert_allclose((x / 2).numpy(), [0.5, 1.0])
    assert (double([1.0]) * 0.5).dtype == torch.float64
    assert (torch.tensor([1.0]) * np.float64(0.5)).dtype == torch.float32


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: x.sum(dim=1), lambda x: x.sum(1)),
        (lambda x: torch.sum(x, 0, keepdim=True), lambda x: x.sum(0, keepdims=True)),
        (lambda x: x.mean(), lambda x: x.mean()),
        (lambda x: x.var(), lambda x: x.var(ddof=1)),
        (lambda x: x.var(1, unbiased=False), lambda x: x.var(1)),
        (lambda x: torch.std(x, dim=0), lambda x: x.std(0, ddof=1)),
        (lambda x: x.max(), lambda x: x.max()),
        (lambda x: x.max(dim=1).values, lambda x: x.max(1)),
        (lambda x: x.min(0)[1], lambda x: x.argmin(0)),
        (lambda x: torch.max(x, x * 2), lambda x: np.maximum(x, 2 * x)),
        (lambda x: x.argmax(dim=1, keepdim=True), lambda x: x.argmax(1)[:, None]),
        (lambda x: x.norm(), lambda x: np.sqrt((x * x).sum())),
        (lambda x: x.norm(dim=1), lambda x: np.sqrt((x * x).sum(1))),
        (lambda x: x.norm(p=1, dim=0), lambda x: abs(x).sum(0)),
        (lambda x: torch.logsumexp(x, dim=1), lambda x: np.log(np.exp(x).sum(1))),
        (lambda x: torch.softmax(x, dim=0), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
        (lambda x: x.t(), lambda x: x.T),
        (lambda x: x.transpose(0, 1), lambda x: x.T),
        (lambda x: x.permute(1, 0), lambda x: x.T),
        (lambda x: x.view(3, 2), lambda x: x.reshape(3, 2)),
        (lambda x: x.view(-1), lambda x: x.ravel()),
        (lambda x: x.unsqueeze(1).squeeze(1), lambda x: x),
        (lambda x: x.unsqueeze(-1), lambda x: x[..., None]),
        (lambda x: x[None].squeeze(), lambda x: x),
        (lambda x: x.flatten(), lambda x: x.ravel()),
        (lambda x: x[:, :1].expand(2, 4), lambda x: np.broadcast_to(x[:, :1], (2, 4))),
        (lambda x: x.repeat(2, 1), lambda x: np.tile(x, (2, 1))),
        (lambda x: torch.cat([x, x], dim=1), lambda x: np.concatenate([x, x], 1)),
        (lambda x: torch.stack([x, x], dim=1), lambda x: np.stack([x, x], 1)),
        (lambda x: torch.where(x > 0, x, 0.0), lambda x: np.where(x > 0, x, 0)),
        (lambda x: x.clamp(min=0.0), lambda x: np.maximum(x, 0)),
        (lambda x: x.masked_fill(x < 0, 9.0), lambda x: np.where(x < 0, 9, x)),
        (lambda x: x.gather(1, torch.tensor([[2], [0]])), lambda x: np.array([[2.0], [1.5]])),
        (lambda x: x.index_select(1, torch.tensor([2, 0])), lambda x: x[:, [2, 0]]),
        (lambda x: x.sort(dim=1, descending=True)[0], lambda x: -np.sort(-x, 1)),
        (lambda x: x.chunk(2, dim=1)[1], lambda x: x[:, 2:]),
        (lambda x: x.unbind(1)[2], lambda x: x[:, 2]),
        (lambda x: torch.matmul(x, x.t()), lambda x: x @ x.T),
        (lambda x: torch.mm(x, x.t()), lambda x: x @ x.T),
        (lambda x: torch.mv(x, x[0]), lambda x: x @ x[0]),
        (lambda x: torch.dot(x[0], x[1]), lambda x: x[0] @ x[1]),
        (lambda x: torch.outer(x[0], x[1]), lambda x: np.outer(x[0], x[1])),
        (lambda x: torch.einsum("ij,kj->ik", x, x), lambda x: x @ x.T),
        (lambda x: torch.tril(x), lambda x: np.tril(x)),
        (lambda x: x.pow(2).add(1).div(2), lambda x: (x**2 + 1) / 2),
        (lambda x: torch.rsqrt(x.abs() + 1), lambda x: 1 / np.sqrt(abs(x) + 1)),
        (lambda x: x.new_ones(2), lambda x: np.ones(2)),
        (lambda x: F.gelu(x) - F.gelu(x) + F.relu(x), lambda x: np.maximum(x, 0)),
        (lambda x: x.float().double(), lambda x: x),
    ],
)
def test_functions(ours, numpys):
    got, want = ours(double(X)), numpys(X)
    assert got.shape == np.shape(want)
    assert_allclose(got.numpy(), want, rtol=1e-12)


def test_all_dims():
    assert bool((double(X) < 3).all()) and not bool(torch.any(double(X) > 3))
    assert torch.equal(double(X), double(X)) and torch.allclose(double(X), double(X) + 1e-12)
    assert double(X).numel() == 6 and double(X).size(1) == 3 and double(X).dim() == 2


def test_rank_errors():
    with pytest.raises(RuntimeError, match="mm: wants 2-D and 2-D tensors, got 2-D and 1-D"):
        torch.mm(double(X), double(X[0]))


def test_numpy_of_a_tensor_that_requires_grad():
    x = double([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        x.numpy()
    assert_allclose(x.detach().numpy(), [1.0])


def test_zero_d_needs_no_seed_others_do():
    x = double([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(torch.ones_like(x))
    assert_allclose(x.grad.numpy(), [2.0, 2.0])


def test_leaf_in_place_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="in-place"):
        double([1.0], requires_grad=True).add_(1.0)


def test_unused_input_is_a_runtime_error():
    x, y = double(1.0, requires_grad=True), double(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(x * 2, [x, y])


def test_linear_is_out_by_in_of_float32():
    layer = nn.Linear(3, 2)
    assert layer.weight.shape == (2, 3) and layer.weight.dtype == torch.float32
    assert isinstance(layer.weight, nn.Parameter) and isinstance(layer, nn.Module)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def test_training_fits_xor():
    torch.manual_seed(3)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    net, criterion = Net(), nn.BCEWithLogitsLoss()
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    schedule = optim.lr_scheduler.StepLR(optimizer, 200, 0.5)
    for _ in range(300):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        schedule.step()
    assert loss.item() < 0.05
    with torch.no_grad():
        assert ((torch.sigmoid(net(x)) > 0.5) == (y > 0.5)).all()


def test_clip_grad_norm():
    w = double([3.0, 4.0], requires_grad=True)
    (w * w / 2).sum().backward()
    assert_allclose(nn.utils.clip_grad_norm_([w], 1.0).item(), 5.0)
    assert_allclose(w.grad.numpy(), [0.6, 0.8], rtol=1e-6)


def test_save_and_load_state():
    import pickle

    a, b = Net(), Net()
    b.load_state_dict(pickle.loads(pickle.dumps(a.state_dict())))
    x = torch.randn(5, 2)
    assert torch.equal(a(x), b(x))


def draws():
    torch.manual_seed(0)
    return [torch.rand(3), torch.randn(2, 2), torch.randint(0, 10, (4,)), torch.randperm(5), torch.normal(0.0, 1.0, 3)]


def test_random_makers():
    first, again = draws(), draws()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert sorted(first[3].tolist()) == [0, 1, 2, 3, 4]


def test_missing_parts_say_so():
    with pytest.raises(AttributeError, match="this part of PyTorch is not there"):
        torch.fft()


def test_set_grad_enabled():
    x = double(2.0, requires_grad=True)
    with torch.set_grad_enabled(False):
        assert not (x * x).requires_grad
    assert (x * x).requires_grad


def test_other_devices_are_refused():
    from symgrad import UnsupportedError

    with pytest.raises(UnsupportedError, match="cuda"):
        torch.ones(2, device="cuda")
    assert torch.ones(2).to("cpu").device == "cpu"
