"""Checks of the derivative rule of every primitive there is, at the examples that its declaration gives."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np

import symgrad.ops
from symgrad.errors import DTypeError
from symgrad.ir.node import Node, constant, make, param
from symgrad.ir.op import REGISTRY, Leaf, Op, Region
from symgrad.ir.types import TensorType, f64
from symgrad.symbolic.report import Check, Report
from symgrad.symbolic.rules import check_rule


def verify_registry() -> Report:
    """A check for each primitive, failures first; of several examples the one that fails, else the first.

    Rules of primitives that run graphs are those of what is inside.
    """
    for module in pkgutil.iter_modules(symgrad.ops.__path__, "symgrad.ops."):
        importlib.import_module(module.name)
    checks: list[Check] = []
    for op in REGISTRY.values():
        if isinstance(op.lower, Leaf | Region):
            continue
        found = [check_rule(n, {}, {}) for n in _nodes(op)]
        if found:
            checks.append(next((c for c in found if not c.passed), found[0]))
    return Report(tuple(sorted(checks, key=lambda c: (c.passed, c.name))))


def _nodes(op: Op) -> Iterator[Node]:
    """The primitive on parameters of the shapes of its examples, where it takes floats."""
    for args, attrs in op.examples() if op.examples is not None else [(((),) * _arity(op), {})]:
        operands = [param(TensorType(f64, a)) if isinstance(a, tuple) else constant(np.asarray(a)) for a in args]
        try:
            node = make(op, *operands, **attrs)
        except DTypeError:
            continue
        if isinstance(node.type, TensorType):
            yield node


def _arity(op: Op) -> int:
    if isinstance(op.numpy, np.ufunc):
        return int(op.numpy.nin)
    known, extra = (op.partials, 1) if op.partials is not None else (op.numpy, 0)
    kinds: list[Any] = [q.kind for q in inspect.signature(known).parameters.values()]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - extra
