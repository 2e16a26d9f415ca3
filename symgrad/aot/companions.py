"""What lies beside a library: descriptions for pkg-config and CMake, and a wrapper for Python with NumPy alone."""

from __future__ import annotations

import re

from symgrad.aot.header import Interface
from symgrad.ir.types import TensorType

PKG_CONFIG = """prefix=${{pcfiledir}}

Name: {name}
Description: {entry}, compiled by symgrad
Version: {version}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -l{name} -lm
"""

CMAKE = """# {entry}, compiled by symgrad {version}: find_package({name} CONFIG), then link {name}::{name}
if(NOT TARGET {name}::{name})
  add_library({name}::{name} STATIC IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
  if(UNIX)
    set_property(TARGET {name}::{name} PROPERTY INTERFACE_LINK_LIBRARIES m)
  endif()
endif()
"""

PYTHON = '''"""{entry} of lib{name}.so, compiled by symgrad {version}; needs NumPy alone."""

import ctypes
import pathlib

import numpy as np

_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("lib{name}.so")))
_library.{entry}_workspace.restype = ctypes.c_size_t
_library.{name}_strerror.restype = ctypes.c_char_p
INPUTS = {inputs!r}
SIZES = {sizes!r}


def {entry}({parameters}):
    """Return {results}.

    ValueError for other shapes than those of ``INPUTS``, RuntimeError for what the library says.
    """
    sizes, arrays = {{}}, []
    for (name, dtype, dims), given in zip(INPUTS, ({parameters},)):
        array = np.asarray(given, dtype, order="C")
        if array.ndim != len(dims):
            raise ValueError(f"{{name}} has {{array.ndim}} dimensions, {{len(dims)}} are wanted")
        for length, wanted in zip(array.shape, dims):
            if sizes.setdefault(wanted, length) != length if isinstance(wanted, str) else wanted != length:
                raise ValueError(f"{{name}} has shape {{array.shape}}, {{dims}} is wanted with {{sizes}}")
        arrays.append(array)
    lengths = [ctypes.c_int64(sizes[s]) for s in SIZES]
    results = [{made}]
    workspace = np.empty(_library.{entry}_workspace(*lengths) + 16, np.uint8)
    at = workspace.ctypes.data + -workspace.ctypes.data % 16
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *results)]
    room = ctypes.c_size_t(workspace.nbytes - 16)
    status = _library.{entry}(*lengths, *pointers, ctypes.c_void_p(at), room)
    if status:
        raise RuntimeError(_library.{name}_strerror(status).decode())
    results = [r if r.ndim else r[()] for r in results]
    return results[0] if len(results) == 1 else tuple(results)
'''


def _made(t: TensorType) -> str:
    """An array for a result, of lengths that are read from ``sizes``."""
    dims = "".join(re.sub(r"[A-Za-z_]\w*", lambda m: f"sizes[{m[0]!r}]", str(s)) + ", " for s in t.shape)
    return f"np.empty(({dims}), {str(t.dtype.numpy)!r})"


def pkg_config(interface: Interface) -> str:
    return PKG_CONFIG.format(name=interface.name, entry=interface.entry.name, version=interface.version)


def cmake(interface: Interface) -> str:
    return CMAKE.format(name=interface.name, entry=interface.entry.name, version=interface.version)


def python(interface: Interface) -> str:
    """A module with one function, of arrays in the order of C's inputs, to arrays in the order of its outputs."""
    return PYTHON.format(
        name=interface.name,
        entry=interface.entry.name,
        version=interface.version,
        inputs=tuple((n, str(s.dtype.numpy), s.dims) for n, s in interface.inputs),
        made=", ".join(_made(t) for _, t in interface.outputs),
        sizes=interface.entry.sizes,
        parameters=", ".join(n for n, _ in interface.inputs),
        results=", ".join(n for n, _ in interface.outputs),
    )
