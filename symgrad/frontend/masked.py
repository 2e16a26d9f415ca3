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
from symgrad.frontend.tracing import FUNCTIONS, REDUCTIONS, call

_WAY_OUT = "use np.where(mask, x, 0) to keep the full shape"
_ELEMENTWISE = (np.clip, np.where, np.round, np.around, np.nan_to_num, np.real, np.isclose, np.sinc, np.heaviside)


class Masked:
    """The elements of ``value`` where ``mask``, on its leading axes, holds: an array with one axis for them."""

    __slots__ = ("mask", "value")
    __hash__ = None  # type: ignore[assignment]  # as of arrays
    __array_priority__ = 1002.0

    def __init__(self, value: Any, mask: Any) -> None:
        self.value = value
        self.mask = mask

    @property  # type: ignore[misc]  # a disguise, as that of traced arrays
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
        if method == "reduce" and ufunc in REDUCTIONS:
            return call(_fold, REDUCTIONS[ufunc], self, **{"axis": 0, **keywords})
        if method != "__call__" or ufunc.signature is not None or keywords.get("out") is not None:
            raise no_length(f"np.{ufunc.__name__}")
        return FUNCTIONS["ufunc"](ufunc, method, *inputs, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if function in _FOLDS and args and type(args[0]) is Masked:
            return call(_fold, function, *args, **keywords)
        if function in (np.size, np.ndim):
            return self.size if function is np.size else self.ndim
        if function not in _ELEMENTWISE:
            raise no_length(f"np.{function.__name__}")
        return call(lift_masked, lambda *full: FUNCTIONS[function](*full, **keywords), *args)

    def ptp(self, axis: Any = None) -> Any:
        return self.max(axis) - self.min(axis)

    def astype(self, dtype: Any) -> Masked:
        return Masked(self.value.astype(dtype), self.mask)

    def copy(self) -> Masked:
        return Masked(self.value.copy(), self.mask)

    def clip(self, *bounds: Any, **keywords: Any) -> Any:
        return call(lift_masked, lambda *full: FUNCTIONS[np.clip](*full, **keywords), self, *bounds)

    def __matmul__(self, other: Any) -> Any:
        if type(other) is not Masked or self.ndim > 1 or other.ndim > 1:
            raise no_length("@")
        return _apply("multiply", self, other).sum()

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
    """``function`` of the full arrays behind selections, as a selection; plainly ``function(*xs)`` without any."""
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
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
for _short, _name in _BINARY.items():
    setattr(Masked, f"__{_short}__", _operator(_name, False))
    setattr(Masked, f"__r{_short}__", _operator(_name, True))
for _short, _name in _COMPARISONS.items():
    setattr(Masked, f"__{_short}__", _operator(_name, False))


# --- folds -----------------------------------------------------------------------------------------------------------


def _fold(function: Any, x: Masked, *args: Any, **keywords: Any) -> Any:
    """A fold over the selected axis, and perhaps others."""
    axis = args[0] if args else keywords.get("axis")
    several = axis if isinstance(axis, tuple | list) else (axis,)
    if axis is not None and 0 not in (int(a) % x.ndim for a in several):
        raise no_length("a fold that keeps the selected axis")
    fill = _FILLS.get(function)
    if fill is not None:
        return FUNCTIONS[function](_one_axis(filled(x, fill(x.dtype)), x.mask.ndim), *args, **keywords)
    where = _one_axis(aligned(x.mask, x.value.ndim), x.mask.ndim)
    return FUNCTIONS[function](_one_axis(x.value, x.mask.ndim), *args, **{"where": where, **keywords})


def _one_axis(full: Any, axes: int) -> Any:
    """An array with its first ``axes`` axes as one."""
    return full if axes == 1 else FUNCTIONS[np.reshape](full, (-1, *full.shape[axes:]))


def aligned(mask: Any, ndim: int) -> Any:
    """A mask of leading axes with unit axes for the rest."""
    for _ in range(ndim - mask.ndim):
        mask = FUNCTIONS[np.expand_dims](mask, -1)
    return mask


def filled(x: Masked, fill: Any) -> Any:
    """The full array with ``fill`` where nothing is selected."""
    return FUNCTIONS[np.where](aligned(x.mask, x.value.ndim), x.value, fill)


def _end(dtype: Any, lowest: bool) -> Any:
    """The neutral element of max or min."""
    if dtype.kind == "b":
        return not lowest
    if dtype.kind == "f":
        return dtype.type(-np.inf if lowest else np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.min if lowest else info.max)


_FILLS: dict[Any, Callable[[Any], Any]] = {
    np.max: lambda d: _end(d, True),
    np.min: lambda d: _end(d, False),
    np.nanmax: lambda d: _end(d, True),
    np.nanmin: lambda d: _end(d, False),
    np.count_nonzero: lambda d: d.type(0),
    np.linalg.norm: lambda d: d.type(0),
}
_FOLDS = {
    np.sum,
    np.prod,
    np.any,
    np.all,
    np.mean,
    np.var,
    np.std,
    np.nansum,
    np.nanprod,
    np.nanmean,
    np.nanvar,
    np.nanstd,
    *_FILLS,
}


def _method(function: Any) -> Callable[..., Any]:
    def method(self: Masked, *args: Any, **keywords: Any) -> Any:
        return call(_fold, function, self, *args, **keywords)

    return method


for _name in ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std"):
    setattr(Masked, _name, _method(getattr(np, _name)))
