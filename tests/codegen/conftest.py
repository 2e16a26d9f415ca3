"""How the tests of back ends run a Program: natively, and through the evaluator beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.llvm import Native, load
from symgrad.ir.loops import Program
from symgrad.ir.programs import run_program, verify_program
from symgrad.ir.types import evaluate_size

Arrays = dict[str, NDArray[Any]]
Runner = Callable[..., Arrays]


def call(native: Native, program: Program, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, Arrays]:
    """Status and outputs of one call, in memory of its own."""
    given = [b for kind in ("input", "output") for b in program.buffers if b.kind == kind]
    memory = {b.name: np.zeros(evaluate_size(b.elements, sizes), b.dtype.numpy) for b in given}
    for b in given:
        if b.kind == "input":
            memory[b.name][:] = np.asarray(inputs[b.name]).reshape(-1)
    room = np.zeros(evaluate_size(program.workspace_bytes, sizes) + 64, np.uint8)
    pointers = (ctypes.c_void_p * max(1, len(given)))(*(memory[b.name].ctypes.data for b in given))
    numbers = (ctypes.c_int64 * max(1, len(program.sizes)))(*(sizes[n] for n in program.sizes))
    status = native.call(pointers, numbers, room.ctypes.data + -room.ctypes.data % 64)
    return status, {b.name: memory[b.name] for b in given if b.kind == "output"}


@pytest.fixture
def run() -> Runner:
    """Run a verified program natively; the evaluator must give the same up to rounding. Native outputs."""

    def both(program: Program, inputs: Mapping[str, Any], functions: Any = None, **sizes: int) -> Arrays:
        status, outputs = call(load(verify_program(program)), program, inputs, sizes)
        assert status == 0
        for name, expected in run_program(program, inputs, sizes, functions=functions).items():
            np.testing.assert_allclose(outputs[name], expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-13)
        return outputs

    return both


@pytest.fixture
def status() -> Callable[..., int]:
    """The status that a program leaves with."""

    def of(program: Program, inputs: Mapping[str, Any], **sizes: int) -> int:
        return call(load(verify_program(program)), program, inputs, sizes)[0]

    return of
