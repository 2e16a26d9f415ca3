"""Graph -> Graph in primitives that lower directly: expansions in place, rules and stops erased, products as sums.

Products of a matrix and a vector become sums of products, so that they fuse with what surrounds them; so do products
of matrices that are small and static, or that have nothing to sum over. All others stay as calls of BLAS.
"""

from __future__ import annotations

from symgrad.ir.graph import Graph
from symgrad.ir.node import GET, PARAM, Node, make
from symgrad.ir.op import Expand, Fold, Leaf
from symgrad.lower.shapes import few, small_tail, swapped_source
from symgrad.ops.folds import sum_
from symgrad.ops.pointwise import mul
from symgrad.ops.products import matrix_transpose
from symgrad.ops.views import broadcast, reshape

SMALL_PRODUCT = 64  # multiplications that are written out


def expand(graph: Graph, *, blas: bool = True) -> Graph:
    """Replace primitives declared by expansion, and results of custom rules by their primal values.

    Without ``blas``, all products of floats become sums.
    """
    done: dict[Node, Node] = {}
    rebuilt: dict[Node, tuple[Node, Node | None]] = {}
    stack = list(reversed(graph.results))
    while stack:
        n = stack[-1]
        waiting = [] if n in done else [a for a in n.args if a not in done]
        if n in done or waiting:
            stack = stack[:-1] if n in done else stack
            stack.extend(waiting)
            continue
        if n not in rebuilt:
            new = n
            if any(done[a] is not a for a in n.args):
                new = make(n.op, *(done[a] for a in n.args), **dict(n.attrs))
            rebuilt[n] = new, _replaced(new, blas)
        new, other = rebuilt[n]
        if other is not None and other not in done:
            stack.append(other)
            continue
        done[n] = new if other is None else done[other]
        stack.pop()
    return Graph(graph.params, tuple(done[r] for r in graph.results))


def _replaced(n: Node, blas: bool) -> Node | None:
    """Another node of the same value, to be expanded in turn."""
    if n.op is PARAM:
        return None
    if n.op is GET and isinstance(n.args[0].op.lower, Leaf):
        primal: Node = n.args[0].args[n.attr("index")]
        return primal
    if n.op.name == "stop_gradient":
        return n.args[0]
    if isinstance(n.op.lower, Expand):
        return n.op.lower.build(*n.args, **dict(n.attrs))
    if n.op.name == "dot":
        return _product_as_sum(n, blas)
    return _fold_in_two(n) if isinstance(n.op.lower, Fold) else None


def _fold_in_two(n: Node) -> Node | None:
    """A reduction over a short last axis and others: the short one first, which is written out."""
    (x,), axes = n.args, n.attr("axes")
    short = range(x.ndim - small_tail(x.shape), x.ndim)
    tail = tuple(a for a in axes if a in short)
    if not tail or len(tail) == len(axes) or few(x.shape[a] for a in axes):
        return None
    return make(n.op, make(n.op, x, axes=tail), axes=tuple(a for a in axes if a not in tail))


def _product_as_sum(n: Node, blas: bool) -> Node | None:
    a, b = n.args
    *batch, rows, inner = a.shape
    columns, d = b.shape[-1], len(batch)
    if inner == 1:
        left = broadcast(reshape(a, shape=a.shape[:-1]), shape=n.shape, axes=tuple(range(d + 1)))
        right = broadcast(reshape(b, shape=(*batch, columns)), shape=n.shape, axes=(*range(d), d + 1))
        return mul(left, right)
    if few((rows, inner, columns), SMALL_PRODUCT) and few((inner,)):
        full = (*batch, rows, columns, inner)
        left = broadcast(a, shape=full, axes=(*range(d), d, d + 2))
        right = broadcast(_swapped(b), shape=full, axes=(*range(d), d + 1, d + 2))
        return sum_(mul(left, right), axes=(d + 2,))
    if rows == 1 and columns == 1:
        flat = (*batch, inner)
        return reshape(sum_(mul(reshape(a, shape=flat), reshape(b, shape=flat)), axes=(d,)), shape=n.shape)
    if columns == 1:
        return reshape(_matrix_vector(a, reshape(b, shape=(*batch, inner))), shape=n.shape)
    if rows == 1:
        return reshape(_matrix_vector(_swapped(b), reshape(a, shape=(*batch, inner))), shape=n.shape)
    return None if blas or not n.dtype.is_float else _product_in_loops(a, b)


def _product_in_loops(a: Node, b: Node) -> Node:
    """A product of matrices whose innermost loop runs along the memory of the second one."""
    *batch, rows, inner = a.shape
    columns, d = b.shape[-1], len(batch)
    transposed = swapped_source(b)
    if transposed is not None:
        full = (*batch, rows, columns, inner)
        left = broadcast(a, shape=full, axes=(*range(d), d, d + 2))
        return sum_(mul(left, broadcast(transposed, shape=full, axes=(*range(d), d + 1, d + 2))), axes=(d + 2,))
    full = (*batch, rows, inner, columns)
    left = broadcast(a, shape=full, axes=(*range(d), d, d + 1))
    return sum_(mul(left, broadcast(b, shape=full, axes=(*range(d), d + 1, d + 2))), axes=(d + 1,))


def _matrix_vector(m: Node, v: Node) -> Node:
    """Products of matrices (…, rows, inner) and vectors (…, inner), summed along the matrix as it lies in memory."""
    d = m.ndim - 2
    source = swapped_source(m)
    matrix, axis = (m, d + 1) if source is None else (source, d)
    return sum_(mul(matrix, broadcast(v, shape=matrix.shape, axes=(*range(d), axis))), axes=(axis,))


def _swapped(n: Node) -> Node:
    source = swapped_source(n)
    return matrix_transpose(n) if source is None else source
