"""Graph -> Executable: the whole pipeline in one function, and the call of a native program with NumPy arrays."""

from __future__ import annotations

import builtins
import ctypes
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import numpy as np

from symgrad.codegen.llvm import Native, default_cache, load
from symgrad.codegen.llvm.call import Path, Signature, load_path
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.loops import Failure, Program
from symgrad.ir.types import Size, evaluate_size
from symgrad.lower.program import lower
from symgrad.lower.regions import CAPACITY, TAPE_FULL
from symgrad.passes.regions import tidy
from symgrad.passes.simplify import simplify

Array = np.ndarray[Any, Any]
KEPT_ARENA = 1 << 28  # a workspace above this many bytes is given back after the call


class TapeFullError(Exception):
    """A while loop ran longer than there was room for; nothing but scratch memory was changed."""


@dataclass
class Room:
    """How many trips of a while loop there is memory for: doubled when a call needs more."""

    trips: int


@dataclass(frozen=True, eq=False)
class Executable:
    """A compiled graph: arrays of the parameters' types in, new arrays out."""

    graph: Graph
    program: Program
    native: Native
    room: Room = field(default_factory=lambda: Room(1024))
    capacity: ClassVar[str] = CAPACITY  # the size that ``room`` gives

    def __call__(self, values: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """Run on arrays and numbers in the order of the graph's params, in any memory layout.

        Gives new arrays, and NumPy scalars for 0-d results. Raises what the program was told to raise, such as an
        IndexError.
        """
        while True:
            try:
                return self.prepare(sizes)(values)
            except TapeFullError:
                self.room.trips *= 2

    def prepare(self, sizes: Mapping[str, int]) -> Call:
        """A call for fixed lengths, with everything worked out that does not depend on the values.

        It raises TapeFullError when a while loop runs longer than there is room for.
        """
        sizes = {**sizes, CAPACITY: self.room.trips}
        given = self.graph.results[: sum(b.kind == "output" for b in self.program.buffers)]
        results = [(tuple(_evaluated(s, sizes) for s in r.shape), r.dtype.numpy) for r in given]
        inputs = [(p.shape, p.dtype.numpy) for p in self.graph.params]
        lengths = [sizes[name] for name in self.program.sizes]
        return Call(
            self.native.call,
            tuple(dtype for _, dtype in inputs),
            tuple(k for k, (shape, dtype) in enumerate(inputs) if shape == () and dtype == np.float64),
            tuple(results),
            tuple(k for k, (shape, dtype) in enumerate(results) if shape == () and dtype == np.float64),
            (ctypes.c_int64 * len(lengths))(*lengths),
            _evaluated(self.program.workspace_bytes, sizes),
            ctypes.c_void_p * (len(inputs) + len(results)),
            tuple(self._raiser(f, sizes) for f in self.program.failures),
        )

    def _raiser(self, failure: Failure, sizes: Mapping[str, int]) -> Raiser:
        places = ((self.program.buffer(name).offset, t) for name, t in failure.values)
        return Raiser(
            failure,
            tuple(
                (_evaluated(at, sizes), tuple(_evaluated(s, sizes) for s in t.shape), t.dtype.numpy) for at, t in places
            ),
        )


@dataclass(frozen=True, eq=False, slots=True)
class Raiser:
    """What a status raises, for lengths that are known: ``values`` lie at these bytes of the workspace."""

    failure: Failure
    values: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]

    def exception(self, workspace: int) -> BaseException:
        """The exception, made of what the program has left behind."""
        site = self.failure.site
        if site is not None:
            return site.make([_copied(workspace + offset, shape, dtype) for offset, shape, dtype in self.values])
        if self.failure == Failure(*TAPE_FULL):
            return TapeFullError()
        made: BaseException = getattr(builtins, self.failure.exception)(self.failure.message)
        return made


def _copied(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of what lies in memory now."""
    out = np.empty(shape, dtype)
    ctypes.memmove(out.ctypes.data, address, out.nbytes)
    return out


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A native program ready for lengths that are known. Numbers (0-d float64) travel in one block of memory."""

    native: Callable[[Any, Any, Any], int]
    inputs: tuple[np.dtype[Any], ...]
    input_numbers: tuple[int, ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    result_numbers: tuple[int, ...]
    lengths: Any
    workspace: int
    buffers: Any
    raisers: tuple[Raiser, ...]

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        given = array("d", [values[k] for k in self.input_numbers])
        made = array("d", bytes(8 * len(self.result_numbers)))
        kept: list[Any] = list(values)
        addresses = [0] * len(values)
        for k, address in zip(self.input_numbers, count(given.buffer_info()[0], 8), strict=False):
            kept[k], addresses[k] = None, address
        for k, v in enumerate(kept):
            if v is not None:
                kept[k] = a = _contiguous(v, self.inputs[k])
                addresses[k] = a.__array_interface__["data"][0]
        numbers = dict(zip(self.result_numbers, count(made.buffer_info()[0], 8), strict=False))
        outputs = [None if k in numbers else np.empty(*r) for k, r in enumerate(self.results)]
        addresses += [numbers[k] if a is None else a.__array_interface__["data"][0] for k, a in enumerate(outputs)]
        workspace = arena(self.workspace)
        status = self.native(self.buffers(*addresses), self.lengths, workspace)
        if status:
            raise self.raisers[status - 1].exception(workspace)
        scalars = iter(made)
        return [np.float64(next(scalars)) if a is None else a if a.ndim else a[()] for a in outputs]


def compile_graph(graph: Graph, name: str, *, backend: str = "cpu", flags: int = 0, workers: int = 1) -> Executable:
    """Simplify, lower and compile; the object code comes from the disk cache when it is there.

    The last ``flags`` results are not given out (see ``lower``). Up to ``workers`` threads share large loops.
    """
    if backend != "cpu":
        raise UnsupportedError(f"backend {backend!r} is not there; this version compiles for 'cpu'")
    graph = tidy(simplify(tidy(graph)))
    program = lower(graph, name, flags=flags, workers=workers)
    return Executable(graph, program, load(program, cache=default_cache()))


def call_path(executable: Executable, signature: Signature, objects: Sequence[object], tracing: Any) -> Path:
    """The native call path of a program; it has room for as many trips as ``executable`` has now."""
    path = load_path(signature, executable.program, executable.native, objects, tracing, cache=default_cache())
    path.set_capacity(executable.room.trips)
    return path


def _evaluated(size: Size, sizes: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else evaluate_size(size, sizes)


_EMPTY = np.zeros(64, np.uint8)  # what an empty array points to, so that a guarded read stays in memory


def _contiguous(value: Any, dtype: np.dtype[Any]) -> Array:
    a: Array = value if type(value) is np.ndarray else np.asarray(value, dtype)
    if a.dtype is not dtype or not (flags := a.flags).c_contiguous or not flags.aligned:
        a = np.require(a, dtype, ("C", "A"))
    return a if a.size else _EMPTY


_local = threading.local()


def arena(size: int) -> int:
    """The address of this thread's workspace of at least ``size`` bytes, aligned to 64."""
    if not size:
        return 0
    held: tuple[Array, int] | None = getattr(_local, "arena", None)
    if held is None or held[0].nbytes < size + 64 or held[0].nbytes > KEPT_ARENA:
        _local.arena = None
        try:
            memory = np.empty(size + 64, np.uint8)
        except MemoryError:
            raise MemoryError(
                f"no memory for {size / 2**20:.0f} MB of temporaries; sg.checkpoint lowers what loops keep"
            ) from None
        address = memory.ctypes.data
        held = _local.arena = memory, address + -address % 64
    return held[1]
