"""Graph of a gradient -> Formula: its value and derivatives as expressions a person can read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.node import Node
from symgrad.symbolic.arrays import array_parts, check_array_gradient
from symgrad.symbolic.bridge import is_small, symbol, translate
from symgrad.symbolic.derive import derivative
from symgrad.symbolic.listing import Line, indexed, rolled
from symgrad.symbolic.patience import within
from symgrad.symbolic.precision import DIGITS, MPMATH, real_number
from symgrad.symbolic.report import Check, Report
from symgrad.symbolic.simplify import SMALL, size
from symgrad.symbolic.simplify import simplify as shortest
from symgrad.symbolic.source import c_source, numpy_source

PROOF_SECONDS = 2.0
PIECES_SECONDS = 2.0  # to simplify all shared subexpressions
TRIES = 60


@dataclass(frozen=True)
class Formula:
    """``title(names) = value`` and its ``grads``, which share ``subexpressions``, each in terms of earlier ones."""

    title: str
    names: tuple[str, ...]
    value: Any
    grads: dict[str, Any]
    subexpressions: dict[Any, Any] = field(default_factory=dict)
    indices: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    shapes: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def lines(self) -> list[Line]:
        """What is defined, in reading order: temporaries stand under the first line that needs them."""
        shown: set[Any] = set()
        heads = {f"{self.title}({', '.join(self.names)})": self.value}
        heads |= {f"∂{self.title}/∂{self._place(name)}": e for name, e in self.grads.items()}
        out = []
        for head, e in heads.items():
            out.append(Line(head, e))
            out += rolled([(s, self.subexpressions[s]) for s in self._needed(e, shown)], self.names)
        if not any(line.steps for line in out):
            return out
        return [replace(n, head=n.head if n.depth == 0 else indexed(n.head), body=indexed(n.body)) for n in out]

    def _place(self, name: str) -> str:
        index = self.indices.get(name)
        return f"{name}[{', '.join(map(str, index))}]" if index else name

    def _needed(self, e: Any, shown: set[Any]) -> list[Any]:
        """Temporaries below ``e`` that are not yet shown, in order."""
        stack, found = [e], set()
        while stack:
            new = {
                s for s in stack.pop().free_symbols if s in self.subexpressions and s not in shown and s not in found
            }
            found |= new
            stack += [self.subexpressions[s] for s in new]
        shown |= found
        return [s for s in self.subexpressions if s in found]

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines()))

    def pretty(self) -> str:
        """The formula in two dimensions, for a terminal."""
        parts = []
        for line in self.lines():
            body = str(sp.pretty(line.body, use_unicode=True)).splitlines()
            left = "    " * line.depth + str(line.head)
            middle = len(body) // 2
            for k, row in enumerate(body):
                parts.append(f"{left} = {row}{line.steps}" if k == middle else " " * (len(left) + 3) + row)
            parts.append("")
        return "\n".join(part.rstrip() for part in parts).rstrip()

    def latex(self) -> str:
        """The formula as LaTeX, one line each in an ``aligned`` block."""
        title = _latex_name(self.title)
        symbols = ", ".join(sp.latex(symbol(n)) for n in self.names)
        heads = {f"{self.title}({', '.join(self.names)})": rf"{title}({symbols})"}
        for n in self.grads:
            index = self.indices.get(n)
            below = sp.latex(sp.IndexedBase(n)[index] if index else symbol(n))
            heads[f"∂{self.title}/∂{self._place(n)}"] = rf"\frac{{\partial {title}}}{{\partial {below}}}"
        rows = []
        for line in self.lines():
            left = heads[line.head] if line.depth == 0 else sp.latex(line.head)
            steps = rf" \quad \text{{{line.steps.strip()}}}" if line.steps else ""
            rows.append(r"\quad " * line.depth + f"{left} &= {sp.latex(line.body)}{steps}")
        return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"

    def markdown(self) -> str:
        """The formula as a block of mathematics in Markdown."""
        return f"$$\n{self.latex()}\n$$"

    def numpy(self) -> str:
        """The text of a Python function that returns ``(value, *gradients)``; UnsupportedError for arrays."""
        return numpy_source(self)

    def c(self) -> str:
        """The text of a C99 function that returns the value and stores the gradients; UnsupportedError for arrays."""
        return c_source(self)

    def lambdify(self, modules: Any = None) -> Callable[..., tuple[Any, ...]]:
        """A function of the arguments that returns ``(value, *grads)``, by NumPy unless told otherwise."""
        if self.shapes:
            raise UnsupportedError("lambdify is for formulas of scalars")
        symbols = [symbol(n) for n in self.names]
        results = [self.value, *self.grads.values()]
        shared = list(self.subexpressions.items())
        chosen = ["scipy", "numpy"] if modules is None else modules
        function = sp.lambdify(symbols, results, modules=chosen, cse=lambda exprs: (shared, exprs))
        return lambda *args: tuple(function(*args))

    def verify(self) -> Report:
        """Prove each derivative equal to ``sympy.diff`` of the value where sympy can, else compare at 50 digits."""
        return Report(tuple(self._check(k, name) for k, name in enumerate(self.grads)))

    def _check(self, k: int, name: str) -> Check:
        title = f"∂{self.title}/∂{self._place(name)}"
        if self.shapes:
            index = self.indices.get(name, ())
            return check_array_gradient(title, self.value, self.grads[name], index, name, self.shapes)
        if not self.subexpressions and size(self.value) <= SMALL and size(self.grads[name]) <= SMALL:
            cases = self.value.has(sp.Piecewise, sp.Max, sp.Min) or self.grads[name].has(sp.Piecewise)
            seconds = PROOF_SECONDS / 10 if cases else PROOF_SECONDS
            gap = within(seconds, lambda: _gap(self.value, self.grads[name], symbol(name)))
            if gap == 0:
                return Check(title, "proved by sympy", True)
        return self._compare(k, name, title)

    def _compare(self, k: int, name: str, title: str) -> Check:
        """Central differences of the value at random points, at 50 digits."""
        function, at = self.lambdify(MPMATH), self.names.index(name)
        inexact = any(e.has(sp.Float) for e in (self.value, *self.grads.values(), *self.subexpressions.values()))
        worst, compared = mpmath.mpf(0), 0
        draw = random.Random(0)
        with mpmath.workdps(DIGITS):
            h = mpmath.mpf(10) ** (-DIGITS // 3)
            for attempt in range(TRIES):
                low, high = [(-2.0, 2.0), (0.05, 0.95), (0.2, 4.0)][attempt % 3]
                point = [mpmath.mpf(draw.uniform(low, high)) for _ in self.names]
                ends = [[v + s * h if i == at else v for i, v in enumerate(point)] for s in (1, -1)]
                a, b, here = (_results(function, p) for p in (*ends, point))
                slope, claimed = (a[0] - b[0]) / (2 * h), here[1 + k]
                if not (mpmath.isfinite(slope) and mpmath.isfinite(claimed)):
                    continue
                worst = max(worst, abs(slope - claimed) / max(1, abs(slope)))
                compared += 1
                if compared == 6:
                    break
        passed = compared > 0 and worst < mpmath.mpf(1e-10 if inexact else 1e-20)
        detail = (
            f"largest error {mpmath.nstr(worst, 3)} at {compared} points" if compared else "no point where it is finite"
        )
        return Check(title, f"compared with differences at {DIGITS} digits", bool(passed), detail)


def _latex_name(title: str) -> str:
    if len(title) == 1:
        return title
    escaped = title.replace("_", "\\_")
    return f"\\operatorname{{{escaped}}}"


def _results(function: Callable[..., tuple[Any, ...]], point: Sequence[Any]) -> list[Any]:
    try:
        return [real_number(v) for v in function(*point)]
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        return [mpmath.nan] * 99


def _gap(value: Any, grad: Any, x: Any) -> Any:
    d = derivative(value, x)
    return None if d is None else sp.simplify(d - grad)


def scalar_formula(
    graph: Graph,
    *,
    title: str,
    names: Sequence[str],
    wrt: Sequence[int],
    simplify: bool = True,
    expand: bool = True,
    labels: dict[Node, str] | None = None,
) -> Formula:
    """The formula of ``params -> (value, *gradients of the params in wrt)``; of arrays one element, with indexed sums.

    With ``expand=False`` the nodes in ``labels`` are kept as subexpressions of those names.
    """
    named_at = {names[k]: j + 1 for j, k in enumerate(wrt)}
    if not is_small(graph):
        parts, shapes = array_parts(graph, names, simplify=simplify)
        grads = {n: parts[j][1] for n, j in named_at.items()}
        indices = {n: parts[j][0] for n, j in named_at.items() if parts[j][0]}
        return Formula(title, tuple(names), parts[0][1], grads, {}, indices, shapes)
    found = translate(graph, names, labels=None if expand else labels)
    value = found.results[0]
    grads = {n: found.results[j] for n, j in named_at.items()}
    pieces = found.subexpressions
    if simplify:
        value = shortest(value)
        grads = {n: shortest(e) for n, e in grads.items()}
        deadline = time.monotonic() + PIECES_SECONDS
        own = set(labels.values()) if labels else set()
        pieces = {
            s: e if str(s) in own else shortest(e, seconds=max(0.0, deadline - time.monotonic()), thorough=False)
            for s, e in pieces.items()
        }
    return Formula(title, tuple(names), value, grads, pieces)
