"""Statements with ``break``, ``continue`` and early ``return`` -> statements without them, guarded by flags.

    for x in xs:                         _sg_broke1 = False
        if x < 0:                        for x in xs:                  # while not _sg_broke1
            break              ->            if x < 0:
        total += x                               _sg_broke1 = True
                                             else:
                                                 total += x

A loop then ends by its condition alone: that of a ``while`` says so itself, that of a ``for`` is kept beside it. What
follows a statement that always leaves goes into the other arm; what follows one that may leave is guarded by the flag.
Statements that cannot be reached are dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from symgrad.frontend.nodes import HIDDEN, assign, at, constant, load
from symgrad.frontend.source import FunctionNode

RETURNED, RESULT = f"{HIDDEN}returned", f"{HIDDEN}result"
Branching = ast.If | ast.While | ast.For


@dataclass(frozen=True)
class Exits:
    """How control may leave statements: ``breaks`` and ``continues`` of a loop around them; ``falls`` off their end."""

    returns: bool = False
    breaks: bool = False
    continues: bool = False
    falls: bool = True

    @property
    def leaves(self) -> bool:
        return self.returns or self.breaks or self.continues

    def __or__(self, other: Exits) -> Exits:
        return Exits(
            self.returns or other.returns,
            self.breaks or other.breaks,
            self.continues or other.continues,
            self.falls or other.falls,
        )

    def then(self, other: Exits) -> Exits:
        """One after the other."""
        if not self.falls:
            return self
        both = self | other
        return Exits(both.returns, both.breaks, both.continues, other.falls)


@dataclass(frozen=True)
class _Loop:
    """The flags of the loop that ``break`` and ``continue`` belong to."""

    broke: str
    continued: str


@dataclass
class Lowered:
    """A body without jumps; ``more`` is the condition of a ``for`` to go on, where there is one."""

    body: list[ast.stmt]
    more: dict[ast.For, ast.expr] = field(default_factory=dict)


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function's body that are not in a function or class nested in it."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))


def lower(body: list[ast.stmt], fresh: Callable[[str], str]) -> Lowered:
    """Lower a function's body; ``fresh`` makes names. Returns that are in no branch or loop may stay."""
    lowering = _Lowering(fresh)
    statements = [node for node in own_nodes(body) if isinstance(node, Branching)]
    lowering.returns = any(lowering.exits([node]).returns for node in statements)
    if not lowering.returns:
        out = lowering.block(body, None)
    else:
        last = body[-1]
        if lowering.exits(body).falls:
            body = [*body, at(ast.Return(constant(None, last)), last)]
        start = lowering.flag(RETURNED, False, body[0])
        end = at(ast.Return(load(RESULT, last)), last)
        out = [start, *lowering.block(body, None), end]
    return Lowered(lowering.stripped(out), lowering.more)


def leaves_from_finally(body: list[ast.stmt]) -> bool:
    """Does any ``finally`` leave by a jump, which forgets the exception under way?"""
    lowering = _Lowering(lambda stem: stem)
    tries = [node for node in own_nodes(body) if isinstance(node, ast.Try | ast.TryStar)]
    return any(lowering.exits(node.finalbody).leaves for node in tries)


