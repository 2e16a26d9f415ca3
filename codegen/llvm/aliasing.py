"""Which buffers may share memory, written as LLVM's alias scopes.

Buffers that are only read share one scope, since loads never disturb each other; every written buffer has its own,
except workspace buffers whose bytes are not provably disjoint (an arena is reused), which share one.
"""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.ir.loops import Address, Buffer, Extern, Program, Store, statements
from symgrad.ir.types import Atom, Dim, Size

_MOST_SCOPES = 200  # the lists grow with the square
_MOST_SYMBOLIC = 64  # pairs of symbolic ranges to compare


def written_buffers(program: Program) -> set[str]:
    """Buffers that a store or an external function may change."""
    names: set[str] = set()
    for s in statements(program.body):
        match s:
            case Store():
                names.add(s.buffer)
            case Extern():
                names.update(a.buffer for a in s.args if isinstance(a, Address))
            case _:
                pass
    return names


class AliasScopes:
    """Metadata for loads, stores and calls: ``of(buffer)``, ``of_call(buffers)``; ``lines()`` are its definitions."""

    def __init__(self, program: Program) -> None:
        self._written = written_buffers(program)
        self._scope = _scopes(program, self._written)
        self._count = max(self._scope.values(), default=0) + 1
        self._lists: dict[tuple[int, ...], int] = {}
        self._of: dict[str, str] = {}

    def of(self, buffer: str) -> str:
        """What to append to a load or store of ``buffer``."""
        if buffer not in self._of:
            invariant = "" if buffer in self._written else ", !invariant.load !1"
            self._of[buffer] = self.of_call([buffer]) + invariant
        return self._of[buffer]

    def of_call(self, buffers: Iterable[str]) -> str:
        """What to append to a call that reaches just ``buffers``."""
        mine = tuple(sorted({self._scope[b] for b in buffers}))
        others = tuple(s for s in range(self._count) if s not in mine)
        alias = f", !alias.scope !{self._list(mine)}" if mine else ""
        return alias + (f", !noalias !{self._list(others)}" if others else "")

    def _list(self, scopes: tuple[int, ...]) -> int:
        return self._lists.setdefault(scopes, 2 + self._count + len(self._lists))

    def lines(self) -> list[str]:
        scopes = [f"!{2 + s} = distinct !{{!{2 + s}, !0}}" for s in range(self._count)]
        lists = [f"!{n} = !{{{', '.join(f'!{2 + s}' for s in key)}}}" for key, n in self._lists.items()]
        return ["!0 = distinct !{!0}", "!1 = !{}", *scopes, *lists]


def _scopes(program: Program, written: set[str]) -> dict[str, int]:
    """The scope of each buffer; 0 is that of the buffers that are only read."""
    scope: dict[str, int] = {b.name: 0 for b in program.buffers}
    temps = [b for b in program.buffers if b.kind == "temp"]
    groups = [[b] for b in program.buffers if b.name in written and b.kind != "temp"] + _overlapping(temps)
    for number, group in enumerate(groups, 1):
        scope.update((b.name, min(number, _MOST_SCOPES)) for b in group)
    return scope


def _overlapping(temps: list[Buffer]) -> list[list[Buffer]]:
    """Workspace buffers in groups that surely do not overlap each other."""
    fixed = [(b.offset, b.offset + b.elements * b.dtype.bytes, b) for b in temps]
    spans = [(start, stop, b) for start, stop, b in fixed if isinstance(start, int) and isinstance(stop, int)]
    if len(spans) == len(temps):
        return _overlapping_spans(spans)
    if len(temps) > _MOST_SYMBOLIC:
        return [temps]
    groups: list[list[Buffer]] = []
    for b in temps:
        touching = [g for g in groups if not all(_disjoint(a, b) for a in g)]
        groups = [g for g in groups if g not in touching] + [[b, *(a for g in touching for a in g)]]
    return groups


def _overlapping_spans(spans: list[tuple[int, int, Buffer]]) -> list[list[Buffer]]:
    groups: list[list[Buffer]] = []
    end = -1
    for start, stop, b in sorted(spans, key=lambda span: span[:2]):
        if start >= end:
            groups.append([])
        groups[-1].append(b)
        end = max(end, stop)
    return groups


def _disjoint(a: Buffer, b: Buffer) -> bool:
    return _before(a, b) or _before(b, a)


def _before(a: Buffer, b: Buffer) -> bool:
    size = a.elements * a.dtype.bytes
    ends = (a.offset + size, a.offset + (size + 63) // 64 * 64)
    return any(_never_negative(b.offset - end) for end in ends)


def _never_negative(size: Size) -> bool:
    """Whether it is a sum of products of sizes and of quotients of such sums."""
    if isinstance(size, Dim):
        return all(c > 0 and all(_atom_never_negative(a) for a in m) for m, c in size.terms)
    return size >= 0


def _atom_never_negative(atom: Atom) -> bool:
    return isinstance(atom, str) or (_never_negative(atom.num) and _never_negative(atom.den))
