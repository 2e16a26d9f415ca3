"""A function that compiles itself for the types it is called with: what every transform returns."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symgrad.codegen.llvm.call import Path, callable_type, publish
from symgrad.compiler import Call, Executable, TapeFullError, compile_graph
from symgrad.errors import SymgradError, TraceError
from symgrad.frontend import transforms
from symgrad.frontend.hooks import LIBRARIES, prepared
from symgrad.frontend.leaves import Static, is_static, shapeless, token
from symgrad.frontend.lowered import Lowered, lower_call
from symgrad.frontend.methods import Bound, Method, owner_name, roots
from symgrad.frontend.native import Paths, native_path
from symgrad.frontend.trace import Traced, trace_call
from symgrad.frontend.tracing import tracing
from symgrad.frontend.tree import TreeDef, flatten, leaf_paths, unflatten

Function = Callable[..., Any]
MOST_SHORTCUTS = 256
MOST_VARIANTS = 64  # of one signature; the oldest goes
DATA = (int, float, np.ndarray, np.generic, list, tuple, dict)
TRIES = 3  # traces of one call, when the function changes what it reads from outside


def _run(fun: Function) -> Function:
    return lambda *args, **kwargs: prepared(fun)(*args, **kwargs)


TRANSFORMS: dict[str, Callable[..., Function]] = {
    "jit": _run,
    "grad": transforms.grad,
    "value_and_grad": transforms.value_and_grad,
    "jacrev": transforms.jacrev,
    "jacfwd": transforms.jacfwd,
    "jacobian": transforms.jacobian,
    "hessian": transforms.hessian,
    "hvp": transforms.hvp,
    "vmap": transforms.vmap,
}


@dataclass(frozen=True, slots=True)
class Options:
    """Keywords of ``jit`` and of every transform that compiles."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    backend: str = "cpu"
    parallel: int | None = None
    stabilize: bool = True

    def __post_init__(self) -> None:
        if self.parallel is not None and (type(self.parallel) is not int or self.parallel < 1):
            raise ValueError(f"parallel={self.parallel!r}: wanted a number of threads, or None for one")

    @property
    def workers(self) -> int:
        return self.parallel or 1


class CacheInfo(NamedTuple):
    """``misses`` counts programs built or loaded, ``compiled`` those of them that had to be compiled."""

    hits: int
    misses: int
    currsize: int
    compiled: int


@dataclass(frozen=True, eq=False, slots=True)
class Variant:
    """A program for one signature: for fixed ``shapes``, or (None) for any lengths that its guards allow."""

    traced: Traced
    executable: Executable
    shapes: tuple[tuple[int, ...], ...] | None

    def __call__(self, values: list[Any], sizes: dict[str, int]) -> Any:
        return self.traced.rebuild(self.executable(values, sizes))


@dataclass(frozen=True, eq=False, slots=True)
class Shortcut:
    """A call by position of flat arrays and numbers whose program, lengths and order are known from an earlier one."""

    variant: Variant
    call: Call
    positions: tuple[int, ...]
    sizes: dict[str, int]

    def values(self, args: tuple[Any, ...]) -> list[Any] | None:
        """The program's inputs; None when it does not fit after all."""
        traced = self.variant.traced
        out = [args[k] for k in self.positions]
        if traced.captures or traced.guards:
            captured = traced.captured()
            if captured is None:
                return None
            out += captured
            if traced.captures and traced.lengths(out) != self.sizes:
                return None
        return out if all(out[k] == v and type(out[k]) is type(v) for k, v in traced.pins) else None


