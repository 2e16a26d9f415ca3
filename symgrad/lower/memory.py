"""Lifetimes of temporaries -> offsets in one arena.

A block is reused when its last reader is done and the next one asks for the same number of bytes; numbers that are
symbols are compared as polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.ir.types import DType, Size

ALIGNMENT = 64
PAGE = 4096  # bytes; accesses at equal offsets within pages wait for each other
STAGGER = 11 * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A temporary needs ``bytes`` from step ``first`` to step ``last``, both included."""

    name: str
    bytes: Size
    first: int
    last: int


def aligned(size: Size) -> Size:
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def column_of(elements: Size, dtype: DType) -> Size:
    """Elements from one column to the next of an array that lies by columns: each begins a cache line, long ones at an
    offset of its own within a page."""
    size = elements * dtype.bytes
    if isinstance(size, int) and size < PAGE // 4:
        return aligned(size) // dtype.bytes
    return ((size + (PAGE - 1)) // PAGE * PAGE + STAGGER) // dtype.bytes


def plan(lifetimes: list[Lifetime]) -> tuple[dict[str, Size], Size]:
    """An offset for each name, and the bytes of the whole arena."""
    offsets: dict[str, Size] = {}
    blocks: list[tuple[Size, Size, int]] = []  # bytes, offset, last step in use
    total: Size = 0
    for t in sorted(lifetimes, key=lambda t: t.first):
        size = aligned(t.bytes)
        k = next((k for k, (b, _, last) in enumerate(blocks) if b == size and last < t.first), None)
        if k is None:
            blocks.append((size, total, t.last))
            offsets[t.name], total = total, total + size
        else:
            blocks[k] = (size, blocks[k][1], t.last)
            offsets[t.name] = blocks[k][1]
    return offsets, total
