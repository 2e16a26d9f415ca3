"""Graph -> Executable: the whole pipeline in one function, and the call of a native program with NumPy arrays."""

from __future__ import annotations

import builtins
import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.codegen.llvm import Native, default_cache, load
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.loops import Program
from symgrad.ir.types import Dim, Size, TensorType, evaluate_size
from symgrad.lower.program import lower
from symgrad.passes.simplify import simplify

Array = np.ndarray[Any, Any]
KEPT_ARENA = 1 << 28  # a workspace above this many bytes is given back after the call


@dataclass(frozen=True, eq=False)
class Executable:
    """A compiled graph: arrays of the parameters' types in, new arrays out."""

    graph: Graph
    program: Program
    native: Native

    def __call__(self, arrays: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
        """Run on arrays in the order of the graph's params.

        Any memory layout is accepted. Raises what the program was told to raise, such as an IndexError.
        """
        inputs = [_contiguous(a, d) for a, d in zip(arrays, self._dtypes, strict=True)]
        outputs = [np.empty(shape(sizes), dtype) for dtype, shape in self._results]
        pointers = [a.ctypes.data for a in inputs]
        pointers += [a.ctypes.data for a in outputs]
        lengths = [sizes[name] for name in self.program.sizes]
        workspace = _arena(_evaluated(self.program.workspace_bytes, sizes))
        buffers, numbers = self._vectors
        status = self.native.call(buffers(*pointers), numbers(*lengths), workspace)
        if status:
            failure = self.program.failures[status - 1]
            raise getattr(builtins, failure.exception)(failure.message)
        return outputs

    @cached_property
    def _dtypes(self) -> list[np.dtype[Any]]:
        return [p.dtype.numpy for p in self.graph.params]

    @cached_property
    def _results(self) -> list[tuple[np.dtype[Any], Callable[[Mapping[str, int]], tuple[int, ...]]]]:
        return [(r.dtype.numpy, _shaper(r.type)) for r in self.graph.results]

    @cached_property
    def _vectors(self) -> tuple[Any, Any]:
        count = len(self.graph.params) + len(self.graph.results)
        return ctypes.c_void_p * count, ctypes.c_int64 * len(self.program.sizes)


def compile_graph(graph: Graph, name: str, *, backend: str = "cpu") -> Executable:
    """Simplify, lower and compile; the object code comes from the disk cache when it is there."""
    if backend != "cpu":
        raise UnsupportedError(f"backend {backend!r} is not there; this version compiles for 'cpu'")
    graph = simplify(graph)
    program = lower(graph, name)
    return Executable(graph, program, load(program, cache=default_cache()))


def _shaper(type: TensorType) -> Callable[[Mapping[str, int]], tuple[int, ...]]:
    if not any(isinstance(s, Dim) for s in type.shape):
        return lambda sizes: type.shape  # type: ignore[return-value]  # all ints here
    return lambda sizes: tuple(_evaluated(s, sizes) for s in type.shape)


def _evaluated(size: Size, sizes: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else evaluate_size(size, sizes)


_EMPTY = np.zeros(64, np.uint8)  # what an empty array points to, so that a guarded read stays in memory


def _contiguous(a: Array, dtype: np.dtype[Any]) -> Array:
    if a.dtype is not dtype or not (flags := a.flags).c_contiguous or not flags.aligned:
        a = np.ascontiguousarray(a, dtype).reshape(np.shape(a))
        if not a.flags.aligned:
            a = a.copy()
    return a if a.size else _EMPTY


_local = threading.local()


def _arena(size: int) -> int:
    """The address of this thread's workspace of at least ``size`` bytes, aligned to 64."""
    if not size:
        return 0
    held: Array | None = getattr(_local, "arena", None)
    if held is None or held.nbytes < size + 64 or held.nbytes > KEPT_ARENA:
        held = _local.arena = np.empty(size + 64, np.uint8)
    address = held.ctypes.data
    return address + -address % 64


__all__ = ["Executable", "compile_graph"]
