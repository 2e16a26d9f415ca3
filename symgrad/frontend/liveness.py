"""Body of a function without jumps -> the names still needed after each branch, and at the head of each loop.

A name is needed when some path reads it before it is assigned again. Names that functions nested in this one read are
always needed, since those may run at any time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from symgrad.frontend.scopes import bindings, evaluated_outside
from symgrad.frontend.source import FunctionNode

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass
class Live:
    """``after``: by branch or loop; ``start``: the names that may be read before the function has assigned them."""

    after: dict[ast.stmt, Names] = field(default_factory=dict)
    start: Names = _NONE


def live_names(body: list[ast.stmt], extra: dict[ast.For, ast.expr], outside: Iterable[str]) -> Live:
    """``extra``: the condition of a ``for`` to go on; ``outside``: names that live on when the function returns."""
    out, names = Live(), _Liveness(extra, _captured(body) | frozenset(outside))
    names.after = out.after
    out.start = names.block(body, _NONE) - names.always
    return out


def _captured(body: list[ast.stmt]) -> Names:
    """What nested functions, classes and generator expressions mention."""
    found: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, FunctionNode | ast.ClassDef | ast.GeneratorExp):
            for inner in ast.walk(node):
                found.update(bindings(inner)[0])
                if isinstance(inner, ast.Name):
                    found.add(inner.id)
                elif isinstance(inner, ast.Nonlocal):
                    found.update(inner.names)
            stack += evaluated_outside(node)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)


class _Liveness:
    """Walks backwards. ``always``: what exceptions, nested functions and others may need at any point."""

    def __init__(self, extra: dict[ast.For, ast.expr], always: Names) -> None:
        self.extra = extra
        self.always = always
        self.after: dict[ast.stmt, Names] = {}
        self._uses: dict[ast.AST, Names] = {}

    def block(self, statements: list[ast.stmt], out: Names) -> Names:
        for statement in reversed(statements):
            out = self._before(statement, out | self.always)
        return out | self.always

    def _before(self, statement: ast.stmt, out: Names) -> Names:
        match statement:
            case ast.If():
                self.after[statement] = out
                return self.uses(statement.test) | self.block(statement.body, out) | self.block(statement.orelse, out)
            case ast.While():
                head = out | self.uses(statement.test)
                return self._looped(statement, _NONE, head)
            case ast.For():
                more = self.extra.get(statement)
                head = out | (self.uses(more) if more is not None else _NONE)
                return self.uses(statement.iter) | self._looped(statement, _assigned([statement.target]), head)
            case ast.With():
                return self._with(statement, out)
            case ast.Try() | ast.TryStar():
                return self._try(statement, out)
            case ast.Match():
                below: Names = out | self.uses(statement.subject)
                for case in statement.cases:
                    below |= self.block(case.body, out) | self.uses(case.pattern)
                    below |= self.uses(case.guard) if case.guard is not None else _NONE
                return below
            case ast.Return():
                return self.always | (self.uses(statement.value) if statement.value is not None else _NONE)
            case ast.Raise():
                return self.always | self.uses(statement)
            case _:
                return (out - _assigned_by(statement)) | self.uses(statement)

    def _looped(self, statement: ast.While | ast.For, targets: Names, head: Names) -> Names:
        """What is needed before each round; a second walk from there tells those inside what they need."""
        uses = self.uses(statement.target) if isinstance(statement, ast.For) else _NONE
        for _ in range(2):
            head |= uses | (self.block(statement.body, head) - targets)
        self.after[statement] = head
        return self.block(statement.orelse, head)

    def _with(self, statement: ast.With, out: Names) -> Names:
        outside, self.always = self.always, self.always | out  # an exception may be suppressed
        below = self.block(statement.body, out)
        self.always = outside
        for item in reversed(statement.items):
            below |= self.uses(item)
        return below

    def _try(self, statement: ast.Try | ast.TryStar, out: Names) -> Names:
        outside = self.always
        last = self.block(statement.finalbody, out)
        self.always |= last
        handled: Names = _NONE
        for handler in statement.handlers:
            handled |= self.block(handler.body, last)
            handled |= self.uses(handler.type) if handler.type is not None else _NONE
        following = self.block(statement.orelse, last)
        self.always |= handled
        below = self.block(statement.body, following)
        self.always = outside
        return below

    def uses(self, node: ast.AST) -> Names:
        """The names that a node may read, as if it did so first."""
        found = self._uses.get(node)
        if found is None:
            found = self._uses[node] = frozenset(_read_names(node))
        return found


def _read_names(node: ast.AST) -> Iterable[str]:
    for inner in ast.walk(node):
        match inner:
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()):
                yield name


def _assigned_by(statement: ast.stmt) -> Names:
    """The names that a statement without others inside surely assigns."""
    match statement:
        case ast.Assign(targets=targets):
            return _assigned(targets)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return _assigned([target])
        case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.AsyncFunctionDef():
            return frozenset(bindings(statement)[0])
        case ast.Delete(targets=targets):
            return _assigned(targets)
        case _:
            return _NONE


def _assigned(targets: Iterable[ast.expr]) -> Names:
    found: set[str] = set()
    stack: list[ast.AST] = list(targets)
    while stack:
        match stack.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                stack.extend(parts)
            case ast.Starred(value=part):
                stack.append(part)
    return frozenset(found)
