"""Constructors for the common kinds of primitive: each fills in what follows from the kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.errors import DTypeError
from symgrad.ir.loops import ScalarFn, fn
from symgrad.ir.node import Node, constant, make
from symgrad.ir.op import REGISTRY, Expand, Op, Piece, Sample, Scalar, View, register
from symgrad.ir.sizes import broadcast_shapes, same_shape
from symgrad.ir.types import DType, Shape, TensorType, boolean

FLOATS, NUMBERS, INTEGERS, ANY, BOOLS = "f", "fiu", "iu", "fiub", "b"
_KIND_NAMES = {"f": "a float", FLOATS: "a float", NUMBERS: "a number", INTEGERS: "an integer", BOOLS: "a bool"}


def number(value: Any, dtype: DType) -> Node:
    """A 0-d literal of ``dtype``."""
    return constant(value, dtype)


def lift(*args: Any) -> tuple[Node, ...]:
    """Python numbers among ``args`` become literals of the first node's dtype; all get one shape."""
    like = next(a for a in args if isinstance(a, Node))
    return spread(*(a if isinstance(a, Node) else number(a, like.dtype) for a in args))


def spread(*nodes: Node) -> tuple[Node, ...]:
    """Broadcast nodes against each other."""
    shape = nodes[0].shape
    if all(n.shape == shape for n in nodes[1:]):
        return nodes
    shape = broadcast_shapes(*(n.shape for n in nodes))
    return tuple(broadcast_to(n, shape) for n in nodes)


def broadcast_to(x: Node, shape: Shape) -> Node:
    """NumPy's broadcast of ``x`` to ``shape`` as a reshape that drops unit axes and a ``broadcast``."""
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    kept = [k for k, s in enumerate(x.shape) if s != 1 or shape[lead + k] == 1]
    if len(kept) < x.ndim:
        x = REGISTRY["reshape"](x, shape=tuple(x.shape[k] for k in kept))
    axes = tuple(lead + k for k in kept)
    if len(axes) == len(shape):
        return x
    return REGISTRY["broadcast"](x, shape=shape, axes=axes)


def one_dtype(types: Sequence[TensorType], what: str) -> DType:
    """The dtype that all have; DTypeError when they differ."""
    for t in types[1:]:
        if t.dtype != types[0].dtype:
            raise DTypeError(f"{what}: dtypes {types[0].dtype} and {t.dtype} differ")
    return types[0].dtype


def same_types(types: Sequence[TensorType], what: str, kinds: str) -> TensorType:
    """The one type of pointwise operands; DTypeError when the dtypes differ or are of the wrong kind."""
    first = types[0]
    if first.dtype.kind not in kinds:
        raise DTypeError(f"{what}: wants {_KIND_NAMES.get(kinds, 'another')} dtype, got {first.dtype}")
    one_dtype(types, what)
    for t in types[1:]:
        assert same_shape(t.shape, first.shape), f"{what}: {first} and {t}: operands are broadcast beforehand"
    return first


def pointwise(
    name: str,
    *,
    doc: str,
    numpy: Callable[..., Any],
    lower: ScalarFn | Callable[..., Any],
    partials: Callable[..., tuple[Any, ...]] | None = None,
    masks: Callable[..., tuple[Node | None, ...]] | None = None,
    sympy: str | Callable[..., Any] | None = None,
    kinds: str = FLOATS,
    predicate: bool = False,
    constant: bool = False,
    cost: int = 1,
    sample: tuple[tuple[float, float], ...] = ((-2.0, 2.0),),
    expand: bool = False,
    examples: Callable[[], list[tuple[tuple[Any, ...], dict[str, Any]]]] | None = None,
    accept: Callable[..., str] | None = None,
) -> Op:
    """A primitive that works element by element on operands of one dtype and shape (numbers and broadcasts are lifted).

    ``lower`` is a ScalarFn, with ``expand=True`` a function of nodes that gives an equal value in other primitives,
    else a function ``(*scalars, **attrs) -> Expr``. ``sympy`` is a sympy name or ``(sp, *symbols) -> expression``.
    ``accept(**attrs)`` gives the kinds of dtypes where they depend on attributes.
    """

    def infer(*types: TensorType, **attrs: Any) -> TensorType:
        t = same_types(types, name, kinds if accept is None else accept(**attrs))
        return t.with_dtype(boolean) if predicate else t

    if isinstance(lower, ScalarFn):
        lowering: Scalar | Expand = Scalar(fn=lower, cost=cost)
    else:
        lowering = Expand(lower) if expand else Scalar(build=lower, cost=cost)
    op = Op(
        name=name, doc=doc, infer=infer, numpy=numpy, lower=lowering, partials=partials, masks=masks, sympy=sympy,
        constant=constant or predicate, prepare=lift, sample=Sample(sample), examples=examples,
    )  # fmt: skip
    return register(op)


def libm(name: str, c: str | None = None) -> ScalarFn:
    """A function of the C library of one or two floats."""
    spelled = c or name
    arity = 2 if name in ("pow", "atan2", "hypot", "fmod") else 1
    fields = ", ".join(f"{{{k}}}" for k in range(arity))
    return fn(spelled, f"{spelled}{{f}}({fields})", f=f"libm {spelled}")


def view(
    name: str,
    *,
    doc: str,
    infer: Callable[..., TensorType],
    numpy: Callable[..., Any],
    pieces: Callable[..., tuple[Piece, ...]],
    vjp: Callable[..., tuple[Node | None, ...]],
    batch: Callable[..., tuple[Node, int | None]],
    examples: Callable[[], list[tuple[tuple[Any, ...], dict[str, Any]]]],
    covers: bool = True,
    fills: bool = False,
) -> Op:
    """A linear primitive that only moves elements: an index map ``pieces(index, read, types, **attrs)``."""
    return register(
        Op(
            name=name,
            doc=doc,
            infer=infer,
            numpy=numpy,
            lower=View(pieces),
            vjp=vjp,
            linear=True,
            structural=True,
            covers=covers,
            fills=fills,
            batch=batch,
            examples=examples,
        )
    )


def remake(n: Node, *args: Node) -> Node:
    """The same primitive with the same attributes on other operands."""
    return make(n.op, *args, **dict(n.attrs))


def zeros(shape: Shape, dtype: DType) -> Node:
    """An array of zeros (False for bool)."""
    return broadcast_to(number(0, dtype), shape)


def or_zero(n: Node | None, like: Node | TensorType) -> Node:
    """A tangent or cotangent, zeros where there is none."""
    return zeros(like.shape, like.dtype) if n is None else n


def filled(nodes: Sequence[Node | None], like: Sequence[Node | TensorType]) -> list[Node]:
    """Tangents or cotangents of ``like``, zeros where there are none."""
    return [or_zero(n, x) for n, x in zip(nodes, like, strict=True)]
