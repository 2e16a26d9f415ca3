"""Paddle's ``paddle.nn``: float32 parameters, weights of shape (in, out)."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compat.paddle.nn import functional as functional
from symgrad.compat.paddle.nn import initializer as initializer
from symgrad.compat.paddle.tensor import Tensor
from symgrad.tensor.nn.layers import layer_classes
from symgrad.tensor.nn.module import BaseModule, Dialect


class Layer(BaseModule):
    """A module of Paddle's tensors."""

    dialect = Dialect(Tensor, np.float32, by_columns=True, xavier=True)

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        return [p for _, p in self.named_parameters()]

    def sublayers(self, include_self: bool = False) -> list[Any]:
        return list(self.modules())[0 if include_self else 1 :]

    def add_sublayer(self, name: str, sublayer: Any) -> Any:
        self.add_module(name, sublayer)
        return sublayer

    def create_parameter(
        self, shape: Any, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None
    ) -> Any:
        """A parameter: zeros for a bias, else Xavier's uniform values, unless an initializer is given."""
        p = self.dialect.parameter(np.zeros([int(s) for s in shape], dtype or self.dialect.dtype))
        chosen = default_initializer or (None if is_bias else initializer.XavierUniform())
        if chosen is not None:
            chosen(p)
        return p

    def clear_gradients(self) -> None:
        for p in self.parameters():
            p.clear_gradient()

    def register_forward_post_hook(self, hook: Any) -> Any:
        return self.register_forward_hook(hook)


globals().update(_classes := layer_classes(Layer, __name__))

__all__ = ["Layer", "functional", "initializer"]
__all__ += list(_classes)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"symgrad.compat.paddle.nn has no {name!r}: this part of Paddle is not there")
