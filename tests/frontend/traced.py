"""Running functions on tracers: what the tests of NumPy's functions compare with NumPy itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.frontend.tracer import TracedSize, activate, is_traced, value, wrap
from symgrad.frontend.tracing import Trace
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import param
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import TensorType, dtype_of, size_named


def traced(function: Callable[..., Any], *arrays: Any, symbolic: bool = False) -> Any:
    """``function`` of traced arrays, evaluated; with ``symbolic`` every length other than one is a named size."""
    arrays = tuple(np.asarray(a) for a in arrays)
    sizes = Sizes()
    params = []
    for k, a in enumerate(arrays):
        names = [f"n{k}_{j}" for j in range(a.ndim)]
        sizes.hints.update(zip(names, a.shape, strict=True))
        shape = tuple(size_named(n) if symbolic and s != 1 else s for n, s in zip(names, a.shape, strict=True))
        params.append(param(TensorType(dtype_of(a.dtype), shape)))
    with assuming(sizes), activate(Trace()):
        out = function(*(wrap(p, fixed=not p.shape) for p in params))
        results: list[Any] = []
        shape_of_result = _collect(out, results)
        values = evaluate(Graph(tuple(params), tuple(results)), *arrays, sizes=sizes.hints)
    return _rebuild(shape_of_result, iter(values))


def _collect(out: Any, results: list[Any]) -> Any:
    if isinstance(out, list | tuple) and not is_traced(out):
        return [_collect(item, results) for item in out]
    if is_traced(out) or isinstance(out, TracedSize):
        results.append(value(out))
        return None
    return (out,)


def _rebuild(structure: Any, values: Any) -> Any:
    if structure is None:
        return next(values)
    return structure[0] if isinstance(structure, tuple) else [_rebuild(item, values) for item in structure]


def assert_same(got: Any, wanted: Any, rtol: float = 1e-12, atol: float = 0.0) -> None:
    """Equal values, dtypes and shapes, item by item in lists and tuples."""
    if isinstance(wanted, list | tuple):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            assert_same(g, w, rtol, atol)
        return
    g, w = np.asarray(got), np.asarray(wanted)
    assert g.dtype == w.dtype, f"dtype {g.dtype}, wanted {w.dtype}"
    assert g.shape == w.shape, f"shape {g.shape}, wanted {w.shape}"
    scale = 1e-6 if w.dtype == np.float32 else 0
    np.testing.assert_allclose(g, w, rtol=max(rtol, 10 * scale), atol=max(atol, scale))


def check(
    function: Callable[..., Any], *arrays: Any, rtol: float = 1e-12, atol: float = 1e-14, symbolic: bool = True
) -> None:
    """The traced function agrees with itself on plain arrays, for known and for free lengths."""
    arrays = tuple(np.asarray(a) for a in arrays)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns of what we compare: nan of nothing
        wanted = function(*(a[()] if not a.ndim else a.copy() for a in arrays))
    assert_same(traced(function, *arrays), wanted, rtol, atol)
    if symbolic:
        assert_same(traced(function, *arrays, symbolic=True), wanted, rtol, atol)