class Compiled:
    """``fun`` under a transform, compiled once for each signature. Thread-safe; results never alias arguments.

    Calls that a native path takes (see ``symgrad.frontend.native``) do not reach ``__call__``.
    """

    __symgrad_transform__ = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Compiled:
        return object.__new__(_CALLABLE)

    def __init__(self, fun: Function, transform: str, settings: dict[str, Any], options: Options) -> None:
        functools.update_wrapper(self, fun)
        self.__wrapped__ = fun
        self.__name__ = transforms.name_of(fun)
        self.__qualname__ = getattr(fun, "__qualname__", self.__name__)
        self.transform = transform
        self.settings = settings
        self.options = options
        self.traced = TRANSFORMS[transform](fun, **settings)
        self._signature = _signature(fun)
        self._is_users = str(getattr(fun, "__module__", "")).partition(".")[0] not in LIBRARIES
        self._variants: dict[Any, tuple[Variant, ...]] = {}
        self._shortcuts: dict[Any, Shortcut] = {}
        self._paths = Paths()
        self._pointers: dict[tuple[str, ...], Any] = {}
        self._defaults = _defaults(self._signature) if self._is_users and transform not in ("vmap", "hvp") else ()
        self._owner = owner_name(fun)
        self._method: Compiled | None = None
        self._lock = threading.RLock()
        self._hits = 0
        self._misses = 0
        self._compiled = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing():
            args, kwargs = self.bound(args, kwargs)
            return self.traced(*args, **kwargs)
        short = None if kwargs else _flat_key(args)
        if short is not None and (shortcut := self._shortcuts.get(short)) is not None:
            values = shortcut.values(args)
            if values is not None:
                try:
                    arrays = shortcut.call(values)
                except TapeFullError:  # the next one has more room
                    self._shortcuts.pop(short, None)
                    return self._call(args, kwargs, short)
                self._hits += 1
                return shortcut.variant.traced.rebuild(arrays)
        return self._call(args, kwargs, short)

    _slow = __call__  # what native paths call

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], short: Any) -> Any:
        if args and self._owner is not None and any(c.__qualname__ == self._owner for c in type(args[0]).__mro__):
            return self.__get__(args[0])(*args[1:], **kwargs)
        leaves, tree = self.leaves(args, kwargs)
        key, shapes = self._key(leaves, tree)
        for variant in self._variants.get(key, ()):
            found = _inputs(variant, leaves, shapes)
            if found is not None:
                self._hits += 1
                if short is not None:
                    self._remember(short, variant, args, leaves, found[1])
                result = variant(*found)
                self._make_native(variant, leaves, tree)
                return result
        return self._first_call(leaves, tree, key, shapes)

    def _remember(
        self, short: Any, variant: Variant, args: tuple[Any, ...], leaves: list[Any], sizes: dict[str, int]
    ) -> None:
        """Keep a shortcut for calls like this one, when every input is an argument as it was given."""
        if variant.traced.truths:
            return
        inputs = [leaf for leaf in leaves if not is_static(leaf)]
        where = {id(a): k for k, a in enumerate(args)}
        if len(where) != len(args) or len(inputs) != len(args) or any(id(x) not in where for x in inputs):
            return
        if len(self._shortcuts) >= MOST_SHORTCUTS:
            self._shortcuts = {}
        positions = tuple(where[id(x)] for x in inputs)
        self._shortcuts[short] = Shortcut(variant, variant.executable.prepare(sizes), positions, sizes)

    def _make_native(self, variant: Variant, leaves: list[Any], tree: TreeDef) -> None:
        """Let calls like this one be native from now on, where that is possible."""
        path = self._paths.found.get(variant)
        if path is None:
            with self._lock:
                path = self._paths.found.get(variant) or self._native_path(variant, leaves, tree)
        if isinstance(path, Path):
            path.set_capacity(variant.executable.room.trips)

    def _native_path(self, variant: Variant, leaves: list[Any], tree: TreeDef) -> Path | str:
        args, kwargs = unflatten(tree, leaves)
        made: Path | str
        if kwargs:
            made = "it has keyword arguments"
        elif isinstance(self.__wrapped__, Method):
            made = "it reads the object whose method it is"
        else:
            made = native_path(variant.traced, variant.executable, args, self._defaults_of(args))
        self._paths.add(variant, made, self.variants)
        if isinstance(made, Path):
            publish(self, Compiled, made.address)
        return made

    def _defaults_of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The defaults of the last arguments, if these are all there are."""
        if self._signature is None or len(args) != len(self._signature.parameters):
            return ()
        return self._defaults

    def _first_call(self, leaves: list[Any], tree: TreeDef, key: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
        with self._lock:
            for variant in self._variants.get(key, ()):  # another thread may have compiled it meanwhile
                if (found := _inputs(variant, leaves, shapes)) is not None:
                    return variant(*found)
            for _ in range(TRIES):
                older = self._variants.get(key, ())
                variant = self._build(leaves, tree, None if older else shapes)
                if (found := _inputs(variant, leaves, shapes)) is not None:
                    self._variants[key] = (variant, *older[: MOST_VARIANTS - 1])
                    return variant(*found)
        message = (
            f"{self.__name__} changes what it reads from outside each time it is traced; pass that in and return it"
        )
        raise transforms.about(TraceError(message), self.__wrapped__)

    def _build(self, leaves: list[Any], tree: TreeDef, shapes: tuple[tuple[int, ...], ...] | None) -> Variant:
        traced = self.trace(leaves, tree, free=shapes is None)
        executable = compile_traced(traced, self.__name__, self.options)
        self._misses += 1
        self._compiled += executable.native.compiled
        return Variant(traced, executable, shapes)

    def trace(self, leaves: list[Any], tree: TreeDef, *, free: bool, specs: bool = False) -> Traced:
        """A trace for these arguments."""
        stabilize = self.options.stabilize
        try:
            return trace_call(
                self.traced, leaves, tree, free=free, stabilize=stabilize, specs=specs, roots=roots(self.__wrapped__)
            )
        except SymgradError as e:
            raise transforms.about(e, self.__wrapped__) from e.__cause__

    # --- arguments ---

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by position as far as the signature allows, with defaults that are data filled in."""
        if self._signature is None or self.transform in ("vmap", "hvp"):
            return args, kwargs
        try:
            call = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{self.__name__}(): {e}") from None
        for name, parameter in self._signature.parameters.items() if self._is_users else ():
            if name not in call.arguments and isinstance(parameter.default, DATA):
                call.arguments[name] = parameter.default
        return call.args, call.kwargs

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeDef]:
        """The flat arguments; static ones as ``Static``."""
        args, kwargs = self.bound(args, kwargs)
        names = self.options.static_argnames
        if self.options.static_argnums or names:
            positions = {n % max(len(args), 1) for n in self.options.static_argnums}
            parameters = list(self._signature.parameters) if self._signature is not None else []
            positions |= {k for k, name in enumerate(parameters) if name in names}
            args = tuple(Static(a) if k in positions else a for k, a in enumerate(args))
            kwargs = {k: Static(v) if k in names else v for k, v in kwargs.items()}
        return flatten((args, kwargs))

    def _key(self, leaves: list[Any], tree: TreeDef) -> tuple[Any, tuple[tuple[int, ...], ...]]:
        try:
            tokens = [token(leaf, "") for leaf in leaves]
            key = (tree, *map(shapeless, tokens))
            hash(key)
        except SymgradError:
            raise self._bad_argument(leaves, tree) from None
        except TypeError as e:
            raise TypeError(f"{self.__name__}: a static argument must be hashable ({e})") from None
        return key, tuple(t[2] for t in tokens if isinstance(t, tuple) and t[0] == "array")

    def _bad_argument(self, leaves: list[Any], tree: TreeDef) -> SymgradError:
        args, kwargs = unflatten(tree, leaves)
        names = transforms.argument_names(self.__wrapped__, len(args))
        named = [(names[k], a) for k, a in enumerate(args)] + list(kwargs.items())
        for name, argument in named:
            for leaf, path in zip(flatten(argument)[0], leaf_paths(argument), strict=True):
                try:
                    token(leaf, f"{name}{path} of {self.__name__}")
                except SymgradError as e:
                    return transforms.about(e, self.__wrapped__)
        raise AssertionError("some argument was refused")

    # --- looking inside ---

    def cache_info(self) -> CacheInfo:
        """Calls answered by a program that was there, programs made, programs kept, programs compiled."""
        kept = sum(map(len, self._variants.values()))
        own = CacheInfo(self._hits + self._paths.hits, self._misses, kept, self._compiled)
        return own if self._method is None else CacheInfo(*map(sum, zip(own, self._method.cache_info(), strict=True)))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for argument types: specs such as ``"f64[n,3]"``, or arrays and numbers."""
        return lower_call(self, args, kwargs)

    def formula(self, *, simplify: bool = True, expand: bool = True, **specs: Any) -> Any:
        """The value and its derivatives as mathematics; without specs every argument is a float64 scalar.

        Returns a ``symgrad.symbolic.formula.Formula``.
        """
        from symgrad.frontend.inspection import formula  # sympy is loaded when first needed

        return formula(self, specs, simplify=simplify, expand=expand)

    def verify(self, *args: Any, **kwargs: Any) -> Any:
        """Check every derivative rule used, and the whole gradient at these arguments. Returns a ``Report``."""
        from symgrad.frontend.inspection import verify  # sympy is loaded when first needed

        return verify(self, args, kwargs)

    def export(self, path: Any, *specs: Any, **options: Any) -> Any:
        """Write a C library of this function for arguments of these types: see ``symgrad.aot.export``."""
        from symgrad.aot import export  # above this layer; here is where users look for it

        return export(self, path, specs, **options)

    def address(self, *specs: Any) -> int:
        """The address of a C function for arguments of these types, as ``export`` makes it; valid while this lives."""
        return int(self._pointer(specs).address)

    def ctypes(self, *specs: Any) -> Any:
        """The same as a ctypes function; ``workspace(**sizes)`` of ``.pointer`` says how many bytes it needs."""
        made = self._pointer(specs)
        made.call.pointer = made
        return made.call

    def cfunc(self, signature: str) -> Any:
        """A ctypes function such as ``"double (double)"``, for SciPy's ``LowLevelCallable``, numba or C."""
        from symgrad.aot.pointers import cfunc  # above this layer, as export is

        return cfunc(self, signature)

    def _pointer(self, specs: tuple[Any, ...]) -> Any:
        from symgrad.aot.pointers import pointer  # above this layer, as export is

        key = tuple(map(str, specs))
        if key not in self._pointers:
            self._pointers[key] = pointer(self, specs)
        return self._pointers[key]

    def explain(self) -> str:
        """What was decided for each program made so far: rewrites, loops, temporaries, assumptions."""
        from symgrad.frontend.inspection import explain

        return explain(self)

    def path_of(self, variant: Variant) -> Path | str | None:
        """The native call path of a program, the reason why there is none, or None before the second call."""
        return self._paths.found.get(variant)

    @property
    def variants(self) -> Sequence[Variant]:
        """The programs made so far."""
        return [v for group in self._variants.values() for v in group]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """In a class: the compiled method of an object, which is read at each call and is no argument."""
        if instance is None:
            return self
        with self._lock:
            if self._method is None:
                self._method = Compiled(Method(self.__wrapped__), self.transform, self.settings, self.options)
        return Bound(self._method, instance)

    def __repr__(self) -> str:
        return f"<symgrad.{self.transform} of {self.__wrapped__!r}>"

    def __reduce__(self) -> Any:
        module = sys.modules.get(self.__module__ or "")
        found: Any = module
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return Compiled, (self.__wrapped__, self.transform, self.settings, self.options)


