"""The type of objects that are called by machine code: a C-made subclass of a Python class.

The subclass adds one field, the vectorcall pointer. While that is null CPython calls the class's ``__call__``. All else
(attributes, deallocation, garbage collection, weak references, pickling) comes from the Python class.
"""

from __future__ import annotations

import ctypes
from typing import Any

from symgrad.codegen.llvm.call.layout import unavailable

_T_PYSSIZET, _READONLY, _TP_MEMBERS = 19, 1, 72
_DEFAULT, _VECTORCALL = 1 << 18, 1 << 11
_KEPT: list[Any] = []  # what types refer to: for ever


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def callable_type(base: type) -> type:
    """A subclass of ``base`` with a vectorcall pointer; ``base`` itself where there is no native call path."""
    if unavailable():
        return base
    offset = base.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, offset, _READONLY, None))
    # No tp_call: it is inherited. Of its own, it would get a `__call__` wrapper that hides the one of the base.
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(members)))
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _Spec(name, offset + 8, 0, _DEFAULT | _VECTORCALL, slots)
    _KEPT.append((name, members, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    made: type = make(ctypes.addressof(spec), (base,))
    return made


def publish(instance: object, base: type, address: int) -> None:
    """Let calls of ``instance`` run the code at ``address``; a call under way elsewhere sees the old or the new."""
    ctypes.c_void_p.from_address(id(instance) + base.__basicsize__).value = address
