"""NumPy's namespace with every function that traced values know: ``import symgrad.numpy as snp``.

Inside a compiled function these give traced values, the makers of arrays (``snp.zeros``, ``snp.array``, ``snp.arange``,
…) included. Outside, on plain arguments, they are NumPy's and SciPy's own functions.

>>> import symgrad.numpy as snp
>>> snp.maximum([1.0, 5.0], 2.0)
array([2., 5.])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.functions import REPLACEMENTS, refusing
from symgrad.frontend.functions.scipy_functions import SPECIAL
from symgrad.frontend.tracer import FUNCTIONS, contains_traced
from symgrad.frontend.tracing import call, tracing


def _known() -> list[str]:
    """The names that traced values know, without loading NumPy's lazy submodules."""
    present = ((name, np.__dict__.get(name)) for name in np.__all__)
    return sorted(n for n, f in present if callable(f) and (f in FUNCTIONS or f in REPLACEMENTS))


__all__ = _known()


def _either(original: Callable[..., Any], version: Callable[..., Any] | None) -> Callable[..., Any]:
    """``version`` inside a trace or on anything traced, else ``original``."""

    @functools.wraps(original, updated=())
    def function(*args: Any, **keywords: Any) -> Any:
        if not tracing() and not any(contains_traced(x) for x in (*args, *keywords.values())):
            return original(*args, **keywords)
        known = version if version is not None else _version(original)
        if known is not None:
            return call(known, *args, **keywords)
        return refusing(original, "is not supported on traced values")(*args, **keywords)

    return function


def _version(original: Any) -> Callable[..., Any] | None:
    found = REPLACEMENTS.get(original)
    return found if found is not None else FUNCTIONS.get(original)


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name)
    return found if not callable(found) or isinstance(found, type) else _either(found, None)


class _Special:
    """scipy.special, imported when it is first called on plain arguments."""

    def __getattr__(self, name: str) -> Any:
        version = SPECIAL.get(name)
        if version is None:
            raise AttributeError(f"symgrad.numpy.special has no function {name!r}")

        def original(*args: Any, **keywords: Any) -> Any:
            import scipy.special

            return getattr(scipy.special, name)(*args, **keywords)

        original.__name__ = name
        return _either(original, version)

    def __dir__(self) -> list[str]:
        return sorted(SPECIAL)


class _Linalg:
    """numpy.linalg."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _entry(np.linalg, name)

    def __dir__(self) -> list[str]:
        return [n for n in np.linalg.__all__ if getattr(np.linalg, n) in FUNCTIONS]


special, linalg = _Special(), _Linalg()


def __getattr__(name: str) -> Any:
    return _found(name)


@functools.cache  # not kept as globals, which would hide builtins like any and sum from this module
def _found(name: str) -> Any:
    if name.startswith("__") or not hasattr(np, name):
        raise AttributeError(f"module 'symgrad.numpy' has no attribute {name!r}")
    if name == "random":
        raise UnsupportedError("symgrad.numpy.random: draw outside the compiled function and pass the numbers in")
    return _entry(np, name)


def __dir__() -> list[str]:
    return [*__all__, "linalg", "special"]
