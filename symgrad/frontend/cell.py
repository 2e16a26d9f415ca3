"""The cell that a traced array, NumPy scalar or Python number is: a node that assignments replace.

A view is a cell that reads from its base and writes through to it. A *weak* cell is a Python number: it adapts its
dtype to arrays and, like every *fixed* one (NumPy's scalars), is never changed in place. Operators, methods and NumPy's
protocols look up what they mean in ``FUNCTIONS``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from symgrad.errors import TraceError, UnsupportedError
from symgrad.frontend.lengths import TracedSize, make_size, size_of
from symgrad.frontend.lines import located, numpy_call, with_line
from symgrad.frontend.masked import Masked
from symgrad.frontend.shown import mark
from symgrad.frontend.tracing import FUNCTIONS, call, constant_value, current_trace, in_use, note_write, run_number
from symgrad.ir.node import Node, innermost_region
from symgrad.ir.sizes import current
from symgrad.ir.types import Shape, dtype_of, i64, product
from symgrad.ops import pointwise as p

PYTHON: dict[str, type] = {"f": float, "i": int, "u": int, "b": bool}  # the number that a kind of dtype is
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
        if not is_operand(other) or (name == "multiply" and self.fixed and isinstance(other, list | tuple)):
            return NotImplemented  # a list times a number repeats it
        return call(FUNCTIONS["operator"], name, *((other, self) if swapped else (self, other)))

    return method


def _unary(name: str) -> Callable[[Tracer], Any]:
    def method(self: Tracer) -> Any:
        return call(FUNCTIONS["operator"], name, self)

    return method


def _in_place(name: str) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        result = call(FUNCTIONS["operator"], name, self, other)
        return result if self.fixed else FUNCTIONS["store"](self, result, name)

    return method


def _numpy(function: Any) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **keywords: Any) -> Any:
        if function not in FUNCTIONS:
            raise located(UnsupportedError(f"{spelled(function)} is not supported on traced values"))
        return call(FUNCTIONS[function], self, *args, **keywords)

    return method


class Tracer:
    """A traced array, NumPy scalar or (``weak``) Python number."""

    __slots__ = (
        "__weakref__",
        "_node",
        "_region",
        "_seen",
        "_version",
        "born",
        "fixed",
        "readonly",
        "tangled",
        "view",
        "weak",
    )
    __array_priority__ = 1000.0

    def __init__(self, node: Node, *, weak: bool = False, fixed: bool = False, view: View | None = None) -> None:
        self._node = node
        self._version = 0
        self._region = None if view is None else innermost_region()  # that of a view's node, of no use in others
        self._seen = view.root._version if view is not None else 0
        self.view = view
        self.weak = weak
        self.fixed = fixed
        self.readonly: bool = view is not None and view.base.readonly
        self.born = run_number()
        self.tangled: tuple[tuple[weakref.ref[Tracer], str], ...] = ()  # what may share its memory, and since when

    @property  # type: ignore[misc]  # so that isinstance(x, np.ndarray), isinstance(number, float) hold
    def __class__(self) -> type:
        if self.weak:
            return PYTHON[self._node.dtype.kind]
        return self._node.dtype.numpy.type if self.fixed else np.ndarray

    @property
    def node(self) -> Node:
        """The present value."""
        view = self.view
        if view is not None and (self._seen != view.root._version or self._region is not innermost_region()):
            self._node = view.read(view.base.node)
            self._seen, self._region = view.root._version, innermost_region()
        return self._node

    def assign(self, node: Node, *, checked: bool = True) -> None:
        """Change the value in place, and with it that of the base and of all views.

        With ``checked`` it is an error while another array may be the same one (see ``tangle``).
        """
        root = self.root
        if root.readonly:
            raise located(TraceError("assigning into an argument or captured array: make a copy first (x = x.copy())"))
        if self.readonly or (self.view is not None and self.view.write is None):
            raise ValueError(with_line("assignment destination is read-only"))
        if checked:
            root._refuse_tangled()
        if self.view is None:
            note_write(self)
            self._version += 1
        elif self.view.write is not None:
            self.view.base.assign(self.view.write(self.view.base.node, node))
        self._node, self._seen, self._region = node, root._version, innermost_region()

    @property
    def root(self) -> Tracer:
        """The array whose memory this is."""
        return self if self.view is None else self.view.root

    @property
    def changed(self) -> bool:
        """Whether it has been changed in place."""
        return self._version > 0

    def _refuse_tangled(self) -> None:
        for other, place in self.tangled:
            cell = other()
            if cell is not None and in_use(cell):
                raise located(
                    TraceError(
                        f"this array is changed in place, and since {place} it may be the same array as another one, "
                        "which only the compiled program knows: make a copy there (b = a.copy())"
                    )
                )

    def restore(self, node: Node) -> None:
        """Set the value of an array that is no view, whatever it was."""
        self._version += 1
        self._node, self._seen = node, self._version

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
            raise ValueError(
                with_line(
                    "The truth value of an array with more than one element is ambiguous. Use np.any(x) or np.all(x)"
                )
            )
        known = constant_value(self.node)
        truth = current_trace().decide(self.node) if known is None else bool(known.item())
        if truth is None:
            raise located(
                TraceError(
                    "the truth of a traced value is not known while tracing, and control flow on it is not available "
                    "here: use np.where(condition, a, b)"
                )
            )
        return truth

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def _number(self, what: str) -> Any:
        known = constant_value(self.node) if not self.ndim or self.size == 1 else None
        if known is None:
            hint = (
                "leave it out, or make the array it is stored in with symgrad.numpy"
                if not self.ndim
                else "only single numbers convert"
            )
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
        raise located(
            TraceError("x.item() of a traced value is not known while tracing; leave it out: x computes like a number")
        )

    def tolist(self) -> Any:
        raise located(TraceError("x.tolist() of a traced value is not known while tracing; work with the array itself"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        name = numpy_call() or "NumPy (np.array, np.asarray, storing into a NumPy array, …)"
        raise located(TraceError(f"{name} cannot see traced values: use the function of that name in symgrad.numpy"))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return FUNCTIONS["ufunc"](ufunc, method, *inputs, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return FUNCTIONS["function"](function, args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a traced array has no attribute {name!r}")
        raise located(UnsupportedError(f"x.{name} is not available on traced values"))

    @property
    def made_of(self) -> Callable[[Any], Any]:
        """What makes the user's value of an array."""
        return np.ndarray.item if self.weak else _scalar if self.fixed else np.copy

    def __repr__(self) -> str:
        return mark(self.node, self.made_of, "r")

    def __str__(self) -> str:
        return mark(self.node, self.made_of, "s")

    def __format__(self, spec: str) -> str:
        return mark(self.node, self.made_of, "", spec)

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
    __lshift__, __rlshift__, __ilshift__ = (
        _operator("left_shift"),
        _operator("left_shift", True),
        _in_place("left_shift"),
    )
    __rshift__, __rrshift__, __irshift__ = (
        _operator("right_shift"),
        _operator("right_shift", True),
        _in_place("right_shift"),
    )
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # arrays of truths
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

    def astype(
        self, dtype: DTypeLike, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tracer:
        to = call(dtype_of, dtype)
        return self if not copy and to == self.node.dtype else wrap(p.as_dtype(self.node, to), fixed=self.fixed)

    def conj(self) -> Tracer:
        return self

    conjugate = conj

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        self.assign(call(FUNCTIONS[np.sort], self, axis=axis).node)


def _scalar(array: Any) -> Any:
    return array[()]


def wrap(node: Node, *, weak: bool = False, fixed: bool | None = None) -> Tracer:
    """A fresh traced value; 0-d ones are NumPy scalars (``fixed``) unless they are said to be arrays."""
    return Tracer(node, weak=weak, fixed=weak or (not node.shape if fixed is None else fixed and not node.shape))


def tangle(a: Tracer, b: Tracer, place: str) -> None:
    """Two arrays may be the same one in the program: changing one in place is an error while the other is in use."""
    if a is not b:
        a.tangled += ((weakref.ref(b), place),)
        b.tangled += ((weakref.ref(a), place),)


def is_operand(x: Any) -> bool:
    """Whether an operator takes ``x`` itself, rather than leave it to the reflected operator of ``x``."""
    kind: type = type(x)
    if kind is Masked:
        return False
    return kind in (Tracer, TracedSize, bool, int, float, complex, list, tuple) or isinstance(
        x, np.ndarray | np.generic
    )


def spelled(function: Any) -> str:
    """A NumPy function as users write it."""
    module = getattr(function, "__module__", None) or "numpy"
    name = getattr(function, "__name__", str(function))
    public = [m for m in module.split(".") if not m.startswith("_")]
    return ".".join(["np" if m == "numpy" else m for m in public] + [name])
