"""PyTorch's ``torch.optim``."""

from symgrad.compat.torch.optim import lr_scheduler as lr_scheduler
from symgrad.tensor.optim import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
