"""BLAS for compiled code: C symbols ``sg_dgemm`` ... bound to the routines that SciPy carries.

They have Fortran's signature: every argument is a pointer, matrices are column-major, integers have 32 bits.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Mapping

from symgrad.codegen.llvm.target import binding
from symgrad.errors import UnsupportedError

PREFIX = "sg_"
_LOCK = threading.Lock()
_registered: set[str] = set()


def register(names: Iterable[str]) -> None:
    """Make those of ``names`` that begin with ``sg_`` known to LLVM. SciPy is imported only for them."""
    with _LOCK:
        for name in sorted(n for n in names if n.startswith(PREFIX) and n not in _registered):
            binding().add_symbol(name, address(name.removeprefix(PREFIX)))
            _registered.add(name)


def address(routine: str) -> int:
    """The address of a BLAS routine, such as ``dgemm``."""
    from scipy.linalg import cython_blas

    capsules: Mapping[str, object] = cython_blas.__pyx_capi__
    if routine not in capsules:
        raise UnsupportedError(f"{routine} is not a routine of SciPy's BLAS")
    capsule = ctypes.py_object(capsules[routine])
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    pointer: int | None = pointer_of(capsule, name_of(capsule))
    assert pointer is not None
    return pointer
