"""Networks: modules, layers, losses and first values.

>>> import symgrad as sg
>>> net = sg.nn.Sequential(sg.nn.Linear(2, 3), sg.nn.Tanh(), sg.nn.Linear(3, 1))
>>> net(sg.tensor([[1.0, 2.0]])).shape
(1, 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.tensor.base import BaseTensor
from symgrad.tensor.native import Tensor
from symgrad.tensor.nn import functional as functional
from symgrad.tensor.nn import init as init
from symgrad.tensor.nn.layers import layer_classes
from symgrad.tensor.nn.module import BaseModule, Dialect, as_parameter


class Module(BaseModule):
    """A module of float64 parameters."""

    dialect = Dialect(Tensor, np.float64)


class _ParameterType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, BaseTensor) and x._parameter


class Parameter(metaclass=_ParameterType):
    """A tensor that a module counts among its parameters: ``Parameter(data)``."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> Any:
        new = data if isinstance(data, BaseTensor) else Tensor(data)
        return as_parameter(new, requires_grad)


_classes = layer_classes(Module, __name__)
Linear, Sequential, ModuleList = (_classes[n] for n in ("Linear", "Sequential", "ModuleList"))
Sigmoid, Tanh, ReLU, LeakyReLU = (_classes[n] for n in ("Sigmoid", "Tanh", "ReLU", "LeakyReLU"))
ELU, GELU, SiLU, Softplus = (_classes[n] for n in ("ELU", "GELU", "SiLU", "Softplus"))
Softmax, LogSoftmax, Dropout = (_classes[n] for n in ("Softmax", "LogSoftmax", "Dropout"))
Flatten, Identity = (_classes[n] for n in ("Flatten", "Identity"))
MSELoss, L1Loss, SmoothL1Loss, NLLLoss = (_classes[n] for n in ("MSELoss", "L1Loss", "SmoothL1Loss", "NLLLoss"))
BCELoss, BCEWithLogitsLoss, CrossEntropyLoss = (
    _classes[n] for n in ("BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss")
)
