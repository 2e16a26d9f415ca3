"""Learning rates that change from epoch to epoch: call ``step()`` after each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Schedule(ABC):
    """Sets the learning rate of each group of an optimizer as a factor of what it was first."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    @abstractmethod
    def rate(self, base: float, epoch: int) -> float:
        """The learning rate at an epoch, counted from 0."""

    def step(self) -> None:
        """Begin the next epoch."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.rate(base, self.last_epoch)

    def get_last_lr(self) -> list[float]:
        return [float(g["lr"]) for g in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._set()


class StepLR(Schedule):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int) -> float:
        return base * self.gamma ** (epoch // self.step_size)


class ExponentialLR(Schedule):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Any, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int) -> float:
        return base * self.gamma**epoch


class CosineAnnealingLR(Schedule):
    """Half a cosine from the first rate down to ``eta_min`` in ``T_max`` epochs, and on periodically."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class LambdaLR(Schedule):
    """Times a function of the epoch."""

    def __init__(self, optimizer: Any, lr_lambda: Callable[[int], float]) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int) -> float:
        return base * self.lr_lambda(epoch)
