"""Types of values: dtypes, sizes that may be symbols, tensor types; promotion and broadcasting.

A size is an ``int`` or a ``Dim``: a polynomial with integer coefficients in named sizes and floor quotients.
Constant polynomials are always plain ``int``, so equal sizes are equal objects. What a trace had to assume
about symbolic sizes (that two agree, that one is at least one) is kept as guards in ``symgrad.ir.sizes``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from symgrad.errors import DTypeError, ShapeError


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. ``kind`` is ``f`` (float), ``i`` (signed), ``u`` (unsigned) or ``b`` (bool)."""

    name: str
    kind: str
    bytes: int

    @property
    def numpy(self) -> np.dtype[np.generic]:
        return _NUMPY[self.name]

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


f64, f32 = DType("f64", "f", 8), DType("f32", "f", 4)
i64, i32, i16, i8 = (DType(f"i{8 * n}", "i", n) for n in (8, 4, 2, 1))
u64, u32, u16, u8 = (DType(f"u{8 * n}", "u", n) for n in (8, 4, 2, 1))
boolean = DType("bool", "b", 1)

DTYPES: dict[str, DType] = {d.name: d for d in (f64, f32, i64, i32, i16, i8, u64, u32, u16, u8, boolean)}
_NUMPY: dict[str, np.dtype[np.generic]] = {
    d.name: np.dtype(bool) if d is boolean else np.dtype(f"{d.kind}{d.bytes}") for d in DTYPES.values()
}
_BY_NUMPY = {v: DTYPES[k] for k, v in _NUMPY.items()}


def dtype_of(dtype: DTypeLike) -> DType:
    """The DType of a NumPy dtype in any byte order; DTypeError for complex, object, string and other kinds."""
    native = np.dtype(dtype).newbyteorder("=")
    if native not in _BY_NUMPY:
        raise DTypeError(f"dtype {native} is not supported; supported are {', '.join(DTYPES)}")
    return _BY_NUMPY[native]


def promote(*dtypes: DType) -> DType:
    """NumPy's promotion of strong dtypes."""
    return dtype_of(functools.reduce(np.promote_types, (d.numpy for d in dtypes)))


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """``num // den``, an opaque factor of a polynomial."""

    num: Size
    den: Size

    def __str__(self) -> str:
        return f"(({self.num})//{_factor(self.den)})"


Atom = str | FloorDiv
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Dim:
    """A non-constant polynomial in sizes; terms are sorted, coefficients are not zero."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Size) -> Size:
        return _polynomial([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        products = ((_sorted(m + n), a * b) for m, a in self.terms for n, b in _terms(other))
        return _polynomial(products)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        if other == 1:
            return self
        exact = _divide(self, other)
        return exact if exact is not None else Dim((((FloorDiv(self, other),), 1),))

    def __rfloordiv__(self, other: int) -> Size:
        return Dim((((FloorDiv(other, self),), 1),)) if other else 0

    def __str__(self) -> str:
        text = ""
        for monomial, c in self.terms:
            names = "*".join(str(a) for a in monomial)
            body = str(abs(c)) if not names else names if abs(c) == 1 else f"{abs(c)}*{names}"
            text += (("-" if c < 0 else "") if not text else " - " if c < 0 else " + ") + body
        return text

    def __repr__(self) -> str:
        return str(self)


Size = int | Dim
Shape = tuple[Size, ...]


def size_named(name: str) -> Dim:
    return Dim((((name,), 1),))


def _sorted(monomial: Monomial) -> Monomial:
    return tuple(sorted(monomial, key=str))


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Dim):
        return size.terms
    return (((), int(size)),) if size else ()


def _polynomial(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for m, c in terms:
        total[m] = total.get(m, 0) + c
    kept = tuple(sorted(((m, c) for m, c in total.items() if c), key=lambda t: (-len(t[0]), str(t[0]))))
    if not kept:
        return 0
    return kept[0][1] if len(kept) == 1 and not kept[0][0] else Dim(kept)


def _divide(size: Dim, other: Size) -> Size | None:
    """The exact quotient by a monomial or an equal polynomial, else None."""
    if size == other:
        return 1
    divisor = _terms(other)
    if len(divisor) != 1:
        return None
    (names, c), out = divisor[0], []
    for m, k in size.terms:
        rest = list(m)
        for a in names:
            if a not in rest:
                return None
            rest.remove(a)
        if k % c:
            return None
        out.append((tuple(rest), k // c))
    return _polynomial(out)


def _factor(size: Size) -> str:
    return f"({size})" if isinstance(size, Dim) and len(size.terms) > 1 else str(size)


def map_size(size: Size, atom: Callable[[str], Size]) -> Size:
    """Rebuild ``size`` with every name replaced by ``atom(name)``."""
    if not isinstance(size, Dim):
        return size
    total: Size = 0
    for monomial, c in size.terms:
        product: Size = c
        for a in monomial:
            product = product * (
                atom(a) if isinstance(a, str) else _floordiv(map_size(a.num, atom), map_size(a.den, atom))
            )
        total = total + product
    return total


def _floordiv(a: Size, b: Size) -> Size:
    return a // b if b != 0 else 0


def evaluate_size(size: Size, values: Mapping[str, int]) -> int:
    """The number a size stands for. KeyError names a size that has no value."""
    out = map_size(size, lambda name: values[name])
    assert isinstance(out, int)
    return out


def size_names(size: Size) -> set[str]:
    if not isinstance(size, Dim):
        return set()
    names: set[str] = set()
    for monomial, _ in size.terms:
        for a in monomial:
            names |= {a} if isinstance(a, str) else size_names(a.num) | size_names(a.den)
    return names


def product(sizes: Iterable[Size]) -> Size:
    out: Size = 1
    for s in sizes:
        out = out * s
    return out


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of one array value: dtype and shape."""

    dtype: DType
    shape: Shape = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: Iterable[Size]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__


def check_axis(axis: int, ndim: int, what: str) -> int:
    """A non-negative axis. ShapeError when it is out of range."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{what}: axis {axis} is out of range for an array of {ndim} dimension{'s' * (ndim != 1)}")
    return axis % ndim