_CALLABLE = callable_type(Compiled)


def _defaults(signature: inspect.Signature | None) -> tuple[Any, ...]:
    """The defaults of the last positional parameters that are data."""
    out: list[Any] = []
    for parameter in reversed(list(signature.parameters.values()) if signature is not None else []):
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return ()
        if not isinstance(parameter.default, DATA):
            break
        out.insert(0, parameter.default)
    return tuple(out)


def _flat_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Types and shapes of arrays, floats and ints; None when there is anything else."""
    key: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            key.append((a.dtype, a.shape))
        elif kind is float or (kind is int and -(2**63) <= a < 2**63):
            key.append(kind)
        else:
            return None
    return tuple(key)


def compile_traced(traced: Traced, name: str, options: Options) -> Executable:
    """The native program of a traced call."""
    from symgrad.ir.sizes import assuming

    with assuming(traced.sizes):
        return compile_graph(
            traced.graph, _identifier(name), backend=options.backend, flags=traced.flags, workers=options.workers
        )


def _identifier(name: str) -> str:
    clean = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return clean if clean and not clean[0].isdigit() else f"f_{clean}"


def _inputs(
    variant: Variant, leaves: list[Any], shapes: tuple[tuple[int, ...], ...]
) -> tuple[list[Any], dict[str, int]] | None:
    """Input values and lengths when the program fits this call."""
    if variant.shapes is not None and variant.shapes != shapes:
        return None
    captured = variant.traced.captured()
    if captured is None:
        return None
    values = [leaf for leaf in leaves if not is_static(leaf)] + captured
    sizes = variant.traced.lengths(values)
    return None if sizes is None else (values, sizes)


def _signature(fun: Function) -> inspect.Signature | None:
    if isinstance(fun, np.ufunc):
        return None  # it has one, whose defaults do not go together
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None
