"""Executable -> a call on values: native programs read and write memory of values by address.

Small results of one call share a block, from which an array is copied when somebody reads it: most are read by the
next program only. Calls are made one at a time, under the lock of recording.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler import Executable, arena
from symgrad.tensor.values import Value

SMALL = 256  # bytes


class NativeCall:
    """A compiled state: which inputs of the segment it reads, and the call."""

    __slots__ = ("block", "call", "inputs", "kinds", "large", "places", "table", "where")

    def __init__(self, executable: Executable, inputs: tuple[int, ...]) -> None:
        self.inputs = inputs
        self.call = executable.prepare({})
        self.kinds = [(dtype, shape) for shape, dtype in self.call.results]
        self.places: list[int] = []  # offsets in the block; -1 for a result with memory of its own
        size = 0
        for dtype, shape in self.kinds:
            length = dtype.itemsize * math.prod(shape)
            self.places.append(size if length <= SMALL else -1)
            size += -(-length // 16) * 16 if length <= SMALL else 0
        self.large = -1 in self.places
        self.block = ctypes.c_char * (size + 8)
        self.table = np.zeros(len(inputs) + len(self.kinds), np.uintp)
        self.where = self.table.ctypes.data

    def __call__(self, inputs: Sequence[Value], results: Sequence[Value]) -> None:
        """Compute ``results``, or raise what the program was told to raise."""
        addresses = [v.address or v.locate() for v in inputs]
        block = self.block()
        base = ctypes.addressof(block)
        arrays: list[Any] = []
        if not self.large:
            addresses += [base + k for k in self.places]
        else:
            arrays = [None if k >= 0 else np.empty(*r) for k, r in zip(self.places, self.call.results, strict=True)]
            addresses += [
                base + k if a is None else a.__array_interface__["data"][0]
                for k, a in zip(self.places, arrays, strict=True)
            ]
        self.table[:] = addresses
        call = self.call
        workspace = arena(call.workspace)
        status = call.native(self.where, call.lengths, workspace)
        if status:
            raise call.raisers[status - 1].exception(workspace)
        first = len(inputs)
        for k, v in enumerate(results):
            v.kind, v.segment = self.kinds[k], None
            v.address = addresses[first + k]
            if arrays and arrays[k] is not None:
                v.array = arrays[k]
            else:
                v.block = block
