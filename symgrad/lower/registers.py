"""Temporaries of one element that nobody takes the address of -> mutable scalars, which live in registers."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import replace

from symgrad.ir.loops import (
    Address,
    Assign,
    Block,
    ByReference,
    Const,
    Declare,
    Expr,
    Extern,
    For,
    If,
    Let,
    LetAll,
    Load,
    Parallel,
    Program,
    Stmt,
    Store,
    Var,
    While,
    operands,
    statements,
)
from symgrad.ir.types import boolean
from symgrad.lower.rebuild import map_block


def in_registers(program: Program) -> Program:
    """The program without memory for scalars that it only loads and stores; what a failure tells stays in memory."""
    scalars = {b.name: b for b in program.buffers if b.kind == "temp" and b.elements == 1} if program.buffers else {}
    for name in (*_kept_in_memory(program.body), *(name for f in program.failures for name, _ in f.values)):
        scalars.pop(name, None)
    if not scalars:
        return program
    variables = {name: Var(f"x{name}", b.dtype) for name, b in scalars.items()}

    def load(e: Expr) -> Expr | None:
        return variables.get(e.buffer) if isinstance(e, Load) else None

    def store(s: Store) -> Stmt | None:
        v = variables.get(s.buffer)
        return None if v is None else Assign(v, s.value)

    body = map_block(program.body, load, store)
    once = _bound_once(body, set(variables.values()))
    body = tuple(Let(s.var, s.value) if isinstance(s, Assign) and s.var in once else s for s in body)
    others = (v for v in variables.values() if v not in once)
    start = tuple(Declare(v, Const(False if v.dtype == boolean else 0, v.dtype)) for v in others)
    return replace(program, buffers=tuple(b for b in program.buffers if b.name not in scalars), body=(*start, *body))


def _bound_once(body: Block, variables: set[Var]) -> set[Var]:
    """Those of the variables that one statement of the body assigns, outside of loops and branches, before any read."""
    assigned = collections.Counter(s.var for s in statements(body) if isinstance(s, Assign))
    read: set[Var] = set()
    out: set[Var] = set()
    for s in body:
        read.update(e for inner in statements((s,)) for e in expressions(inner) if isinstance(e, Var))
        if isinstance(s, Assign) and s.var in variables and assigned[s.var] == 1 and s.var not in read:
            out.add(s.var)
    return out


def _kept_in_memory(block: Block) -> Iterator[str]:
    """Buffers whose address is taken, or that are read or written at an index that is not the number zero."""
    zero = 0
    for s in statements(block):
        if isinstance(s, Parallel):
            yield from (inner.buffer for inner in statements(s.body) if isinstance(inner, Store))
        if isinstance(s, Extern):
            yield from (a.buffer for a in s.args if isinstance(a, Address))
        if isinstance(s, Store) and not (isinstance(s.index, Const) and s.index.value == zero):
            yield s.buffer
        for e in expressions(s):
            if isinstance(e, Load) and not (isinstance(e.index, Const) and e.index.value == zero):
                yield e.buffer


def expressions(s: Stmt) -> Iterator[Expr]:
    """Every expression of one statement, with all parts; not those of statements inside it."""
    todo: list[Expr] = []
    match s:
        case Store():
            todo = [s.index, s.value]
        case For():
            todo = [s.start, s.stop]
        case Parallel():
            todo = [s.count]
        case While() | If():
            todo = [s.condition]
        case Extern():
            todo = [
                a.index if isinstance(a, Address) else a.value for a in s.args if isinstance(a, Address | ByReference)
            ]
        case LetAll():
            todo = list(s.operands)
        case _ if hasattr(s, "value"):
            todo = [s.value]
    while todo:
        e = todo.pop()
        yield e
        todo.extend(operands(e))
