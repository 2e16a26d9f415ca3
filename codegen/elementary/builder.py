"""A builder of straight-line code over one float type, the integers of its width and bools, with value numbering.

Operations: ``+ - * /``, fma, sqrt, abs, copysign, comparisons, select, bit casts and ``+ - & | ^ << >>`` on integers
(shifts are logical). Each is one or two vector instructions on every target. NaN travels through arithmetic; a clamp
written as a select keeps it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Literal

from symgrad.codegen.elementary.coefficients import COEFFICIENTS
from symgrad.codegen.elementary.constants import LN2, PI, rounded, split

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """``operation`` on earlier results. ``value`` is a constant's, an argument's number or a rare function's name."""

    operation: str
    kind: Kind
    operands: tuple[int, ...] = ()
    value: float | int | str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """Instructions in order, and the places of the results among them."""

    bits: int
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]


class Precision:
    """The numbers of a float format that the bodies need. ``magic`` added to a float rounds it to an integer."""

    def __init__(self, bits: int) -> None:
        wide = bits == 64
        self.bits = bits
        self.mantissa = 52 if wide else 23
        self.digits = self.mantissa + 1
        self.bias = 1023 if wide else 127
        self.magic = 1.5 * 2.0**self.mantissa
        self.big = 2.0**self.mantissa
        self.one = self.bias << self.mantissa
        self.sign = 1 << (bits - 1)
        self.mask = (1 << self.mantissa) - 1
        self.tiny = 2.0 ** (1 - self.bias)
        self.per_ln2 = rounded(1 / LN2, self.digits)
        # The first part has enough trailing zeros for its products with exponents to be exact.
        self.short = self.digits - (12 if wide else 9)
        self.ln2h, self.ln2l = split(LN2, self.short, self.digits)
        self.half_pi = split(PI / 2, self.digits, self.digits, self.digits)
        self.pi = split(PI, self.digits, self.digits)
        self.per_half_pi = rounded(2 / PI, self.digits)
        self.root_half = self.bits_of(rounded(Fraction(isqrt(1 << 399), 1 << 200), self.digits))
        self.turn_limit = 2.0**30 if wide else 2.0**17
        self.exp_high, self.exp_low = (710.0, -746.0) if wide else (89.0, -104.0)

    def bits_of(self, x: float) -> int:
        wide = self.bits == 64
        return int(struct.unpack("<Q" if wide else "<I", struct.pack("<d" if wide else "<f", x))[0])


PRECISIONS = {64: Precision(64), 32: Precision(32)}


@dataclass(frozen=True, slots=True)
class Value:
    """A result of an instruction. Operators build instructions; comparisons are methods."""

    o: Ops
    place: int
    kind: Kind

    def _value(self, x: Value | float) -> Value:
        if isinstance(x, Value):
            return x
        return self.o.c(x) if self.kind == "float" else self.o.i(int(x))

    def _with(self, operation: str, x: Value | float, flip: bool = False) -> Value:
        pair = (self._value(x), self) if flip else (self, self._value(x))
        return self.o.emit(operation, self.kind, *pair)

    def __add__(self, x: Value | float) -> Value:
        return self._with("add", x)

    def __radd__(self, x: float) -> Value:
        return self._with("add", x, True)

    def __sub__(self, x: Value | float) -> Value:
        return self._with("sub", x)

    def __rsub__(self, x: float) -> Value:
        return self._with("sub", x, True)

    def __mul__(self, x: Value | float) -> Value:
        return self._with("mul", x)

    def __rmul__(self, x: float) -> Value:
        return self._with("mul", x, True)

    def __truediv__(self, x: Value | float) -> Value:
        return self._with("div", x)

    def __rtruediv__(self, x: float) -> Value:
        return self._with("div", x, True)

    def __and__(self, x: Value | int) -> Value:
        return self._with("and", x)

    def __or__(self, x: Value | int) -> Value:
        return self._with("or", x)

    def __xor__(self, x: Value | int) -> Value:
        return self._with("xor", x)

    def __lshift__(self, n: int) -> Value:
        return self._with("shl", n)

    def __rshift__(self, n: int) -> Value:
        return self._with("shr", n)

    def __neg__(self) -> Value:
        return self.o.emit("neg", "float", self)

    def _compared(self, operation: str, x: Value | float) -> Value:
        return self.o.emit(operation, "bool", self, self._value(x))

    def lt(self, x: Value | float) -> Value:
        return self._compared("lt", x)

    def gt(self, x: Value | float) -> Value:
        return self._compared("gt", x)

    def ge(self, x: Value | float) -> Value:
        return self._compared("ge", x)

    def eq(self, x: Value | float) -> Value:
        return self._compared("eq", x)

    def ne(self, x: Value | float) -> Value:
        """True for NaN."""
        return self._compared("ne", x)

    def nlt(self, x: Value | float) -> Value:
        """Not less than: true for NaN."""
        return self._compared("nlt", x)

    def inv(self) -> Value:
        return self.o.emit("not", "bool", self)


