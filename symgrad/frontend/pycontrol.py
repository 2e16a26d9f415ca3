"""Control flow of a function -> calls of hooks on small nested functions that share its variables.

    if x > 0:                            def _sg_then1(): nonlocal y; y = x
        y = x                  ->        def _sg_else1(): nonlocal y; y = -x
    else:                                __sg__.branch(x > 0, _sg_then1, _sg_else1, ("y",), (), (1, 3))()
        y = -x

Loops become ``repeat`` and ``each``; conditional expressions, ``and``, ``or``, ``not``, chained comparisons and
assertions ask hooks as well. Left as they are: class bodies, ``match``, conditions of comprehensions, async functions,
expressions that assign or yield in a part that may not run, and the bodies of generators, of functions that call
``locals()`` and the like, that jump out of ``finally``, or that nest more than ``_DEEPEST`` statements.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from symgrad.frontend.flags import RESULT, Branching, leaves_from_finally, lower, own_nodes
from symgrad.frontend.liveness import Live, live_names
from symgrad.frontend.scopes import Comprehension, N, Scope, Scoped, argument_names, collect
from symgrad.frontend.source import FunctionNode, Located, clone, mangle

HOOKS = "__sg__"
HIDDEN = "_sg_"  # begins the names of flags, arms and bodies; alone, it marks the functions of expressions
THUNKS = frozenset({"branch", "choose"})  # hooks that return what to call
_DEEPEST = 40
# Calls that read the calling frame: the caller must stay the user's function. The second set does so without arguments.
FRAME_CALLS = frozenset({"locals", "globals", "eval", "exec"})
BARE_FRAME_CALLS = frozenset({"super", "vars", "dir"})


@dataclass
class _Function:
    """The function at hand: which names its arms share, and what is known of them."""

    first: str | None
    global_names: set[str] = field(default_factory=set)
    live: Live = field(default_factory=Live)
    more: dict[ast.For, ast.expr] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    has_class: bool = False


class Control(Scoped):
    """Rewrites the control flow of a function and of those nested in it."""

    def __init__(self, located: Located, free: Iterable[str]) -> None:
        super().__init__(located)
        self.current: _Function | None = None
        self.in_class = "__class__" in free
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{HIDDEN}{stem}{self.count}"

    def each(self, nodes: Iterable[N]) -> list[N]:
        out: list[N] = []
        for node in nodes:
            new = self.visit(node)
            out.extend(new if isinstance(new, list) else [new])
        return out

    # --- functions and classes ---

    def function(self, node: FunctionNode) -> None:
        outside = self.current
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.current = None if _left_alone(body) else self._entered(node)
        super().function(node)
        if self.current is not None and not isinstance(node, ast.Lambda):
            node.body = _declared(node, self.current)
        self.current = outside

    def _entered(self, node: FunctionNode) -> _Function | None:
        arguments = [*node.args.posonlyargs, *node.args.args]
        current = _Function(arguments[0].arg if arguments else None, has_class=self.in_class)
        if isinstance(node, ast.Lambda) or not any(isinstance(inner, Branching) for inner in own_nodes(node.body)):
            return current
        scope = Scope(None, None)
        collect(scope, node.body)
        current.global_names = scope.global_names
        lowered = lower(node.body, self.fresh)
        if _depth(lowered.body) > _DEEPEST:
            return None
        return current

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outside, in_class = self.current, self.in_class
        self.current, self.in_class = None, True
        super().visit_ClassDef(node)
        self.current, self.in_class = outside, in_class
        return node
