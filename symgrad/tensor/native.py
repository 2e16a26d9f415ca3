"""The tensor of symgrad's own language: NumPy's methods, dtypes and conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, final

import numpy as np

from symgrad.frontend.tracing import FUNCTIONS
from symgrad.tensor import methods, operators  # noqa: F401  # they fill in the base class
from symgrad.tensor.base import BaseTensor, as_value, call
from symgrad.tensor.operations import SLOT, bound


def _numpy(function: Any) -> Callable[..., Any]:
    meaning = FUNCTIONS[function]

    def method(self: BaseTensor, *args: Any, **keywords: Any) -> Any:
        return call(meaning, (self, *args), keywords, type(self))

    method.__name__ = function.__name__
    return method


def reshaped(x: BaseTensor, shape: tuple[int, ...]) -> Any:
    """The same elements in another shape, as a view."""
    return x._view_of(bound(FUNCTIONS[np.reshape], (SLOT, shape), {}), bound(_as_shape_of, (SLOT, SLOT), {}))


def transposed(x: BaseTensor, axes: tuple[int, ...]) -> Any:
    """The axes in another order, as a view."""
    back = tuple(int(k) for k in np.argsort(axes))
    read = bound(FUNCTIONS[np.transpose], (SLOT, axes), {})
    return x._view_of(read, bound(_transposed_back, (SLOT, SLOT, back), {}))


def _as_shape_of(base: Any, new: Any) -> Any:
    return new.reshape(base.shape)


def _transposed_back(base: Any, new: Any, back: tuple[int, ...]) -> Any:
    return new.transpose(back)


def several_sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as one tuple or as several numbers."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
    return tuple(int(s) for s in given)


class Shaped(BaseTensor):
    """Views that every dialect has."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        return reshaped(self, several_sizes(shape))  # type: ignore[no-any-return]  # of this class

    @property
    def T(self) -> Self:
        return transposed(self, tuple(reversed(range(self.ndim))))  # type: ignore[no-any-return]  # of this class

    @property
    def mT(self) -> Self:
        axes = tuple(range(self.ndim))
        return transposed(self, (*axes[:-2], axes[-1], axes[-2]))  # type: ignore[no-any-return]  # of this class


@final
class Tensor(Shaped):
    """An array that records what is done to it, for gradients; operations and methods are NumPy's."""

    __slots__ = ()

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        made = as_value(data._array() if isinstance(data, BaseTensor) else data, dtype)
        self._value, self._edge, self._grad, self._view, self._version = made, None, None, None, 0
        self._parameter = False
        self._require(requires_grad)

    @property
    def size(self) -> int:
        return int(np.prod(self._dims))

    def numpy(self) -> Any:
        """The values as a NumPy array of its own."""
        return np.array(self._array())

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add the gradients of this scalar, or of its product with ``gradient``, to the leaves."""
        from symgrad.tensor.autograd import backward  # it needs this class

        backward([self], [gradient], retain_graph=retain_graph)

    def clear_grad(self) -> None:
        """Forget the gradient."""
        self._grad = None

    zero_grad = clear_grad

    def to(self, dtype: Any) -> Self:
        """The elements as another dtype."""
        return self.astype(dtype)  # type: ignore[attr-defined, no-any-return]  # entered by ``methods``

    def transpose(self, *axes: Any) -> Self:
        order = several_sizes(axes) if axes else tuple(reversed(range(self.ndim)))
        return transposed(self, tuple(a % self.ndim for a in order))  # type: ignore[no-any-return]  # of this class

    def flatten(self) -> Any:
        return self.reshape(-1).clone()

    def copy(self) -> Self:
        return self.clone()

    sum, prod, mean, std, var = map(_numpy, (np.sum, np.prod, np.mean, np.std, np.var))
    max, min, argmax, argmin = map(_numpy, (np.max, np.min, np.argmax, np.argmin))
    all, any, cumsum, cumprod, argsort = map(_numpy, (np.all, np.any, np.cumsum, np.cumprod, np.argsort))
    dot, clip, round, repeat, take = map(_numpy, (np.dot, np.clip, np.round, np.repeat, np.take))
    diagonal, trace, squeeze, swapaxes, ravel = map(_numpy, (np.diagonal, np.trace, np.squeeze, np.swapaxes, np.ravel))


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of ``data``, anything NumPy takes for an array; the dtype is NumPy's unless given.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return Tensor(data, dtype, requires_grad)
