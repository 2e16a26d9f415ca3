"""How tests run a Graph natively."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.llvm import load
from symgrad.ir.graph import Graph
from symgrad.ir.types import evaluate_size
from symgrad.lower.program import lower

Native = Callable[..., list[NDArray[Any]]]


def compile_graph(graph: Graph) -> Native:
    """The native function of a graph: arrays, then the free sizes by name -> arrays."""
    program = lower(graph, "tested")
    native = load(program)

    def call(*arrays: Any, **sizes: int) -> list[NDArray[Any]]:
        given = [np.ascontiguousarray(a, p.dtype.numpy) for a, p in zip(arrays, graph.params, strict=True)]
        out = [np.empty([evaluate_size(s, sizes) for s in r.shape], r.dtype.numpy) for r in graph.results]
        buffers = (ctypes.c_void_p * (len(given) + len(out)))(*(a.ctypes.data for a in given + out))
        numbers = (ctypes.c_int64 * max(1, len(program.sizes)))(*(sizes[n] for n in program.sizes))
        room = np.empty(evaluate_size(program.workspace_bytes, sizes) + 64, np.uint8)
        assert native.call(buffers, numbers, room.ctypes.data + -room.ctypes.data % 64) == 0
        return out

    return call


@pytest.fixture(scope="session", autouse=True)
def object_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled code is shared within a run of the tests, and with nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path_factory.mktemp("objects")))
        yield


@pytest.fixture(scope="session")
def compiled() -> Callable[[Graph], Native]:
    """Compile a graph to a native function of arrays and free sizes."""
    return compile_graph
