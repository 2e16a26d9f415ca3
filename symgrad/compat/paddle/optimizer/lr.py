"""Paddle's ``paddle.optimizer.lr``: learning rates that change from epoch to epoch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod


class LRScheduler(ABC):
    """A learning rate for each epoch; ``step()`` begins the next one."""

    def __init__(self, learning_rate: float) -> None:
        self.base_lr = learning_rate
        self.last_epoch = 0
        self.last_lr = self.get_lr()

    @abstractmethod
    def get_lr(self) -> float:
        """The rate at ``last_epoch``."""

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()


class StepDecay(LRScheduler):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(self, learning_rate: float, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


class ExponentialDecay(LRScheduler):
    """Times ``gamma`` every epoch."""

    def __init__(self, learning_rate: float, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma**self.last_epoch)


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from the first rate down to ``eta_min`` in ``T_max`` epochs, and on periodically."""

    def __init__(self, learning_rate: float, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        wave = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * wave
