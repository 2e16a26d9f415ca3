"""Run one function on NumPy arrays and, traced, on nodes that are evaluated by their reference meaning."""

from __future__ import annotations

import copy

import numpy as np

import symgrad.frontend.functions  # registers what NumPy means
import symgrad.frontend.indexing  # noqa: F401  # registers what brackets mean
from symgrad.frontend.masked import Masked, filled
from symgrad.frontend.tracer import Trace, Tracer, activate, value, wrap
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import param
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import TensorType, dtype_of, size_named


def parameters(*arrays, sizes=None):
    """A parameter per array or Python number; ``sizes`` gives names to lengths."""
    named = {length: size_named(name) for name, length in (sizes or {}).items()}
    shapes = [tuple(named.get(s, s) for s in np.shape(a)) for a in arrays]
    return [param(TensorType(dtype_of(np.asarray(a).dtype), s)) for a, s in zip(arrays, shapes, strict=True)]


def traced(f, *arrays, sizes=None, assumptions=None):
    """What ``f`` gives on traced copies of the arrays (Python numbers are weak), evaluated."""
    params = parameters(*arrays, sizes=sizes)
    weak = [isinstance(a, bool | int | float) and not isinstance(a, np.generic) for a in arrays]
    known = {p: a for p, a, w in zip(params, arrays, weak, strict=True) if w}
    with assuming(assumptions or Sizes(dict(sizes or {}))) as held, activate(Trace(known)):
        out = f(
            *(
                wrap(p, weak=w, fixed=not w and isinstance(a, np.generic))
                for p, a, w in zip(params, arrays, weak, strict=True)
            )
        )
        results = out if isinstance(out, tuple) else (out,)
        nodes = [value(filled(r, 0) if type(r) is Masked else r) for r in results]
    numbers = evaluate(Graph(tuple(params), tuple(nodes)), *arrays, sizes=held.hints)
    return numbers if isinstance(out, tuple) else numbers[0]


def agree(f, *arrays, sizes=None):
    """Assert that ``f`` does the same to NumPy arrays and to traced ones, dtypes included."""
    expected = f(*copy.deepcopy(arrays))
    got = traced(f, *arrays, sizes=sizes)
    pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
    for e, g in pairs:
        assert np.shape(e) == g.shape
        assert np.asarray(e).dtype == g.dtype
        np.testing.assert_array_equal(g, e)


def is_tracer(x):
    return type(x) is Tracer
