"""Tensors: an imperative language on the same Graph, rules and compiler."""

from symgrad.tensor.functional import func as func
from symgrad.tensor.native import Tensor as Tensor
from symgrad.tensor.native import tensor as tensor
