"""Arguments and captured values: how each enters a trace, and what a later call must share to reuse the program.

Arrays and numbers are inputs of the program. Everything else is static: it is compared, and never an input.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import DTypeError
from symgrad.frontend.tree import register_leaf
from symgrad.ir.node import Node, param
from symgrad.ir.sizes import Sizes
from symgrad.ir.types import DTYPES, DType, Size, TensorType, boolean, dtype_of, f64, i64, size_named

Token = Hashable


@register_leaf
@dataclass(frozen=True, slots=True)
class Spec:
    """The type of an argument without a value: dtype, sizes that are numbers or names, and numbers given for names."""

    dtype: DType
    dims: tuple[int | str, ...] = ()
    values: tuple[tuple[str, int], ...] = ()


@register_leaf
@dataclass(frozen=True, slots=True)
class Static:
    """A value that is part of the program: told apart by equality and type."""

    value: Any

    def token(self) -> Token:
        return "static", type(self.value), self.value


def parse_spec(text: str) -> Spec:
    """``f64[n,3]`` or ``f64[n=1000]`` or ``f64`` as a Spec; ValueError tells what is wrong."""
    name, _, rest = text.replace(" ", "").partition("[")
    if name not in DTYPES:
        raise DTypeError(f"spec {text!r}: unknown dtype {name!r}; known are {', '.join(DTYPES)}")
    if not rest:
        return Spec(DTYPES[name])
    if not rest.endswith("]"):
        raise DTypeError(f"spec {text!r}: a bracket is not closed; write it as f64[n,3]")
    dims: list[int | str] = []
    values: list[tuple[str, int]] = []
    for part in filter(None, rest[:-1].split(",")):
        size, _, number = part.partition("=")
        if not (size.isdigit() or size.isidentifier()):
            raise DTypeError(f"spec {text!r}: {part!r} is not a length; write a number, a name, or name=number")
        dims.append(int(size) if size.isdigit() else size)
        if number:
            values.append((size, int(number)))
    return Spec(DTYPES[name], tuple(dims), tuple(values))


def as_spec(x: Any) -> Spec:
    """A spec from a string, a Spec, or anything with shape and dtype."""
    if isinstance(x, Spec):
        return x
    if isinstance(x, str):
        return parse_spec(x)
    if isinstance(x, bool | np.bool_):
        return Spec(boolean)
    if isinstance(x, int | float):
        return Spec(i64 if isinstance(x, int) else f64)
    return Spec(dtype_of(x.dtype), tuple(int(s) for s in x.shape))


STATIC_TYPES = (
    bool,
    enum.Enum,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    np.dtype,
    np.ufunc,
    slice,
    range,
)


def token(leaf: Any, path: str) -> Token:
    """What a leaf must share with another one to use the same program; errors name the argument by ``path``."""
    kind = type(leaf)
    if kind is np.ndarray:
        if leaf.dtype not in _KNOWN:
            _check(leaf.dtype, path)
        return "array", leaf.dtype, leaf.shape, tuple(s == 1 for s in leaf.shape)
    if kind is float or kind is int:
        if kind is int and not -(2**63) <= leaf < 2**63:
            raise DTypeError(
                f"argument {path} is {leaf}, which does not fit into 64 bits; pass it as a float or as static"
            )
        return kind.__name__
    if kind is Static:
        return leaf.token()  # type: ignore[no-any-return]  # Static
    if isinstance(leaf, np.generic):
        _check(leaf.dtype, path)
        return "scalar", leaf.dtype
    if isinstance(leaf, np.ndarray):
        return token(np.asarray(leaf), path)
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, STATIC_TYPES) or leaf is Ellipsis:
        return "static", kind, leaf
    if isinstance(leaf, str | bytes):
        raise DTypeError(
            f"argument {path} is a {kind.__name__}; name it in static_argnames to make it part of the program"
        )
    if isinstance(leaf, complex):
        raise DTypeError(f"argument {path} is complex, which this version does not support")
    if hasattr(leaf, "__array__"):
        return token(np.asarray(leaf), path)
    if callable(leaf):
        return "static", kind, id(leaf)
    raise DTypeError(
        f"argument {path} is a {kind.__name__}; wanted arrays, numbers, or dicts, lists, tuples and dataclasses of "
        "them. Name it in static_argnames to make it part of the program"
    )


_KNOWN = frozenset(d.numpy for d in DTYPES.values())


def _check(dtype: np.dtype[Any], path: str) -> None:
    """DTypeError for the dtypes that programs do not have."""
    try:
        dtype_of(dtype)
    except DTypeError as e:
        raise DTypeError(f"argument {path}: {e}") from None


def shapeless(t: Token) -> Token:
    """The token of an array without its lengths, but for those of one."""
    return (t[0], t[1], t[3]) if isinstance(t, tuple) and t[0] == "array" else t


def is_static(leaf: Any) -> bool:
    """Whether a leaf is part of the program instead of an input."""
    if isinstance(leaf, np.ndarray | np.generic | Spec) or type(leaf) in (int, float):
        return False
    return isinstance(leaf, (Static, str, bytes, *STATIC_TYPES)) or not hasattr(leaf, "__array__")


def is_callable_object(leaf: Any) -> bool:
    """Whether a static leaf is an object of the user's that can be called: what it reads of itself may change."""
    if isinstance(leaf, Static | Spec | np.ndarray | np.generic) or not callable(leaf):
        return False
    return not isinstance(leaf, STATIC_TYPES)


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a traced program: its parameter, and the names of its free lengths by axis."""

    param: Node
    weak: bool
    names: tuple[str | None, ...]


def enter(leaf: Any, sizes: Sizes, *, free: bool) -> Input:
    """A parameter for an array, number or Spec; with ``free``, every length but one is a named size."""
    if isinstance(leaf, Spec):
        return _enter_spec(leaf, sizes)
    if type(leaf) is float or type(leaf) is int:
        if type(leaf) is int and not -(2**63) <= leaf < 2**63:
            raise DTypeError(f"the integer {leaf} does not fit into 64 bits; pass it as a float or as static")
        return Input(param(TensorType(f64 if type(leaf) is float else i64)), True, ())
    array = np.asarray(leaf)
    names = tuple(f"n{len(sizes.hints) + k}" if free and s != 1 else None for k, s in enumerate(array.shape))
    dims: list[Size] = []
    for name, length in zip(names, array.shape, strict=True):
        dims.append(length if name is None else size_named(name))
    sizes.hints.update((n, s) for n, s in zip(names, array.shape, strict=True) if n is not None)
    return Input(param(TensorType(dtype_of(array.dtype), tuple(dims))), False, names)


def _enter_spec(spec: Spec, sizes: Sizes) -> Input:
    for name, number in spec.values:
        sizes.hints[name] = number
    dims: list[Size] = []
    for d in spec.dims:
        if isinstance(d, str):
            sizes.hints.setdefault(d, 1009 + 104 * len(sizes.hints))  # a stand-in: long, and unlike the others
        dims.append(size_named(d) if isinstance(d, str) else d)
    names = tuple(d if isinstance(d, str) else None for d in spec.dims)
    return Input(param(TensorType(spec.dtype, tuple(dims))), False, names)


def lengths(inputs: tuple[Input, ...], arrays: list[Any], into: dict[str, int]) -> Mapping[str, int] | None:
    """The lengths of named sizes in these arrays; None when one name would have two."""
    for i, a in zip(inputs, arrays, strict=True):
        if not i.names:
            continue
        for name, length in zip(i.names, np.shape(a), strict=True):
            if name is not None and into.setdefault(name, length) != length:
                return None
    return into
