"""Gradients written by hand: ``byhand.c`` compiled and bound, and in NumPy what is mostly matrix products."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from workloads import Workload

SMALL = 100  # numbers in and out from which a call from Python costs little beside the work
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL | None:
    """``byhand.c`` as the compiler at hand makes it; None without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    made = Path(tempfile.mkdtemp()) / "byhand.so"
    source = Path(__file__).with_name("byhand.c")
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(made), "-lm"], check=True)
    return ctypes.CDLL(str(made))


class ByHand:
    """A function of ``byhand.c`` on the arguments of a workload: gradients in new arrays, the value returned."""

    def __init__(self, code: ctypes.CDLL, workload: Workload) -> None:
        nums = workload.argnums if isinstance(workload.argnums, tuple) else (workload.argnums,)
        self.inputs = [np.ascontiguousarray(a, np.float64) for a in workload.args]
        self.shapes = [self.inputs[k].shape for k in nums]
        self.single = isinstance(workload.argnums, int)
        self.call = code[workload.by_hand]
        self.call.restype = code.repeated.restype = ctypes.c_double
        self.repeated = code.repeated
        first, last = self.inputs[0], self.inputs[-1]
        sizes = first.shape if workload.by_hand != "logistic" else self.inputs[1].shape
        if workload.by_hand == "mixture":
            sizes = (*self.inputs[1].shape, len(last))
        self.sizes = (ctypes.c_long * max(1, len(sizes)))(*sizes)
        self.given = (ctypes.c_void_p * len(self.inputs))(*(a.ctypes.data for a in self.inputs))
        self.places = ctypes.c_void_p * len(self.shapes)
        self.is_small = sum(a.size for a in self.inputs) < SMALL

    def __call__(self) -> tuple[float, Any]:
        made = [np.empty(shape) for shape in self.shapes]
        value = self.call(self.given, self.places(*(a.ctypes.data for a in made)), self.sizes)
        return value, made[0] if self.single else tuple(made)

    def loop(self, times: int) -> None:
        """So many calls; of small functions without Python between them."""
        if not self.is_small:
            for _ in range(times):
                self()
            return
        made = [np.empty(shape) for shape in self.shapes]
        places = self.places(*(a.ctypes.data for a in made))
        self.repeated(self.call, ctypes.c_long(times), self.given, places, self.sizes)


def network(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, right: Any) -> tuple[Any, tuple[Any, ...]]:
    """Back-propagation through the network of ``workloads``, in NumPy."""
    h1 = np.tanh(x @ w1 + b1)
    h2 = np.tanh(h1 @ w2 + b2)
    scores = h2 @ w3 + b3
    top = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(axis=1, keepdims=True)
    value = np.mean(np.sum(right * (np.log(total) + top - scores), axis=1))
    d3 = (e / total - right) / np.float32(len(x))
    d2 = (d3 @ w3.T) * (1 - h2 * h2)
    d1 = (d2 @ w2.T) * (1 - h1 * h1)
    return value, (x.T @ d1, d1.sum(axis=0), h1.T @ d2, d2.sum(axis=0), h2.T @ d3, d3.sum(axis=0))


class InNumPy:
    """The same for a function in NumPy."""

    def __init__(self, function: Callable[..., Any], workload: Workload) -> None:
        self.function, self.args = function, workload.args

    def __call__(self) -> Any:
        return self.function(*self.args)

    def loop(self, times: int) -> None:
        for _ in range(times):
            self.function(*self.args)


def by_hand(workload: Workload) -> ByHand | InNumPy | None:
    """The gradient of a workload by hand; None where nobody wrote it, or it cannot be compiled."""
    if workload.by_hand == "network":
        return InNumPy(network, workload)
    code = library()
    return ByHand(code, workload) if code is not None and workload.by_hand else None
