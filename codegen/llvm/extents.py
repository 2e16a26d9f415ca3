"""Sizes -> registers of the entry block: each distinct polynomial is computed once, before any loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.ir.types import Atom, Dim, Size


class Extents:
    """Appends to ``lines``; ``register(size)`` is the register or literal that holds a size.

    Names are read from ``%sizes``, but for those whose registers are known already. ``prefix`` tells the registers
    of one from those of another in the same function.
    """

    def __init__(
        self, names: Sequence[str], lines: list[str], known: Mapping[str, str] | None = None, prefix: str = "s"
    ) -> None:
        self._places = {name: n for n, name in enumerate(names)}
        self._lines = lines
        self._known: dict[Atom | Dim, str] = {}
        self._known.update(known or {})
        self._count = 0
        self._prefix = prefix

    def known(self, name: str) -> str:
        """The register of a name; KeyError when it would have to be read."""
        return self._known[name]

    def register(self, size: Size) -> str:
        if not isinstance(size, Dim):
            return str(size)
        if size not in self._known:
            self._known[size] = self._sum(size)
        return self._known[size]

    def _set(self, rhs: str, hint: str = "size") -> str:
        self._count += 1
        register = f"%{hint}.{self._prefix}{self._count}"
        self._lines.append(f"  {register} = {rhs}")
        return register

    def _sum(self, size: Dim) -> str:
        total = ""
        for monomial, coefficient in size.terms:
            term = "" if coefficient != 1 or not monomial else self._atom(monomial[0])
            rest = monomial[1:] if term else monomial
            term = term or str(coefficient)
            for atom in rest:
                term = self._set(f"mul i64 {term}, {self._atom(atom)}")
            total = self._set(f"add i64 {total}, {term}") if total else term
        return total

    def _atom(self, atom: Atom) -> str:
        if atom not in self._known:
            self._known[atom] = self._named(atom) if isinstance(atom, str) else self._quotient(atom.num, atom.den)
        return self._known[atom]

    def _named(self, name: str) -> str:
        place = self._set(f"getelementptr inbounds i64, ptr %sizes, i64 {self._places[name]}")
        return self._set(f"load i64, ptr {place}, align 8, !invariant.load !1")

    def _quotient(self, num: Size, den: Size) -> str:
        """``num // den`` rounded down, 0 for a zero ``den``."""
        n, d = self.register(num), self.register(den)
        if isinstance(den, int) and den > 0 and den & (den - 1) == 0:
            return self._set(f"ashr i64 {n}, {den.bit_length() - 1}")
        is_zero = self._set(f"icmp eq i64 {d}, 0")
        divisor = self._set(f"select i1 {is_zero}, i64 1, i64 {d}")
        quotient, rest = self._set(f"sdiv i64 {n}, {divisor}"), self._set(f"srem i64 {n}, {divisor}")
        inexact = self._set(f"icmp ne i64 {rest}, 0")
        signs = self._set(f"xor i64 {rest}, {divisor}")
        opposite = self._set(f"icmp slt i64 {signs}, 0")
        down = self._set(f"and i1 {inexact}, {opposite}")
        one = self._set(f"zext i1 {down} to i64")
        floored = self._set(f"sub i64 {quotient}, {one}")
        return self._set(f"select i1 {is_zero}, i64 0, i64 {floored}")
