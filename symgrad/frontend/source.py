"""Python function -> the syntax tree of its text, with the lines and columns of the file.

A tree is returned only if the text, compiled again, gives the function's code: a file edited after it was imported, or
code that only borrows a file's name, has no source. Functions of modules whose ``assert`` statements a test runner has
rewritten are compared by their names instead.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import os
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from inspect import CO_NESTED, CO_VARARGS, CO_VARKEYWORDS
from itertools import zip_longest
from typing import Generic, TypeAlias, TypeVar

V = TypeVar("V")
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Position: TypeAlias = tuple[int, int]

# All ``from __future__`` bits of ``co_flags`` but that of nested scopes, which now says that a function is nested.
FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names} - {CO_NESTED})


class CodeCache(Generic[V]):
    """Values by code object: by identity, because equal code objects may stand in different files; held weakly."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[types.CodeType], V]] = {}

    def __contains__(self, code: types.CodeType) -> bool:
        entry = self._entries.get(id(code))
        return entry is not None and entry[0]() is code

    def __getitem__(self, code: types.CodeType) -> V:
        return self._entries[id(code)][1]

    def __setitem__(self, code: types.CodeType, value: V) -> None:
        key, entries = id(code), self._entries
        entries[key] = weakref.ref(code, lambda _: entries.pop(key, None)), value


@dataclass(frozen=True)
class Located:
    """A function's node and the name of the class its text stands in (which decides how ``__names`` are mangled)."""

    node: FunctionNode
    class_name: str | None


@dataclass(frozen=True)
class _Index:
    """The functions of one text, and their code objects, by name and first line."""

    nodes: dict[tuple[str, int], list[Located]]
    codes: dict[tuple[str, int], list[types.CodeType]]


_located: CodeCache[Located | None] = CodeCache()


def find(fun: object) -> FunctionNode | None:
    """Return the node of ``fun``, or None if it has no (matching) source; shared, so copy it before changing it."""
    located = locate(fun)
    return located.node if located else None


def locate(fun: object) -> Located | None:
    """Return the node of ``fun`` with the class it stands in, or None."""
    if not isinstance(fun, types.FunctionType):
        return None
    code = fun.__code__
    if code not in _located:
        _located[code] = _locate(fun)
    return _located[code]


def file_of(fun: object) -> str | None:
    """The file name in the tracebacks of ``fun``; None for what is not a Python function."""
    return fun.__code__.co_filename if isinstance(fun, types.FunctionType) else None


def clone(root: ast.AST) -> ast.AST:
    """Copy a tree without recursion, however deep it is."""
    top = _shallow(root)
    stack = [top]
    while stack:
        node = stack.pop()
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                value = _shallow(value)
                stack.append(value)
            elif isinstance(value, list):
                value = [_shallow(item) if isinstance(item, ast.AST) else item for item in value]
                stack.extend(item for item in value if isinstance(item, ast.AST))
            setattr(node, name, value)
    return top


def codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """``code`` and all code objects nested in it."""
    stack = [code]
    while stack:
        yield (top := stack.pop())
        stack.extend(const for const in top.co_consts if isinstance(const, types.CodeType))


def _shallow(node: ast.AST) -> ast.AST:
    new = type(node).__new__(type(node))
    new.__dict__.update(node.__dict__)
    return new


def _locate(fun: types.FunctionType) -> Located | None:
    text = _text(fun)
    found = _match(fun.__code__, text)
    if found is not None:
        return found
    linecache.checkcache(fun.__code__.co_filename)  # reloaded from a changed file?
    fresh = _text(fun)
    return _match(fun.__code__, fresh) if fresh != text else None


def _text(fun: types.FunctionType) -> str:
    name = fun.__code__.co_filename
    lines = linecache.getlines(name, fun.__globals__)
    if lines:
        return "".join(lines)
    file = fun.__globals__.get("__file__")  # a relative name, from a directory that we have left
    if not isinstance(file, str) or os.path.basename(file) != os.path.basename(name):
        return ""
    return "".join(linecache.getlines(file, fun.__globals__))


