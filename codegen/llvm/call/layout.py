"""Where CPython and NumPy keep what the call path reads, and a check that this interpreter does so.

Offsets count from the end of the object header, whose size the interpreter tells. The fields of arrays are public and
have been where they are since NumPy 1.22.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import sys
import types
from typing import Any

import numpy as np

HEAD = object.__basicsize__
TYPE = HEAD - 8
NUMBER = HEAD  # of floats and of NumPy's scalars
CELL = HEAD
TUPLE_ITEMS = tuple.__basicsize__
LENGTH = HEAD  # of tuples and lists
LIST_ITEMS = HEAD + 8
VERSION = HEAD + 8  # of dicts, where they have one
DATA, NDIM, DIMS, DESCR, FLAGS, HANDLER = HEAD, HEAD + 8, HEAD + 16, HEAD + 40, HEAD + 48, HEAD + 72
PLAIN = 0x1 | 0x100  # C-contiguous and aligned
OWNS_DATA, WRITEABLE = 0x4, 0x400
POSITIONS = (1 << 63) - 1  # of nargsf

_API_ARRAY_TYPE, _API_NEW = 2, 93
_TP_ALLOC = 47  # Py_tp_alloc
_ENTRY_POINTS = (
    *("PyTuple_New", "PyList_New", "PyObject_GetAttr", "PyObject_Vectorcall", "Py_IncRef", "Py_DecRef", "PyErr_Clear"),
    *("PyEval_SaveThread", "PyEval_RestoreThread", "PyDict_GetItemWithError", "PyLong_AsLongLongAndOverflow"),
    *("PyMem_RawMalloc", "PyMem_RawFree"),
)
_OBJECTS: dict[str, Any] = {
    "float": float,
    "int": int,
    "tuple": tuple,
    "list": list,
    "array": np.ndarray,
    "true": np.True_,
    "false": np.False_,
}
_KINDS = ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


@functools.cache
def unavailable() -> str:
    """Why this interpreter has no native call path; empty when it has one."""
    if sys.implementation.name != "cpython" or hasattr(sys, "gettotalrefcount"):
        return f"the interpreter is {sys.implementation.name}{' (debug)' if hasattr(sys, 'gettotalrefcount') else ''}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or HEAD != 16:
        return "the interpreter runs without a global lock"
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return "the machine is not a little-endian one of 64 bits"
    return "" if _is_as_expected() else "objects of this interpreter lie in memory in an unknown way"


def _is_as_expected() -> bool:
    """Look at objects whose contents are known."""
    array, number, content = np.arange(6.0).reshape(2, 3), 1.5, object()
    pair, items = (content, number), [number, content]
    if _word(array, TYPE) != id(np.ndarray) or _word(array, DESCR) != id(np.dtype("f8")):
        return False
    shape = [ctypes.c_int64.from_address(_word(array, DIMS) + 8 * k).value for k in (0, 1)]
    flags = ctypes.c_int32.from_address(id(array) + FLAGS).value
    return (
        _word(array, DATA) == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + NDIM).value == 2
        and shape == [2, 3]
        and flags & PLAIN == PLAIN
        and ctypes.c_int32.from_address(id(array.T) + FLAGS).value & PLAIN == 0x100
        and ctypes.c_double.from_address(id(number) + NUMBER).value == number
        and ctypes.c_float.from_address(id(np.float32(2.5)) + NUMBER).value == 2.5
        and _word(types.CellType(content), CELL) == id(content)
        and (_word(pair, LENGTH), _word(pair, TUPLE_ITEMS)) == (2, id(content))
        and ctypes.c_void_p.from_address(_word(items, LIST_ITEMS) + 8).value == id(content)
        and 0 != _word(np.empty(2), HANDLER) == _word(np.empty(3), HANDLER)
        and ctypes.c_void_p.from_address(_word(np.empty(2), HANDLER) + TYPE).value == id(type(_capsule()))
        and _array_api()[_API_ARRAY_TYPE] == id(np.ndarray)
    )


@functools.cache
def dicts_have_versions() -> bool:
    """Whether a number in a dict changes with every change of the dict, as it does up to CPython 3.13."""
    changing = {"a": 1}
    seen = [_word(changing, VERSION), _word(changing, VERSION)]
    for change in ((lambda: changing.update(a=2)), (lambda: changing.update(b=3)), (lambda: changing.pop("b"))):
        change()
        seen.append(_word(changing, VERSION))
    changing.clear()
    seen.append(_word(changing, VERSION))
    return seen[0] == seen[1] and len(set(seen)) == len(seen) - 1


def _word(owner: object, offset: int) -> int:
    return ctypes.c_void_p.from_address(id(owner) + offset).value or 0


def _capsule() -> Any:
    return importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API


def _array_api() -> Any:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return (ctypes.c_void_p * (_API_NEW + 1)).from_address(pointer_of(_capsule(), None))


def type_slot(kind: type, slot: int) -> int:
    """The address in a slot of a type."""
    slot_of = ctypes.pythonapi.PyType_GetSlot
    slot_of.restype, slot_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    return slot_of(kind, slot) or 0


SLOW = sys.intern("_slow")  # the method that takes the calls that do not fit


@functools.cache
def entry_points() -> dict[str, int]:
    """The functions of CPython that machine code calls."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _ENTRY_POINTS}


@functools.cache
def addresses() -> dict[str, int]:
    """The symbols that every call path refers to."""
    out = dict(entry_points())
    out["PyArray_New"] = _array_api()[_API_NEW]
    out["py.scalar.alloc"] = type_slot(np.float64, _TP_ALLOC)
    out["py.none"], out["py.name.slow"] = id(None), id(SLOW)
    out |= {f"py.{name}": id(value) for name, value in _OBJECTS.items()}
    for kind in map(np.dtype, _KINDS):
        out[f"py.descr.{kind.str[1:]}"], out[f"py.scalar.{kind.str[1:]}"] = id(kind), id(kind.type)
    return out
