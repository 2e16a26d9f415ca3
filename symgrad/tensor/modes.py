"""Whether operations are recorded for differentiation: a mode of the thread, set by context managers and decorators."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any


class _Mode(threading.local):
    enabled = True


MODE = _Mode()


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require grad are recorded for differentiation in this thread."""
    return MODE.enabled


class set_grad_enabled:
    """Switch recording on or off: at once as a call, until the end of the block as a context manager."""

    def __init__(self, enabled: bool) -> None:
        self._before = [MODE.enabled]
        self._enabled = MODE.enabled = bool(enabled)

    def __enter__(self) -> None:
        MODE.enabled = self._enabled

    def __exit__(self, *exc: object) -> None:
        MODE.enabled = self._before[0]


class _GradMode:
    """A context manager and decorator, with parentheses or without."""

    enabled: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        new = super().__new__(cls)
        new._before = []
        return new if function is None else new(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self._before: list[bool]

    def __enter__(self) -> None:
        self._before.append(MODE.enabled)
        MODE.enabled = self.enabled

    def __exit__(self, *exc: object) -> None:
        MODE.enabled = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            before, MODE.enabled = MODE.enabled, self.enabled
            try:
                return function(*args, **keywords)
            finally:
                MODE.enabled = before

        return call


class no_grad(_GradMode):
    """Operations inside are not recorded for differentiation.

    >>> import symgrad as sg
    >>> x = sg.tensor(2.0, requires_grad=True)
    >>> with sg.autograd.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    enabled = False


class enable_grad(_GradMode):
    """Operations inside are recorded for differentiation, also within ``no_grad``."""

    enabled = True
