"""Optimisers and learning-rate schedules."""

from symgrad.tensor.optim import schedules as lr_scheduler
from symgrad.tensor.optim.optimizer import BaseOptimizer as Optimizer
from symgrad.tensor.optim.rules import SGD as SGD
from symgrad.tensor.optim.rules import Adam as Adam
from symgrad.tensor.optim.rules import AdamW as AdamW

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
