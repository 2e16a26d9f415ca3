"""What functions mean on traced values.

``FUNCTIONS`` (by NumPy's protocols) and ``REPLACEMENTS`` (for callables that no protocol reaches: the rewritten user
function asks ``replacement`` what to call instead) are filled by the modules below. scipy is recognised, not imported.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend import indexing  # noqa: F401  # enters getitem and setitem
from symgrad.frontend.functions import (  # noqa: F401  # they register what they define
    creation,
    einsum,
    elementwise,
    inplace,
    joining,
    products,
    python_functions,
    reductions,
    scipy_functions,
    selection,
    shapes,
    statistics,
)  # fmt: skip
from symgrad.frontend.functions.scipy_functions import lazy_function, register_loaded, scipy_name
from symgrad.frontend.tracer import FUNCTIONS, contains_traced, implements, spelled

REPLACEMENTS: dict[Any, Callable[..., Any]] = {**creation.CREATORS, **python_functions.PYTHON}
_RANDOM = "random numbers inside a compiled function are drawn once, when it is compiled; draw outside and pass them in"
_REFUSAL = "is not supported on traced values in this version; compute outside what does not depend on the arguments"


def replacement(callee: Any) -> Callable[..., Any] | None:
    """What to call in place of ``callee`` in a traced function; None when ``callee`` itself is right."""
    try:
        found = REPLACEMENTS.get(callee)
    except TypeError:  # not hashable
        return None
    if found is not None:
        return found
    if is_random(callee):
        return refusing(callee, _RANDOM, always=True)
    return foreign(callee)


def is_random(callee: Any) -> bool:
    """Whether calling ``callee`` draws random numbers."""
    owner = getattr(callee, "__self__", None)
    module = getattr(callee, "__module__", None)
    if isinstance(module, str) and module.partition(".random")[0] == "numpy" and ".random" in module:
        return True
    generators = sys.modules.get("numpy.random")
    if generators is not None and isinstance(owner, generators.RandomState | generators.Generator):
        return True
    return isinstance(owner, random.Random)


def foreign(callee: Any) -> Callable[..., Any] | None:
    """Functions of scipy, and those of NumPy that have no meaning here, by identity."""
    known = FUNCTIONS.get(callee)
    known = known if known is not None else lazy_function(callee)
    module = getattr(callee, "__module__", None)
    if known is not None:
        by_protocol = isinstance(callee, np.ufunc) or (module or "").startswith("numpy")
        return seeing_lists(callee, known) if by_protocol else choosing(callee, known)
    unknown = scipy_name(callee) is not None
    if isinstance(module, str) and not isinstance(callee, type):
        unknown = unknown or module.startswith(("scipy.", "numpy.linalg", "numpy.fft"))
    return refusing(callee, _REFUSAL) if unknown else None


@functools.lru_cache(1024)
def seeing_lists(original: Any, version: Callable[..., Any]) -> Callable[..., Any]:
    """``original``, which comes back by NumPy's protocols unless what is traced hides in lists."""
    if isinstance(original, np.ufunc):
        version = functools.partial(FUNCTIONS["ufunc"], original, "__call__")

    @functools.wraps(original, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        hidden = any(isinstance(x, list | tuple) and contains_traced(x) for x in (*args, *keywords.values()))
        return (version if hidden else original)(*args, **keywords)

    return call


def choosing(original: Any, version: Callable[..., Any]) -> Callable[..., Any]:
    """``version`` when something is traced, else ``original``."""

    @functools.wraps(original, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        return (version if _traced(args, keywords) else original)(*args, **keywords)

    return call


def refusing(original: Any, reason: str, *, always: bool = False) -> Callable[..., Any]:
    """An error that names ``original`` when something is traced."""

    @functools.wraps(original, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        if always or _traced(args, keywords):
            raise UnsupportedError(f"{public_name(original)}: {reason}")
        return original(*args, **keywords)

    return call


def _traced(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    return any(contains_traced(x) for x in (*args, *keywords.values()))


def public_name(callee: Any) -> str:
    """A function as users write it, also methods of NumPy's hidden generator."""
    name = scipy_name(callee)
    if name is not None:
        return name
    owner = getattr(callee, "__self__", None)
    if isinstance(owner, random.Random):
        return f"random.{callee.__name__}"
    if is_random(callee):
        return f"np.random.{getattr(callee, '__name__', 'random')}"
    return spelled(callee)


@implements("resolve")
def resolve(callee: Any) -> Callable[..., Any] | None:
    """The version of a function that the table lacks: those of scipy, once they are loaded."""
    found = lazy_function(callee)
    if found is not None:
        register_loaded(FUNCTIONS)
    return found
