"""PyTorch's ``torch.nn.utils``."""

from symgrad.tensor.common import clip_grad_norm_

__all__ = ["clip_grad_norm_"]
