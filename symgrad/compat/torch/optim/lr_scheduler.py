"""PyTorch's ``torch.optim.lr_scheduler``."""

from symgrad.tensor.optim.schedules import CosineAnnealingLR, ExponentialLR, LambdaLR, StepLR

__all__ = ["CosineAnnealingLR", "ExponentialLR", "LambdaLR", "StepLR"]
