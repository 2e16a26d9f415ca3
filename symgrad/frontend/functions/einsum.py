"""np.einsum: subscripts -> diagonals, sums, transposes and pairwise matrix products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.functions.elementwise import into
from symgrad.frontend.functions.products import diagonal_node
from symgrad.frontend.functions.support import Value, asked_dtype, implements_numpy, listed, permuted, reshaped
from symgrad.frontend.tracer import operands, wrap
from symgrad.ir.node import Node
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import Size, product
from symgrad.ops import folds, views
from symgrad.ops import pointwise as p
from symgrad.ops.products import dot

Labels = tuple[str, ...]  # a letter, or "...k" for the k-th axis from the right of an ellipsis


@dataclass(frozen=True)
class Term:
    """One array with a label for each axis."""

    node: Node
    labels: Labels


def parsed(subscripts: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ValueError(f"einsum: {len(ranks)} operands for the subscripts {subscripts!r}")
    inputs = [_labelled(part, rank, subscripts) for part, rank in zip(parts, ranks, strict=True)]
    widest = max((sum(l.startswith("...") for l in labels) for labels in inputs), default=0)
    dots = tuple(f"...{k}" for k in range(widest, 0, -1))
    counts = Counter(l for labels in inputs for l in labels if not l.startswith("..."))
    if not arrow:
        return inputs, (*dots, *sorted(l for l, n in counts.items() if n == 1))
    before, ellipsis, after = right.partition("...")
    output = (*before, *(dots if ellipsis else ()), *after)
    if len(set(output)) != len(output) or not set(output) <= {*counts, *dots}:
        raise ValueError(f"einsum: the output of {subscripts!r} has a subscript that is repeated or not in the input")
    return inputs, output


def _labelled(part: str, rank: int, subscripts: str) -> Labels:
    before, ellipsis, after = part.partition("...")
    letters = before + after
    spare = rank - len(letters)
    if not (letters.isalpha() or letters == "") or spare < 0 or (spare and not ellipsis):
        raise ValueError(f"einsum: the subscripts {part!r} in {subscripts!r} do not fit an array of {rank} dimensions")
    return (*before, *(f"...{k}" for k in range(spare, 0, -1)), *after)


def without_repeats(term: Term) -> Term:
    """Repeated labels as diagonals."""
    node, labels = term.node, list(term.labels)
    while len(set(labels)) < len(labels):
        label = next(l for l, n in Counter(labels).items() if n > 1)
        i, j = [k for k, l in enumerate(labels) if l == label][:2]
        if not current().same(node.shape[i], node.shape[j]):
            raise ShapeError(f"einsum: the axes of {label!r} differ in shape {shown(node.shape)}")
        node = diagonal_node(node, 0, i, j)
        labels = [l for k, l in enumerate(labels) if k not in (i, j)] + [label]
    return Term(node, tuple(labels))


def without_ones(terms: list[Term]) -> list[Term]:
    """Axes of size one go where another operand has the label with another size; other sizes must agree."""
    sizes: dict[str, Size] = {}
    for t in terms:
        for label, s in zip(t.labels, t.node.shape, strict=True):
            known = sizes.setdefault(label, s)
            if known == 1:
                sizes[label] = s
            elif s != 1 and not current().same(s, known):
                shapes = " and ".join(shown(x.node.shape) for x in terms)
                raise ShapeError(f"einsum: sizes of {label!r} differ in shapes {shapes}")
    out = []
    for t in terms:
        keep = [k for k, l in enumerate(t.labels) if not (t.node.shape[k] == 1 and sizes[l] != 1)]
        out.append(Term(reshaped(t.node, tuple(t.node.shape[k] for k in keep)), tuple(t.labels[k] for k in keep)))
    return out


def summed(term: Term, needed: set[str]) -> Term:
    """Sums over the labels that nothing else needs."""
    axes = tuple(k for k, l in enumerate(term.labels) if l not in needed)
    if not axes:
        return term
    return Term(folds.sum_(term.node, axes=axes), tuple(l for l in term.labels if l in needed))


def aligned(term: Term, labels: Labels, sizes: dict[str, Size]) -> Node:
    """The array broadcast to ``labels``."""
    order = [term.labels.index(l) for l in labels if l in term.labels]
    axes = tuple(k for k, l in enumerate(labels) if l in term.labels)
    node = permuted(term.node, order)
    return node if len(axes) == len(labels) else views.broadcast(node, shape=tuple(sizes[l] for l in labels), axes=axes)


def contracted(a: Term, b: Term, needed: set[str]) -> Term:
    """Two arrays made one: a matrix product where there are rows and columns, else a sum of products."""
    a, b = summed(a, needed | set(b.labels)), summed(b, needed | set(a.labels))
    sizes = dict(zip(a.labels, a.node.shape, strict=True)) | dict(zip(b.labels, b.node.shape, strict=True))
    both = [l for l in a.labels if l in b.labels]
    batch, inner = [l for l in both if l in needed], [l for l in both if l not in needed]
    left, right = [l for l in a.labels if l not in both], [l for l in b.labels if l not in both]
    if not inner or not (left or right):
        everything = (*batch, *left, *right, *inner)
        out = aligned(a, everything, sizes) * aligned(b, everything, sizes)
        return summed(Term(out, everything), needed)

    def matrices(t: Term, rows: list[str], columns: list[str]) -> Node:
        shape = (*(sizes[l] for l in batch), product(sizes[l] for l in rows), product(sizes[l] for l in columns))
        return reshaped(permuted(t.node, [t.labels.index(l) for l in (*batch, *rows, *columns)]), shape)

    labels = (*batch, *left, *right)
    out = dot(matrices(a, left, inner), matrices(b, inner, right))
    return Term(reshaped(out, tuple(sizes[l] for l in labels)), labels)


def cheapest(terms: list[Term]) -> tuple[int, int]:
    """The pair with the fewest multiplications, at the sizes at hand; the first ones where those are not known."""
    assumed = current()
    sizes = {l: s for t in terms for l, s in zip(t.labels, t.node.shape, strict=True)}
    lengths: dict[str, int] = {}
    for l, s in sizes.items():
        if not isinstance(s, int) and not assumed.hints:
            return 0, 1
        lengths[l] = assumed.value(s)

    def cost(ij: tuple[int, int]) -> int:
        out = 1
        for l in {*terms[ij[0]].labels, *terms[ij[1]].labels}:
            out *= lengths[l]
        return out

    return min(combinations(range(len(terms)), 2), key=cost)


@implements_numpy(np.einsum)
def einsum(subscripts: Any, *arrays: Value, out: Any = None, dtype: Any = None, optimize: Any = False) -> Any:
    if not isinstance(subscripts, str):
        raise UnsupportedError("np.einsum: wants the subscripts as a string, like 'ij,jk->ik'")
    nodes = [p.as_dtype(n, asked_dtype(dtype, n.dtype)) for n in operands(*listed(arrays))]
    inputs, output = parsed(subscripts, [n.ndim for n in nodes])
    terms = without_ones([without_repeats(Term(n, l)) for n, l in zip(nodes, inputs, strict=True)])
    while len(terms) > 1:
        i, j = cheapest(terms) if len(terms) > 2 else (0, 1)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        needed = {*output, *(l for t in rest for l in t.labels)}
        terms = [contracted(terms[i], terms[j], needed), *rest]
    (last,) = terms
    last = summed(last, set(output))
    return into(out, wrap(permuted(last.node, [last.labels.index(l) for l in output])), "np.einsum")
