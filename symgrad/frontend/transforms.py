"""Transforms while tracing: functions of tracers -> functions of tracers.

Each traces the user's function on fresh parameters, transforms the piece of graph between them and the results, and
puts the actual arguments in place of the parameters. Values from outside the inner function are plain nodes of the same
graph, so nesting needs no levels and derivatives cannot be confused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.autodiff.forward import push
from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.errors import DTypeError, ShapeError, SourceLine, SymgradError, TraceError
from symgrad.frontend.hooks import prepared
from symgrad.frontend.raising import LeavesError, run_checked
from symgrad.frontend.tracer import Tracer, argument, is_traced, value, wrap
from symgrad.frontend.tracing import current_trace
from symgrad.frontend.tree import TreeDef, flatten, leaf_paths, unflatten
from symgrad.ir.graph import Graph, substitute
from symgrad.ir.node import Node, param
from symgrad.ir.sizes import current, same_shape, shown
from symgrad.ir.types import Size, f64, product
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import filled, number
from symgrad.ops.running import iota
from symgrad.ops.views import batched, broadcast, reshape, transpose
from symgrad.passes.batch import batch
from symgrad.passes.regions import tidy
from symgrad.passes.stabilise import stabilise

Function = Callable[..., Any]


def line_of(fun: Any) -> SourceLine | None:
    """Where a function is defined."""
    code = getattr(inspect.unwrap(fun) if callable(fun) else fun, "__code__", None)
    return None if code is None else SourceLine(code.co_filename, code.co_firstlineno, "", code.co_name)


def name_of(fun: Any) -> str:
    name = getattr(fun, "__name__", type(fun).__name__)
    return "f" if name == "<lambda>" else str(name)


def about(error: SymgradError, fun: Any) -> SymgradError:
    """``error`` at the place where ``fun`` is defined."""
    return error.at(line_of(fun))


# --- the piece of graph that a function makes ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Piece:
    """A function traced on fresh parameters: ``results`` in terms of ``params``; what they stand for is ``outside``."""

    params: tuple[Node, ...]
    outside: dict[Node, Node]
    results: tuple[Node, ...]
    tree: TreeDef
    weak: tuple[bool, ...]

    def place(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes with the actual arguments in place of the parameters."""
        return substitute(nodes, self.outside)

    def rebuilt(self, nodes: Sequence[Node]) -> Any:
        """Placed nodes in the structure of the results."""
        placed = self.place(nodes)
        return unflatten(self.tree, [wrap(n, weak=w) for n, w in zip(placed, self.weak, strict=True)])


def is_weak(x: Any) -> bool:
    return x.weak if type(x) is Tracer else type(x) in (int, float)


def trace_piece(
    fun: Function, call: Callable[[list[Tracer]], Any], actual: Sequence[Node], weak: Sequence[bool]
) -> Piece:
    """Trace ``call`` on tracers of fresh parameters for ``actual``."""
    trace = current_trace()
    params = tuple(param(a.type) for a in actual)
    for q, a in zip(params, actual, strict=True):
        if a in trace.known:
            trace.known[q] = trace.known[a]
    given, checks = run_checked(lambda: call([argument(q, weak=w) for q, w in zip(params, weak, strict=True)]))
    for q, a in zip(params, actual, strict=True):
        if q in trace.pins:
            trace.pin(a)
    for noted in (trace.truths, trace.labels):
        _placed(noted, dict(zip(params, actual, strict=True)))
    leaves, tree = flatten(given[0] if given else None)
    nodes = tuple(_result(fun, leaf) for leaf in leaves) if given else ()
    graph = tidy(Graph(params, (*nodes, *checks.results)))
    if trace.stabilize:
        graph = stabilise(graph)
    outside = {**dict(zip(params, actual, strict=True)), checks.entry: checks.before}
    for flag in substitute(graph.results[len(nodes) :], outside):
        checks.give_on(flag)
    if not given:
        raise LeavesError
    nodes = graph.results[: len(nodes)]
    return Piece(params, outside, nodes, tree, tuple(is_weak(x) for x in leaves))


