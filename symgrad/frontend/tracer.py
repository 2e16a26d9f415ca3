"""Traced arrays and numbers: Python's operators and NumPy's protocols -> nodes of a graph.

A ``Tracer`` is a mutable cell around an immutable node. A view is a cell that reads from its base and writes through to
it. What NumPy's functions mean is looked up in ``FUNCTIONS``. A *weak* tracer is a Python number: it adapts its dtype
to arrays and, like every *fixed* one (NumPy's scalars), is never changed in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from symgrad.errors import DTypeError, TraceError, UnsupportedError
from symgrad.frontend.lengths import TracedSize, make_size, size_of
from symgrad.frontend.lines import located, numpy_call, where, with_line
from symgrad.frontend.memory import contiguous, strides_through
from symgrad.frontend.masked import Masked, lift_masked
from symgrad.frontend.tracing import FUNCTIONS, Trace, activate, call, constant_value, current_trace, implements, tracing
from symgrad.ir.node import Node, constant, size_node
from symgrad.ir.sizes import broadcast_shapes, current, same_shape, shown
from symgrad.ir.types import DType, Shape, Size, boolean, dtype_of, f64, i64, product
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.views import concatenate, reshape

Read = Callable[[Node], Node]
Write = Callable[[Node, Node], Node]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """How a view reads from its base, changes it (None: it is read-only), and lies in the memory of the root."""

    base: Tracer
    root: Tracer
    read: Read
    write: Write | None
    strides: Shape


def _operator(name: str, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        return call(operator, name, *((other, self) if swapped else (self, other)))

    return method


def _unary(name: str) -> Callable[[Tracer], Any]:
    def method(self: Tracer) -> Any:
        return call(operator, name, self)

    return method


def _in_place(name: str) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        result = call(operator, name, self, other)
        return result if self.fixed else store(self, result, name)

    return method


def _numpy(function: Any) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **keywords: Any) -> Any:
        if function not in FUNCTIONS:
            raise located(UnsupportedError(f"{spelled(function)} is not supported on traced values"))
        return call(FUNCTIONS[function], self, *args, **keywords)

    return method


class Tracer:
    """A traced array, NumPy scalar or (``weak``) Python number."""

    __slots__ = ("__weakref__", "_node", "_seen", "_version", "fixed", "readonly", "view", "weak")
    __array_priority__ = 1000.0

    def __init__(self, node: Node, *, weak: bool = False, fixed: bool = False, view: View | None = None) -> None:
        self._node = node
        self._version = 0
        self._seen = view.root._version if view is not None else 0
        self.view = view
        self.weak = weak
        self.fixed = fixed
        self.readonly = view is not None and view.base.readonly

    @property
    def __class__(self) -> type:  # so that isinstance(x, np.ndarray), isinstance(number, float) hold
        if self.weak:
            return _PYTHON[self._node.dtype.kind]
        return self._node.dtype.numpy.type if self.fixed else np.ndarray

    @property
    def node(self) -> Node:
        """The present value."""
        view = self.view
        if view is not None and self._seen != view.root._version:
            self._node = view.read(view.base.node)
            self._seen = view.root._version
        return self._node

    def assign(self, node: Node) -> None:
        """Change the value in place, and with it that of the base and of all views."""
        root = self if self.view is None else self.view.root
        if root.readonly:
            raise located(TraceError("assigning into an argument or captured array: make a copy first (x = x.copy())"))
        if self.readonly or (self.view is not None and self.view.write is None):
            raise ValueError(with_line("assignment destination is read-only"))
        if self.view is None:
            self._version += 1
        elif self.view.write is not None:
            self.view.base.assign(self.view.write(self.view.base.node, node))
        self._node, self._seen = node, root._version

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(make_size(s) for s in self.node.shape)

    @property
    def ndim(self) -> int:
        return self._node.ndim

    @property
    def size(self) -> Any:
        return make_size(product(self.node.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._node.dtype.numpy

    @property
    def itemsize(self) -> int:
        return self._node.dtype.bytes

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def mT(self) -> Any:
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> Tracer:
        return self

    @property
    def imag(self) -> Any:
        raise located(UnsupportedError("x.imag: traced values are real"))

    @property
    def flat(self) -> Any:
        raise located(UnsupportedError("x.flat is not available on traced values: use x.ravel()"))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(with_line("len() of unsized object"))
        return current().pin(self.node.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError(with_line("iteration over a 0-d array"))
        return (self[k] for k in range(len(self)))

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any())

    def __getitem__(self, key: Any) -> Any:
        return call(FUNCTIONS["getitem"], self, key)

    def __setitem__(self, key: Any, new: Any) -> None:
        call(FUNCTIONS["setitem"], self, key, new)

    # --- what Python wants to know now ---

    def __bool__(self) -> bool:
        size = self.size
        if self.ndim and (size > 1 or size == 0):
            raise ValueError(with_line("The truth value of an array with more than one element is ambiguous. Use np.any(x) or np.all(x)"))
        known = constant_value(self.node)
        if known is None:
            raise located(
                TraceError(
                    "the truth of a traced value is not known while tracing, and control flow on it is not available here: "
                    "use np.where(condition, a, b)"
                )
            )
        return bool(known.item())

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def _number(self, what: str) -> Any:
        known = constant_value(self.node) if not self.ndim or self.size == 1 else None
        if known is None:
            hint = "leave it out, or make the array it is stored in with symgrad.numpy" if not self.ndim else "only single numbers convert"
            raise located(TraceError(f"{what}(x) of a traced {self.node.type} is not available here; {hint}"))
        return known.item()

    def __index__(self) -> int:
        if self.ndim or self.node.dtype.kind not in ("iu" if not self.weak else "iub"):
            raise TypeError(with_line("only integer scalar arrays can be converted to a scalar index"))
        size = size_of(self)
        return size if isinstance(size, int) else current().pin(size)

    def __hash__(self) -> int:
        if not self.fixed:
            raise TypeError(with_line("unhashable type: 'numpy.ndarray'"))
        return hash(current_trace().pin(self.node))

    def item(self, *args: Any) -> Any:
        raise located(TraceError("x.item() of a traced value is not known while tracing; leave it out: x computes like a number"))

    def tolist(self) -> Any:
        raise located(TraceError("x.tolist() of a traced value is not known while tracing; work with the array itself"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        name = numpy_call() or "NumPy (np.array, np.asarray, storing into a NumPy array, …)"
        raise located(TraceError(f"{name} cannot see traced values: use the function of that name in symgrad.numpy"))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return array_ufunc(ufunc, method, *inputs, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return array_function(function, args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a traced array has no attribute {name!r}")
        raise located(UnsupportedError(f"x.{name} is not available on traced values"))

    def __repr__(self) -> str:
        return f"Traced {self.node.type}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    # --- operators ---

    __add__, __radd__, __iadd__ = _operator("add"), _operator("add", True), _in_place("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _operator("subtract", True), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _operator("multiply"), _operator("multiply", True), _in_place("multiply")
    __truediv__, __rtruediv__ = _operator("true_divide"), _operator("true_divide", True)
    __itruediv__ = _in_place("true_divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", True)
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _operator("remainder"), _operator("remainder", True), _in_place("remainder")
    __matmul__, __rmatmul__, __imatmul__ = _operator("matmul"), _operator("matmul", True), _in_place("matmul")
    __and__, __rand__, __iand__ = _operator("bitwise_and"), _operator("bitwise_and", True), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _operator("bitwise_or"), _operator("bitwise_or", True), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _operator("bitwise_xor"), _operator("bitwise_xor", True), _in_place("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _operator("left_shift"), _operator("left_shift", True), _in_place("left_shift")
    __rshift__, __rrshift__, __irshift__ = _operator("right_shift"), _operator("right_shift", True), _in_place("right_shift")
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]  # arrays of truths
    __neg__, __pos__, __abs__, __invert__ = map(_unary, ("negative", "positive", "absolute", "invert"))
    __ipow__ = _in_place("power")

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        power = _operator("power")(self, other)
        return power if modulo is None or power is NotImplemented else power % modulo

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return _operator("power", True)(self, other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, ndigits: Any = None) -> Any:
        if self.ndim:
            raise TypeError(with_line("type numpy.ndarray doesn't define __round__ method"))
        if ndigits is not None:
            return wrap(FUNCTIONS[np.round](self, ndigits).node, weak=self.weak)
        return self._whole(p.rint)

    def __trunc__(self) -> Any:
        return self._whole(p.trunc)

    def __floor__(self) -> Any:
        return self._whole(p.floor)

    def __ceil__(self) -> Any:
        return self._whole(p.ceil)

    def _whole(self, rounding: Any) -> Tracer:
        """A Python int made of a number."""
        n = self.node
        return wrap(p.as_dtype(rounding(n) if n.dtype.is_float else n, i64), weak=True)

    # --- NumPy's methods ---

    sum, prod, mean, std, var = map(_numpy, (np.sum, np.prod, np.mean, np.std, np.var))
    max, min, argmax, argmin = map(_numpy, (np.max, np.min, np.argmax, np.argmin))
    all, any, cumsum, cumprod, argsort = map(_numpy, (np.all, np.any, np.cumsum, np.cumprod, np.argsort))
    dot, clip, round, repeat, take = map(_numpy, (np.dot, np.clip, np.round, np.repeat, np.take))
    diagonal, trace, squeeze, swapaxes, ravel = map(_numpy, (np.diagonal, np.trace, np.squeeze, np.swapaxes, np.ravel))
    nonzero, searchsorted, compress, choose = map(_numpy, (np.nonzero, np.searchsorted, np.compress, np.choose))
    ptp, argpartition = map(_numpy, (np.ptp, np.argpartition))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        return call(FUNCTIONS[np.reshape], self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        return call(FUNCTIONS[np.transpose], self, axes[0] if len(axes) == 1 else axes or None)

    def flatten(self, order: str = "C") -> Any:
        return call(FUNCTIONS[np.ravel], self.copy(), order=order)

    def copy(self, order: str = "C") -> Tracer:
        return wrap(self.node, fixed=False)

    def __copy__(self) -> Tracer:
        return self if self.weak else self.copy()

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self.__copy__()

    def astype(self, dtype: DTypeLike, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Tracer:
        to = call(dtype_of, dtype)
        return self if not copy and to == self.node.dtype else wrap(p.as_dtype(self.node, to), fixed=self.fixed)

    def conj(self) -> Tracer:
        return self

    conjugate = conj

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        self.assign(call(FUNCTIONS[np.sort], self, axis=axis).node)


_PYTHON: dict[str, type] = {"f": float, "i": int, "u": int, "b": bool}


def is_traced(x: Any) -> bool:
    """Whether ``x`` is a traced array or number (isinstance would be fooled)."""
    return type(x) is Tracer


def is_operand(x: Any) -> bool:
    """Whether an operator takes ``x`` itself, rather than leave it to the reflected operator of ``x``."""
    return type(x) in (Tracer, TracedSize, bool, int, float, complex, list, tuple) or isinstance(x, np.ndarray | np.generic) and type(x) is not Masked


def wrap(node: Node, *, weak: bool = False, fixed: bool | None = None) -> Tracer:
    """A fresh traced value; 0-d ones are NumPy scalars (``fixed``) unless they are said to be arrays."""
    return Tracer(node, weak=weak, fixed=weak or (not node.shape if fixed is None else fixed and not node.shape))


def argument(node: Node, *, weak: bool = False) -> Tracer:
    """A traced value that the caller owns: assigning into it is an error."""
    out = wrap(node, weak=weak)
    out.readonly = True
    return out


def view_of(base: Any, read: Read, write: Write | None) -> Tracer:
    """``read`` of ``base`` as a view, read-only without ``write``; a copy where NumPy has to copy, or of a scalar."""
    if type(base) is not Tracer:
        base = wrap(value(base))
    below = base.node
    node = read(below)
    memory = contiguous(below.shape) if base.view is None else base.view.strides
    strides = None if base.fixed else strides_through(node, below, memory)
    if strides is None:
        return wrap(node)
    out = Tracer(node, view=View(base, base if base.view is None else base.view.root, read, write, strides))
    out.readonly = out.readonly or write is None
    return out


# --- values of any kind -> nodes -------------------------------------------------------------------------------------


def value(x: Any, dtype: DType | None = None) -> Node:
    """The node of anything that NumPy takes for an array, cast to ``dtype``; numbers take ``dtype`` from the start."""
    if type(x) is Tracer:
        return x.node if dtype is None else p.as_dtype(x.node, dtype)
    if isinstance(x, Node):
        return x if dtype is None else p.as_dtype(x, dtype)
    if type(x) is TracedSize:
        n = size_node(current().canonical(x.size))
        return n if dtype is None else p.as_dtype(n, dtype)
    if type(x) is Masked:
        raise located(UnsupportedError("a selection by a traced mask is not an array: its length is not known; use np.where"))
    if isinstance(x, list | tuple) and contains_traced(x):
        return _stacked(x, dtype)
    return _literal(x, dtype)


def contains_traced(x: Any) -> bool:
    """Whether there is anything traced in nested lists and tuples."""
    if type(x) in (list, tuple):
        return any(contains_traced(item) for item in x)
    return type(x) in (Tracer, TracedSize, Masked)


def _stacked(items: Any, dtype: DType | None) -> Node:
    nodes: list[Node] = list(operands(*(value(i) if type(i) in (list, tuple) else i for i in items)))
    first = nodes[0].shape
    if not all(same_shape(n.shape, first) for n in nodes[1:]):
        shapes = " and ".join(shown(n.shape) for n in nodes)
        raise ValueError(with_line(f"the parts of a nested list have different shapes: {shapes}"))
    out = concatenate(*(reshape(n, shape=(1, *n.shape)) for n in nodes), axis=0)
    return out if dtype is None else p.as_dtype(out, dtype)


def _literal(x: Any, dtype: DType | None) -> Node:
    if isinstance(x, str | bytes | type(None) | dict | set):
        raise located(DTypeError(f"a {type(x).__name__} is not a number or an array"))
    if type(x) in (int, float, bool) and dtype is not None:
        return constant(x, dtype)
    try:
        n = constant(x)
    except DTypeError as e:
        raise e.at(where()) from None
    return n if dtype is None else p.as_dtype(n, dtype)


class Operands(list[Node]):
    """Operands of one dtype, and whether all were Python numbers, so that the result of an operator is one."""

    weak: bool = False


def weak_kind(x: Any) -> type | None:
    """The Python type of a number that adapts its dtype, else None."""
    if type(x) is Tracer:
        return _PYTHON[x.node.dtype.kind] if x.weak else None
    if type(x) is TracedSize:
        return int
    return type(x) if type(x) in (int, float, bool) else None


@functools.lru_cache(4096)
def _common(strong: tuple[DType, ...], weak: tuple[type, ...]) -> DType:
    """NEP 50: Python numbers only raise the kind."""
    return dtype_of(np.result_type(*(d.numpy for d in strong), *(k(0) for k in weak)))


def operands(*xs: Any) -> Operands:
    """Nodes of one dtype by NumPy's promotion; shapes are as they were."""
    kinds = [weak_kind(x) for x in xs]
    nodes = [value(x) if k is None else None for x, k in zip(xs, kinds, strict=True)]
    dtype = _common(tuple(n.dtype for n in nodes if n is not None), tuple(k for k in kinds if k is not None))
    out = Operands(value(x if n is None else n, dtype) for x, n in zip(xs, nodes, strict=True))
    out.weak = all(k is not None for k in kinds)
    return out