def _match(code: types.CodeType, text: str) -> Located | None:
    if not text:
        return None
    index = _index(text, code.co_filename, code.co_flags & FUTURE_FLAGS)
    key = code.co_name, code.co_firstlineno
    if index is None or not any(_same(code, other) or _asserted(code, other) for other in index.codes.get(key, [])):
        return None
    nodes = [item for item in index.nodes.get(key, []) if _arguments(item) == code.co_varnames[: _argcount(code)]]
    if code.co_name == "<lambda>":
        return _pick_lambda(code, nodes)
    return nodes[0] if len(nodes) == 1 else None


@lru_cache(maxsize=32)
def _index(text: str, filename: str, flags: int) -> _Index | None:
    try:
        tree = ast.parse(text, filename)
        module = compile(tree, filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # not Python (any more)
        return None
    index = _Index({}, {})
    for located in _functions(tree):
        index.nodes.setdefault(_key(located.node), []).append(located)
    for code in codes_within(module):
        index.codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return index


def _functions(tree: ast.Module) -> Iterator[Located]:
    stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while stack:
        node, class_name = stack.pop()
        if isinstance(node, FunctionNode):
            yield Located(node, class_name)
        if not isinstance(node, ast.ClassDef):
            stack.extend((child, class_name) for child in ast.iter_child_nodes(node))
            continue
        stack.extend((child, node.name) for child in node.body)
        stack.extend((child, class_name) for child in (*node.decorator_list, *node.bases, *node.keywords))


def _key(node: FunctionNode) -> tuple[str, int]:
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, node.decorator_list[0].lineno if node.decorator_list else node.lineno


def _argcount(code: types.CodeType) -> int:
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _arguments(located: Located) -> tuple[str, ...]:
    """Argument names in the order of ``co_varnames``."""
    args = located.node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return tuple(mangle(arg.arg, located.class_name) for arg in every if arg)


def mangle(name: str, class_name: str | None) -> str:
    """The name by which ``name``, written inside class ``class_name``, is known at run time."""
    owner = (class_name or "").lstrip("_")
    private = name.startswith("__") and not name.endswith("__") and "." not in name
    return f"_{owner}{name}" if owner and private else name


def _pick_lambda(code: types.CodeType, nodes: list[Located]) -> Located | None:
    """The innermost lambda whose body holds every place that the code names."""
    places = _places(code)
    if not places:  # compiled without columns: only a lone lambda on its line can be told
        return nodes[0] if len(nodes) == 1 else None
    first, last = min(start for start, _ in places), max(end for _, end in places)
    around = [item for item in nodes if _start(item.node.body) <= first and last <= _end(item.node.body)]
    return max(around, key=lambda item: _start(item.node.body), default=None)


def _places(code: types.CodeType) -> list[tuple[Position, Position]]:
    places = []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) != (end_line, end_column):  # the prologue has no width
            places.append(((line, column), (end_line, end_column)))
    return places


def _start(node: ast.expr | list[ast.stmt]) -> Position:
    assert isinstance(node, ast.expr)
    return node.lineno, node.col_offset


def _end(node: ast.expr | list[ast.stmt]) -> Position:
    assert isinstance(node, ast.expr)
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _same(code: types.CodeType, other: types.CodeType) -> bool:
    """Are these the same code at the same place?"""
    return (
        code.co_code == other.co_code
        and code.co_names == other.co_names
        and code.co_varnames == other.co_varnames
        and code.co_freevars == other.co_freevars
        and code.co_cellvars == other.co_cellvars
        and len(code.co_consts) == len(other.co_consts)
        and all(map(_same_const, code.co_consts, other.co_consts))
        and all(a == b for a, b in zip_longest(code.co_positions(), other.co_positions()))
    )


def _same_const(a: object, b: object) -> bool:
    if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
        return _same(a, b) or _asserted(a, b)
    return type(a) is type(b) and (a == b or repr(a) == repr(b))  # repr: nan


def _asserted(code: types.CodeType, other: types.CodeType) -> bool:
    """Is ``code`` what an assertion rewriter (its names begin with ``@``) made of ``other``?"""
    names, theirs = {*code.co_names, *code.co_varnames}, {*other.co_names, *other.co_varnames}
    rewritten = any(name.startswith("@") for inner in codes_within(code) for name in inner.co_varnames + inner.co_names)
    return rewritten and theirs <= names and code.co_freevars == other.co_freevars
