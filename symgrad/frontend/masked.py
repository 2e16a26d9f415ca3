"""``x[mask]`` for a traced mask: the full array and the mask, for the selection whose length only the run knows.

Elementwise work is done on the full array and keeps the mask; folds over the selection leave out what the mask leaves
out. Anything that needs the length itself is unsupported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.lines import located
from symgrad.frontend.tracing import FUNCTIONS, call

_WAY_OUT = "use np.where(mask, x, 0) to keep the full shape"
_ELEMENTWISE = (np.clip, np.where, np.round, np.around, np.nan_to_num, np.real, np.isclose, np.sinc, np.heaviside)


class Masked:
    """The elements of ``value`` where ``mask``, which covers its leading axes, holds: an array with one axis for them."""

    __slots__ = ("mask", "value")
    __hash__ = None  # type: ignore[assignment]  # as of arrays
    __array_priority__ = 1002.0

    def __init__(self, value: Any, mask: Any) -> None:
        self.value = value
        self.mask = mask

    @property
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return int(self.value.ndim) - int(self.mask.ndim) + 1

    @property
    def size(self) -> Any:
        """The number of selected elements, a traced integer."""
        count = FUNCTIONS[np.sum](self.mask)
        for s in self.value.shape[self.mask.ndim :]:
            count = count * s
        return count

    @property
    def shape(self) -> Any:
        raise no_length("shape")

    def __len__(self) -> int:
        raise no_length("len")

    def __iter__(self) -> Any:
        raise no_length("iteration")

    def __bool__(self) -> bool:
        raise no_length("bool")

    def __getitem__(self, key: Any) -> Any:
        if not (isinstance(key, tuple) and key[:1] == (slice(None),) and self.value.ndim > self.mask.ndim):
            raise no_length("indexing")
        inner = (slice(None),) * self.mask.ndim + key[1:]
        return Masked(self.value[inner], self.mask)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise no_length("conversion to an array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        fold = _UFUNC_FOLDS.get(ufunc) if method == "reduce" else None
        if fold is not None:
            return call(FOLDS[fold], self, axis=keywords.pop("axis", 0), **keywords)
        if method != "__call__" or ufunc.signature is not None or keywords.get("out") is not None:
            raise no_length(f"np.{ufunc.__name__}")
        return FUNCTIONS["ufunc"](ufunc, method, *inputs, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if function in FOLDS and args and type(args[0]) is Masked:
            return call(FOLDS[function], *args, **keywords)
        if function not in _ELEMENTWISE:
            raise no_length(f"np.{function.__name__}")
        return call(lift_masked, lambda *full: FUNCTIONS[function](*full, **keywords), *args)

    def sum(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.sum], self, axis, **keywords)

    def mean(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.mean], self, axis, **keywords)

    def prod(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.prod], self, axis, **keywords)

    def max(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.max], self, axis, **keywords)

    def min(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.min], self, axis, **keywords)

    def any(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.any], self, axis, **keywords)

    def all(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.all], self, axis, **keywords)

    def var(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.var], self, axis, **keywords)

    def std(self, axis: Any = None, **keywords: Any) -> Any:
        return call(FOLDS[np.std], self, axis, **keywords)

    def astype(self, dtype: Any) -> Masked:
        return Masked(self.value.astype(dtype), self.mask)

    def copy(self) -> Masked:
        return Masked(self.value.copy(), self.mask)

    def clip(self, *bounds: Any, **keywords: Any) -> Any:
        return call(lift_masked, lambda *full: FUNCTIONS[np.clip](*full, **keywords), self, *bounds)

    def __matmul__(self, other: Any) -> Any:
        if type(other) is not Masked or self.ndim > 1 or other.ndim > 1:
            raise no_length("@")
        return (self * other).sum()

    def __abs__(self) -> Any:
        return _apply("absolute", self)

    def __neg__(self) -> Any:
        return _apply("negative", self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return _apply("invert", self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        raise no_length(name)

    def __repr__(self) -> str:
        return f"Traced {self.value.node.dtype}[a selection]"


def no_length(what: str) -> UnsupportedError:
    return located(UnsupportedError(f"{what}: the length of a selection by a traced mask is not known; {_WAY_OUT}"))


def lift_masked(function: Callable[..., Any], *xs: Any) -> Any:
    """``function`` of the full arrays behind selections, as a selection; plainly ``function(*xs)`` when there is none."""
    selections = [x for x in xs if type(x) is Masked]
    if not selections:
        return function(*xs)
    first = selections[0]
    trailing = first.value.ndim - first.mask.ndim
    for x in xs:
        if type(x) is Masked:
            if x.mask.node is not first.mask.node:
                raise no_length("two selections by different masks")
        elif dimensions(x) > trailing:
            raise no_length("a selection with an array")
    return Masked(function(*(x.value if type(x) is Masked else x for x in xs)), first.mask)


def dimensions(x: Any) -> int:
    """np.ndim, which NumPy's protocols would send back to us."""
    return int(x.ndim) if hasattr(type(x), "ndim") else np.ndim(x)


