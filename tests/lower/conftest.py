"""How the tests of the lowering run a Graph: natively, by the evaluator of Programs, and by its own meaning."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.llvm import load
from symgrad.ir.graph import Graph
from symgrad.ir.loops import Program
from symgrad.ir.programs import run_program, verify_program
from symgrad.ir.types import evaluate_size
from symgrad.lower.program import lower

Array = NDArray[Any]
Runner = Callable[..., list[Array]]


def _gemv(trans: str, m: Array, n: Array, alpha: Array, a: Array, lda: Array, x: Array, *rest: Any) -> None:
    _, _, y, _ = rest
    rows, columns = int(m[0]), int(n[0])
    if rows == 0 or columns == 0:
        return
    matrix = np.stack([a[k * int(lda[0]) :][:rows] for k in range(columns)], axis=1)
    out = matrix @ x[:columns] if trans == "N" else matrix.T @ x[:rows]
    y[: len(out)] = alpha[0] * out


def _gemm(ta: str, tb: str, m: Array, n: Array, k: Array, alpha: Array, *rest: Any) -> None:
    a, lda, b, ldb, _, c, ldc = rest

    def matrix(x: Array, rows: int, columns: int, leading: int) -> Array:
        return np.array([x[j * leading :][:rows] for j in range(columns)]).reshape(columns, rows).T

    rows, columns, inner = int(m[0]), int(n[0]), int(k[0])
    left = matrix(a, rows, inner, int(lda[0])) if ta == "N" else matrix(a, inner, rows, int(lda[0])).T
    right = matrix(b, inner, columns, int(ldb[0])) if tb == "N" else matrix(b, columns, inner, int(ldb[0])).T
    out = alpha[0] * (left @ right)
    for j in range(columns):
        c[j * int(ldc[0]) :][:rows] = out[:, j]


FUNCTIONS: dict[str, Any] = {
    "neg": lambda x: -x, "not": lambda x: ~x, "maximum": np.maximum, "minimum": np.minimum, "fabs": np.abs,
    "copysign": np.copysign, "sqrt": np.sqrt, "floor": np.floor, "exp": np.exp, "log": np.log, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "fmod": np.fmod, "log1p": np.log1p,
    "sg_dgemv": _gemv, "sg_sgemv": _gemv, "sg_dgemm": _gemm, "sg_sgemm": _gemm,
}  # fmt: skip


def _native(program: Program, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Outputs of one native call, each in memory with guard words around it."""
    given = [b for b in program.buffers if b.kind in ("input", "output")]
    memory = {}
    for b in given:
        words = evaluate_size(b.elements, sizes)
        room = np.full((words + 16) * b.dtype.bytes, 0xAB, np.uint8).view(b.dtype.numpy)
        memory[b.name] = room
        if b.kind == "input":
            room[8 : 8 + words] = inputs[b.name].reshape(-1)
    before = {name: room.tobytes() for name, room in memory.items()}
    room = np.full(evaluate_size(program.workspace_bytes, sizes) + 64, 0xFF, np.uint8)
    pointers = (ctypes.c_void_p * max(1, len(given)))(*(memory[b.name][8:].ctypes.data for b in given))
    numbers = (ctypes.c_int64 * max(1, len(program.sizes)))(*(sizes[n] for n in program.sizes))
    assert load(program).call(pointers, numbers, room.ctypes.data + -room.ctypes.data % 64) == 0
    out = {}
    for b in given:
        raw, width = memory[b.name].tobytes(), 8 * b.dtype.bytes
        assert raw[:width] == before[b.name][:width] and raw[-width:] == before[b.name][-width:], f"{b.name} overrun"
        out[b.name] = memory[b.name][8:-8]
    return {b.name: out[b.name] for b in given if b.kind == "output"}


@pytest.fixture(scope="session")
def run() -> Runner:
    """Run a graph natively (or by the evaluator of Programs, which checks bounds) on arrays."""

    def runner(
        graph: Graph, arrays: list[Array], sizes: Mapping[str, int], *, native: bool = True, workers: int = 1
    ) -> list[Array]:
        program = verify_program(lower(graph, "k", workers=workers))
        given = zip(graph.params, arrays, strict=True)
        inputs = {f"a{k}": np.ascontiguousarray(a, p.dtype.numpy) for k, (p, a) in enumerate(given)}
        if native:
            outputs = _native(program, inputs, sizes)
        else:
            outputs = run_program(program, inputs, sizes, functions=FUNCTIONS)
        shapes = [tuple(evaluate_size(s, sizes) for s in r.shape) for r in graph.results]
        return [outputs[f"r{k}"].reshape(shape) for k, shape in enumerate(shapes)]

    return runner