class Ops:
    """The instructions so far. Equal ones are emitted once."""

    def __init__(self, bits: int) -> None:
        self.prec = bits
        self.P = PRECISIONS[bits]
        self.instructions: list[Instruction] = []
        self.known: dict[tuple[str, Kind, tuple[int, ...], str], Value] = {}

    def body(self, *results: Value) -> Body:
        return Body(self.prec, tuple(self.instructions), tuple(r.place for r in results))

    def emit(self, operation: str, kind: Kind, *operands: Value, value: float | int | str | None = None) -> Value:
        key = operation, kind, tuple(x.place for x in operands), repr(value)  # repr tells -0.0 from 0.0
        if key not in self.known:
            self.instructions.append(Instruction(operation, kind, key[2], value))
            self.known[key] = Value(self, len(self.instructions) - 1, kind)
        return self.known[key]

    def argument(self, number: int, kind: Kind = "float") -> Value:
        return self.emit("argument", kind, value=number)

    def c(self, x: float) -> Value:
        return self.emit("constant", "float", value=float(x))

    def i(self, x: int) -> Value:
        return self.emit("constant", "int", value=x)

    def sel(self, p: Value, a: Value, b: Value) -> Value:
        return self.emit("select", a.kind, p, a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.emit("fma", "float", a, b, c)

    def abs(self, a: Value) -> Value:
        return self.emit("abs", "float", a)

    def sqrt(self, a: Value) -> Value:
        return self.emit("sqrt", "float", a)

    def copysign(self, a: Value, b: Value) -> Value:
        return self.emit("copysign", "float", a, b)

    def bits(self, a: Value) -> Value:
        return self.emit("bits", "int", a)

    def flt(self, a: Value) -> Value:
        return self.emit("float", "float", a)

    def rare(self, name: str, x: Value, usual: Value) -> Value:
        """``usual``, but the slow way's result of the function ``name`` where x is beyond ``turn_limit``."""
        return self.emit("rare", "float", x, usual, value=name)

    def horner(self, coefficients: Sequence[float], x: Value) -> Value:
        """Lowest degree first."""
        r = self.c(coefficients[-1])
        for a in reversed(coefficients[:-1]):
            r = self.fma(r, x, self.c(a))
        return r

    def coefficients(self, name: str) -> tuple[float, ...]:
        return COEFFICIENTS[name, self.prec]

    def poly(self, name: str, x: Value, keep: int = 2) -> Value:
        """A polynomial of the table. The low ``keep`` steps by Horner: they carry the accuracy. The rest of a long
        one as even and odd halves, which halves the chain of dependent steps."""
        c = self.coefficients(name)
        if len(c) < 8:
            return self.horner(c, x)
        z, high = x * x, c[keep:]
        r = self.fma(self.horner(high[1::2], z), x, self.horner(high[0::2], z))
        for a in reversed(c[:keep]):
            r = self.fma(r, x, self.c(a))
        return r

    def clamp_hi(self, x: Value, hi: float) -> Value:
        return self.sel(x.gt(hi), self.c(hi), x)

    def clamp_lo(self, x: Value, lo: float) -> Value:
        return self.sel(x.lt(lo), self.c(lo), x)

    def pow2(self, t: Value) -> Value:
        """2**k from ``t = k + magic``, for a normal result."""
        return self.flt((self.bits(t) << self.P.mantissa) + self.P.one)

    def fast2sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """a + b exactly as a sum of two, for ``|a| >= |b|``."""
        s = a + b
        return s, (a - s) + b

    def twosum(self, a: Value, b: Value) -> tuple[Value, Value]:
        s = a + b
        bb = s - a
        return s, (a - (s - bb)) + (b - bb)

    def twoprod(self, a: Value, b: Value) -> tuple[Value, Value]:
        p = a * b
        return p, self.fma(a, b, -p)
