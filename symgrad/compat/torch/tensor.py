"""PyTorch's tensor: dims, views and conventions as its programs expect them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self, final

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.tensor import autograd, common
from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.native import Shaped, several_sizes
from symgrad.tensor.nn import functional as F
from symgrad.tensor.random import generator

Dtype = np.dtype[Any]
bool_, int8, int16, int32, int64 = map(np.dtype, ("bool", "int8", "int16", "int32", "int64"))
uint8, float32, float64 = map(np.dtype, ("uint8", "float32", "float64"))


class Extreme(NamedTuple):
    """The extreme elements along a dim, and where they are."""

    values: Any
    indices: Any


def _extreme(name: str) -> Callable[..., Any]:
    all_of, where = getattr(common, f"a{name}"), getattr(common, f"arg{name}")
    of_two = getattr(common, f"{name}imum")

    def method(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, BaseTensor):
            return of_two(self, dim)
        if dim is None:
            return all_of(self)
        at = where(self, dim, True)
        values = common.gather(self, dim, at)
        return Extreme(values, at) if keepdim else Extreme(common.squeeze(values, dim), common.squeeze(at, dim))

    method.__name__ = name
    return method


class Size(tuple[int, ...]):
    """The lengths of a tensor."""

    def numel(self) -> int:
        return int(np.prod(self))


@final
class Tensor(Shaped):
    """An array that records what is done to it, with PyTorch's methods."""

    __slots__ = ()
    _narrow = True

    def __init__(self, data: Any = ()) -> None:
        self._value = as_value(data, np.float32)
        self._edge = self._grad = self._view = None
        self._version, self._parameter = 0, False

    @property
    def shape(self) -> Size:
        return Size(self._dims)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self._dims[dim]

    def dim(self) -> int:
        return self.ndim

    def numpy(self, *, force: bool = False) -> Any:
        """The values as a NumPy array of its own."""
        if self.requires_grad and not force:
            raise RuntimeError("numpy() of a tensor that requires grad: call detach().numpy()")
        return np.array(self._array())

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add gradients to the leaves."""
        autograd.backward([self], [gradient], retain_graph, create_graph, inputs)

    # --- dtypes and places ---

    def to(self, *args: Any, dtype: Any = None, **keywords: Any) -> Self:
        """The elements as another dtype; the only device is the processor."""
        for a in args:
            if isinstance(a, BaseTensor):
                dtype = a.dtype
            elif isinstance(a, str):
                on_processor(a)
            elif not isinstance(a, bool):
                dtype = a
        return self if dtype is None else self.type(dtype)

    def type(self, dtype: Any) -> Self:
        return self.astype(dtype)  # type: ignore[attr-defined, no-any-return]  # entered by ``methods``

    def type_as(self, other: Any) -> Self:
        return self.type(other.dtype)

    def double(self) -> Self:
        return self.type(float64)

    def float(self) -> Self:
        return self.type(float32)

    def long(self) -> Self:
        return self.type(int64)

    def int(self) -> Self:
        return self.type(int32)

    def bool(self) -> Self:
        return self.type(bool_)

    def cpu(self) -> Self:
        return self

    def cuda(self, *args: Any, **keywords: Any) -> Self:
        raise UnsupportedError("tensors live in the memory of the processor: leave cuda() out")

    @property
    def device(self) -> str:
        return "cpu"

    def is_floating_point(self) -> Any:
        return self.dtype.kind == "f"

    def contiguous(self) -> Self:
        return self

    # --- shapes ---

    def view(self, *shape: Any) -> Self:
        return self.reshape(*shape)

    def view_as(self, other: Any) -> Self:
        return self.reshape(other._dims)

    def expand_as(self, other: Any) -> Any:
        return common.expand(self, other._dims)

    def repeat(self, *repeats: Any) -> Any:
        return common.tile(self, *repeats)

    def new_zeros(self, *size: Any) -> Self:
        return self._like(np.zeros(several_sizes(size)))

    def new_ones(self, *size: Any) -> Self:
        return self._like(np.ones(several_sizes(size)))

    def new_tensor(self, data: Any) -> Self:
        return self._like(data)

    def _like(self, data: Any) -> Self:
        return common.made(Tensor, np.asarray(data, self.dtype))  # type: ignore[no-any-return]  # of this class

    # --- in place ---

    def uniform_(self, low: Any = 0.0, high: Any = 1.0) -> Self:
        return self._update(self._like(generator().uniform(low, high, self._dims)))

    def normal_(self, mean: Any = 0.0, std: Any = 1.0) -> Self:
        return self._update(self._like(generator().normal(mean, std, self._dims)))

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        return self._update(common.masked_fill(self, mask, value))

    max, min = _extreme("max"), _extreme("min")
    transpose = common.swap


METHODS = (
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "argsort", "bmm", "chunk", "cumprod", "cumsum",
    "diag", "dot", "expand", "flatten", "gather", "index_select", "logsumexp", "masked_fill", "matmul", "maximum",
    "mean", "minimum", "mm", "mv", "norm", "numel", "outer", "permute", "prod", "sort", "split", "squeeze", "std",
    "sum", "t", "tril", "triu", "unbind", "unsqueeze", "var",
)  # fmt: skip
for _name in METHODS:
    setattr(Tensor, _name, getattr(common, _name))
for _name in ("softmax", "log_softmax"):
    setattr(Tensor, _name, getattr(F, _name))


def on_processor(device: Any) -> None:
    """UnsupportedError for any other place."""
    if device is not None and not str(device).startswith("cpu"):
        raise UnsupportedError(f"device {device!r}: tensors live in the memory of the processor")
