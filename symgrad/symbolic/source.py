"""A formula of numbers -> text to run: a function in NumPy, or in C99, of the value and its gradient."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.printing.c import C99CodePrinter
from sympy.printing.numpy import SciPyPrinter

from symgrad.errors import UnsupportedError

if TYPE_CHECKING:
    from symgrad.symbolic.formula import Formula

INDENT = "    "


class _InC(C99CodePrinter):  # type: ignore[misc]  # sympy has no types
    """C99 with pi and its kind as numbers, rather than as constants declared before the expression."""

    def _print_NumberSymbol(self, expr: Any) -> str:
        return repr(float(expr))

    _print_Pi = _print_Exp1 = _print_NumberSymbol


def numpy_source(formula: Formula) -> str:
    """A Python function that returns ``(value, *gradients)``, of numbers or of arrays of one shape."""
    name, printer = _name(formula), SciPyPrinter({"fully_qualified_modules": True})
    lines = [f"{s} = {_printed(printer, e)}" for s, e in formula.subexpressions.items()]
    results = ", ".join(_printed(printer, e) for e in (formula.value, *formula.grads.values()))
    body = "\n".join(f"{INDENT}{line}" for line in [*lines, f"return {results}"])
    used = [m for m in ("numpy", "scipy.special") if f"{m}." in body]
    imports = "".join(f"import {m}\n" for m in used)
    return f"{imports}\n\ndef {name}({', '.join(formula.names)}):\n{body}\n".lstrip("\n")


def c_source(formula: Formula) -> str:
    """A function of C99 that returns the value and stores the gradients."""
    name, printer = _name(formula), _InC({"math_macros": {}})  # macros such as M_PI are not of C99
    lines = [f"const double {s} = {_printed(printer, e)};" for s, e in formula.subexpressions.items()]
    lines += [f"*grad_{n} = {_printed(printer, e)};" for n, e in formula.grads.items()]
    lines.append(f"return {_printed(printer, formula.value)};")
    parameters = [f"double {n}" for n in formula.names] + [f"double *grad_{n}" for n in formula.grads]
    body = "\n".join(f"{INDENT}{line}" for line in lines)
    return f"#include <math.h>\n\ndouble {name}({', '.join(parameters)})\n{{\n{body}\n}}\n"


def _name(formula: Formula) -> str:
    if formula.shapes:
        raise UnsupportedError("source text is written for formulas of numbers; lower(...) has programs of arrays")
    name = re.sub(r"\W", "_", formula.title)
    return name if name.isidentifier() else f"f_{name}"


def _printed(printer: Any, e: Any) -> str:
    text: str = printer.doprint(sp.sympify(e))
    if "Not supported" in text or "not supported" in text:
        raise UnsupportedError(f"{sp.sympify(e).func.__name__} has no spelling in this language")
    return " ".join(text.split())
