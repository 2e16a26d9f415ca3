"""PyTorch's ``torch.autograd``."""

from symgrad.tensor.autograd import (
    Function,
    backward,
    cache_info,
    enable_grad,
    grad,
    no_grad,
    set_grad_enabled,
)

__all__ = ["Function", "backward", "cache_info", "enable_grad", "grad", "no_grad", "set_grad_enabled"]
