"""symgrad: plain NumPy in, one fused native gradient out.

>>> import numpy as np, symgrad as sg
>>> sg.grad(lambda x: np.sum(np.sin(x) * x))(np.array([0.0, 1.0]))
array([0.        , 1.38177329])
"""

from symgrad.api import checkpoint as checkpoint
from symgrad.api import cond as cond
from symgrad.api import custom_jvp as custom_jvp
from symgrad.api import custom_vjp as custom_vjp
from symgrad.api import fori_loop as fori_loop
from symgrad.api import grad as grad
from symgrad.api import hessian as hessian
from symgrad.api import hvp as hvp
from symgrad.api import jacfwd as jacfwd
from symgrad.api import jacobian as jacobian
from symgrad.api import jacrev as jacrev
from symgrad.api import jit as jit
from symgrad.api import jvp as jvp
from symgrad.api import scan as scan
from symgrad.api import stop_gradient as stop_gradient
from symgrad.api import switch as switch
from symgrad.api import value_and_grad as value_and_grad
from symgrad.api import vjp as vjp
from symgrad.api import vmap as vmap
from symgrad.api import while_loop as while_loop
from symgrad.errors import DTypeError as DTypeError
from symgrad.errors import ExportError as ExportError
from symgrad.errors import ShapeError as ShapeError
from symgrad.errors import SymgradError as SymgradError
from symgrad.errors import TraceError as TraceError
from symgrad.errors import UnsupportedError as UnsupportedError
from symgrad.tensor import Tensor as Tensor
from symgrad.tensor import autograd as autograd
from symgrad.tensor import func as func
from symgrad.tensor import nn as nn
from symgrad.tensor import optim as optim
from symgrad.tensor import random as random
from symgrad.tensor import tensor as tensor

__version__ = "0.1.0"
