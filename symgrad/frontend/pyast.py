"""Python function -> the same function, asking hooks about its calls, captured values, attributes and items.

    def f(x): return np.sin(x[0]) * scale

becomes (``__sg__`` is a closure cell that holds the hooks)

    def f(x): return (__sg__.callee(__sg__.attribute(__sg__.outer("np", np), "sin"))(__sg__.item(x, 0))
                      * __sg__.outer("scale", scale))

The new function shares the original's globals and closure cells, and keeps file, lines and columns, so that tracebacks
point at the user's text. Left as they are: stores and deletions, builtin names, names that the function itself rebinds
through ``global`` or ``nonlocal``, annotations, patterns, async functions, and calls that look at the caller's frame.
``locals()`` shows ``__sg__`` as it does any captured name.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias, cast

from symgrad.errors import UnsupportedError
from symgrad.frontend.nodes import HIDDEN, HOOKS, constant, hook
from symgrad.frontend.pycontrol import BARE_FRAME_CALLS, FRAME_CALLS, THUNKS, Control
from symgrad.frontend.scopes import Origin, Scoped, bindings
from symgrad.frontend.source import FUTURE_FLAGS, CodeCache, FunctionNode, Located, clone, codes_within, locate, mangle

_FACTORY, _FUNCTION = "__sg_factory__", "__sg_function__"
_BUILTINS = frozenset(vars(builtins)) | {"__debug__"}


Run: TypeAlias = Callable[[], object]
Value: TypeAlias = Callable[[], object]
Names: TypeAlias = tuple[str, ...]
Place: TypeAlias = str


class Hooks(Protocol):
    """What a rewritten function asks. A hook that returns its value (or does the plain operation) changes nothing."""

    def callee(self, function: object, /) -> Callable[..., object]:
        """Return what to call in place of ``function``; asked before the arguments are evaluated."""

    def outer(self, name: str, value: object, /) -> object:
        """Return what to use for a global or closure variable whose value is ``value`` now."""

    def attribute(self, owner: object, name: str, /) -> object:
        """Return ``owner.name``; ``name`` is already mangled."""

    def item(self, owner: object, key: object, /) -> object:
        """Return ``owner[key]``."""

    def slice(self, start: object, stop: object, step: object, /) -> object:
        """Return the slice object for ``start:stop:step``."""

    # Control flow. ``names`` are the variables that the parts assign, ``dead`` those of them that nothing reads any
    # more afterwards (at the end of a round, for loops), ``place`` the line, in words.

    def branch(self, test: object, then: Run, otherwise: Run | None, names: Names, dead: Names, place: Place, /) -> Run:
        """Return the arm to run."""

    def repeat(self, test: Value, body: Run, names: Names, dead: Names, place: Place, /) -> None:
        """Run ``body`` while ``test()`` holds."""

    def each(
        self,
        iterable: object,
        body: Callable[[object], object],
        names: Names,
        dead: Names,
        place: Place,
        more: Value | None,
        /,
    ) -> None:
        """Run ``body`` on each item, as long as ``more()`` holds after it."""

    def choose(self, test: object, then: Value, otherwise: Value, place: Place, /) -> Value:
        """Return the function that gives the value of a conditional expression."""

    def both(self, first: object, rest: tuple[Value, ...], place: Place, /) -> object:
        """Return the value of ``first and ...``."""

    def either(self, first: object, rest: tuple[Value, ...], place: Place, /) -> object:
        """Return the value of ``first or ...``."""

    def negate(self, value: object, /) -> object:
        """Return ``not value``."""

    def compare(
        self, operators: tuple[str, ...], first: object, second: object, rest: tuple[Value, ...], place: Place, /
    ) -> object:
        """Return the value of a chain of comparisons; each operand after the second is asked for when it is needed."""

    def check(self, test: object, message: Value | None, place: Place, /) -> object:
        """Return what ``assert`` should see as its test."""

    def handling(self, types: Value, /) -> AbstractContextManager[object]:
        """Return the context for what is in a ``try`` with ``except`` clauses for ``types()``."""

    def manager(self, context: object, /) -> object:
        """Return the context manager to use for that of a ``with``."""

    def present(self, value: object, /) -> object:
        """Return the value of a variable that may have been given one in one arm of a branch only."""


def rewrite(fun: types.FunctionType, hooks: Hooks) -> types.FunctionType:
    """Return ``fun`` calling ``hooks``; ``fun`` itself if it has no source, is async, or is already rewritten."""
    code = fun.__code__
    if code in _produced:
        return fun
    located = locate(fun)
    if located is None or isinstance(located.node, ast.AsyncFunctionDef):
        return fun
    return _bind(_compiled(fun, located), fun, hooks)


def has_source(fun: types.FunctionType) -> bool:
    """Can ``rewrite`` see the text of ``fun``, or has it already?"""
    return fun.__code__ in _produced or locate(fun) is not None


def bound(fun: object) -> tuple[types.FunctionType, tuple[object, ...]] | None:
    """Return the Python function that calling ``fun`` runs, and its leading arguments; None if there is no such one.

    >>> from functools import partial
    >>> function, leading = bound(partial(lambda x, y: x - y, 5))
    >>> function(*leading, 3)
    2
    """
    match fun:
        case types.FunctionType():
            return fun, ()
        case types.MethodType():
            return _before(bound(fun.__func__), fun.__self__)
        case partial():
            function = _with_keywords(fun.func, fun.keywords) if fun.keywords else fun.func
            return _before(bound(function), *fun.args) if bound(fun.func) else None
        case staticmethod():
            return bound(fun.__func__)
        case type():
            return None
    if not callable(fun):
        return None
    match inspect.getattr_static(type(fun), "__call__", None):
        case types.FunctionType() as call:
            return call, (fun,)
        case staticmethod() as call:
            return bound(call.__func__)
        case classmethod() as call:
            return _before(bound(call.__func__), type(fun))
    return None


def _before(
    inner: tuple[types.FunctionType, tuple[object, ...]] | None, *leading: object
) -> tuple[types.FunctionType, tuple[object, ...]] | None:
    return inner and (inner[0], (*inner[1], *leading))


def _with_keywords(function: Callable[..., object], keywords: dict[str, object]) -> Callable[..., object]:
    def call(*args: object, **more: object) -> object:
        return function(*args, **{**keywords, **more})

    return call


# ---- loads ---------------------------------------------------------------------------------------------------------


_UNASKED = {HOOKS, "__class__"}


class _Loads(Scoped):
    """Sends calls, outer names, attribute and item loads through the hooks."""

    def __init__(self, located: Located, free: Iterable[str], shadowed: frozenset[str]) -> None:
        super().__init__(located)
        self.free = frozenset(free)
        self.builtins = _BUILTINS - shadowed
        self.rebound = _rebound(located)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = mangle(node.id, self.scope.class_name)
        if not isinstance(node.ctx, ast.Load) or name in _UNASKED or name in self.rebound:
            return node
        origin = self.scope.origin(name, self.free)
        if origin is Origin.LOCAL or (origin is Origin.GLOBAL and name in self.builtins):
            return node
        return hook("outer", [constant(name, node), node], node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        name = constant(mangle(node.attr, self.scope.class_name), node)
        return hook("attribute", [node.value, name], _from_attribute(node, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        owner = self.visit(node.value)
        return hook("item", [owner, self.visit(_slices_called(node.slice))], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        place: ast.expr = node
        if isinstance(node.func, ast.Attribute) and not _unpacks(node):
            place = _from_attribute(node, node.func)
        plain = self._is_hook(node.func) or self._looks_at_frame(node)
        inner = self.visit(node.func) if not plain or isinstance(node.func, ast.Call) else node.func
        func = inner if plain else hook("callee", [inner], place)
        node.args, node.keywords = self.each(node.args), self.each(node.keywords)
        return ast.copy_location(ast.Call(func, node.args, node.keywords), place)

    def _is_hook(self, func: ast.expr) -> bool:
        if isinstance(func, ast.Call):  # the call of what a hook returned
            return self._is_hook(func.func) and isinstance(func.func, ast.Attribute) and func.func.attr in THUNKS
        return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == HOOKS

    def _looks_at_frame(self, node: ast.Call) -> bool:
        if not isinstance(node.func, ast.Name) or node.func.id not in self.builtins:
            return False
        name, bare = node.func.id, not node.args and not node.keywords
        if self.scope.origin(name, self.free) is not Origin.GLOBAL:
            return False
        return name in FRAME_CALLS or (name in BARE_FRAME_CALLS and bare)


def _rebound(located: Located) -> set[str]:
    """Names that the function both declares ``global`` or ``nonlocal`` and assigns, in whichever of its scopes."""
    if not any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(located.node)):
        return set()
    declared: set[str] = set()
    assigned: set[str] = set()
    stack: list[tuple[ast.AST, str | None]] = [(located.node, located.class_name)]
    while stack:
        node, class_name = stack.pop()
        names, _ = bindings(node)
        assigned.update(mangle(name, class_name) for name in names)
        if isinstance(node, ast.Global | ast.Nonlocal):
            declared.update(mangle(name, class_name) for name in node.names)
        inner = node.name if isinstance(node, ast.ClassDef) else class_name
        stack.extend((child, inner) for child in ast.iter_child_nodes(node))
    return declared & assigned


def _unpacks(node: ast.Call) -> bool:
    return any(isinstance(arg, ast.Starred) for arg in node.args) or any(not key.arg for key in node.keywords)


def _from_attribute(node: ast.expr, attribute: ast.Attribute) -> ast.expr:
    """A place like ``node``'s, from the attribute's name on where that is on another line: as CPython reports it."""
    line, column = attribute.end_lineno, attribute.end_col_offset
    if line is None or column is None or line == node.lineno:
        return node
    place = ast.copy_location(ast.Constant(None), node)
    place.lineno, place.col_offset = line, max(column - len(attribute.attr), 0)
    return place


def _slices_called(key: ast.expr) -> ast.expr:
    """``a:b:c`` in a subscript, alone or in a tuple, as an expression (not yet visited)."""
    if isinstance(key, ast.Slice):
        parts = [part or constant(None, key) for part in (key.lower, key.upper, key.step)]
        return hook("slice", parts, key)
    if isinstance(key, ast.Tuple):
        key.elts = [_slices_called(element) for element in key.elts]
    return key


# ---- building --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compiled:
    """The rewritten code of one code object, by which builtin names the globals shadow."""

    builtin_names: frozenset[str]
    codes: dict[frozenset[str], types.CodeType] = field(default_factory=dict)


_compiled_codes: CodeCache[_Compiled] = CodeCache()
_produced: CodeCache[bool] = CodeCache()


def _compiled(fun: types.FunctionType, located: Located) -> types.CodeType:
    code = fun.__code__
    if code not in _compiled_codes:
        _compiled_codes[code] = _Compiled(
            _BUILTINS & {name for inner in codes_within(code) for name in inner.co_names},
        )
    known = _compiled_codes[code]
    shadowed = frozenset(name for name in known.builtin_names if name in fun.__globals__)
    if shadowed not in known.codes:
        new = _compile(located, code, shadowed)
        for inner in codes_within(new):
            _produced[inner] = True
        known.codes[shadowed] = new
    return known.codes[shadowed]


def _compile(located: Located, code: types.CodeType, shadowed: frozenset[str]) -> types.CodeType:
    node = cast("FunctionNode", clone(located.node))
    try:
        Control(located, code.co_freevars).function(node)
        _Loads(located, code.co_freevars, shadowed).function(node)
        module = _factory(node, located.class_name, code.co_freevars)
        outermost = compile(module, code.co_filename, "exec", code.co_flags & FUTURE_FLAGS, dont_inherit=True)
    except RecursionError:
        raise UnsupportedError(
            f"{code.co_qualname}: an expression is nested too deeply to be rewritten; split it into statements"
        ) from None
    wanted = _FUNCTION if not isinstance(node, ast.Lambda) else "<lambda>"
    new = next(inner for inner in codes_within(outermost) if inner.co_name == wanted)
    return _renamed(new, code.co_name, code.co_qualname)


def _factory(node: FunctionNode, class_name: str | None, free: Iterable[str]) -> ast.Module:
    """A module that defines the function where its free names are a factory's parameters, in a class if it was."""
    arguments = node.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument:
            argument.annotation = None
    statement: ast.stmt
    if isinstance(node, ast.Lambda):
        statement = ast.copy_location(ast.Expr(node), node)
    else:
        statement = node
        node.name, node.returns = _FUNCTION, None
        # The first line of decorated code is the decorator's.
        node.decorator_list = [ast.copy_location(ast.Constant(None), first) for first in node.decorator_list[:1]]
        if hasattr(node, "type_params"):
            node.type_params = []
    names = [ast.copy_location(ast.arg(name), node) for name in (*free, HOOKS)]
    parameters = ast.arguments([], names, None, [], [], None, [])
    outermost: ast.stmt = ast.copy_location(ast.FunctionDef(_FACTORY, parameters, [statement], [], None), node)
    if class_name is not None:
        outermost = ast.copy_location(ast.ClassDef(class_name, [], [], [outermost], []), node)
    return ast.Module([outermost], [])


