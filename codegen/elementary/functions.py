"""Every function by its name in C; sigmoid has none and goes by its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import signature

from symgrad.codegen.elementary.builder import Body, Ops, Value
from symgrad.codegen.elementary.error import erf, erfc
from symgrad.codegen.elementary.exponential import cosh, exp, exp2, expm1, sigmoid, sinh, tanh
from symgrad.codegen.elementary.inverse import acos, acosh, asin, asinh, atan, atan2, atanh
from symgrad.codegen.elementary.logarithm import log, log1p, log2, log10
from symgrad.codegen.elementary.power import cbrt, pow
from symgrad.codegen.elementary.trigonometric import cos, sin, tan

_ALL = (
    exp, exp2, expm1, sigmoid, tanh, sinh, cosh, log, log2, log10, log1p, sin, cos, tan,
    asin, acos, atan, atan2, asinh, acosh, atanh, cbrt, pow, erf, erfc,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Value]] = {f.__name__: f for f in _ALL}
ARITY = {name: len(signature(f).parameters) - 1 for name, f in _FUNCTIONS.items()}


@functools.cache
def definition(name: str, bits: int) -> Body:
    """The function ``name`` of ``ARITY[name]`` floats of 32 or 64 bits."""
    o = Ops(bits)
    return o.body(_FUNCTIONS[name](o, *map(o.argument, range(ARITY[name]))))
