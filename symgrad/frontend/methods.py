"""A compiled function in a class -> a compiled method: the object is read at each call, and is no argument.

One program serves all objects of a class: what it reads of the object is found again from the object of the call.
Positions, as in ``argnums``, count the arguments after the object.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from symgrad.frontend.capture import Reach, recorder
from symgrad.frontend.hooks import prepared
from symgrad.frontend.tracing import tracing

Function = Callable[..., Any]


class _Compiled(Protocol):
    """What a bound method asks of the compiled function behind it."""

    __wrapped__: Function

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Method:
    """A function of the arguments after the object; the object is that of the call under way in this thread."""

    __symgrad_transform__ = True
    __wrapped__: Function

    def __init__(self, fun: Function) -> None:
        functools.update_wrapper(self, fun)
        with suppress(TypeError, ValueError):
            signature = inspect.signature(fun)
            self.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        self._local = threading.local()
        self._reach = Reach(("self", id(self)), lambda: self._local.instance)

    @contextmanager
    def of(self, instance: Any) -> Iterator[None]:
        """Make ``instance`` the object of the calls inside."""
        before = getattr(self._local, "instance", None), getattr(self._local, "nested", False)
        self._local.instance, self._local.nested = instance, tracing()
        try:
            yield
        finally:
            self._local.instance, self._local.nested = before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        instance, r = self._local.instance, recorder()
        if r is not None and not self._local.nested:  # in another trace, that one knows where the object is from
            r.know_same(instance, self._reach)
        return prepared(self.__wrapped__.__get__(instance, type(instance)))(*args, **kwargs)


class Bound:
    """A compiled method of one object."""

    __symgrad_transform__ = True

    def __init__(self, compiled: _Compiled, instance: Any) -> None:
        functools.update_wrapper(self, compiled.__wrapped__)
        self.__name__ = str(getattr(compiled.__wrapped__, "__name__", ""))
        self.__func__ = compiled
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self.__func__, *args, **kwargs)

    def _call(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        method = self.__func__.__wrapped__
        assert isinstance(method, Method)
        with method.of(self.__self__):
            return function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.__func__, name)
        return functools.partial(self._call, found) if callable(found) else found

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bound) and self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


def owner_name(fun: Any) -> str | None:
    """The qualified name of the class that a function was defined in."""
    owner = str(getattr(fun, "__qualname__", "")).rpartition(".")[0]
    return None if not owner or owner.endswith("<locals>") or isinstance(fun, Method) else owner


def roots(fun: Any) -> list[Any]:
    """The objects that a function is called on or is itself: their attributes are read from outside."""
    match fun:
        case types.MethodType():
            return [fun.__self__, *roots(fun.__func__)]
        case functools.partial():
            return roots(fun.func)
        case types.FunctionType() | types.BuiltinFunctionType() | type():
            return []
    inner = getattr(fun, "__wrapped__", None)
    if hasattr(type(fun), "__symgrad_transform__"):
        return [] if inner is None else roots(inner)
    return [fun] if callable(fun) else []


__all__ = ["Bound", "Method", "owner_name", "roots"]