def _renamed(code: types.CodeType, name: str, new: str) -> types.CodeType:
    """Give ``code`` a name and a qualified name; those nested in it begin with the latter, and arms have the same."""
    old = code.co_qualname

    def rename(value: object) -> object:
        if isinstance(value, str) and value == old and "<locals>" in old:  # the body of a class stores its own name
            return new
        if not isinstance(value, types.CodeType):
            return value
        if value.co_name.startswith(HIDDEN) or HIDDEN in value.co_varnames:
            return _renamed(value, name, new)
        inside = value.co_qualname.startswith(f"{old}.")
        return _renamed(value, value.co_name, new + value.co_qualname[len(old) :] if inside else value.co_qualname)

    consts = tuple(rename(const) for const in code.co_consts)
    return code.replace(co_name=name, co_qualname=new, co_consts=consts)


def _bind(code: types.CodeType, fun: types.FunctionType, hooks: Hooks) -> types.FunctionType:
    cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True))
    cells[HOOKS] = types.CellType(hooks)
    closure = tuple(cells[name] for name in code.co_freevars)
    new = types.FunctionType(code, fun.__globals__, fun.__name__, fun.__defaults__, closure)
    new.__kwdefaults__ = fun.__kwdefaults__ and dict(fun.__kwdefaults__)
    new.__annotations__ = dict(fun.__annotations__)
    new.__doc__, new.__module__, new.__qualname__ = fun.__doc__, fun.__module__, fun.__qualname__
    if hasattr(fun, "__type_params__"):
        new.__type_params__ = fun.__type_params__  # type: ignore[attr-defined]  # from Python 3.12 on
    new.__dict__.update(fun.__dict__)
    return new
