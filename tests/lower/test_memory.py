"""The arena: temporaries that live at the same time lie apart, others share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from symgrad.ir.types import Size, evaluate_size, size_named
from symgrad.lower.memory import ALIGNMENT, Lifetime, plan

N, M = size_named("n"), size_named("m")
SIZES: list[Size] = [0, 8, 64, 72, 8 * N, 8 * N * M, 4 * N]


def test_a_block_is_reused_when_its_last_reader_is_done() -> None:
    offsets, total = plan([Lifetime("a", 64, 0, 1), Lifetime("b", 64, 1, 2), Lifetime("c", 64, 2, 3)])
    assert offsets == {"a": 0, "b": 64, "c": 0}
    assert total == 128


def test_equal_symbolic_sizes_share_a_block() -> None:
    offsets, _ = plan([Lifetime("a", 8 * N, 0, 1), Lifetime("b", 8 * M, 2, 3), Lifetime("c", 8 * N, 2, 3)])
    assert offsets["c"] == offsets["a"]
    assert offsets["b"] != offsets["a"]


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    out = []
    for k in range(draw(st.integers(1, 8))):
        first = draw(st.integers(0, 6))
        out.append(Lifetime(f"t{k}", draw(st.sampled_from(SIZES)), first, first + draw(st.integers(0, 3))))
    return out


@given(lifetimes(), st.integers(0, 5), st.integers(0, 5))
def test_what_lives_together_lies_apart_and_aligned(temps: list[Lifetime], n: int, m: int) -> None:
    offsets, total = plan(temps)
    sizes = {"n": n, "m": m}
    spans = []
    for t in temps:
        start = evaluate_size(offsets[t.name], sizes)
        assert start % ALIGNMENT == 0
        assert start + evaluate_size(t.bytes, sizes) <= evaluate_size(total, sizes)
        spans.append((start, start + evaluate_size(t.bytes, sizes), t))
    for a, a_end, x in spans:
        for b, b_end, y in spans:
            together = x is not y and x.first <= y.last and y.first <= x.last
            assert not together or a_end <= b or b_end <= a or a == a_end or b == b_end
