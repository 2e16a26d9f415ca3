"""Makers of syntax nodes at a place in the user's text."""

from __future__ import annotations

import ast
from typing import Any, TypeVar

HOOKS = "__sg__"
HIDDEN = "_sg_"  # begins the names of flags and arms; alone, it marks the functions that stand for expressions

N = TypeVar("N", bound=ast.AST)


def at(node: N, place: ast.AST) -> N:
    return ast.copy_location(node, place)


def load(name: str, place: ast.AST) -> ast.expr:
    return at(ast.Name(name, ast.Load()), place)


def constant(value: Any, place: ast.AST) -> ast.expr:
    return at(ast.Constant(value), place)


def assign(name: str, value: ast.expr, place: ast.AST) -> ast.stmt:
    return at(ast.Assign([at(ast.Name(name, ast.Store()), place)], value), place)


def hook(name: str, args: list[ast.expr], place: ast.expr) -> ast.expr:
    """``__sg__.name(*args)`` at ``place``; the function's own nodes are a point, lest a multi-line call end there."""
    owner = load(HOOKS, place)
    func = at(ast.Attribute(owner, name, ast.Load()), place)
    for node in (owner, func):
        node.end_lineno, node.end_col_offset = place.lineno, place.col_offset
    return at(ast.Call(func, args, []), place)


def thunk(value: ast.expr) -> ast.expr:
    """``lambda: value``, marked as one that the user did not write."""
    place = value
    arguments = ast.arguments([], [], at(ast.arg(HIDDEN), place), [], [], None, [])
    return at(ast.Lambda(arguments, value), place)
