"""Layers and losses, for any dialect: its own classes combine these with its ``Module``."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from symgrad.tensor.nn import functional as F
from symgrad.tensor.nn.module import BaseModule
from symgrad.tensor.random import generator


class LinearLayer(BaseModule):
    """An affine map of the last axis."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        dialect, dtype = self.dialect, dtype or self.dialect.dtype
        shape = (in_features, out_features) if dialect.by_columns else (out_features, in_features)
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        wide = math.sqrt(6 / (in_features + out_features)) if dialect.xavier else bound
        self.weight = dialect.parameter(generator().uniform(-wide, wide, shape).astype(dtype))
        low = 0.0 if dialect.xavier else bound
        start = generator().uniform(-low, low, (out_features,)) if bias else None
        self.register_parameter("bias", None if start is None else dialect.parameter(start.astype(dtype)))

    def forward(self, x: Any) -> Any:
        apply = F.linear_by_columns if self.dialect.by_columns else F.linear
        return apply(x, self._parameters["weight"], self._parameters["bias"])

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class SigmoidLayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.sigmoid(x)


class TanhLayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.tanh(x)


class ReLULayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.relu(x)


class LeakyReLULayer(BaseModule):
    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        return F.leaky_relu(x, self.negative_slope)


class ELULayer(BaseModule):
    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Any) -> Any:
        return F.elu(x, self.alpha)


class GELULayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.gelu(x)


class SiLULayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.silu(x)


class SoftplusLayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return F.softplus(x)


class SoftmaxLayer(BaseModule):
    def __init__(self, dim: int | None = None, axis: int = -1) -> None:
        super().__init__()
        self.dim = axis if dim is None else dim

    def forward(self, x: Any) -> Any:
        return F.softmax(x, self.dim)


class LogSoftmaxLayer(BaseModule):
    def __init__(self, dim: int | None = None, axis: int = -1) -> None:
        super().__init__()
        self.dim = axis if dim is None else dim

    def forward(self, x: Any) -> Any:
        return F.log_softmax(x, self.dim)


class DropoutLayer(BaseModule):
    """Zeros a share of the elements while training."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is a probability, got {p}")
        self.p = p

    def forward(self, x: Any) -> Any:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class FlattenLayer(BaseModule):
    """All axes but the first as one."""

    def forward(self, x: Any) -> Any:
        return x.reshape(x._dims[0], -1)


class IdentityLayer(BaseModule):
    def forward(self, x: Any) -> Any:
        return x


class SequentialLayer(BaseModule):
    """Modules one after the other."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        given = modules[0].items() if len(modules) == 1 and isinstance(modules[0], OrderedDict) else enumerate(modules)
        for name, module in given:
            self.add_module(str(name), module)

    def forward(self, x: Any) -> Any:
        for module in self._modules.values():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, k: Any) -> Any:
        modules = list(self._modules.values())
        return type(self)(*modules[k]) if isinstance(k, slice) else modules[k]

    def append(self, module: Any) -> Any:
        self.add_module(str(len(self)), module)
        return self


class ModuleListLayer(BaseModule):
    """A list of modules."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Any) -> Any:
        self.add_module(str(len(self)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, k: Any) -> Any:
        modules = list(self._modules.values())
        return type(self)(modules[k]) if isinstance(k, slice) else modules[k]


# --- losses ----------------------------------------------------------------------------------------------------------


class LossLayer(BaseModule):
    """A loss with its way of reduction: ``"mean"``, ``"sum"`` or ``"none"``."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class MSELossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.mse_loss(x, target, self.reduction)


class L1LossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.l1_loss(x, target, self.reduction)


class SmoothL1LossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.smooth_l1_loss(x, target, self.reduction)


class BCELossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.binary_cross_entropy(x, target, self.reduction)


class BCEWithLogitsLossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x, target, self.reduction)


class CrossEntropyLossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.cross_entropy(x, target, self.reduction)


class NLLLossLayer(LossLayer):
    def forward(self, x: Any, target: Any) -> Any:
        return F.nll_loss(x, target, self.reduction)


LAYERS: dict[str, type[BaseModule]] = {
    c.__name__.removesuffix("Layer"): c
    for c in (
        LinearLayer, SigmoidLayer, TanhLayer, ReLULayer, LeakyReLULayer, ELULayer, GELULayer, SiLULayer, SoftplusLayer,
        SoftmaxLayer, LogSoftmaxLayer, DropoutLayer, FlattenLayer, IdentityLayer, SequentialLayer, ModuleListLayer,
        MSELossLayer, L1LossLayer, SmoothL1LossLayer, BCELossLayer, BCEWithLogitsLossLayer, CrossEntropyLossLayer,
        NLLLossLayer,
    )
}  # fmt: skip


def layer_classes(module: type[BaseModule], where: str) -> dict[str, Any]:
    """Every layer as a class of a dialect, whose modules derive from ``module``."""
    return {
        name: type(name, (c, module), {"__module__": where, "__doc__": c.__doc__, "__qualname__": name})
        for name, c in LAYERS.items()
    }
