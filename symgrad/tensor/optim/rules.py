"""Optimisers: gradient descent with momentum, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.frontend.tracing import FUNCTIONS
from symgrad.tensor.base import BaseTensor
from symgrad.tensor.optim.optimizer import BaseOptimizer, update


class SGD(BaseOptimizer):
    """Gradient descent: ``p -= lr * g``, with momentum and weight decay."""

    def __init__(
        self, params: Any, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(f"SGD: {name} must not be negative, got {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        options = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, options)

    def _step(self, group: dict[str, Any], params: Sequence[BaseTensor]) -> None:
        momentum = group["momentum"] != 0
        kept = [self.of(p).get("momentum_buffer") for p in params] if momentum else [None] * len(params)
        flags = (
            tuple(b is not None for b in kept), momentum, bool(group["nesterov"]), group["weight_decay"] != 0,
            bool(group["maximize"]),
        )  # fmt: skip
        operands: list[Any] = []
        for p, b in zip(params, kept, strict=True):
            operands += [p, p._grad] if b is None else [p, p._grad, b]
        operands.append(float(group["lr"]))
        if momentum:
            operands += [float(group["momentum"]), float(group["dampening"])]
        if group["weight_decay"] != 0:
            operands.append(float(group["weight_decay"]))
        outs = update(_sgd, flags, params, operands, int(momentum))
        for k, p in enumerate(params if momentum else ()):
            self.of(p)["momentum_buffer"] = type(p)._make(outs[2 * k + 1])


def _sgd(flags: Any, *operands: Any) -> tuple[Any, ...]:
    with_buffer, momentum, nesterov, decayed, maximize = flags
    numbers = iter(operands[2 * len(with_buffer) + sum(with_buffer) :])
    rate = next(numbers)
    mu, dampening = (next(numbers), next(numbers)) if momentum else (0.0, 0.0)
    decay = next(numbers) if decayed else 0.0
    rest = iter(operands)
    outs: list[Any] = []
    for has_buffer in with_buffer:
        p, g = next(rest), next(rest)
        g = -g if maximize else g
        g = g + decay * p if decayed else g
        if not momentum:
            outs.append(p - rate * g)
            continue
        b = mu * next(rest) + (1 - dampening) * g if has_buffer else g
        outs += [p - rate * (g + mu * b if nesterov else b), b]
    return tuple(outs)


class Adam(BaseOptimizer):
    """Steps of the size of the learning rate, by running means of the gradient and of its square."""

    decoupled = False

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(f"{type(self).__name__}: {name} must not be negative, got {value}")
        if not all(0 <= b < 1 for b in betas):
            raise ValueError(f"{type(self).__name__}: betas lie in [0, 1), got {betas}")
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, options)

    def _step(self, group: dict[str, Any], params: Sequence[BaseTensor]) -> None:
        ages: dict[int, list[BaseTensor]] = {}
        for p in params:
            ages.setdefault(self.of(p).get("step", 0), []).append(p)
        for age, alike in ages.items():
            self._step_of_age(group, alike, age + 1)

    def _step_of_age(self, group: dict[str, Any], params: Sequence[BaseTensor], age: int) -> None:
        amsgrad = bool(group["amsgrad"])
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 2 + amsgrad]
        flags = (len(params), age > 1, amsgrad, self.decoupled, group["weight_decay"] != 0, bool(group["maximize"]))
        operands: list[Any] = []
        for p in params:
            operands += [p, p._grad, *(self.of(p)[n] for n in names if age > 1)]
        one, two = group["betas"]
        numbers = (group["lr"], one, two, group["eps"], group["weight_decay"], 1 - one**age, 1 - two**age)
        outs = update(_adam, flags, params, [*operands, *map(float, numbers)], len(names))
        for k, p in enumerate(params):
            states = map(type(p)._make, outs[k * (1 + len(names)) + 1 : (k + 1) * (1 + len(names))])
            self.of(p).update(zip(names, states, strict=True), step=age)


def _adam(flags: Any, *operands: Any) -> tuple[Any, ...]:
    count, old, amsgrad, decoupled, decayed, maximize = flags
    *tensors, rate, one, two, eps, decay, so_far, so_far_squared = operands
    sqrt, maximum = FUNCTIONS[np.sqrt], FUNCTIONS[np.maximum]
    rest = iter(tensors)
    outs: list[Any] = []
    for _ in range(count):
        p, g = next(rest), next(rest)
        m, v, top = (next(rest), next(rest), next(rest) if amsgrad else None) if old else (0.0, 0.0, 0.0)
        g = -g if maximize else g
        if decayed and decoupled:
            p = p - rate * decay * p
        elif decayed:
            g = g + decay * p
        m = one * m + (1 - one) * g
        v = two * v + (1 - two) * (g * g)
        top = maximum(top, v) if amsgrad else v
        step = rate / so_far * m / (sqrt(top / so_far_squared) + eps)
        outs += [p - step, m, v] if not amsgrad else [p - step, m, v, top]
    return tuple(outs)


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not through the gradient."""

    decoupled = True

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
