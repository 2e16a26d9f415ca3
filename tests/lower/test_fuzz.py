"""Random graphs: what is compiled, and what the evaluator of Programs gives, equals what the graph means.

Inputs are small multiples of 1/4, so that most values are exact in any order of evaluation. Each node carries a bound
on the bits of its values; what is not exact never decides a comparison.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from symgrad.autodiff.reverse import grad
from symgrad.ir.graph import Graph, evaluate
from symgrad.ir.node import Node, constant, param, size_node
from symgrad.ir.sizes import Sizes, assuming
from symgrad.ir.types import DType, Shape, Size, TensorType, boolean, evaluate_size, f32, f64, i64, size_named
from symgrad.lower import bands, turns
from symgrad.ops import folds, indexing, products, running, sorting, views
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "120"))
DTYPES = (f64, f64, f64, f32, i64, boolean)
FREE = ("n", "m")
MOST_ELEMENTS = 400
EXACT = 20  # bits
INEXACT = 1000


@dataclass
class Maker:
    """A graph in the making: every step adds a node made of earlier ones."""

    draw: Callable[..., Any]
    sizes: dict[str, int]
    pool: list[Node] = field(default_factory=list)
    bits: dict[Node, int] = field(default_factory=dict)

    def add(self, n: Node, bits: int) -> None:
        self.pool.append(n)
        self.bits[n] = min(bits, self.bits.get(n, INEXACT))

    def choose(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def length(self, s: Size) -> int:
        return evaluate_size(s, self.sizes)

    def elements(self, shape: Shape) -> int:
        return int(np.prod([self.length(s) for s in shape], dtype=int))

    def size(self) -> Size:
        out: Size = self.draw(st.sampled_from([size_named(s) for s in FREE] + [0, 1, 2, 3, 4, 6, 9]))
        return out

    def pick(self, wanted: Callable[[Node], bool] = lambda n: True) -> Node | None:
        found = [n for n in self.pool if wanted(n)]
        return found[self.draw(st.integers(0, len(found) - 1))] if found else None

    def of_shape(self, shape: Shape, dtype: DType) -> Node:
        """A node of a type: from the pool, a broadcast one, a number or positions."""
        found = self.pick(lambda n: n.shape == shape and n.dtype == dtype)
        if found is not None and self.draw(st.booleans()):
            return found
        part = self.pick(lambda n: n.dtype == dtype and 0 < n.ndim < len(shape) and _sits(n.shape, shape))
        if part is not None and self.draw(st.booleans()):
            out = views.broadcast(part, shape=shape, axes=_axes(part.shape, shape))
            self.bits[out] = self.bits[part]
            return out
        if found is not None:
            return found
        number = constant(self.choose(0, 1, 2, -3, 0.5), dtype)
        out = broadcast_to(number, shape)
        self.bits[out] = 3
        return out


def _axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """Where the axes of ``small`` come first in ``large``, in order."""
    out, k = [], 0
    for j, s in enumerate(large):
        if k < len(small) and small[k] == s:
            out.append(j)
            k += 1
    return tuple(out)


def _sits(small: Shape, large: Shape) -> bool:
    return len(_axes(small, large)) == len(small)


# --- steps: Maker -> None --------------------------------------------------------------------------------------------


def binary(m: Maker) -> None:
    a = m.pick()
    assert a is not None
    b = m.of_shape(a.shape, a.dtype)
    ops = [p.maximum, p.minimum, p.add, p.mul] + ([] if a.dtype == boolean else [p.sub])
    op = m.choose(*ops)
    grown = m.bits[a] + m.bits[b] if op is p.mul else max(m.bits[a], m.bits[b]) + (op in (p.add, p.sub))
    m.add(op(a, b), grown)


def unary(m: Maker) -> None:
    a = m.pick(lambda n: n.dtype != boolean)
    if a is None:
        return
    exact = m.bits[a] <= EXACT
    ops = [p.neg, p.abs_] + ([p.exp, p.sin, p.tanh] if a.dtype.is_float else []) + ([p.sign] if exact else [])
    op = m.choose(*ops)
    m.add(op(p.minimum(a, 3.0)) if op is p.exp else op(a), INEXACT if op in (p.exp, p.sin, p.tanh) else m.bits[a])


def compare(m: Maker) -> None:
    a = m.pick(lambda n: m.bits[n] <= EXACT)
    if a is None:
        return
    b = m.of_shape(a.shape, a.dtype)
    if m.bits[b] <= EXACT:
        m.add(m.choose(p.lt, p.le, p.eq, p.ne)(a, b), 1)


def select(m: Maker) -> None:
    c = m.pick(lambda n: n.dtype == boolean)
    if c is None:
        return
    a = m.of_shape(c.shape, m.choose(*DTYPES))
    b = m.of_shape(c.shape, a.dtype)
    m.add(p.select(c, a, b), max(m.bits[a], m.bits[b]))


def cast(m: Maker) -> None:
    a = m.pick(lambda n: m.bits[n] <= EXACT)
    if a is not None:
        m.add(p.cast(a, dtype=m.choose(*DTYPES)), m.bits[a])


def slice_(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    starts, sizes, steps = [], [], []
    for s in a.shape:
        length = m.length(s)
        kind = m.choose("all", "all", "tail", "head", "step", "back", "some")
        if kind == "all" or length == 0 or (isinstance(s, int) is False and kind in ("step", "some")):
            start, size, step = 0, s, 1  # type: tuple[Size, Size, int]
        elif kind in ("tail", "head"):
            start, size, step = int(kind == "tail"), s - 1, 1
        elif kind == "back":
            start, size, step = s - 1, s, -1
        else:
            step = m.choose(1, 2, 3) if kind == "step" else 1
            first = m.draw(st.integers(0, length - 1))
            start, size = first, m.draw(st.integers(0, (length - first + step - 1) // step))
        starts.append(start)
        sizes.append(size)
        steps.append(step)
    m.add(views.slice_(a, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps)), m.bits[a])


def place(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    shape, starts, steps = [], [], []
    for s in a.shape:
        before, after = m.choose(0, 0, 1, 2), m.choose(0, 0, 1)
        step = m.choose(1, 1, 2, -1) if isinstance(s, int) and s > 0 else 1
        reach: Size = (s - 1) * abs(step) + 1 if step != 1 else s
        shape.append(before + reach + after)
        starts.append(before if step > 0 else before + reach - 1)
        steps.append(step)
    m.add(views.place(a, shape=tuple(shape), starts=tuple(starts), steps=tuple(steps)), m.bits[a])


def concatenate(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    axis = m.draw(st.integers(0, a.ndim - 1))
    parts = [a]
    for _ in range(m.choose(1, 1, 2)):
        b = m.pick(
            lambda n: n.dtype == a.dtype and n.ndim == a.ndim and _without(n.shape, axis) == _without(a.shape, axis)
        )
        parts.append(a if b is None else b)
    m.add(views.concatenate(*parts, axis=axis), max(m.bits[n] for n in parts))


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def transpose(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 1)
    if a is not None:
        m.add(views.transpose(a, perm=tuple(m.draw(st.permutations(range(a.ndim))))), m.bits[a])


def reshape(m: Maker) -> None:
    a = m.pick()
    assert a is not None
    kind = m.choose("flat", "unit", "split", "merge")
    shape = list(a.shape)
    if kind == "unit":
        shape.insert(m.draw(st.integers(0, a.ndim)), 1)
    elif kind == "split" and shape and shape[-1] in (4, 9):
        shape[-1:] = [2, 2] if shape[-1] == 4 else [3, 3]
    elif kind == "merge" and len(shape) > 1:
        shape[:2] = [shape[0] * shape[1]]
    else:
        total: Size = 1
        for s in shape:
            total = total * s
        shape = [total]
    m.add(views.reshape(a, shape=tuple(shape)), m.bits[a])


def broadcast(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim < 3)
    if a is None:
        return
    shape, axes = list(a.shape), list(range(a.ndim))
    for _ in range(m.choose(1, 1, 2)):
        at = m.draw(st.integers(0, len(shape)))
        shape.insert(at, m.size())
        axes = [k + (k >= at) for k in axes]
    m.add(views.broadcast(a, shape=tuple(shape), axes=tuple(axes)), m.bits[a])


def index_of(m: Maker, shape: Shape, size: Size) -> Node:
    """Indices in range from whatever integers there are: clipped, so that the axis must not be empty."""
    raw = m.of_shape(shape, i64)
    last = size_node(size - 1)
    return p.maximum(p.minimum(raw, broadcast_to(last, shape)), 0)


def gather(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    axes = tuple(sorted(m.draw(st.sets(st.integers(0, a.ndim - 1), min_size=1, max_size=2))))
    if any(m.length(a.shape[k]) == 0 for k in axes):
        return
    shape = m.choose((), (m.size(),), (m.size(), m.size()))
    m.add(indexing.gather(a, *(index_of(m, shape, a.shape[k]) for k in axes), axes=axes), m.bits[a])


def scatter(m: Maker) -> None:
    v = m.pick(lambda n: n.ndim > 0)
    if v is None:
        return
    size = m.size()
    if m.length(size) == 0:
        return
    shape, i = (size, *v.shape[1:]), index_of(m, v.shape[:1], size)
    if m.draw(st.booleans()):
        m.add(indexing.scatter_add(v, i, shape=shape, axes=(0,)), m.bits[v] + 4)
    else:
        x = m.of_shape(shape, v.dtype)
        m.add(indexing.scatter_set(x, v, i, axes=(0,)), max(m.bits[v], m.bits[x]))


def fold(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    axes = tuple(sorted(m.draw(st.sets(st.integers(0, a.ndim - 1), min_size=1))))
    op = m.choose(folds.sum_, folds.sum_, folds.max_, folds.min_)
    empty = any(m.length(a.shape[k]) == 0 for k in axes)
    if op is folds.sum_:
        m.add(op(a, axes=axes), m.bits[a] + 8)
    elif m.bits[a] <= EXACT and not empty:
        m.add(op(a, axes=axes), m.bits[a])


def dot(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim >= 2 and n.dtype != boolean)
    if a is None:
        return
    *batch, rows, inner = a.shape
    b = m.pick(lambda n: n.dtype == a.dtype and n.ndim == a.ndim and n.shape[:-1] == (*batch, inner))
    b = b if b is not None else m.of_shape((*batch, inner, m.size()), a.dtype)
    if m.elements((*batch, rows, b.shape[-1])) <= MOST_ELEMENTS:
        m.add(products.dot(a, b), m.bits[a] + m.bits[b] + 8)


def scan(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0)
    if a is None:
        return
    axis, reverse = m.draw(st.integers(0, a.ndim - 1)), m.draw(st.booleans())
    if m.draw(st.booleans()) or a.dtype == boolean:
        m.add(running.cumsum(a, axis=axis, reverse=reverse), m.bits[a] + 8)
    else:
        b = m.of_shape(a.shape, a.dtype)
        m.add(running.recurrence(a, b, axis=axis, reverse=reverse), INEXACT)


def sort(m: Maker) -> None:
    a = m.pick(lambda n: n.ndim > 0 and m.bits[n] <= EXACT)
    if a is not None:
        m.add(sorting.argsort(a), 4)


STEPS = (binary, binary, binary, unary, compare, select, cast, slice_, slice_, place, concatenate, transpose, reshape)
MORE = (broadcast, broadcast, gather, scatter, fold, fold, fold, dot, scan, sort)


@st.composite
def cases(draw: Any, derivative: bool) -> tuple[Graph, dict[str, int], int]:
    """A graph, its free sizes, a seed for its inputs."""
    sizes = {name: draw(st.sampled_from([1, 2, 3, 5, 0, 9])) for name in FREE}
    m = Maker(draw, sizes)
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(m.size() for _ in range(draw(st.integers(0, 3))))
        if m.elements(shape) <= MOST_ELEMENTS:
            m.add(param(TensorType(m.choose(*DTYPES), shape)), 4)
    if not m.pool:
        m.add(param(TensorType(f64, (size_named("n"),))), 4)
    params = tuple(m.pool)
    for _ in range(draw(st.integers(1, 14))):
        before = len(m.pool)
        draw(st.sampled_from(STEPS + MORE))(m)
        m.pool[before:] = [
            n for n in m.pool[before:] if m.elements(n.shape) <= MOST_ELEMENTS and m.bits[n] < INEXACT * 3
        ]
    if derivative:
        floats = [n for n in m.pool if n.dtype.is_float]
        chosen = draw(st.sampled_from(floats)) if floats else broadcast_to(constant(1.0), ())
        value = p.as_dtype(folds.sum_(p.tanh(chosen), axes=tuple(range(chosen.ndim))), f64)
        return grad(Graph(params, (value,))), sizes, draw(st.integers(0, 99))
    results = draw(st.lists(st.sampled_from(m.pool[-6:] + m.pool[:1]), min_size=1, max_size=4))
    return Graph(params, tuple(results)), sizes, draw(st.integers(0, 99))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of a few rows, so that small inputs have several; and threads share what is small, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "BLOCK", 12)
        patch.setattr(turns, "WORTH", 0)
        patch.setattr(turns, "SMALL", 0)
        yield


def inputs_of(graph: Graph, sizes: dict[str, int], seed: int) -> list[NDArray[Any]]:
    rng = np.random.default_rng(seed)
    out = []
    for q in graph.params:
        shape = tuple(evaluate_size(s, sizes) for s in q.shape)
        quarters = rng.integers(-8, 9, shape) / (4 if q.dtype.is_float else 1)
        out.append(np.asarray(quarters > 0 if q.dtype == boolean else quarters, q.dtype.numpy))
    return out


def check(run: Any, case: tuple[Graph, dict[str, int], int]) -> None:
    graph, sizes, seed = case
    note(str(graph))
    arrays = inputs_of(graph, sizes, seed)
    expected = evaluate(graph, *arrays, sizes=sizes)
    for native in (False, True) if seed % 3 == 0 else (False,):  # machine code takes longer to make than to check
        got = run(graph, arrays, sizes, native=native, workers=1 + seed % 2 * 2)
        for g, e in zip(got, expected, strict=True):
            narrow = any(n.dtype == f32 for n in graph.nodes())
            scale = float(np.max(np.abs(e[np.isfinite(e)]), initial=1.0)) if e.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(g, e, rtol=2e-4 if narrow else 1e-9, atol=scale * (2e-4 if narrow else 1e-9))


relaxed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@relaxed
@given(data=st.data())
def test_a_compiled_graph_gives_what_the_graph_means(run: Any, data: Any) -> None:
    with assuming(Sizes(dict.fromkeys(FREE, 1009))):
        check(run, data.draw(cases(derivative=False)))


@relaxed
@given(data=st.data())
def test_a_compiled_gradient_gives_what_its_graph_means(run: Any, data: Any) -> None:
    with assuming(Sizes(dict.fromkeys(FREE, 1009))):
        check(run, data.draw(cases(derivative=True)))