def _placed(noted: dict[Node, Any], actual: dict[Node, Node]) -> None:
    """What is noted of nodes of an inner function also holds of them on its actual arguments."""
    nodes = list(noted)
    for n, placed in zip(nodes, substitute(nodes, dict(actual)), strict=True):
        noted.setdefault(placed, noted[n])


def _result(fun: Function, leaf: Any) -> Node:
    if isinstance(leaf, str | bytes) or leaf is Ellipsis:
        raise about(TraceError(f"{name_of(fun)} returns a {type(leaf).__name__}; results are arrays and numbers"), fun)
    return value(leaf)


# --- arguments that are differentiated -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selected:
    """The leaves of the arguments in ``nums``, and how to call with others in their place."""

    nums: tuple[int, ...]
    single: bool
    nodes: tuple[Node, ...]
    weak: tuple[bool, ...]
    trees: tuple[TreeDef, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self, fun: Function, leaves: Sequence[Any]) -> Any:
        args = list(self.args)
        for n, tree in zip(self.nums, self.split(leaves), strict=True):
            args[n] = tree
        return prepared(fun)(*args, **self.kwargs)

    def split(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves back in the structure of each argument."""
        out, start = [], 0
        for tree in self.trees:
            out.append(unflatten(tree, list(leaves[start : start + tree.num_leaves])))
            start += tree.num_leaves
        return out

    def result(self, leaves: Sequence[Any]) -> Any:
        """One structure for a single argnum, else a tuple."""
        trees = self.split(leaves)
        return trees[0] if self.single else tuple(trees)


def argument_names(fun: Any, count: int) -> list[str]:
    """Names of the positional arguments, as far as a signature tells."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return [str(k) for k in range(count)]
    positional = [q.name for q in parameters if q.kind in (q.POSITIONAL_ONLY, q.POSITIONAL_OR_KEYWORD)]
    return [positional[k] if k < len(positional) else str(k) for k in range(count)]


def normal_argnums(argnums: int | Sequence[int], count: int, fun: Any) -> tuple[int, ...]:
    """Argnums as non-negative positions; an error names the function."""
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in nums:
        if not isinstance(n, int) or not -count <= n < count:
            message = f"argnums={argnums} does not fit a call of {name_of(fun)} with {count} positional arguments"
            raise about(ShapeError(message), fun)
    positions = tuple(n % count for n in nums)
    if len(set(positions)) < len(positions):
        raise about(ShapeError(f"argnums={argnums} names an argument of {name_of(fun)} twice"), fun)
    return positions


def select(fun: Function, argnums: int | Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selected:
    """Pick the arguments to differentiate; DTypeError when one is not real-valued."""
    nums = normal_argnums(argnums, len(args), fun)
    names = argument_names(fun, len(args))
    nodes, weak, trees = [], [], []
    for n in nums:
        leaves, tree = flatten(args[n])
        trees.append(tree)
        for leaf, path in zip(leaves, leaf_paths(args[n]), strict=True):
            node = _real(fun, leaf, f"{names[n]}{path}")
            nodes.append(node)
            weak.append(is_weak(leaf))
    return Selected(nums, isinstance(argnums, int), tuple(nodes), tuple(weak), tuple(trees), args, kwargs)


def _real(fun: Function, leaf: Any, name: str) -> Node:
    if (not is_traced(leaf) and not isinstance(leaf, int | float | np.ndarray | np.generic)) or isinstance(leaf, bool):
        raise about(
            DTypeError(f"argument {name} of {name_of(fun)} is a {type(leaf).__name__}; a derivative wants floats"), fun
        )
    node = value(leaf)
    if node.dtype.is_float:
        return node
    if is_weak(leaf):
        return p.cast(node, dtype=f64)
    raise about(
        DTypeError(
            f"argument {name} of {name_of(fun)} has dtype {node.dtype.numpy}; "
            "a derivative wants floats: pass it as float64"
        ),
        fun,
    )


# --- grad ------------------------------------------------------------------------------------------------------------


def value_and_grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """``(*args) -> (value, gradients)``, or ``((value, aux), gradients)``."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        chosen = select(fun, argnums, args, kwargs)
        piece = trace_piece(fun, lambda leaves: chosen.call(fun, leaves), chosen.nodes, chosen.weak)
        y = _scalar(fun, piece, has_aux)
        seed = Linear(number(1, y.dtype))
        grads = filled(pull([y], [seed], piece.params), piece.params)
        placed = piece.place([*piece.results, *grads])
        count = len(piece.results)
        out = unflatten(piece.tree, [wrap(n, weak=w) for n, w in zip(placed[:count], piece.weak, strict=True)])
        return out, chosen.result([wrap(n, weak=w) for n, w in zip(placed[count:], chosen.weak, strict=True)])

    return traced


def grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """``(*args) -> gradients``, or ``(gradients, aux)``."""
    both = value_and_grad(fun, argnums, has_aux)

    def traced(*args: Any, **kwargs: Any) -> Any:
        out, grads = both(*args, **kwargs)
        return (grads, out[1]) if has_aux else grads

    return traced


def _scalar(fun: Function, piece: Piece, has_aux: bool) -> Node:
    what = f"the gradient of {name_of(fun)} wants a scalar result"
    if has_aux and not (
        piece.tree.cls is tuple and len(piece.tree.children) == 2 and piece.tree.children[0].num_leaves == 1
    ):
        raise about(TraceError(f"has_aux=True wants {name_of(fun)} to return (scalar, aux)"), fun)
    count = len(piece.results)
    if count == 0 or (count != 1 and not has_aux):
        raise about(TraceError(f"{what}, got {'nothing' if not count else f'{count} results'}"), fun)
    y = piece.results[0]
    if y.shape:
        raise about(ShapeError(f"{what}, got an array of shape {shown(y.shape)}; sum it, or use sg.jacobian"), fun)
    if not y.dtype.is_float:
        raise about(DTypeError(f"{what} that is a float, got {y.dtype.numpy}"), fun)
    return y


# --- vjp, jvp and Jacobians ------------------------------------------------------------------------------------------


def _seed(ct: Node) -> Linear:
    """A given (co)tangent: where it is zero, it contributes nothing."""
    return Linear(ct, p.ne(ct, 0.0))


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """``(out, pullback)``, with ``aux`` as a third when ``has_aux``."""
    chosen = select(fun, tuple(range(len(primals))), primals, {})
    piece = trace_piece(fun, lambda leaves: chosen.call(fun, leaves), chosen.nodes, chosen.weak)
    out = piece.rebuilt(piece.results)
    primal, aux = out if has_aux else (out, None)
    count = flatten(primal)[1].num_leaves

    def pullback(ct: Any) -> Any:
        leaves, tree = flatten(ct)
        if tree != flatten(primal)[1]:
            raise ShapeError(f"the pullback of {name_of(fun)} wants a cotangent with the structure of the result")
        results = piece.results[:count]
        seeds = [
            _seed(_fitted(value(c), r, "cotangent", fun)) if r.dtype.is_float else None
            for c, r in zip(leaves, results, strict=True)
        ]
        grads = filled(pull(results, seeds, piece.params), piece.params)
        return tuple(chosen.split([wrap(n, weak=w) for n, w in zip(piece.place(grads), chosen.weak, strict=True)]))

    return (primal, pullback, aux) if has_aux else (primal, pullback)


def _fitted(given: Node, like: Node, what: str, fun: Function) -> Node:
    if not same_shape(given.shape, like.shape):
        raise ShapeError(f"a {what} of {name_of(fun)} has shape {shown(given.shape)}, wanted {shown(like.shape)}")
    return p.as_dtype(given, like.dtype)


def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``(out, tangent of out)``."""
    chosen = select(fun, tuple(range(len(primals))), tuple(primals), {})
    leaves, tree = flatten(tuple(tangents))
    if tree != flatten(tuple(primals))[1]:
        raise ShapeError(f"jvp of {name_of(fun)}: the tangents have another structure than the primals")
    given = [_fitted(value(t), q, "tangent", fun) for t, q in zip(leaves, chosen.nodes, strict=True)]
    piece = trace_piece(fun, lambda xs: chosen.call(fun, xs), chosen.nodes, chosen.weak)
    out = push(piece.results, piece.params, [_seed(t) for t in given])
    return piece.rebuilt(piece.results), piece.rebuilt(filled(out, piece.results))


def hvp(fun: Function, argnums: int = 0) -> Function:
    """``(*args, v) -> H v``: forward over reverse."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        *args_, v = args
        n = normal_argnums(argnums, len(args_), fun)[0]

        def slope(x: Any) -> Any:
            return grad(fun, n)(*args_[:n], x, *args_[n + 1 :], **kwargs)

        slope.__name__ = name_of(fun)
        return jvp(slope, (args_[n],), (v,))[1]

    return traced


def identity(count: Size, like: Node) -> Node:
    """Every unit array of ``like``'s shape, along a new leading axis of length ``count``."""
    rows, columns = (broadcast(iota(size=count), shape=(count, count), axes=(k,)) for k in (0, 1))
    return reshape(p.cast(p.eq(rows, columns), dtype=like.dtype), shape=(count, *like.shape))


def jacrev(fun: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Rows of the Jacobian by reverse mode, all at once."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        chosen = select(fun, argnums, args, kwargs)
        piece = _differentiable(fun, trace_piece(fun, lambda xs: chosen.call(fun, xs), chosen.nodes, chosen.weak))
        rows = [_reverse_rows(piece, y) for y in piece.results]
        return _jacobian_tree(piece, chosen, rows)

    return traced


def _reverse_rows(piece: Piece, y: Node) -> list[Node]:
    ct, count = param(y.type), product(y.shape)
    grads = filled(pull([y], [_seed(ct)], piece.params), piece.params)
    rows = batch(grads, {ct: (identity(count, y), 0)}, count)
    return [
        reshape(batched(count, n, axis), shape=(*y.shape, *q.shape))
        for (n, axis), q in zip(rows, piece.params, strict=True)
    ]


def jacfwd(fun: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Columns of the Jacobian by forward mode, all at once."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        chosen = select(fun, argnums, args, kwargs)
        piece = _differentiable(fun, trace_piece(fun, lambda xs: chosen.call(fun, xs), chosen.nodes, chosen.weak))
        columns = [_forward_columns(piece, k) for k in range(len(piece.params))]
        rows = [[column[j] for column in columns] for j in range(len(piece.results))]
        return _jacobian_tree(piece, chosen, rows)

    return traced


def _forward_columns(piece: Piece, k: int) -> list[Node]:
    x = piece.params[k]
    t, count = param(x.type), product(x.shape)
    seeds = [_seed(t) if j == k else None for j in range(len(piece.params))]
    tangents = filled(push(piece.results, piece.params, seeds), piece.results)
    columns = batch(tangents, {t: (identity(count, x), 0)}, count)
    out = []
    for (n, axis), y in zip(columns, piece.results, strict=True):
        first = batched(count, n, axis)
        last = transpose(first, perm=(*range(1, first.ndim), 0))
        out.append(reshape(last, shape=(*y.shape, *x.shape)))
    return out


def _differentiable(fun: Function, piece: Piece) -> Piece:
    """The piece, when all its results have derivatives."""
    if not piece.results:
        raise about(TraceError(f"the Jacobian of {name_of(fun)} wants a result, got nothing"), fun)
    for y in piece.results:
        if not y.dtype.is_float:
            raise about(
                DTypeError(f"the Jacobian of {name_of(fun)} wants results that are floats, got {y.dtype.numpy}"), fun
            )
    return piece


def _jacobian_tree(piece: Piece, chosen: Selected, rows: list[list[Node]]) -> Any:
    leaves = []
    for row in rows:
        leaves.append(chosen.result([wrap(n) for n in piece.place(row)]))
    return unflatten(piece.tree, leaves)


def jacobian(fun: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The Jacobian by the mode with fewer passes."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        chosen = select(fun, argnums, args, kwargs)
        piece = _differentiable(fun, trace_piece(fun, lambda xs: chosen.call(fun, xs), chosen.nodes, chosen.weak))
        sizes = current()
        inputs = sum(sizes.value(product(q.shape)) for q in piece.params)
        outputs = sum(sizes.value(product(y.shape)) for y in piece.results)
        if outputs <= inputs:
            return _jacobian_tree(piece, chosen, [_reverse_rows(piece, y) for y in piece.results])
        columns = [_forward_columns(piece, k) for k in range(len(piece.params))]
        return _jacobian_tree(piece, chosen, [[c[j] for c in columns] for j in range(len(piece.results))])

    return traced


def hessian(fun: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Second derivatives: forward over reverse."""
    return jacfwd(grad(fun, argnums), argnums)


# --- vmap ------------------------------------------------------------------------------------------------------------


def vmap(fun: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """``fun`` over one axis of its arguments at once."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _by_position(fun, in_axes, args, kwargs)
        leaves, tree = flatten((args, kwargs))
        axes = _axes(in_axes, args, kwargs, fun)
        nodes = [_ANY if _is_text(x) else value(x) for x in leaves]
        axes = [None if n is _ANY else a for a, n in zip(axes, nodes, strict=True)]
        batched = [(n, _axis(a, n, fun)) for n, a in zip(nodes, axes, strict=True)]
        size = _batch_size(batched, fun)
        types = [
            n.type if a is None else n.type.with_shape(s for k, s in enumerate(n.shape) if k != a) for n, a in batched
        ]
        inner = {k: param(t) for k, (t, (_, a)) in enumerate(zip(types, batched, strict=True)) if a is not None}

        def call() -> Any:
            new = [argument(inner[k], weak=False) if k in inner else leaf for k, leaf in enumerate(leaves)]
            inner_args, inner_kwargs = unflatten(tree, new)
            return prepared(fun)(*inner_args, **inner_kwargs)

        given, checks = run_checked(call)
        out, out_tree = flatten(given[0] if given else None)
        results = [_ANY if _is_text(x) else value(x) for x in out] if given else []
        found = batch([*results, *checks.results], {q: (nodes[k], batched[k][1] or 0) for k, q in inner.items()}, size)
        if checks.results:
            outside = substitute([n for n, _ in found], {checks.entry: checks.before})
            found = [(n, axis) for n, (_, axis) in zip(outside, found, strict=True)]
            checks.give_on(*found.pop())
        if not given:
            raise LeavesError
        where = _out_axes(out_axes, unflatten(out_tree, out), out_tree)
        placed = [_result_axis(n, a, w, size, fun) for (n, a), w in zip(found, where, strict=True)]
        return unflatten(out_tree, [x if _is_text(x) else wrap(n) for n, x in zip(placed, out, strict=True)])

    return traced


def _axis(axis: int | None, n: Node, fun: Function) -> int | None:
    if axis is None or -n.ndim <= axis < n.ndim:
        return axis if axis is None else axis % n.ndim
    raise about(ShapeError(f"vmap of {name_of(fun)}: an argument of shape {shown(n.shape)} has no axis {axis}"), fun)


_ANY = number(0, f64)  # stands for a value that is no number and goes through as it is


def _is_text(x: Any) -> bool:
    return isinstance(x, str | bytes) or x is Ellipsis


def _by_position(
    fun: Function, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keyword arguments and defaults in the places that ``in_axes`` has entries for."""
    count = len(in_axes) if isinstance(in_axes, tuple | list) else 0
    if count <= len(args):
        return args, kwargs
    kwargs = dict(kwargs)
    for name in argument_names(fun, count)[len(args) :]:
        if name not in kwargs:
            default = inspect.signature(fun).parameters[name].default if not name.isdigit() else inspect.Parameter.empty
            if default is inspect.Parameter.empty:
                break
            kwargs[name] = default
        args = (*args, kwargs.pop(name))
    return args, kwargs


def _result_axis(n: Node, axis: int | None, wanted: int | None, size: Size, fun: Function) -> Node:
    """A result with its batch axis where it is wanted; None wants a result without one."""
    if wanted is not None:
        return _moved(batched(size, n, axis), wanted)
    if axis is None:
        return n
    message = f"vmap of {name_of(fun)}: out_axes is None for a result that depends on mapped arguments"
    raise about(ShapeError(message), fun)


def _moved(n: Node, axis: int) -> Node:
    """A batched node with its first axis at ``axis``."""
    if not -n.ndim <= axis < n.ndim:
        raise ShapeError(f"vmap: out_axes of {axis} does not fit a batched result of shape {shown(n.shape)}")
    axis %= n.ndim
    if axis == 0:
        return n
    order = list(range(1, n.ndim))
    order.insert(axis, 0)
    return transpose(n, perm=tuple(order))


def _axes(in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fun: Function) -> list[int | None]:
    """One axis for each leaf; keyword arguments are mapped over their first axis."""
    per_arg = [in_axes] * len(args) if isinstance(in_axes, int) or in_axes is None else list(in_axes)
    if len(per_arg) != len(args):
        raise about(
            ShapeError(f"vmap of {name_of(fun)}: in_axes has {len(per_arg)} entries for {len(args)} arguments"), fun
        )
    out: list[int | None] = []
    for axis, arg in zip(per_arg, args, strict=True):
        out += _spread(axis, flatten(arg)[1].num_leaves, arg)
    return out + [0] * flatten(kwargs)[1].num_leaves


def _spread(axis: Any, count: int, arg: Any) -> list[int | None]:
    if axis is None or isinstance(axis, int):
        return [axis] * count
    if isinstance(axis, list | tuple) and len(axis) != len(arg):
        raise ShapeError(f"vmap: axes {axis} have {len(axis)} entries for {len(arg)} parts")
    if isinstance(axis, dict):
        return [a for k in sorted(arg) for a in _spread(axis[k], flatten(arg[k])[1].num_leaves, arg[k])]
    return [a for x, part in zip(axis, arg, strict=True) for a in _spread(x, flatten(part)[1].num_leaves, part)]


def _out_axes(out_axes: Any, out: Any, tree: TreeDef) -> list[int | None]:
    if isinstance(out_axes, list | tuple) and not isinstance(out, list | tuple):
        raise ShapeError(f"out_axes has {len(out_axes)} entries for {tree.num_leaves} results")
    if isinstance(out_axes, list | tuple) and len(out_axes) != len(out):
        raise ShapeError(f"out_axes has {len(out_axes)} entries for {len(out)} results")
    return _spread(out_axes, tree.num_leaves, out)


def _batch_size(batched: Sequence[tuple[Node, int | None]], fun: Function) -> Size:
    found: list[tuple[Node, Size]] = []
    for n, axis in batched:
        if axis is None:
            continue
        found.append((n, n.shape[axis]))
    if not found:
        raise about(ShapeError(f"vmap of {name_of(fun)}: no argument is mapped; give in_axes other than None"), fun)
    first = found[0][1]
    for _, size in found[1:]:
        if not current().same(first, size):
            shapes = " and ".join(shown(m.shape) for m, _ in found)
            raise about(ShapeError(f"vmap of {name_of(fun)}: mapped axes differ in length, shapes {shapes}"), fun)
    return next((s for _, s in found if isinstance(s, int)), first)


# --- constants -------------------------------------------------------------------------------------------------------


def stop_gradient(x: Any) -> Any:
    """Every traced leaf as a constant for differentiation; other values as they are."""
    leaves, tree = flatten(x)
    return unflatten(
        tree, [wrap(p.stop(leaf.node), weak=leaf.weak) if type(leaf) is Tracer else leaf for leaf in leaves]
    )
