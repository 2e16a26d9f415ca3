"""A traced call -> the native call path for calls like it, or the reason why there is none.

The path takes a call only when the Python one would run the same program with the same inputs: same types, lengths that
the program allows, guards that hold. Whatever is not described here is left to Python.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from symgrad.codegen.llvm import call as native
from symgrad.compiler import Executable, call_path
from symgrad.frontend.capture import Equal, Guard, OfKind, Reach, Same
from symgrad.frontend.leaves import Input, Static, is_static
from symgrad.frontend.trace import Output, Traced
from symgrad.frontend.tracing import UNDER_WAY
from symgrad.frontend.tree import TreeDef
from symgrad.ir.types import Dim, Size

UNCHANGING = (bool, type(None), str, bytes, int, float, types.FunctionType)
MOST_READS = 400
MOST_PATHS = 8  # that one function has in use


class NotNative(Exception):
    """Why calls of a program go through Python."""


@dataclass(eq=False)
class Paths:
    """The native paths of one function. A call asks them in turn, the newest first, and then Python.

    Code that a call in another thread may be running is never freed while the function is there.
    """

    found: dict[Any, native.Path | str] = field(default_factory=dict)  # by program: its path, or why there is none
    chain: list[native.Path] = field(default_factory=list)
    retired: list[native.Path] = field(default_factory=list)

    def add(self, program: Any, made: native.Path | str, kept: Collection[Any]) -> None:
        """Note what was made for a program, and forget those that are not ``kept``."""
        self.found = {p: path for p, path in self.found.items() if p in kept}
        self.found[program] = made
        if isinstance(made, str):
            return
        made.follow(self.chain[0] if self.chain else None)
        self.chain.insert(0, made)
        if len(self.chain) > MOST_PATHS:
            self.retired.append(self.chain.pop())
            self.chain[-1].follow(None)

    @property
    def hits(self) -> int:
        """How many calls were native."""
        return sum(path.hits for path in (*self.chain, *self.retired))


def native_path(
    traced: Traced, executable: Executable, args: Sequence[Any], defaults: Sequence[Any]
) -> native.Path | str:
    """The path for calls with arguments like ``args``, of which the last may be left out for ``defaults``."""
    reason = native.unavailable()
    if reason:
        return reason
    try:
        described = _Description(traced)
        described.arguments(args, defaults)
        described.outside()
        signature = described.signature(args, defaults, executable)
    except NotNative as e:
        return str(e)
    return call_path(executable, signature, described.objects, UNDER_WAY)


@dataclass(eq=False)
class _Description:
    """The reads of one path, as they are found, and the objects that they refer to."""

    traced: Traced
    reads: list[native.Read] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    inputs: int = 0
    reached: dict[Any, int] = field(default_factory=dict)

    def place(self, thing: Any) -> int:
        """Where the table has an object."""
        found = self.places.get(id(thing))
        if found is None:
            found = self.places[id(thing)] = len(self.objects)
            self.objects.append(thing)
        return found

    def add(self, source: Any, check: Any, input: int | None = None) -> int:
        if len(self.reads) >= MOST_READS:
            raise NotNative("it reads too many values from outside")
        self.reads.append(native.Read(source, check, input))
        return len(self.reads) - 1

    # --- arguments ---

    def arguments(self, args: Sequence[Any], defaults: Sequence[Any]) -> None:
        first = len(args) - len(defaults)
        for k, argument in enumerate(args):
            given = native.Given(k, self.place(defaults[k - first]) if k >= first else None)
            self.argument(given, argument)

    def argument(self, source: Any, x: Any) -> None:
        kind = type(x)
        if kind is tuple or kind is list:
            container: Literal["tuple", "list"] = "tuple" if kind is tuple else "list"
            at = self.add(source, native.Sequence(container, len(x)))
            for k, item in enumerate(x):
                self.argument(native.Item(at, k), item)
        elif kind is Static and type(x.value) in UNCHANGING:
            self.add(source, native.Exactly(self.place(x.value)))
        elif x is None or (is_static(x) and kind in (bool, types.FunctionType)):
            self.add(source, native.Exactly(self.place(x)))
        elif kind in (float, int, np.ndarray) or isinstance(x, np.generic):
            self.add(source, self.leaf(x, self.traced.inputs[self.inputs], self.inputs), self.inputs)
            self.inputs += 1
        else:
            raise NotNative(f"an argument is, or has in it, a {kind.__name__}")

    def leaf(self, x: Any, entered: Input, input: int) -> native.NumberLeaf | native.ArrayLeaf:
        type_ = entered.param.type
        dtype = type_.dtype
        if type(x) is np.ndarray:
            if x.dtype is not dtype.numpy:
                raise NotNative(f"an array has a {x.dtype} of its own")
            if 0 in x.shape:
                raise NotNative("an array is empty")
            return native.ArrayLeaf(dtype, tuple(map(_length, type_.shape)))
        if not entered.weak and type(x) is not dtype.numpy.type:
            raise NotNative(f"a number is a {type(x).__name__}")
        pinned = [v for k, v in self.traced.pins if k == input]
        if len(pinned) > 1 or (pinned and not entered.weak):
            raise NotNative("Python needs a number to be one of several")
        return native.NumberLeaf(dtype, entered.weak, pinned[0] if pinned else None)

    # --- values from outside ---

    def outside(self) -> None:
        if self.traced.truths:
            raise NotNative("Python branches on numbers")
        guards = {g.reach.key: g for g in self.traced.guards}
        for guard in guards.values():
            self.guarded(guard.reach, guards)
        for k, (reach, entered) in enumerate(self.traced.captures, len(self.traced.inputs)):
            try:
                now = reach.read()
            except (AttributeError, LookupError, ValueError, NameError):
                raise NotNative(f"{reach} is gone") from None
            self.add(self.source(reach, guards), self.leaf(now, entered, k), k)

    def guarded(self, reach: Reach, guards: dict[Any, Guard]) -> int:
        """The read of what a guard is on, after those of what leads to it."""
        found = self.reached.get(reach.key)
        if found is None:
            if reach.key not in guards:
                raise NotNative(f"{reach} is not guarded")
            source = self.source(reach, guards)
            found = self.reached[reach.key] = self.add(source, self.checked(guards[reach.key].check, reach))
        return found

    def checked(self, check: Callable[[Any], bool], reach: Reach) -> Any:
        match check:
            case Same(value):
                return native.Exactly(self.place(value))
            case Equal(value) if type(value) in UNCHANGING or isinstance(value, np.dtype):
                return native.Exactly(self.place(value))
            case OfKind(kind, None):
                return native.OfType(self.place(kind))
            case OfKind(kind, int(length)) if kind is list:
                return native.Sequence("list", length)
            case OfKind(kind, int(length)) if issubclass(kind, tuple):
                return native.Sequence("tuple", length, None if kind is tuple else self.place(kind))
        raise NotNative(f"{reach} is compared as a whole")

    def source(self, reach: Reach, guards: dict[Any, Guard]) -> Any:
        owner = reach.owner
        match reach.key:
            case ("global", _, str(name)):
                return native.Entry(self.place(owner), self.place(name))
            case ("cell", _, _):
                return native.Cell(self.place(owner))
            case ("object", _):
                return native.Python(self.place(owner))
            case (*_, "attribute", str(name)):
                return self.attribute(owner, name, guards)
            case (*_, "item", int(index)):
                of = self.guarded(owner, guards)
                check = self.reads[of].check
                if isinstance(check, native.Sequence) and 0 <= index < check.length:
                    return native.Item(of, index)
        raise NotNative(f"it reads {reach}")

    def attribute(self, owner: Reach, name: str, guards: dict[Any, Guard]) -> Any:
        if owner.key[0] == "object" and len(owner.key) == 2:
            thing, of = owner.owner, None
        else:
            of = self.guarded(owner, guards)
            check = self.reads[of].check
            thing = self.objects[check.place] if isinstance(check, native.Exactly) else None
        if type(thing) is types.ModuleType and name in vars(thing):
            return native.Entry(self.place(vars(thing)), self.place(name))
        if of is None:
            of = self.add(native.Python(self.place(thing)), native.Exactly(self.place(thing)))
        return native.Attribute(of, self.place(name))

    # --- lengths and results ---

    def signature(self, args: Sequence[Any], defaults: Sequence[Any], executable: Executable) -> native.Signature:
        relations = tuple(native.Relation(g.left, g.relation, g.right) for g in self.traced.sizes.guards)
        result = self.result(self.traced.tree, iter(self.traced.outputs), executable)
        fewest = len(args) - len(defaults)
        return native.Signature(fewest, len(args), tuple(self.reads), relations, result, executable.capacity)

    def result(self, tree: TreeDef, outputs: Any, executable: Executable) -> Any:
        if tree.container is None:
            return self.output(next(outputs), executable)
        if tree.cls is type(None):
            return native.Python(self.place(None))
        if tree.cls is not tuple and tree.cls is not list:
            raise NotNative(f"it returns a {tree.cls.__name__}")
        kind: Literal["tuple", "list"] = "tuple" if tree.cls is tuple else "list"
        return native.Built(kind, tuple(self.result(child, outputs, executable) for child in tree.children))

    def output(self, output: Output, executable: Executable) -> Any:
        if output.mask >= 0:
            raise NotNative("it returns a selection")
        if output.first < 0:
            return native.Python(self.place(output.static))
        type_ = executable.graph.results[output.first].type
        return native.Value(type_.dtype, type_.shape)


def _length(size: Size) -> int | str:
    if not isinstance(size, Dim):
        return size
    ((monomial, _),) = size.terms
    (name,) = monomial
    return str(name)
