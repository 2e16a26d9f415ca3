"""Calls under a time-out: sympy's algorithms have no bound of their own."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OutOfTime(BaseException):
    """Raised inside the worker; not an Exception, so that no handler on its way swallows it."""


def within(seconds: float, compute: Callable[[], T]) -> T | None:
    """What ``compute`` gives, or None when it takes longer or fails."""
    out: list[T] = []

    def work() -> None:
        try:
            out.append(compute())
        except (Exception, OutOfTime):
            out.clear()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds)
    while worker.is_alive():  # once may fall into code that swallows it, such as a finaliser
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(OutOfTime))
        worker.join(0.05)
    return out[0] if out else None
