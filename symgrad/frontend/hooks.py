"""What rewritten functions ask: calls go to traced versions, outer values become inputs or guards.

Outside a trace every hook is transparent.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend import indexing  # noqa: F401  # enters getitem and setitem
from symgrad.frontend.capture import Reach, cell_reach, constant_reach, global_reach, recorder
from symgrad.frontend.control import CALLEES, Control
from symgrad.frontend.functions import replacement
from symgrad.frontend.lines import located
from symgrad.frontend.pyast import bound, rewrite
from symgrad.frontend.tracer import Tracer, is_traced, value, wrap
from symgrad.frontend.tracing import tracing

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
LIBRARIES = ("numpy", "scipy", "sympy", "mpmath", "symgrad")
_OWN_MODULES = frozenset({*LIBRARIES, *sys.stdlib_module_names})


class FunctionHooks(Control):
    """The hooks of one function: it knows where the function's outer names live."""

    def __init__(self, fun: types.FunctionType) -> None:
        self.namespace = fun.__globals__
        self.cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True))

    def callee(self, function: Any, /) -> Callable[..., Any]:
        return prepared(function) if tracing() else function  # type: ignore[no-any-return]  # any callable

    def outer(self, name: str, value: Any, /) -> Any:
        r = recorder()
        if r is None or is_traced(value):
            return value
        return r.variable(self._reach(name), value)

    def _reach(self, name: str) -> Reach:
        cell = self.cells.get(name)
        return cell_reach(cell, name) if cell is not None else global_reach(self.namespace, name)

    def attribute(self, owner: Any, name: str, /) -> Any:
        r = recorder()
        if r is None or type(owner) is Tracer:
            return getattr(owner, name)
        if isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] in _OWN_MODULES:
            return getattr(owner, name)
        reach = r.reach_of(owner)
        found = getattr(owner, name)
        if reach is None or is_traced(found) or r.rebound(owner, name):
            return found
        return r.value(reach.attribute(name), found)

    def item(self, owner: Any, key: Any, /) -> Any:
        r = recorder()
        if r is None or type(owner) is Tracer:
            return owner[key]
        if type(owner) is np.ndarray and _has_traced(key):
            return wrap(value(owner))[key]
        reach = r.reach_of(owner)
        found = owner[key]
        if reach is None or is_traced(found) or not isinstance(key, str | int):
            return found
        return r.value(reach.item(key), found)

    def slice(self, start: Any, stop: Any, step: Any, /) -> slice:
        return slice(start, stop, step)


def _has_traced(key: Any) -> bool:
    return is_traced(key) or (isinstance(key, tuple) and any(_has_traced(k) for k in key))


_cache: dict[int, tuple[types.FunctionType, types.FunctionType]] = {}
_MOST = 4096


def rewritten(fun: types.FunctionType) -> types.FunctionType:
    """``fun`` asking hooks; the same one for the same function object."""
    found = _cache.get(id(fun))
    if found is not None and found[0] is fun:
        return found[1]
    if len(_cache) >= _MOST:
        _cache.clear()
    new = rewrite(fun, FunctionHooks(fun))
    _cache[id(fun)] = fun, new
    return new


def prepared(function: Any) -> Any:
    """What to call in place of ``function`` while tracing."""
    other = CALLEES.get(function) if isinstance(function, type) else None
    other = other or replacement(function)
    if other is not None:
        return other
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.random.RandomState | np.random.Generator):
        name = getattr(function, "__name__", "random")
        raise located(
            UnsupportedError(
                f"np.random.{name}: random numbers inside a compiled function; draw outside and pass them in"
            )
        )
    if isinstance(function, type) or type(owner) is Tracer:
        return function
    if hasattr(type(function), "__symgrad_transform__"):
        return function
    if isinstance(function, functools.partial):
        return _partial(function)
    found = bound(function)
    if found is None:
        return function
    fun, leading = found
    if not _rewrites(fun):
        return function
    new = _with_defaults(rewritten(fun), fun)
    return new if not leading else types.MethodType(new, leading[0]) if len(leading) == 1 else _with(new, leading)


def _partial(function: functools.partial[Any]) -> functools.partial[Any]:
    """A partial of what to call, with its arguments as values from outside."""
    args, keywords = _from_outside(function, "args"), _from_outside(function, "keywords")
    return functools.partial(prepared(function.func), *args, **keywords)


def _with_defaults(new: types.FunctionType, fun: types.FunctionType) -> types.FunctionType:
    """A rewritten function whose default arrays and containers are values from outside."""
    if new is fun or not any(isinstance(d, np.ndarray | list | tuple | dict) for d in _defaults(fun)):
        return new
    copy = types.FunctionType(
        new.__code__, new.__globals__, new.__name__, _from_outside(fun, "__defaults__"), new.__closure__
    )
    copy.__kwdefaults__ = _from_outside(fun, "__kwdefaults__")
    return copy


def _defaults(fun: types.FunctionType) -> tuple[Any, ...]:
    return (*(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values())


def _from_outside(owner: Any, name: str) -> Any:
    r = recorder()
    found = getattr(owner, name)
    if r is None or found is None:
        return found
    return r.value((r.reach_of(owner) or constant_reach(owner)).attribute(name), found)


def _with(fun: Callable[..., Any], leading: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *args, **kwargs: fun(*leading, *args, **kwargs)


def _rewrites(fun: types.FunctionType) -> bool:
    """Whether a function is the user's, not a library's."""
    file = os.path.abspath(fun.__code__.co_filename)
    if file.startswith(_PACKAGE):
        return False
    if (fun.__module__ or "").partition(".")[0] in LIBRARIES:
        return False
    return not file.startswith(_STDLIB) or "site-packages" in file
