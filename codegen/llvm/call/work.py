"""How long a program may run, for the decision to let other threads run meanwhile."""

from __future__ import annotations

from symgrad.ir.loops import Block, Const, Expr, Extent, Extern, For, If, Parallel, Program, While
from symgrad.ir.types import Size


def iterations(program: Program) -> Size | None:
    """Iterations of its innermost loops, at most; None when that is not known before it runs."""
    return _of(program.body)


def _of(block: Block) -> Size | None:
    total: Size = 1
    for s in block:
        match s:
            case For():
                trips, inner = _trips(s.start, s.stop), _of(s.body)
                more = None if trips is None or inner is None else trips * inner
            case If():
                then, otherwise = _of(s.then), _of(s.otherwise)
                more = None if then is None or otherwise is None else then + otherwise
            case While() | Extern() | Parallel():
                return None
            case _:
                continue
        if more is None:
            return None
        total = total + more
    return total


def _trips(start: Expr, stop: Expr) -> Size | None:
    """At most this many, as long as loops do not start below zero."""
    match stop:
        case Const():
            last: Size = int(stop.value)
        case Extent():
            last = stop.size
        case _:
            return None
    return (
        last - start.size
        if isinstance(start, Extent)
        else last - int(start.value)
        if isinstance(start, Const)
        else last
    )
