"""Syntax tree of a function -> the names that each of its scopes binds, and a walk that knows the scope at hand."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from symgrad.frontend.source import FunctionNode, Located, mangle

if TYPE_CHECKING:
    from collections.abc import Iterator

N = TypeVar("N", bound=ast.AST)
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Origin(Enum):
    LOCAL = auto()  # of the rewritten function, or of one nested in it
    FREE = auto()
    GLOBAL = auto()


@dataclass(frozen=True)
class Scope:
    """The names that one function, comprehension or class body binds (mangled), and what it declares."""

    parent: Scope | None
    class_name: str | None
    is_class: bool = False
    bound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)

    def origin(self, name: str, free: Iterable[str]) -> Origin:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.global_names:
                return Origin.GLOBAL
            if name in scope.bound - scope.nonlocal_names and not (scope.is_class and scope is not self):
                return Origin.LOCAL
            scope = scope.parent
        return Origin.FREE if name in free else Origin.GLOBAL


def argument_names(args: ast.arguments) -> list[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [arg.arg for arg in every if arg]


def evaluated_outside(node: ast.AST) -> list[ast.expr]:
    """The expressions of a definition that the enclosing scope evaluates."""
    match node:
        case ast.Lambda(args=args):
            return [*args.defaults, *filter(None, args.kw_defaults)]
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            return [*node.decorator_list, *args.defaults, *filter(None, args.kw_defaults)]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        case _:
            return []


def collect(scope: Scope, body: Iterable[ast.AST]) -> None:
    """Note what the statements or expressions of ``body`` bind in ``scope``, whatever scopes they open themselves."""
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in body]
    while stack:
        node, in_comprehension = stack.pop()
        names, children = bindings(node)
        if not in_comprehension or isinstance(node, ast.NamedExpr):
            scope.bound.update(mangle(name, scope.class_name) for name in names)
        if isinstance(node, ast.Global):
            scope.global_names.update(mangle(name, scope.class_name) for name in node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.nonlocal_names.update(mangle(name, scope.class_name) for name in node.names)
        in_comprehension = in_comprehension or isinstance(node, Comprehension)
        stack.extend((child, in_comprehension) for child in children)


def bindings(node: ast.AST) -> tuple[list[str], Iterable[ast.AST]]:
    """The names that ``node`` itself binds, and the nodes below it that may bind more in the same scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name], ()
        case ast.NamedExpr(target=ast.Name(id=name)):
            return [name], [node.value]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name], evaluated_outside(node)
        case ast.Lambda():
            return [], evaluated_outside(node)
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.split(".")[0] for alias in node.names], ()
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name], ast.iter_child_nodes(node)
        case ast.MatchMapping(rest=str(name)):
            return [name], ast.iter_child_nodes(node)
        case _:
            return [], ast.iter_child_nodes(node)


def type_params(node: ast.AST) -> list[str]:
    return [param.name for param in getattr(node, "type_params", [])]


class Scoped(ast.NodeTransformer):
    """Walks a function with ``self.scope`` the scope at hand. What a concern changes is for subclasses to say."""

    def __init__(self, located: Located) -> None:
        self.scope = Scope(None, located.class_name)

    def function(self, node: FunctionNode) -> None:
        """Transform the body of a function, but not its defaults and decorators."""
        with self._inside(self.scope.class_name):
            self.scope.bound.update(mangle(name, self.scope.class_name) for name in argument_names(node.args))
            self.scope.bound.update(type_params(node))
            if isinstance(node, ast.Lambda):
                collect(self.scope, [node.body])
                node.body = self.visit(node.body)
            else:
                collect(self.scope, node.body)
                node.body = self.each(node.body)

    def each(self, nodes: Iterable[N]) -> list[N]:
        return [self.visit(node) for node in nodes]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = self.each(node.decorator_list)
        self._defaults(node.args)
        self.function(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        self.function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = self.each(node.decorator_list)
        node.bases = self.each(node.bases)
        node.keywords = self.each(node.keywords)
        with self._inside(node.name, is_class=True):
            self.scope.bound.update(type_params(node))
            collect(self.scope, node.body)
            node.body = self.each(node.body)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = node.guard and self.visit(node.guard)
        node.body = self.each(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.target = self.visit(node.target)
        node.value = node.value and self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        spine = node  # of a long sum, which is deep to the left: no recursion there
        while isinstance(spine.left, ast.BinOp):
            spine.right = self.visit(spine.right)
            spine = spine.left
        self.generic_visit(spine)
        return node

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = self.each(args.defaults)
        args.kw_defaults = [default and self.visit(default) for default in args.kw_defaults]

    def _comprehension(self, node: Comprehension) -> ast.AST:
        first = node.generators[0]
        iterable, first.iter = self.visit(first.iter), ast.Constant(None)
        with self._inside(self.scope.class_name):
            targets = [generator.target for generator in node.generators]
            collect(self.scope, targets)
            self.generic_visit(node)
        first.iter = iterable
        return node

    @contextmanager
    def _inside(self, class_name: str | None, is_class: bool = False) -> Iterator[None]:
        outside, self.scope = self.scope, Scope(self.scope, class_name, is_class)
        yield
        self.scope = outside