class _Lowering:
    """The lowering of one function. ``tested``: flags that something asks; setting others is left out at the end."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.returns = False
        self.more: dict[ast.For, ast.expr] = {}
        self.tested: set[str] = set()
        self._settings: dict[ast.stmt, str] = {}
        self._exits: dict[ast.stmt, Exits] = {}

    # --- how statements are left ---

    def exits(self, body: Iterable[ast.stmt]) -> Exits:
        out = Exits()
        for statement in body:
            if statement not in self._exits:
                self._exits[statement] = self._exits_of(statement)
            out = out.then(self._exits[statement])
        return out

    def _exits_of(self, statement: ast.stmt) -> Exits:
        match statement:
            case ast.Return():
                return Exits(returns=True, falls=False)
            case ast.Break():
                return Exits(breaks=True, falls=False)
            case ast.Continue():
                return Exits(continues=True, falls=False)
            case ast.Raise():
                return Exits(falls=False)
            case ast.If():
                return self.exits(statement.body) | self.exits(statement.orelse)
            case ast.While() | ast.For():
                inside = self.exits(statement.body)
                ended = Exits(falls=False) if _forever(statement) else self.exits(statement.orelse)
                return ended | Exits(returns=inside.returns, falls=inside.breaks)
            case ast.With():  # which may suppress an exception, and go on
                return self.exits(statement.body) | Exits()
            case ast.Try() | ast.TryStar():
                out = self.exits(statement.body).then(self.exits(statement.orelse))
                for handler in statement.handlers:
                    out |= self.exits(handler.body)
                last = self.exits(statement.finalbody)
                return out.then(last) if last.falls else Exits(out.returns, out.breaks, out.continues, False) | last
            case ast.Match():
                out = Exits()
                for case in statement.cases:
                    out |= self.exits(case.body)
                return out
            case _:
                return Exits()

    # --- statements ---

    def block(self, statements: list[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        rest = list(statements)
        while rest:
            statement = rest.pop(0)
            exits = self.exits([statement])
            if isinstance(statement, ast.If) and exits.leaves:
                if self._moved(statement, rest):
                    rest = []
            elif isinstance(statement, ast.While | ast.For):
                inside, forever = self.exits(statement.body), _forever(statement)
                before, after = self._loop(statement)
                out += before
                rest = after + rest
                exits = Exits(returns=inside.returns, falls=inside.breaks or not forever)
            out += self._statement(statement, loop)
            if not exits.falls:
                break
            flags = self._flags(exits, loop)
            if flags and rest:
                guard = at(ast.If(self._none_of(flags, rest[0]), self.block(rest, loop), []), rest[0])
                return [*out, guard]
        return out

    def _raising_first(self, branch: ast.If) -> None:
        """Turn a branch whose ``else`` raises: of an arm that raises first, the other one is traced once."""
        body, orelse = self.exits(branch.body), self.exits(branch.orelse)
        if body.falls and not orelse.falls and not orelse.leaves:
            branch.test = at(ast.UnaryOp(ast.Not(), branch.test), branch.test)
            branch.body, branch.orelse = branch.orelse, branch.body

    def _moved(self, branch: ast.If, rest: list[ast.stmt]) -> bool:
        """Move what follows a branch into the arm that goes on, when only one does."""
        if not self.exits(branch.body).falls:
            branch.orelse = [*branch.orelse, *rest]
        elif not self.exits(branch.orelse).falls:
            branch.body = [*branch.body, *rest]
        else:
            return False
        self._exits.pop(branch, None)
        return True

    def _flags(self, exits: Exits, loop: _Loop | None) -> list[str]:
        """The flags that tell whether a statement has left."""
        flags = [RETURNED] if exits.returns and self.returns else []
        if loop is not None:
            flags += [loop.broke] if exits.breaks else []
            flags += [loop.continued] if exits.continues else []
        return flags

    def _statement(self, statement: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        match statement:
            case ast.Return() if self.returns:
                value = statement.value or constant(None, statement)
                return [assign(RESULT, value, statement), self.flag(RETURNED, True, statement)]
            case ast.Break() if loop is not None:
                return [self.flag(loop.broke, True, statement)]
            case ast.Continue() if loop is not None:
                return [self.flag(loop.continued, True, statement)]
            case ast.If():
                self._raising_first(statement)
                statement.body, statement.orelse = self.block(statement.body, loop), self.block(statement.orelse, loop)
            case ast.With():
                statement.body = self.block(statement.body, loop)
            case ast.Try() | ast.TryStar():
                self._try(statement, loop)
            case ast.Match():
                for case in statement.cases:
                    case.body = self.block(case.body, loop)
        return [statement]

    def _try(self, statement: ast.Try | ast.TryStar, loop: _Loop | None) -> None:
        flags = self._flags(self.exits(statement.body), loop)
        if flags and statement.orelse:
            first = statement.orelse[0]
            statement.orelse = [at(ast.If(self._none_of(flags, first), statement.orelse, []), first)]
        statement.body = self.block(statement.body, loop)
        statement.orelse = self.block(statement.orelse, loop)
        statement.finalbody = self.block(statement.finalbody, loop)
        for handler in statement.handlers:
            handler.body = self.block(handler.body, loop)

    def _loop(self, statement: ast.While | ast.For) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Lower a loop's body and condition in place; returns what comes before it, and (not yet lowered) after it."""
        exits, loop = self.exits(statement.body), _Loop(self.fresh("broke"), self.fresh("continued"))
        forever = _forever(statement)
        stops = ([loop.broke] if exits.breaks else []) + ([RETURNED] if exits.returns and self.returns else [])
        body = self.block(statement.body, loop)
        statement.body = [self.flag(loop.continued, False, statement), *body] if exits.continues else body
        if stops and isinstance(statement, ast.For):
            self.more[statement] = self._none_of(stops, statement)
        elif stops and isinstance(statement, ast.While):
            going = self._none_of(stops, statement.test)
            both = ast.BoolOp(ast.And(), [going, statement.test])
            statement.test = going if forever else at(both, statement.test)
        after, statement.orelse = ([] if forever else statement.orelse), []
        if stops and after:
            after = [at(ast.If(self._none_of(stops, after[0]), after, []), after[0])]
        return ([self.flag(loop.broke, False, statement)] if exits.breaks else []), after

    # --- flags ---

    def flag(self, name: str, value: bool, place: ast.stmt) -> ast.stmt:
        setting = assign(name, constant(value, place), place)
        self._settings[setting] = name
        return setting

    def _none_of(self, flags: list[str], place: ast.stmt | ast.expr) -> ast.expr:
        self.tested.update(flags)
        nots = [at(ast.UnaryOp(ast.Not(), load(name, place)), place) for name in flags]
        return nots[0] if len(nots) == 1 else at(ast.BoolOp(ast.And(), list[ast.expr](nots)), place)

    def stripped(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Leave out the setting of flags that nothing tests; in place."""
        lists = [body]
        while lists:
            statements = lists.pop()
            kept = [s for s in statements if s not in self._settings or self._settings[s] in self.tested]
            if not kept and statements:
                kept = [at(ast.Pass(), statements[0])]
            statements[:] = kept
            for statement in kept:
                lists += _lists_in(statement)
        return body


def _lists_in(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    match statement:
        case ast.If() | ast.While() | ast.For():
            yield from (statement.body, statement.orelse)
        case ast.With():
            yield statement.body
        case ast.Try() | ast.TryStar():
            yield from (statement.body, statement.orelse, statement.finalbody)
            yield from (handler.body for handler in statement.handlers)
        case ast.Match():
            yield from (case.body for case in statement.cases)


def _forever(statement: ast.While | ast.For) -> bool:
    test = statement.test if isinstance(statement, ast.While) else None
    return isinstance(test, ast.Constant) and bool(test.value)
