"""Python's own containers and objects that a part of the program can reach: it must not change them.

A branch that the compiled program decides, or the body of a loop that it runs, is traced once. An ``append`` in it
would happen once while tracing, whatever the program does. So what a part changes is put back, and refused.
"""

from __future__ import annotations

import collections
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from symgrad.errors import TraceError
from symgrad.frontend.source import codes_within

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = frozenset({"numpy", "scipy", "sympy", "mpmath", "symgrad", "builtins", *sys.stdlib_module_names})
_MOST = 20_000
_Key = tuple[Any, list[Any]]


def run_unchanged(part: Callable[[], Any], parts: tuple[Any, ...], what: str) -> Any:
    """Run ``part``; TraceError when it changes a container or object that ``parts`` can reach, which is put back."""
    before = [(x, _contents(x), _copy(x)) for x in _reached(parts)]
    failed = False
    try:
        return part()
    except BaseException:
        failed = True
        raise
    finally:
        changed = [(x, copy) for x, contents, copy in before if not _same(contents, _contents(x))]
        for x, copy in changed:
            _restore(x, copy)
        if changed and not failed:
            kinds = ", ".join(sorted({f"a {type(x).__name__}" for x, _ in changed}))
            raise TraceError(
                f"{kinds} is changed in {what}, which only the compiled program decides or repeats: assign a new one "
                "to a variable, or fill an array made before (out[i] = …)"
            )


def _reached(parts: tuple[Any, ...]) -> list[Any]:
    """Containers and objects of the user's that can be reached from the variables of functions."""
    seen: dict[int, Any] = {}
    found: list[Any] = []
    stack = list(parts)
    while stack and len(seen) < _MOST:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        below = _below(x)
        if below is None:
            continue
        if not isinstance(x, types.FunctionType | functools.partial | types.MethodType | tuple):
            found.append(x)
        stack.extend(below)
    return found


def _below(x: Any) -> Iterator[Any] | None:
    """What can be reached from ``x`` in one step; None when it is nothing that is looked into."""
    match x:
        case types.FunctionType():
            return _variables(x)
        case types.MethodType():
            return iter((x.__func__, x.__self__))
        case functools.partial():
            return iter((x.func, *x.args, *x.keywords.values()))
        case dict():
            return iter(list(x.values()))
        case list() | tuple() | set() | collections.deque():
            return iter(list(x))
    kind = type(x)  # not what a traced value says it is
    if kind.__module__.partition(".")[0] in _LIBRARIES or isinstance(x, type | types.ModuleType):
        return None
    return iter(list(x.__dict__.values())) if hasattr(x, "__dict__") else None


def _variables(f: types.FunctionType) -> Iterator[Any]:
    for cell in f.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # no value yet
            continue
    if f.__code__.co_filename.startswith(_PACKAGE):
        return
    for code in codes_within(f.__code__):
        for name in code.co_names:
            if name in f.__globals__ and not isinstance(
                f.__globals__[name], types.FunctionType | types.ModuleType | type
            ):
                yield f.__globals__[name]


def _contents(x: Any) -> _Key:
    """The identities of what a container holds; holding them keeps the identities from being used again."""
    match x:
        case dict():
            return len(x), [*x.keys(), *x.values()]
        case list() | collections.deque():
            return len(x), list(x)
        case set():
            return len(x), sorted(x, key=id)
    return len(x.__dict__), [*x.__dict__.keys(), *x.__dict__.values()]


def _same(a: _Key, b: _Key) -> bool:
    return a[0] == b[0] and len(a[1]) == len(b[1]) and all(x is y for x, y in zip(a[1], b[1], strict=True))


def _copy(x: Any) -> Any:
    return (
        dict(x)
        if isinstance(x, dict)
        else list(x)
        if isinstance(x, list | set | collections.deque)
        else dict(x.__dict__)
    )


def _restore(x: Any, copy: Any) -> None:
    target = x if isinstance(x, dict | list | set | collections.deque) else x.__dict__
    target.clear()
    (target.extend if isinstance(target, list | collections.deque) else target.update)(copy)
