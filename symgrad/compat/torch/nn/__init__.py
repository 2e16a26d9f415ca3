"""PyTorch's ``torch.nn``: float32 parameters, weights of shape (out, in)."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compat.torch.nn import functional as functional
from symgrad.compat.torch.nn import init as init
from symgrad.compat.torch.nn import utils as utils
from symgrad.compat.torch.tensor import Tensor
from symgrad.tensor.base import BaseTensor
from symgrad.tensor.nn.layers import layer_classes
from symgrad.tensor.nn.module import BaseModule, Dialect, as_parameter


class Module(BaseModule):
    """A module of PyTorch's tensors."""

    dialect = Dialect(Tensor, np.float32)


class _ParameterType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, BaseTensor) and x._parameter


class Parameter(metaclass=_ParameterType):
    """A tensor that a module counts among its parameters: ``Parameter(tensor)``."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> Any:
        return as_parameter(data if isinstance(data, BaseTensor) else Tensor(data), requires_grad)


globals().update(_classes := layer_classes(Module, __name__))

__all__ = ["Module", "Parameter", "functional", "init", "utils"]
__all__ += list(_classes)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"symgrad.compat.torch.nn has no {name!r}: this part of PyTorch is not there")