def float_operands(*xs: Any) -> Operands:
    """Like ``operands``, with integers and bools as f64."""
    nodes = operands(*xs)
    if nodes[0].dtype.is_float:
        return nodes
    out = Operands(value(x, f64) for x in xs)
    out.weak = nodes.weak
    return out


# --- operators and protocols -----------------------------------------------------------------------------------------

_ON_BOOLS = {"bitwise_and", "bitwise_or", "bitwise_xor", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


@implements("operator")
def operator(name: str, *xs: Any) -> Any:
    """The operator of a ufunc's name; of Python numbers it gives a Python number, and counts with bools."""
    function = FUNCTIONS[getattr(np, name)]
    kinds = [weak_kind(x) for x in xs]
    if None in kinds:
        return function(*xs)
    if name not in _ON_BOOLS:
        xs = tuple(wrap(value(x, i64), weak=True) if k is bool else x for x, k in zip(xs, kinds, strict=True))
    return wrap(function(*xs).node, weak=True)


def store(target: Tracer, result: Any, name: str, mask: Any = True) -> Tracer:
    """The result of a ufunc into an array, as ``out=`` and operators in place do."""
    new, old = value(result), target.node
    if not np.can_cast(new.dtype.numpy, old.dtype.numpy, "same_kind"):
        raise TypeError(
            with_line(
                f"Cannot cast ufunc {name!r} output from {new.dtype.numpy!r} to {old.dtype.numpy!r} with casting rule 'same_kind'"
            )
        )
    if not same_shape(call(broadcast_shapes, new.shape, old.shape), old.shape):
        raise ValueError(
            with_line(f"non-broadcastable output operand with shape {shown(old.shape)} doesn't match the shape {shown(new.shape)}")
        )
    new = broadcast_to(p.as_dtype(new, old.dtype), old.shape)
    if mask is not True:
        new = p.select(broadcast_to(value(mask, boolean), old.shape), new, old)
    target.assign(new)
    return target


def spelled(function: Any) -> str:
    """A NumPy function as users write it."""
    module = getattr(function, "__module__", None) or "numpy"
    name = getattr(function, "__name__", str(function))
    public = [m for m in module.split(".") if not m.startswith("_")]
    return ".".join(["np" if m == "numpy" else m for m in public] + [name])


def _known(function: Any) -> Callable[..., Any] | None:
    """The version of a function for traced values; those of scipy are entered once it is loaded."""
    found = FUNCTIONS.get(function)
    return found if found is not None or "resolve" not in FUNCTIONS else FUNCTIONS["resolve"](function)


_REDUCTIONS: dict[Any, Any] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
_ACCUMULATIONS: dict[Any, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


@implements("ufunc")
def array_ufunc(ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, where: Any = True, **keywords: Any) -> Any:
    """NumPy's hook for ufuncs and their methods."""
    if method == "at":
        return _at(ufunc, *inputs)
    if method == "outer":
        a, b = (wrap(value(x)) for x in inputs)
        inputs = (a.reshape(*a.shape, *(1 for _ in b.shape)), b)
    if method in ("__call__", "outer"):
        function = _known(ufunc)
    elif method == "reduce":
        function = FUNCTIONS.get(_REDUCTIONS.get(ufunc))
        keywords = {"axis": 0, **keywords, **({} if where is True else {"where": where})}
        where = True
    else:
        function = FUNCTIONS.get(_ACCUMULATIONS.get(ufunc, (ufunc, method))) if method == "accumulate" else None
        keywords = {"axis": 0, **keywords}
    if function is None:
        suffix = "" if method == "__call__" else f".{method}"
        raise located(UnsupportedError(f"{spelled(ufunc)}{suffix} is not supported on traced values"))
    result = call(function, *inputs, **keywords)
    if out is None:
        if where is not True:
            raise located(UnsupportedError(f"{spelled(ufunc)}: where= needs out=, which has the other elements"))
        return result
    targets = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    stored = tuple(r if t is None else _into(t, r, ufunc, where) for t, r in zip(targets, results, strict=True))
    return stored if len(stored) > 1 else stored[0]


def _into(target: Any, result: Any, ufunc: np.ufunc, where: Any) -> Tracer:
    if type(target) is not Tracer:
        raise located(
            TraceError(
                f"{spelled(ufunc)} would store a traced value into a NumPy array (as out= or by an operator like +=): "
                "make that array with symgrad.numpy, or write a = a + x"
            )
        )
    return store(target, result, ufunc.__name__, where)


def _at(ufunc: np.ufunc, target: Any, *rest: Any) -> None:
    function = FUNCTIONS.get((ufunc, "at"))
    if function is None:
        raise located(UnsupportedError(f"{spelled(ufunc)}.at is not supported on traced values"))
    if type(target) is not Tracer:
        raise located(TraceError(f"{spelled(ufunc)}.at would store a traced value into a NumPy array: make that array with symgrad.numpy"))
    call(function, target, *rest)


@implements("function")
def array_function(function: Any, args: Any, keywords: Any) -> Any:
    """NumPy's hook for its other functions."""
    known = _known(function)
    if known is None:
        raise located(UnsupportedError(f"{spelled(function)} is not supported on traced values"))
    return call(known, *args, **keywords)


__all__ = [
    "FUNCTIONS", "Masked", "Operands", "Size", "Trace", "TracedSize", "Tracer", "View", "activate", "argument", "call", "constant_value",
    "contains_traced", "current_trace", "float_operands", "implements", "is_traced", "lift_masked", "make_size", "operands", "size_of",
    "spelled", "store", "tracing", "value", "view_of", "wrap",
]  # fmt: skip