def _apply(name: str, *xs: Any) -> Any:
    return call(lift_masked, lambda *full: FUNCTIONS["operator"](name, *full), *xs)


def _operator(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Masked, other: Any) -> Any:
        return _apply(name, *((other, self) if swapped else (self, other)))

    return method


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
for _short, _name in _BINARY.items():
    setattr(Masked, f"__{_short}__", _operator(_name, False))
    setattr(Masked, f"__r{_short}__", _operator(_name, True))
for _short, _name in _COMPARISONS.items():
    setattr(Masked, f"__{_short}__", _operator(_name, False))


# --- folds -----------------------------------------------------------------------------------------------------------


def _axes(x: Masked, axis: Any) -> tuple[int, ...] | None:
    """Axes of the full array for an axis of the selection."""
    if axis is None:
        return None
    n = x.mask.ndim
    axes = {int(a) % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))}
    if 0 not in axes:
        raise no_length("a fold that keeps the selected axis")
    return (*range(n), *(n - 1 + a for a in sorted(axes) if a))


def _fold(function: Any, neutral: Callable[[Any], Any]) -> Callable[..., Any]:
    def fold(x: Masked, axis: Any = None, **keywords: Any) -> Any:
        if keywords.pop("keepdims", None):
            raise no_length("keepdims")
        return FUNCTIONS[function](filled(x, neutral(x.dtype)), axis=_axes(x, axis), **keywords)

    return fold


def filled(x: Masked, fill: Any) -> Any:
    """The full array with ``fill`` where nothing is selected."""
    mask = x.mask
    for _ in range(x.value.ndim - mask.ndim):
        mask = FUNCTIONS[np.expand_dims](mask, -1)
    return FUNCTIONS[np.where](mask, x.value, fill)


def _end(dtype: Any, lowest: bool) -> Any:
    if dtype.kind == "b":
        return not lowest
    if dtype.kind == "f":
        return dtype.type(-np.inf if lowest else np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.min if lowest else info.max)


def _count(x: Masked, axis: Any) -> Any:
    """How many elements a fold is over."""
    if axis is None:
        return x.size
    count = FUNCTIONS[np.sum](x.mask)
    for k in (_axes(x, axis) or ())[x.mask.ndim :]:
        count = count * x.value.shape[k]
    return count


def _mean(x: Masked, axis: Any = None, **keywords: Any) -> Any:
    return FOLDS[np.sum](x, axis, **keywords) / _count(x, axis)


def _var(x: Masked, axis: Any = None, *, ddof: Any = 0, **keywords: Any) -> Any:
    deviation = x - _mean(x, axis, **keywords)
    return FOLDS[np.sum](deviation * deviation, axis, **keywords) / (_count(x, axis) - ddof)


def _std(x: Masked, axis: Any = None, **keywords: Any) -> Any:
    return FUNCTIONS[np.sqrt](_var(x, axis, **keywords))


def _count_nonzero(x: Masked, axis: Any = None, **keywords: Any) -> Any:
    return FOLDS[np.sum](x != 0, axis, **keywords)


FOLDS: dict[Any, Callable[..., Any]] = {
    np.sum: _fold(np.sum, lambda d: d.type(0)),
    np.prod: _fold(np.prod, lambda d: d.type(1)),
    np.max: _fold(np.max, lambda d: _end(d, True)),
    np.min: _fold(np.min, lambda d: _end(d, False)),
    np.any: _fold(np.any, lambda d: d.type(0)),
    np.all: _fold(np.all, lambda d: d.type(1)),
    np.mean: _mean,
    np.var: _var,
    np.std: _std,
    np.count_nonzero: _count_nonzero,
    np.size: lambda x: x.size,
}
_UFUNC_FOLDS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
