"""PyTorch's names: ``import symgrad.compat.torch as torch``."""

from __future__ import annotations

from typing import Any

from symgrad.compat.torch import autograd as autograd
from symgrad.compat.torch import nn as nn
from symgrad.compat.torch import optim as optim
from symgrad.compat.torch.creation import (
    arange,
    as_tensor,
    bernoulli,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    get_default_dtype,
    linspace,
    manual_seed,
    normal,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    set_default_dtype,
    tensor,
    zeros,
    zeros_like,
)  # fmt: skip
from symgrad.compat.torch.functions import *  # noqa: F403  # every function of tensors, listed there
from symgrad.compat.torch.functions import __all__ as _functions
from symgrad.compat.torch.tensor import (
    Size,
    Tensor,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip
from symgrad.tensor.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

double, float, long, int = float64, float32, int64, int32
bool = bool_

__all__ = [
    "Size", "Tensor", "arange", "as_tensor", "autograd", "bernoulli", "bool", "double", "empty", "empty_like",
    "enable_grad", "eye", "float", "float32", "float64", "from_dlpack", "from_numpy", "full", "full_like",
    "get_default_dtype", "int", "int8", "int16", "int32", "int64", "is_grad_enabled", "linspace", "long", "manual_seed",
    "nn", "no_grad", "normal", "ones", "ones_like", "optim", "rand", "rand_like", "randint", "randn", "randn_like",
    "randperm", "set_default_dtype", "set_grad_enabled", "tensor", "uint8", "zeros", "zeros_like",
]  # fmt: skip
__all__ += _functions


def __getattr__(name: str) -> Any:
    raise AttributeError(f"symgrad.compat.torch has no {name!r}: this part of PyTorch is not there")
