"""Calls of one elementary function in straight-line code -> calls for several operands side by side.

Code of scalars, such as the kinematics of a robot, calls sin and cos of one number at a time; as lanes of a vector
eight of them cost little more than one. Inside of loops that is left alone: there the iterations are the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from symgrad.ir.loops import (
    Address,
    Apply,
    Block,
    Expr,
    Extern,
    Fail,
    If,
    Let,
    LetAll,
    Load,
    Program,
    ScalarFn,
    Stmt,
    Store,
    Var,
    While,
    post_order,
    roots,
    statements,
)

FEWEST = 3  # calls that are worth a vector


def together(program: Program) -> Program:
    """The program with calls brought together that do not depend on each other."""
    return replace(program, body=_block(program.body, _written(program.body)))


def _written(block: Block) -> set[str]:
    """Buffers that a program may change."""
    names = {s.buffer for s in statements(block) if isinstance(s, Store)}
    for s in statements(block):
        if isinstance(s, Extern):
            names.update(a.buffer for a in s.args if isinstance(a, Address))
    return names


def _block(block: Block, changing: set[str]) -> Block:
    """Blocks outside of counted loops."""
    inner = []
    for s in block:
        match s:
            case If():
                s = If(s.condition, _block(s.then, changing), _block(s.otherwise, changing))
            case While():
                s = While(s.head, s.condition, _block(s.body, changing))
            case _:
                pass
        inner.append(s)
    return _Gatherer(tuple(inner), changing).gathered()


@dataclass
class _Call:
    """A let of an elementary function. ``ready`` is the statement after which its operand can be computed."""

    at: int
    let: Let
    fn: ScalarFn
    operand: Expr
    ready: int


@dataclass
class _Gatherer:
    """One block. What it binds by pure lets may be computed earlier; everything else stays where it is."""

    block: Block
    changing: set[str]
    lets: dict[str, tuple[int, Let]] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)  # after which statement a name can be known
    rank: dict[str, int] = field(default_factory=dict)  # calls on the way to it
    done: set[int] = field(default_factory=set)
    out: list[Stmt] = field(default_factory=list)

    def gathered(self) -> Block:
        groups = self._groups()
        if not groups:
            return self.block
        first = {calls[0].at: calls for calls in groups}
        for k, s in enumerate(self.block):
            if k in first:
                self._together(first[k])
            elif k not in self.done:
                self.out.append(s)
                self.done.add(k)
        return tuple(self.out)

    def _groups(self) -> list[list[_Call]]:
        """Calls of one function that do not depend on each other, and can all be made where the first of them is."""
        found: dict[tuple[ScalarFn, object, int], list[_Call]] = {}
        for call in self._calls():
            found.setdefault((call.fn, call.let.var.dtype, self.rank[call.let.var.name]), []).append(call)
        groups = ([c for c in calls if c.ready < calls[0].at] for calls in found.values())
        return [calls for calls in groups if len(calls) >= FEWEST]

    def _calls(self) -> Iterator[_Call]:
        fence = -1  # the last statement that may end the call: what follows may rely on what it has checked
        for k, s in enumerate(self.block):
            for let in (s,) if isinstance(s, Let) else ():
                names = _names(let)
                movable = self._is_pure(let)
                ready = max([fence, *(self.ready.get(n, -1) for n in names)]) if movable else k
                self.ready[let.var.name] = ready
                self.rank[let.var.name] = max((self.rank.get(n, 0) for n in names), default=0)
                if movable:
                    self.lets[let.var.name] = k, let
                if movable and isinstance(let.value, Apply) and _is_elementary(let.value):
                    self.rank[let.var.name] += 1
                    yield _Call(k, let, let.value.fn, let.value.args[0], ready)
            if not isinstance(s, Let):
                self.ready.update((name, k) for name in _bound(s))
                fence = k if any(isinstance(t, Fail) for t in statements((s,))) else fence

    def _is_pure(self, let: Let) -> bool:
        """Whether it has the same value anywhere after the names in it: of lets, and of memory that does not change."""
        loads = (e for e in post_order(let.value) if isinstance(e, Load))
        return all(e.buffer not in self.changing for e in loads)

    def _together(self, calls: list[_Call]) -> None:
        """Those of the calls that no other group has needed yet."""
        for c in calls:
            self._compute(_names(c.let))
        calls = [c for c in calls if c.at not in self.done]
        self.done.update(c.at for c in calls)
        if len(calls) < FEWEST:
            self.out.extend(c.let for c in calls)
            return
        self.out.append(LetAll(tuple(c.let.var for c in calls), calls[0].fn, tuple(c.operand for c in calls)))

    def _compute(self, names: list[str]) -> None:
        """The lets of names, and of what they need, that are not there yet; iterative, since chains may be long."""
        stack = [n for n in names if n in self.lets and self.lets[n][0] not in self.done]
        while stack:
            k, let = self.lets[stack[-1]]
            if k in self.done:
                stack.pop()
                continue
            waiting = [n for n in _names(let) if n in self.lets and self.lets[n][0] not in self.done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.out.append(let)
            self.done.add(k)


def _names(s: Stmt) -> list[str]:
    return [e.name for root in roots(s) for e in post_order(root) if isinstance(e, Var)]


def _bound(s: Stmt) -> list[str]:
    """Names that a statement makes or changes."""
    return [t.var.name for t in statements((s,)) if hasattr(t, "var")]


def _is_elementary(e: Apply) -> bool:
    return len(e.args) == 1 and any(spelling.startswith("libm ") for _, spelling in e.fn.llvm)
