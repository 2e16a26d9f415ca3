"""Paddle's names: ``import symgrad.compat.paddle as paddle``."""

from __future__ import annotations

from typing import Any

from symgrad.compat.paddle import autograd as autograd
from symgrad.compat.paddle import nn as nn
from symgrad.compat.paddle import optimizer as optimizer
from symgrad.compat.paddle.autograd import grad as grad
from symgrad.compat.paddle.creation import (
    arange,
    bernoulli,
    empty,
    eye,
    full,
    full_like,
    get_default_dtype,
    linspace,
    normal,
    ones,
    ones_like,
    rand,
    randint,
    randn,
    randperm,
    seed,
    set_default_dtype,
    to_tensor,
    uniform,
    zeros,
    zeros_like,
)  # fmt: skip
from symgrad.compat.paddle.functions import *  # noqa: F403  # every function of tensors, listed there
from symgrad.compat.paddle.functions import __all__ as _functions
from symgrad.compat.paddle.tensor import (
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

bool = bool_

__all__ = [
    "Tensor", "arange", "autograd", "bernoulli", "bool", "empty", "enable_grad", "eye", "float32", "float64", "full",
    "full_like", "get_default_dtype", "grad", "int8", "int16", "int32", "int64", "is_grad_enabled", "linspace", "nn",
    "no_grad", "normal", "ones", "ones_like", "optimizer", "rand", "randint", "randn", "randperm", "seed",
    "set_default_dtype", "set_grad_enabled", "to_tensor", "uint8", "uniform", "zeros", "zeros_like",
]  # fmt: skip
__all__ += _functions


def __getattr__(name: str) -> Any:
    raise AttributeError(f"symgrad.compat.paddle has no {name!r}: this part of Paddle is not there")
