"""A tensor's place in the graph of gradients: flags, leaves, what was collected, hooks."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

from symgrad.tensor.cell import Cell
from symgrad.tensor.tape import Edge, Leaf, Step

if TYPE_CHECKING:
    pass

_handles = itertools.count()


class RemovableHandle:
    """Takes a hook away again."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> bool:
        """Whether the hook was still there."""
        return self._hooks.pop(self._key, None) is not None


class Differentiable(Cell):
    """The part of the tensor that gradients pass."""

    __slots__ = ()

    # --- gradients ---

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back to it."""
        self._value_now()
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._require(wanted)

    def _require(self, wanted: bool) -> None:
        if not self.is_leaf:
            if not wanted:
                raise RuntimeError("only the flag of a leaf can be changed; detach() gives a tensor without gradient")
            return
        if wanted and self.dtype.kind != "f":
            raise RuntimeError(f"only floating-point tensors can require gradients, this one has dtype {self.dtype}")
        if wanted != (self._edge is not None):
            self._edge = Edge(Leaf(self), 0) if wanted else None

    @property
    def stop_gradient(self) -> bool:
        """The opposite of ``requires_grad``."""
        return not self.requires_grad

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._require(not stop)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self._require(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user rather than by recorded operations."""
        self._value_now()
        return self._edge is None or isinstance(self._edge.record, Leaf)

    @property
    def grad_fn(self) -> Step | None:
        """The operation that made it; None for a leaf."""
        return None if self.is_leaf or self._edge is None else self._edge.record

    @property
    def grad(self) -> Any:
        """The gradient collected so far, None if there is none."""
        return self._grad

    @grad.setter
    def grad(self, new: Any) -> None:
        if new is not None and not isinstance(new, Differentiable):
            raise TypeError(f"a gradient is a tensor or None, got {type(new).__name__}")
        if new is not None and new._dims != self._dims:
            raise RuntimeError(f"the gradient of a tensor of shape {self._dims} has that shape, got {new._dims}")
        self._grad = new

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook`` with the whole gradient on its way back; what it returns, unless None, goes on instead."""
        self._value_now()
        if self._edge is None:
            raise RuntimeError("cannot register a hook on a tensor that does not require grad")
        step, index = self._edge
        step.hooks = step.hooks if step.hooks is not None else {}
        hooks = step.hooks.setdefault(index, {})
        hooks[key := next(_handles)] = hook
        return RemovableHandle(hooks, key)

    def retain_grad(self) -> None:
        """Keep the gradient in ``grad`` although this is no leaf."""
        self._value_now()
        if self._edge is None:
            raise RuntimeError("cannot retain the gradient of a tensor that does not require grad")
        step, index = self._edge
        if not isinstance(step, Leaf):
            step.kept = step.kept if step.kept is not None else {}
            step.kept[index] = weakref.ref(cast(Any, self))

    @property
    def retains_grad(self) -> bool:
        if self._edge is None or isinstance(self._edge.record, Leaf):
            return False
        kept = (self._edge.record.kept or {}).get(self._edge.index)
        return kept is not None and kept() is self
