"""Optimisers against their recurrences in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg

START = np.array([1.0, -2.0, 0.5])


def gradient(p):
    return 2 * p + np.cos(p)


def run(make, steps=6):
    w = sg.tensor(START, requires_grad=True)
    optimizer = make([w])
    for _ in range(steps):
        optimizer.zero_grad()
        (w * w + np.sin(w)).sum().backward()
        optimizer.step()
    return w.numpy()


def sgd(steps=6, lr=0.1, momentum=0.0, dampening=0.0, decay=0.0, nesterov=False):
    p, b = START.copy(), None
    for _ in range(steps):
        g = gradient(p) + decay * p
        b = g if b is None else momentum * b + (1 - dampening) * g
        p = p - lr * (g + momentum * b if nesterov else b if momentum else g)
    return p


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.8, "nesterov": True},
        {"weight_decay": 0.1, "momentum": 0.5},
    ],
)
def test_sgd(options):
    got = run(lambda p: sg.optim.SGD(p, lr=0.1, **options))
    want = {("decay" if k == "weight_decay" else k): v for k, v in options.items()}
    assert_allclose(got, sgd(**want), rtol=1e-13)


def adam(steps=6, lr=0.1, b1=0.9, b2=0.999, eps=1e-8, decay=0.0, decoupled=False, amsgrad=False):
    p, m, v, top = START.copy(), 0.0, 0.0, 0.0
    for t in range(1, steps + 1):
        g = gradient(p)
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        top = np.maximum(top, v)
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt((top if amsgrad else v) / (1 - b2**t)) + eps)
    return p


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"amsgrad": True}])
def test_adam(options):
    got = run(lambda p: sg.optim.Adam(p, lr=0.1, **options))
    assert_allclose(got, adam(decay=options.get("weight_decay", 0.0), amsgrad="amsgrad" in options), rtol=1e-12)


def test_adamw():
    got = run(lambda p: sg.optim.AdamW(p, lr=0.1, weight_decay=0.05))
    assert_allclose(got, adam(decay=0.05, decoupled=True), rtol=1e-12)


def test_maximize():
    down = run(lambda p: sg.optim.SGD(p, lr=0.1), steps=1)
    up = run(lambda p: sg.optim.SGD(p, lr=0.1, maximize=True), steps=1)
    assert_allclose(up - START, START - down, rtol=1e-13)


def test_groups_have_options_of_their_own():
    a, b = sg.tensor([1.0], requires_grad=True), sg.tensor([1.0], requires_grad=True)
    optimizer = sg.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    (a * 3.0 + b * 3.0).sum().backward()
    optimizer.step()
    assert_allclose([a.item(), b.item()], [0.7, -0.5])


def test_parameter_without_gradient_stays():
    a, b = sg.tensor([1.0], requires_grad=True), sg.tensor([1.0], requires_grad=True)
    optimizer = sg.optim.Adam([a, b], lr=0.1)
    (a * 3.0).sum().backward()
    optimizer.step()
    assert b.item() == 1.0 and a.item() != 1.0


def test_closure():
    w = sg.tensor([1.0], requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert w.item() == 0.5


def test_state_is_saved_and_loaded():
    whole = run(lambda p: sg.optim.Adam(p, lr=0.1), steps=6)
    w = sg.tensor(run(lambda p: sg.optim.Adam(p, lr=0.1), steps=3), requires_grad=True)
    first = sg.tensor(START, requires_grad=True)
    source, optimizer = sg.optim.Adam([first], lr=0.1), sg.optim.Adam([w], lr=0.7)
    for opt, p in [(source, first)] * 3:
        opt.zero_grad()
        (p * p + np.sin(p)).sum().backward()
        opt.step()
    optimizer.load_state_dict(source.state_dict())
    for _ in range(3):
        optimizer.zero_grad()
        (w * w + np.sin(w)).sum().backward()
        optimizer.step()
    assert_allclose(w.numpy(), whole, rtol=1e-13)


def test_errors():
    w = sg.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="an empty list"):
        sg.optim.SGD([])
    with pytest.raises(ValueError, match="lr must not be negative"):
        sg.optim.SGD([w], lr=-1.0)
    with pytest.raises(ValueError, match="leaves only"):
        sg.optim.SGD([w * 2.0])
    with pytest.raises(ValueError, match="in two groups"):
        sg.optim.SGD([{"params": [w]}, {"params": [w]}])
    with pytest.raises(ValueError, match="nesterov needs a momentum"):
        sg.optim.SGD([w], nesterov=True)
    with pytest.raises(TypeError, match="takes tensors, got float"):
        sg.optim.SGD([1.0])


def rates(make, epochs):
    optimizer = sg.optim.SGD([sg.tensor([1.0], requires_grad=True)], lr=0.8)
    schedule = make(optimizer)
    out = []
    for _ in range(epochs):
        out.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    return out


def test_schedules():
    lr = sg.optim.lr_scheduler
    assert_allclose(rates(lambda o: lr.StepLR(o, 2, gamma=0.5), 5), [0.8, 0.8, 0.4, 0.4, 0.2])
    assert_allclose(rates(lambda o: lr.ExponentialLR(o, 0.5), 3), [0.8, 0.4, 0.2])
    assert_allclose(rates(lambda o: lr.LambdaLR(o, lambda k: 1 / (1 + k)), 3), [0.8, 0.4, 0.8 / 3])
    cosine = rates(lambda o: lr.CosineAnnealingLR(o, 4, eta_min=0.2), 5)
    assert_allclose(cosine, 0.2 + 0.3 * (1 + np.cos(np.pi * np.arange(5) / 4)))


def test_new_learning_rates_compile_nothing():
    w = sg.tensor([1.0], requires_grad=True)
    optimizer = sg.optim.Adam([w], lr=0.1)
    counts = []
    for k in range(8):
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        counts.append(sg.autograd.cache_info().misses)
    assert counts[3] == counts[-1]
