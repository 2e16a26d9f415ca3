"""Op -> partials, derived by sympy from the form in its declaration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.node import Node
from symgrad.ir.op import Op
from symgrad.symbolic.bridge import form
from symgrad.symbolic.rebuild import rebuild

Y = sp.Dummy("y", real=True)


def arguments(count: int, **assumptions: bool) -> tuple[Any, ...]:
    """Symbols for the arguments of a primitive."""
    return tuple(sp.Symbol(f"x{k}", **(assumptions or {"real": True})) for k in range(count))


@functools.cache
def partial_expressions(op: Op, arity: int, attrs: tuple[tuple[str, Any], ...] = ()) -> tuple[Any, ...]:
    """Derivatives in x0, x1, … and the result ``Y`` where that occurs in them."""
    symbols = arguments(arity)
    value = form(op, *symbols, **dict(attrs))
    out = []
    for x in symbols:
        d = derivative(value, x)
        if d is None:
            raise UnsupportedError(f"{op.name} has no derivative: sympy cannot differentiate {value}")
        out.append(d if value.is_Atom else d.subs(value, Y))
    return tuple(out)


def derivative(value: Any, x: Any) -> Any:
    """d value/d x, where steps (floor, sign) have derivative zero; None when sympy does not know it."""
    steps = {s: sp.Dummy(real=True) for s in value.atoms(sp.floor, sp.ceiling, sp.sign)}
    d = sp.diff(value.xreplace(steps), x)
    if d.has(sp.Derivative, sp.Subs, sp.Integral):
        return None
    return d.xreplace({dummy: s for s, dummy in steps.items()})


@functools.cache
def partials(op: Op) -> Callable[..., tuple[Any, ...]]:
    """The partials of a primitive that declares none: ``(y, *args, **attrs) -> nodes or numbers``."""

    def derived(y: Node, *args: Node, **attrs: Any) -> tuple[Any, ...]:
        expressions = partial_expressions(op, len(args), tuple(sorted(attrs.items())))
        env: dict[Any, Node] = {Y: y, **dict(zip(arguments(len(args)), args, strict=True))}
        return tuple(rebuild(e, env) for e in expressions)

    return derived
