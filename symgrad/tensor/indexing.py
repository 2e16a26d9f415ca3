"""Items of tensors: views for integers and slices, selections by index arrays and masks, and assignment into them.

The elements that a mask selects are counted when it is read, so a mask becomes positions; other keys are part of the
recorded operation, and index arrays are inputs of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.frontend.tracing import FUNCTIONS, tracing
from symgrad.tensor.base import BaseTensor, View, apply
from symgrad.tensor.modes import MODE
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.values import Value

_BASIC = (int, slice, type(None), type(Ellipsis))


def normal(key: Any) -> tuple[Any, list[Any]]:
    """A key with slots for its index arrays, and these arrays."""
    items = key if isinstance(key, tuple) else (key,)
    fixed: list[Any] = []
    arrays: list[Any] = []
    for item in items:
        if isinstance(item, bool | np.bool_):
            raise TypeError("a bool is not an index of a tensor: use x[None] or an array of bools")
        if isinstance(item, BaseTensor | np.ndarray | list | range):
            known = item if isinstance(item, BaseTensor) else np.asarray(item)
            if known.dtype.kind == "b":
                positions = np.nonzero(np.asarray(known))
                fixed += [SLOT] * len(positions)
                arrays += positions
            else:
                fixed.append(SLOT)
                arrays.append(known.astype(np.int64) if isinstance(known, np.ndarray) else known)
        elif isinstance(item, slice):
            fixed.append(slice(*(None if part is None else part.__index__() for part in _parts(item))))
        else:
            fixed.append(item if item is None or item is Ellipsis else item.__index__())
    return tuple(fixed), arrays


def _parts(item: slice) -> tuple[Any, Any, Any]:
    return item.start, item.stop, item.step


def getitem(x: BaseTensor, key: Any) -> BaseTensor:
    """``x[key]``: a view for integers and slices, else a copy."""
    fixed, arrays = normal(key)
    now = x._value_now()
    if now.array is not None and not (x._edge is not None and MODE.enabled) and not tracing():
        return _sliced(x, fixed, arrays)
    if not arrays:
        return x._view_of(bound(_read, (SLOT, fixed), {}), bound(_written, (SLOT, fixed, SLOT), {}))
    return apply(bound(_read, (SLOT, fixed), {}), (x, *arrays))[0]


def _sliced(x: BaseTensor, fixed: Any, arrays: list[Any]) -> BaseTensor:
    """Items of an array that is there: taken at once, so that another key makes no other program."""
    rest = iter([np.asarray(a) for a in arrays])
    taken = np.asarray(x._value.array)[tuple(next(rest) if part is SLOT else part for part in fixed)]
    out = type(x)._make(Value(taken))
    if not arrays:
        root = x if x._view is None else x._view.root
        read, write = bound(_read, (SLOT, fixed), {}), bound(_written, (SLOT, fixed, SLOT), {})
        out._view, out._seen = View(x, root, read, write), root._version
    return out


def setitem(x: BaseTensor, key: Any, new: Any) -> None:
    """``x[key] = new``."""
    fixed, arrays = normal(key)
    x._update(apply(bound(_written, (SLOT, fixed, SLOT), {}), (x, *arrays, new), type(x))[0])


def _read(x: Any, key: Any) -> Any:
    return FUNCTIONS["getitem"](x, key if len(key) != 1 else key[0])


def _written(x: Any, key: Any, new: Any) -> Any:
    out = x.copy()
    FUNCTIONS["setitem"](out, key if len(key) != 1 else key[0], new)
    return out
