"""The running stack -> the line of the user's program that is at work, as a ``SourceLine``.

The first frame outside this package and NumPy is the user's. Lines are kept per instruction, so that asking again costs
a walk over a few frames and a look-up.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType
from typing import TypeVar

import numpy as np

from symgrad.errors import SourceLine, SymgradError

_INTERNAL = tuple(os.path.dirname(os.path.abspath(f)) + os.sep for f in (os.path.dirname(__file__), np.__file__))
_NUMPY = _INTERNAL[1]
_internal_files: dict[str, bool] = {}
_lines: dict[tuple[int, int], tuple[CodeType, SourceLine]] = {}  # keyed by id: hashing code objects is slow
_MOST_LINES = 100_000

E = TypeVar("E", bound=SymgradError)


def is_internal(file: str) -> bool:
    known = _internal_files.get(file)
    if known is None:
        known = _internal_files[file] = os.path.abspath(file).startswith(_INTERNAL)
    return known


def where() -> SourceLine | None:
    """The user's current line; None when only internal frames are on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _line(frame)


def _line(frame: FrameType) -> SourceLine:
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    found = _lines.get(key)
    if found is not None:
        return found[1]
    text = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    name = "" if code.co_name.startswith("<") else code.co_name
    line = SourceLine(code.co_filename, frame.f_lineno, text, name)
    if len(_lines) >= _MOST_LINES:
        _lines.clear()
    _lines[key] = code, line
    return line


def numpy_call() -> str | None:
    """The NumPy function written in Python that the user called and that is at work, as ``np.name``."""
    frame: FrameType | None = sys._getframe(1)
    name = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_NUMPY):
            name = frame.f_code.co_name
        frame = frame.f_back
    return None if name is None else f"np.{name}"


def located(error: E) -> E:
    """``error`` with the user's line in it."""
    error.at(where())
    return error


def with_line(message: str) -> str:
    """``message`` and the user's line, for errors that are Python's own."""
    line = where()
    return message if line is None else f"{message}\n  at {line}"
