"""The same small programs on PyTorch itself, where it is installed: values, gradients, flags and types of errors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad.compat.torch as ours

theirs = pytest.importorskip("torch")

A = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
B = np.array([[1.0, 0.5, -0.5], [2.0, -1.0, 0.25]])

# Each is run with T (the namespace), x and y (leaves made of A and B); what it leaves in ``out`` is compared, and the
# gradients of x and y.
VALUES = {
    "product": "(x * y + x / (y * y + 1)).sum().backward()",
    "powers": "(x**2 + (x * x + 1) ** 0.5 + 2.0**x).sum().backward()",
    "power of tensors": "((x * x + 1) ** y).sum().backward()",
    "elementary": "(T.exp(x) + T.sin(x) * T.cos(y) + T.tanh(x * y) + T.log(y * y + 1) + T.atan(x)).sum().backward()",
    "sigmoid and relu": "(T.sigmoid(x) * T.relu(y)).sum().backward()",
    "erf and log1p": "(T.erf(x) + T.log1p(y * y) + T.expm1(x)).sum().backward()",
    "abs and sign": "(T.abs(x) * T.sign(y)).sum().backward()",
    "matmul": "(x @ y.t()).pow(2).sum().backward()",
    "matrix and vector": "T.mv(x, y[0]).sum().backward()",
    "batched matmul": "T.bmm(x.view(2, 1, 3), y.view(2, 3, 1)).sum().backward()",
    "broadcast": "(x + y[0]).mul(y[:, :1]).sum().backward()",
    "mean and var": "(x.mean(dim=0) * x.var(dim=0)).sum().backward()",
    "std of all": "(x.std() + y.std(unbiased=False)).backward()",
    "max along a dim": "x.max(dim=1).values.sum().backward()",
    "amax and min": "(x.amax(dim=0) * y.min()).sum().backward()",
    "prod": "(x.prod(dim=1) + y.prod()).sum().backward()",
    "cumsum": "(x.cumsum(1) * y).sum().backward()",
    "cumprod": "(x.cumprod(1) * y).sum().backward()",
    "logsumexp": "(T.logsumexp(x, dim=1) * T.softmax(y, dim=1)[:, 0]).sum().backward()",
    "log_softmax": "(T.log_softmax(x, dim=0) * y).sum().backward()",
    "norm": "(x.norm() * y.norm(dim=1)).sum().backward()",
    "where": "T.where(x > 0, x * y, x - y).sum().backward()",
    "clamp": "(x.clamp(-0.6, 0.6) * y).sum().backward()",
    "masked_fill": "x.masked_fill(x < 0, 3.0).mul(y).sum().backward()",
    "cat and stack": "(T.cat([x, y], dim=1).sum(0)[1] + T.stack([x, y])[1, 0, 2] * x[0, 0]).backward()",
    "slices": "(x[:, 1:] * y[:, :-1]).sum().backward()",
    "steps": "(x[:, ::2] * 3 + y[0, 1]).sum().backward()",
    "index": "(x[:, T.tensor([0, 0, 2])] * y).sum().backward()",
    "boolean index": "(x[x > 0] ** 2).sum().backward()",
    "gather": "x.gather(1, T.tensor([[2, 0], [1, 1]])).sum().backward()",
    "permute": "(x.permute(1, 0) * y.t().contiguous()).sum().backward()",
    "expand": "(x[:, :1].expand(2, 3) * y).sum().backward()",
    "flatten": "(x.flatten() * T.arange(6)).sum().backward()",
    "unbind": "a, b = x.unbind(0); (a * b).sum().backward()",
    "chunk": "a, b = x.chunk(2, dim=1); (a.sum() * b).sum().backward()",
    "triu": "(T.triu(x) * y).sum().backward()",
    "einsum": "T.einsum('ij,kj->ik', x, y).pow(2).sum().backward()",
    "sort": "(x.sort(dim=1)[0] * T.tensor([1.0, 2.0, 3.0])).sum().backward()",
    "seed": "(x * y).backward(T.ones_like(x) * 2)",
    "several outputs": "T.autograd.backward([(x * y).sum(), x.pow(3).sum()])",
    "accumulation": "(x * y).sum().backward(); (x * x).sum().backward()",
    "retain_graph": "z = (x * y).sum(); z.backward(retain_graph=True); z.backward()",
    "detach": "(x.detach() * x * y).sum().backward()",
    "no_grad": "with T.no_grad():\n    z = x * y\n(z * x).sum().backward(); out = [z.requires_grad]",
    "hooks": "z = x * y; z.register_hook(lambda g: g * 3); z.register_hook(lambda g: g + 1); (z * z).sum().backward()",
    "hook on a leaf": "h = x.register_hook(lambda g: g * 2); (x * y).sum().backward(); h.remove(); x.sum().backward()",
    "retain_grad": "z = x * y; z.retain_grad(); (z * z).sum().backward(); out = [z.grad]",
    "grad": "out = T.autograd.grad((x * y).sum(), [x, y])",
    "unused allowed": "g = T.autograd.grad(x.sum(), [x, y], allow_unused=True); out = [g[0], g[1] is None]",
    "second order": "g, = T.autograd.grad((x**3 * y).sum(), x, create_graph=True); (g * g).sum().backward()",
    "third order": "g = (x**4).sum()\n"
    "for _ in range(3): g = T.autograd.grad(g.sum(), x, create_graph=True)[0]\nout = [g]",
    "grad of a product": "g, = T.autograd.grad((x * y).sum(), x, T.tensor(2.0).double()); out = [g]",
    "in place": "z = x * 2; z.mul_(y); z.add_(x); z.sum().backward()",
    "in place under a view": "z = x * 1; z[0].mul_(2.0); z[:, 1] = y[:, 0]; (z * z).sum().backward()",
    "in place transposed": "z = x * 1; z.t()[0].mul_(y[:, 1]); (z * z).sum().backward()",
    "item assignment": "z = T.zeros(2, 3).double(); z[0] = x[1]; z[1, :2] = y[0, 1:]; (z * z).sum().backward()",
    "augmented": "z = x * 1; z += y; z -= 0.5; z *= x; z /= 2.0; z.sum().backward()",
    "leaf in no_grad": "with T.no_grad():\n    x -= 0.5; x[0, 0] = 9.0\n(x * y).sum().backward(); out = [x.is_leaf]",
    "data": "x.data.mul_(2.0); (x * x * y).sum().backward()",
    "clone": "z = x.clone(); z.mul_(3); (z * x).sum().backward()",
    "grad is changed": "x.sum().backward(); x.grad[0, 0] = 7.0; x.grad.mul_(2); x.sum().backward()",
    "flags": "z = x * y; out = [x.is_leaf, z.is_leaf, z.requires_grad, z.detach().requires_grad, z.grad_fn is None]",
    "dtypes": "made = (T.tensor(1.0), T.tensor(1) / 2, T.tensor([1]) * 0.5, x > 0)\n"
    "out = [str(t.dtype).split('.')[-1] for t in made]",
    "integers": "out = [T.tensor([7, -7]) // 2, T.tensor([7, -7]) % 3, T.tensor([1, 2]).sum(), T.arange(4).max()]",
    "shapes": "out = [tuple(x.shape), x.size(1), x.numel(), x.dim(), tuple(x[None].squeeze(0).shape), len(x)]",
    "mse": "T.nn.MSELoss()(x, y).backward()",
    "l1": "T.nn.L1Loss(reduction='sum')(x, y).backward()",
    "smooth l1": "T.nn.SmoothL1Loss()(x, y).backward()",
    "cross entropy": "T.nn.CrossEntropyLoss()(x, T.tensor([2, 0])).backward()",
    "bce": "T.nn.BCELoss()(T.sigmoid(x), T.sigmoid(y).detach()).backward()",
    "bce with logits": "T.nn.BCEWithLogitsLoss()(x, T.sigmoid(y)).backward()",
    "nll": "T.nn.functional.nll_loss(T.log_softmax(x, 1), T.tensor([1, 1])).backward()",
    "activations": "F = T.nn.functional\n"
    "(F.gelu(x) + F.silu(y) + F.elu(x) + F.softplus(y) + F.leaky_relu(x)).sum().backward()",
    "linear": "T.nn.functional.linear(x, y, y[:, 0]).pow(2).sum().backward()",
    "sgd": "o = T.optim.SGD([x, y], lr=0.1)\nfor _ in range(3): o.zero_grad(); (x * x * y).sum().backward(); o.step()",
    "momentum": "o = T.optim.SGD([x], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)\n"
    "for _ in range(4): o.zero_grad(); (x**3).sum().backward(); o.step()\nout = [x]",
    "groups": "o = T.optim.SGD([{'params': [x]}, {'params': [y], 'lr': 0.5, 'momentum': 0.5}], lr=0.1)\n"
    "for _ in range(3): o.zero_grad(); (x * y).sum().backward(); o.step()\nout = [x, y]",
    "adam": "o = T.optim.Adam([x, y], lr=0.1, weight_decay=0.01)\n"
    "for _ in range(5): o.zero_grad(); (x * x * y).sum().backward(); o.step()\nout = [x, y]",
    "adamw": "o = T.optim.AdamW([x], lr=0.1, amsgrad=True)\n"
    "for _ in range(5): o.zero_grad(); (x**4).sum().backward(); o.step()\nout = [x]",
    "schedules": "o = T.optim.SGD([x], lr=1.0); s = T.optim.lr_scheduler.CosineAnnealingLR(o, 5, 0.1); out = []\n"
    "for _ in range(5): x.sum().backward(); o.step(); s.step(); out.append(o.param_groups[0]['lr'])",
    "clipped": "(x * y).sum().backward(); out = [T.nn.utils.clip_grad_norm_([x, y], 0.5)]",
    "a loop that looks": "z = x\nwhile z.norm() < 50: z = z * y.abs().max()\nz.sum().backward()",
}

ERRORS = {
    "seedless": "(x * y).backward()",
    "twice": "z = (x * y).sum(); z.backward(); z.backward()",
    "no gradient": "T.ones(1).backward()",
    "seed shape": "(x * y).backward(T.ones(5).double())",
    "unused": "T.autograd.grad(x.sum(), [x, y])",
    "leaf in place": "x.add_(1.0)",
    "leaf item": "x[0, 0] = 1.0",
    "view of a leaf": "x[0].mul_(2.0)",
    "integer": "T.tensor([1, 2], requires_grad=True)",
    "numpy": "x.numpy()",
    "hook": "x.detach().register_hook(print)",
    "hook shape": "x.register_hook(lambda g: g.sum()); x.sum().backward()",
    "no leaf": "T.optim.SGD([x * 2], lr=0.1)",
    "empty": "T.optim.SGD([], lr=0.1)",
    "negative rate": "T.optim.SGD([x], lr=-1.0)",
    "ambiguous": "bool(x > 0)",
    "length of a number": "len(x.sum())",
    "iteration over a number": "list(x.sum())",
    "rank": "T.mm(x, y[0])",
    "missing attribute": "T.nn.Linear(1, 1).nothing",
    "index": "x.detach()[5]",
    "bce shapes": "T.nn.BCELoss()(T.sigmoid(x), T.ones(2).double())",
    "requires_grad of a result": "z = x * 2; z.requires_grad = False",
}


def run(namespace, program):
    x, y = (namespace.tensor(a, dtype=namespace.float64, requires_grad=True) for a in (A, B))
    scope = {"T": namespace, "x": x, "y": y, "out": []}
    exec(program, scope)
    return [*scope["out"], scope["x"].grad, scope["y"].grad]


def plain(x):
    return np.asarray(x.detach().numpy() if hasattr(x, "detach") else x)


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    got, want = run(ours, VALUES[name]), run(theirs, VALUES[name])
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if w is None or isinstance(w, str):
            assert g == w
            continue
        assert plain(g).shape == plain(w).shape and plain(g).dtype == plain(w).dtype
        assert_allclose(plain(g), plain(w), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    with pytest.raises(Exception) as expected:
        run(theirs, ERRORS[name])
    with pytest.raises(expected.type):
        run(ours, ERRORS[name])
