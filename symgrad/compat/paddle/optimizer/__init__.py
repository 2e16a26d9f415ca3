"""Paddle's ``paddle.optimizer``."""

from __future__ import annotations

from typing import Any

from symgrad.compat.paddle.optimizer import lr as lr
from symgrad.tensor.optim import rules
from symgrad.tensor.optim.optimizer import BaseOptimizer


class Optimizer:
    """Paddle's spelling of an optimiser: a learning rate, or a schedule of it, and a list of parameters."""

    def __init__(self, inner: BaseOptimizer, learning_rate: Any) -> None:
        self._inner = inner
        self._learning_rate = learning_rate

    def step(self) -> None:
        """Change the parameters by their gradients."""
        for group in self._inner.param_groups:
            group["lr"] = self.get_lr() * group.get("learning_rate", 1.0)
        self._inner.step()

    def minimize(self, loss: Any) -> None:
        """``backward`` and ``step``."""
        loss.backward()
        self.step()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        self._inner.zero_grad(set_to_none=not set_to_zero)

    def get_lr(self) -> float:
        rate = self._learning_rate
        return float(rate.last_lr if isinstance(rate, lr.LRScheduler) else rate)

    def set_lr(self, value: float) -> None:
        if isinstance(self._learning_rate, lr.LRScheduler):
            raise RuntimeError("set_lr: the learning rate follows a schedule")
        self._learning_rate = value

    def state_dict(self) -> dict[str, Any]:
        return self._inner.state_dict()

    def set_state_dict(self, state: dict[str, Any]) -> None:
        self._inner.load_state_dict(state)


def _decay(weight_decay: Any) -> float:
    return 0.0 if weight_decay is None else float(weight_decay)


class SGD(Optimizer):
    """Gradient descent."""

    def __init__(self, learning_rate: Any = 0.001, parameters: Any = None, weight_decay: Any = None) -> None:
        super().__init__(rules.SGD(parameters, weight_decay=_decay(weight_decay)), learning_rate)


class Momentum(Optimizer):
    """Gradient descent with momentum."""

    def __init__(
        self, learning_rate: Any = 0.001, momentum: float = 0.9, parameters: Any = None, use_nesterov: bool = False,
        weight_decay: Any = None,
    ) -> None:  # fmt: skip
        inner = rules.SGD(parameters, momentum=momentum, nesterov=use_nesterov, weight_decay=_decay(weight_decay))
        super().__init__(inner, learning_rate)


class Adam(Optimizer):
    """Steps of the size of the learning rate."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: Any = None,
    ) -> None:  # fmt: skip
        inner = rules.Adam(parameters, betas=(beta1, beta2), eps=epsilon, weight_decay=_decay(weight_decay))
        super().__init__(inner, learning_rate)


class AdamW(Optimizer):
    """Adam whose weight decay acts on the parameters."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: float = 0.01,
    ) -> None:  # fmt: skip
        inner = rules.AdamW(parameters, betas=(beta1, beta2), eps=epsilon, weight_decay=weight_decay)
        super().__init__(inner, learning_rate)
