"""Control flow of a function -> calls of hooks on small nested functions that share its variables.

    if x > 0:                            def _sg_then1(): nonlocal y; y = x
        y = x                  ->        def _sg_else2(): nonlocal y; y = -x
    else:                                __sg__.branch(x > 0, _sg_then1, _sg_else2, ("y",), (), "line 1")()
        y = -x

Loops become ``repeat`` and ``each``; conditional expressions, ``and``, ``or``, ``not``, chained comparisons and
assertions ask hooks as well. Left as they are: class bodies, ``match``, conditions of comprehensions, async functions,
expressions that assign in a part that may not run, and the bodies of generators, of functions that call ``locals()``
and the like, that jump out of ``finally``, or that nest more than ``_DEEPEST`` statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from symgrad.frontend.flags import Branching, Lowered, leaves_from_finally, lower, own_nodes
from symgrad.frontend.liveness import Names, live_names
from symgrad.frontend.nodes import HIDDEN, at, constant, hook, load, thunk
from symgrad.frontend.scopes import N, Scope, Scoped, argument_names, collect
from symgrad.frontend.source import FunctionNode, Located, clone, mangle

THUNKS = frozenset({"branch", "choose"})  # hooks that return what to call
# Calls that read the calling frame: the caller must stay the user's function. The second set does so without arguments.
FRAME_CALLS = frozenset({"locals", "globals", "eval", "exec"})
BARE_FRAME_CALLS = frozenset({"super", "vars", "dir"})
_DEEPEST = 40
_ITEM = f"{HIDDEN}item"
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


@dataclass
class _Function:
    """The function at hand. ``branches``: it has statements to rewrite; ``inside``: arms around the present place."""

    first: str | None  # its first argument
    has_class: bool  # whether super() can work
    branches: bool = False
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    local_names: Names = frozenset()  # those to declare, since only arms may assign them
    unsure: Names = frozenset()  # those that may be read before they have a value
    after: dict[ast.stmt, Names] = field(default_factory=dict)
    more: dict[ast.For, ast.expr] = field(default_factory=dict)
    inside: int = 0


class Control(Scoped):
    """Rewrites the control flow of a function and of those nested in it."""

    def __init__(self, located: Located, free: Iterable[str]) -> None:
        super().__init__(located)
        self.current: _Function | None = None
        self.has_class = "__class__" in free
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{HIDDEN}{stem}{self.count}"

    def each(self, nodes: Iterable[N]) -> list[N]:
        out: list[N] = []
        for node in nodes:
            new = self.visit(node)
            out.extend(new if isinstance(new, list) else [new])
        return out

    # --- functions and classes ---

    def function(self, node: FunctionNode) -> None:
        outside = self.current
        self.current = self._entered(node)
        super().function(node)
        if self.current is not None and self.current.branches and not isinstance(node, ast.Lambda):
            node.body = _declared(node.body, self.current)
        self.current = outside

    def _entered(self, node: FunctionNode) -> _Function | None:
        """Lower the function's jumps; None when it is to be left alone."""
        body: list[ast.stmt] = [] if isinstance(node, ast.Lambda) else node.body
        scope = Scope(None, None)
        collect(scope, body or [node.body])  # type: ignore[list-item]  # a lambda's body is an expression
        scope.bound.update(argument_names(node.args))
        if _left_alone(node, scope):
            return None
        first = next((argument.arg for argument in (*node.args.posonlyargs, *node.args.args)), None)
        if not any(isinstance(inner, Branching) for inner in own_nodes(body)):
            return _Function(first, self.has_class)
        lowered = self._lowered(body)
        if lowered is None:
            return None
        assert not isinstance(node, ast.Lambda)
        node.body = lowered.body
        collect(scope, lowered.body)
        outer = scope.global_names | scope.nonlocal_names
        live = live_names(lowered.body, lowered.more, outer | ({first} if first else set()))
        local = frozenset(scope.bound - outer - set(argument_names(node.args)))
        return _Function(
            first, self.has_class, True, scope.global_names, scope.nonlocal_names, local,
            frozenset(name for name in live.start & local if not name.startswith(HIDDEN)), live.after, lowered.more,
        )  # fmt: skip

    def _lowered(self, body: list[ast.stmt]) -> Lowered | None:
        copy = cast("ast.Module", clone(ast.Module(body, [])))
        try:
            lowered = lower(copy.body, self.fresh)
        except RecursionError:  # a ladder of hundreds of steps
            return None
        return lowered if _depth(lowered.body) <= _DEEPEST else None

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outside, has_class = self.current, self.has_class
        self.current, self.has_class = None, True
        super().visit_ClassDef(node)
        self.current, self.has_class = outside, has_class
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return node if self.current is None or not self.current.branches else at(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return node if self.current is None or not self.current.branches else at(ast.Pass(), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        super().visit_AnnAssign(node)
        if self.current is None or not self.current.branches or not isinstance(node.target, ast.Name):
            return node
        return at(ast.Assign([node.target], node.value), node) if node.value else at(ast.Pass(), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self.current is None or node.id not in self.current.unsure or not isinstance(node.ctx, ast.Load):
            return node
        return hook("present", [node], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        current = self.current
        if not isinstance(node.func, ast.Name) or node.func.id != "super" or node.args or node.keywords:
            return node
        if current is not None and current.inside and current.has_class and current.first:
            node.args = [load("__class__", node), load(current.first, node)]
        return node

    # --- statements ---

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if self.current is None:
            return self.generic_visit(node)
        names, place = self._assigned([*node.body, *node.orelse]), node.test
        dead = self._dead(names, node)
        test = self.visit(node.test)
        then = self._arm("then", node.body, names, node)
        otherwise = self._arm("else", node.orelse, names, node) if not _empty(node.orelse) else None
        arms = [load(then.name, place), load(otherwise.name, place) if otherwise else constant(None, place)]
        call = hook("branch", [test, *arms, *self._constants(names, dead, place)], place)
        run = at(ast.Expr(at(ast.Call(call, [], []), place)), place)
        return [then, *([otherwise] if otherwise else []), run]

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        if self.current is None:
            return self.generic_visit(node)
        names, place = self._assigned([node.test, *node.body]), node.test
        dead = self._dead(names, node)
        test = ast.Return(node.test)
        tests = [self._arm("test", [at(test, place)], names, node)] if _assigns(node.test) else []
        asked = load(tests[0].name, place) if tests else self._thunk(node.test)
        body = self._arm("body", node.body, names, node)
        arguments = [asked, load(body.name, place), *self._constants(names, dead, place)]
        return [*tests, body, at(ast.Expr(hook("repeat", arguments, place)), place)]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        if self.current is None:
            return self.generic_visit(node)
        names, place = self._assigned([node.target, *node.body]), node.iter
        dead = self._dead(names, node)
        bind = at(ast.Assign([node.target], load(_ITEM, node.target)), node.target)
        body = self._arm("body", [bind, *node.body], names, node)
        body.args.args.append(at(ast.arg(_ITEM), node))
        more = self.current.more.get(node)
        going = self._thunk(more) if more is not None else constant(None, place)
        arguments = [self.visit(node.iter), load(body.name, place), *self._constants(names, dead, place), going]
        return [body, at(ast.Expr(hook("each", arguments, place)), place)]

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return self._handled(node)

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        return self._handled(node)

    def _handled(self, node: ast.Try | ast.TryStar) -> ast.AST:
        """The body of a ``try`` inside a context that knows what its ``except`` clauses catch."""
        place = node.body[0]
        caught = [clone(h.type) if h.type else load("BaseException", place) for h in node.handlers]
        self.generic_visit(node)
        if self.current is None or not node.handlers:
            return node
        kinds = at(ast.Tuple(cast("list[ast.expr]", caught), ast.Load()), place)
        context = ast.withitem(hook("handling", [self._thunk(kinds)], kinds))
        node.body = [at(ast.With([context], node.body), place)]
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        for item in node.items if self.current is not None else ():
            item.context_expr = hook("manager", [item.context_expr], item.context_expr)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        if self.current is None or (node.msg is not None and _assigns(node.msg)):
            return self.generic_visit(node)
        message = self._thunk(cast("ast.expr", clone(node.msg))) if node.msg else constant(None, node.test)
        self.generic_visit(node)
        node.test = hook("check", [node.test, message, _place(node.test)], node.test)
        return node

    def _arm(self, stem: str, body: Sequence[ast.stmt], names: Names, place: ast.stmt) -> ast.FunctionDef:
        """A nested function of these statements, which assign the enclosing function's variables."""
        assert self.current is not None
        scope = Scope(None, None)
        collect(scope, body)
        own = sorted(scope.bound & self.current.global_names)
        first: list[ast.stmt] = [at(ast.Global(own), place)] if own else []
        first += [at(ast.Nonlocal(sorted(names)), place)] if names else []
        self.current.inside += 1
        statements = [*first, *self.each(body)]
        self.current.inside -= 1
        arguments = ast.arguments([], [], None, [], [], None, [])
        out = at(ast.FunctionDef(self.fresh(stem), arguments, statements, [], None), place)
        if hasattr(ast, "TypeAlias"):  # from Python 3.12 on
            out.type_params = []  # type: ignore[attr-defined]
        return out

    def _assigned(self, nodes: Iterable[ast.AST]) -> Names:
        assert self.current is not None
        scope = Scope(None, None)
        collect(scope, nodes)
        return frozenset(scope.bound - self.current.global_names)

    def _dead(self, names: Names, node: ast.stmt) -> Names:
        assert self.current is not None
        return names - self.current.after.get(node, names)

    def _constants(self, names: Names, dead: Names, place: ast.expr) -> list[ast.expr]:
        mangled = [tuple(mangle(name, self.scope.class_name) for name in sorted(group)) for group in (names, dead)]
        return [*(constant(group, place) for group in mangled), _place(place)]

    # --- expressions ---

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self.current is None or _assigns(node.body) or _assigns(node.orelse):
            return self.generic_visit(node)
        arms = [self._thunk(node.body), self._thunk(node.orelse)]
        call = hook("choose", [self.visit(node.test), *arms, _place(node.test)], node)
        return at(ast.Call(call, [], []), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        first, *rest = node.values
        if self.current is None or any(map(_assigns, rest)):
            return self.generic_visit(node)
        later = at(ast.Tuple([self._thunk(value) for value in rest], ast.Load()), node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return hook(name, [self.visit(first), later, _place(node)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        plain = self.current is None or not isinstance(node.op, ast.Not)
        return node if plain else hook("negate", [node.operand], node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        second, *rest = node.comparators
        if self.current is None or not rest or any(map(_assigns, rest)):
            return self.generic_visit(node)
        operators = constant(tuple(_OPERATORS[type(op)] for op in node.ops), node)
        later = at(ast.Tuple([self._thunk(value) for value in rest], ast.Load()), node)
        return hook("compare", [operators, self.visit(node.left), self.visit(second), later, _place(node)], node)

    def _thunk(self, value: ast.expr) -> ast.expr:
        assert self.current is not None
        self.current.inside += 1
        out = thunk(self.visit(value))
        self.current.inside -= 1
        return out


def _left_alone(node: FunctionNode, scope: Scope) -> bool:
    """Whether a function must keep its own frame, or its jumps."""
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list[ast.AST](node.body)
    for inner in own_nodes(body):
        if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
            return True
        if isinstance(inner, ast.Attribute) and inner.attr == "_getframe":
            return True
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id not in scope.bound:
            name, bare = inner.func.id, not inner.args and not inner.keywords
            if name in FRAME_CALLS or (name in BARE_FRAME_CALLS - {"super"} and bare):
                return True
    return not isinstance(node, ast.Lambda) and leaves_from_finally(node.body)


def _assigns(value: ast.expr) -> bool:
    return any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(value))


def _empty(statements: list[ast.stmt]) -> bool:
    return all(isinstance(statement, ast.Pass) for statement in statements)


def _place(node: ast.expr) -> ast.expr:
    return constant(f"line {node.lineno}", node)


def _depth(body: list[ast.stmt]) -> int:
    """How deep branches and loops are nested."""
    deepest = 0
    stack: list[tuple[ast.AST, int]] = [(statement, 0) for statement in body]
    while stack:
        node, depth = stack.pop()
        depth += isinstance(node, Branching)
        deepest = max(deepest, depth)
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.expr):
            stack.extend((child, depth) for child in ast.iter_child_nodes(node))
    return deepest


def _declared(body: list[ast.stmt], function: _Function) -> list[ast.stmt]:
    """A body that begins by saying which names are the function's own, and which are not."""
    place = body[0]
    has_doc = (
        isinstance(place, ast.Expr) and isinstance(place.value, ast.Constant) and isinstance(place.value.value, str)
    )
    start: list[ast.stmt] = []
    if function.global_names:
        start.append(at(ast.Global(sorted(function.global_names)), place))
    if function.nonlocal_names:
        start.append(at(ast.Nonlocal(sorted(function.nonlocal_names)), place))
    for name in sorted(function.local_names):
        target = at(ast.Name(name, ast.Store()), place)
        start.append(at(ast.AnnAssign(target, constant(None, place), None, 1), place))
    return [*body[:has_doc], *start, *body[has_doc:]]
