"""Program and lengths -> what one call costs: floating-point operations, and bytes that must move at least once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from symgrad.ir.loops import (
    Apply,
    Assign,
    Block,
    Choose,
    Const,
    Convert,
    Declare,
    Expr,
    Extent,
    Extern,
    For,
    If,
    Let,
    LetAll,
    Load,
    Parallel,
    Program,
    Store,
    Var,
    While,
    operands,
)
from symgrad.ir.types import evaluate_size

_INDEX: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "div": lambda a, b: int(a / b) if b else 0,
}


def cost(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """``flops`` (an elementary function counts as one) and ``bytes`` (arguments, results and temporaries, each once).

    A loop whose bounds are known only at run time is counted as one turn; of two branches the dearer one counts.
    """
    moved = sum(evaluate_size(b.elements, sizes) * b.dtype.bytes for b in program.buffers)
    return {"flops": _block(program.body, sizes, {}), "bytes": moved}


def _block(block: Block, sizes: Mapping[str, int], known: dict[Var, int]) -> int:
    total = 0
    for s in block:
        match s:
            case Let(var=v, value=e) | Declare(var=v, value=e):
                total += _flops(e)
                if not e.dtype.is_float and (number := _number(e, sizes, known)) is not None:
                    known[v] = number
            case LetAll():
                total += _block(s.lets(), sizes, known)
            case Assign(value=e) | Store(value=e):
                total += _flops(e)
            case For(start=a, stop=b, body=body):
                low, high = _number(a, sizes, known), _number(b, sizes, known)
                turns = 1 if low is None or high is None else max(0, high - low)
                total += turns * _block(body, sizes, known)
            case Parallel(count=count, body=body):
                total += (_number(count, sizes, known) or 1) * _block(body, sizes, known)
            case While(head=head, body=body):
                total += _block(head, sizes, known) + _block(body, sizes, known)
            case If(then=then, otherwise=otherwise):
                total += max(_block(then, sizes, known), _block(otherwise, sizes, known))
            case Extern():
                total += _extern(s, sizes, known)
            case _:
                pass
    return total


def _extern(s: Extern, sizes: Mapping[str, int], known: dict[Var, int]) -> int:
    """Two operations for each product of a BLAS call, whose three (or two) extents come first."""
    lengths = [_number(a.value, sizes, known) for a in s.args if hasattr(a, "value") and not isinstance(a.value, str)]
    extents = [n for n in lengths[: 3 if s.name.endswith("gemm") else 2] if n is not None]
    total = 2
    for n in extents:
        total *= n
    return total


def _flops(e: Expr) -> int:
    total, todo = 0, [e]
    while todo:
        x = todo.pop()
        total += isinstance(x, Apply) and x.args[0].dtype.is_float
        todo.extend(operands(x))
    return total


def _number(e: Expr, sizes: Mapping[str, int], known: dict[Var, int]) -> int | None:
    match e:
        case Const(value=v):
            return int(v) if isinstance(v, int) else None
        case Extent(size=size):
            return evaluate_size(size, sizes)
        case Var():
            return known.get(e)
        case Apply(fn=f, args=(a, b)) if f.name in _INDEX:
            x, y = _number(a, sizes, known), _number(b, sizes, known)
            return None if x is None or y is None else _INDEX[f.name](x, y)
        case Apply() | Choose() | Convert() | Load():
            return None
