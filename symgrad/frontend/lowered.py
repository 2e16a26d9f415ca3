"""A program for argument types, to be read: every stage as text, its cost, and the compiled function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.codegen.llvm import default_cache, load
from symgrad.compiler import Executable
from symgrad.errors import DTypeError, ShapeError, SymgradError, UnsupportedError
from symgrad.frontend.leaves import Spec, as_spec, is_static
from symgrad.frontend.trace import Traced
from symgrad.frontend.tree import TreeDef, flatten
from symgrad.ir.graph import Graph
from symgrad.ir.loops import Program
from symgrad.ir.node import Node
from symgrad.ir.programs import program_text
from symgrad.ir.sizes import assuming
from symgrad.lower.cost import cost
from symgrad.lower.program import lower
from symgrad.passes.regions import tidy
from symgrad.passes.simplify import simplify

if TYPE_CHECKING:
    from symgrad.frontend.compiled import Compiled

STAGES = ("graph", "loops", "llvm", "asm")


@dataclass(frozen=True, eq=False)
class Lowered:
    """The stages of one program."""

    name: str
    traced: Traced
    tree: TreeDef
    graph: Graph
    program: Program

    def as_text(self, stage: str) -> str:
        """One stage: ``"graph"``, ``"loops"``, ``"llvm"`` (optimised IR) or ``"asm"`` (of this machine)."""
        match stage:
            case "graph":
                return str(self.graph)
            case "loops":
                return program_text(self.program)
            case "llvm":
                return self._executable.native.llvm
            case "asm":
                return self._executable.native.asm
        raise UnsupportedError(f"stage {stage!r} is not there; stages are {', '.join(STAGES)}")

    def cost(self) -> dict[str, int]:
        """``flops`` and ``bytes`` of one call; sizes need numbers, as in ``"f64[n=1000]"``."""
        known = dict(self.traced.sizes.hints)
        return cost(self.program, known)

    def compile(self) -> Callable[..., Any]:
        """The native function, for arguments of these types."""

        def compiled(*args: Any, **kwargs: Any) -> Any:
            leaves, tree = flatten((args, kwargs))
            if tree != self.tree:
                raise ShapeError(f"{self.name} was lowered for other arguments: {self.tree}, got {tree}")
            values = [x for x in leaves if not is_static(x)]
            captured = self.traced.captured()
            if captured is None:
                raise ShapeError(f"{self.name}: values from outside have changed since it was lowered")
            arrays = [_array(v, q, self.name) for v, q in zip([*values, *captured], self.graph.params, strict=True)]
            sizes = self.traced.lengths([*values, *captured]) if _ranks_fit(self.graph, arrays) else None
            if sizes is None:
                shapes = ", ".join(str(a.shape) for a in arrays)
                raise ShapeError(f"{self.name} was lowered for other lengths than those of {shapes}")
            return self.traced.rebuild(self._executable(arrays, sizes))

        compiled.__name__ = self.name
        return compiled

    @cached_property
    def _executable(self) -> Executable:
        return Executable(self.graph, self.program, load(self.program, cache=default_cache()))


def _array(value: Any, like: Node, name: str) -> np.ndarray[Any, Any]:
    """An argument of the dtype that the program was lowered for; Python numbers adapt theirs."""
    array, wanted = np.asarray(value), like.dtype.numpy
    weak = type(value) in (int, float) and np.can_cast(array.dtype, wanted, "same_kind")
    if not weak and array.dtype.newbyteorder("=") != wanted:
        raise DTypeError(f"{name} was lowered for {wanted} arguments, got {array.dtype}")
    return array


def _ranks_fit(graph: Graph, arrays: list[np.ndarray[Any, Any]]) -> bool:
    return all(
        a.ndim == p.ndim and all(s == n for s, n in zip(p.shape, a.shape, strict=True) if isinstance(s, int))
        for a, p in zip(arrays, graph.params, strict=True)
    )


def lower_call(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """Trace, simplify and lower for specs or example arguments."""
    leaves, tree = compiled.leaves(args, kwargs)
    leaves = [_spec(x) for x in leaves]
    specs = any(isinstance(x, Spec) for x in leaves)
    traced = compiled.trace(leaves, tree, free=False, specs=specs)
    with assuming(traced.sizes):
        graph = tidy(simplify(tidy(traced.graph)))
        program = lower(
            graph, compiled.__name__.replace("<lambda>", "f"), flags=traced.flags, workers=compiled.options.workers
        )
    return Lowered(compiled.__name__, traced, tree, graph, program)


def _spec(x: Any) -> Any:
    """Strings and type-like objects as specs."""
    like = hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray | np.generic)
    return as_spec(x) if isinstance(x, str) or like else x


__all__ = ["Lowered", "SymgradError", "lower_call"]
