"""BLAS for compiled code: C symbols ``sg_dgemm`` ... bound to the routines that SciPy carries.

They have Fortran's signature: every argument is a pointer, matrices are column-major, integers have 32 bits.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping

from symgrad.errors import UnsupportedError

PREFIX = "sg_"


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The addresses of those of ``names`` that begin with ``sg_``. SciPy is imported only for them."""
    return {name: address(name.removeprefix(PREFIX)) for name in names if name.startswith(PREFIX)}


@functools.cache
def thread_count() -> tuple[int, int] | None:
    """The addresses of OpenBLAS's ``int get()`` and ``void set(int)`` of its number of threads, if it is that."""
    from scipy.linalg import cython_blas

    library = ctypes.CDLL(cython_blas.__file__)  # symbols are looked for in what it depends on, too
    for prefix in ("scipy_", ""):
        for suffix in ("", "64_"):
            names = [f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set")]
            if all(hasattr(library, name) for name in names):
                get, set_ = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)
                return get, set_
    return None


@functools.cache
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
