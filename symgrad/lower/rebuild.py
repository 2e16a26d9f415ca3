"""Blocks with every expression mapped: what passes from Program to Program share."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.ir.loops import (
    Address,
    Apply,
    Assign,
    Block,
    ByReference,
    Choose,
    Const,
    Convert,
    Declare,
    Expr,
    Extent,
    Extern,
    Fail,
    For,
    If,
    Let,
    LetAll,
    Load,
    Parallel,
    Stmt,
    Store,
    Text,
    Var,
    While,
)

Leaf = Callable[[Expr], Expr | None]


def map_expr(e: Expr, change: Leaf) -> Expr:
    """``e`` with ``change`` applied to every part, outer ones first; where it gives None, to what is below."""
    new = change(e)
    if new is not None:
        return new
    match e:
        case Const() | Extent() | Var():
            return e
        case Load():
            return Load(e.buffer, map_expr(e.index, change), e.dtype)
        case Apply():
            return Apply(e.fn, tuple(map_expr(a, change) for a in e.args), e.reassoc)
        case Choose():
            return Choose(map_expr(e.condition, change), map_expr(e.then, change), map_expr(e.otherwise, change))
        case Convert():
            return Convert(map_expr(e.value, change), e.dtype)


def map_block(block: Block, change: Leaf, store: Callable[[Store], Stmt | None] = lambda s: None) -> Block:
    """A block with every expression mapped, and stores replaced where ``store`` gives a statement."""

    def expr(e: Expr) -> Expr:
        return map_expr(e, change)

    def inner(b: Block) -> Block:
        return tuple(statement(s) for s in b)

    def statement(s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.var, expr(s.value))
            case LetAll():
                return LetAll(s.vars, s.fn, tuple(map(expr, s.operands)))
            case Declare():
                return Declare(s.var, expr(s.value))
            case Assign():
                return Assign(s.var, expr(s.value))
            case Store():
                new = Store(s.buffer, expr(s.index), expr(s.value))
                return store(new) or new
            case For():
                return For(s.var, expr(s.start), expr(s.stop), inner(s.body))
            case Parallel():
                return Parallel(s.var, s.worker, expr(s.count), s.workers, inner(s.body))
            case While():
                return While(inner(s.head), expr(s.condition), inner(s.body))
            case If():
                return If(expr(s.condition), inner(s.then), inner(s.otherwise))
            case Extern():
                return Extern(s.name, tuple(argument(a) for a in s.args))
            case Fail():
                return s

    def argument(a: Address | ByReference | Text) -> Address | ByReference | Text:
        match a:
            case Address():
                return Address(a.buffer, expr(a.index))
            case ByReference():
                return ByReference(expr(a.value), a.dtype)
            case Text():
                return a

    return inner(block)
