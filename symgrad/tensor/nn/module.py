"""Modules: objects that own parameters, buffers and other modules, and compute a function of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from symgrad.tensor.base import BaseTensor, RemovableHandle, as_value
from symgrad.tensor.modes import no_grad


@dataclass(frozen=True, slots=True)
class Dialect:
    """What modules need to know of the language they belong to.

    ``by_columns``: the weight of a linear layer has the shape (in, out), not (out, in). ``xavier``: it begins uniform
    within sqrt(6 / (in + out)) and the bias at zero, instead of both within 1 / sqrt(in).
    """

    tensor: type[BaseTensor]
    dtype: type[np.floating[Any]]
    by_columns: bool = False
    xavier: bool = False

    def parameter(self, data: Any) -> Any:
        """A parameter with a copy of ``data``."""
        new = self.tensor._make(as_value(data))
        return as_parameter(new)


def as_parameter(x: BaseTensor, requires_grad: bool = True) -> Any:
    """Mark a leaf as a parameter of the module that it is assigned to."""
    new = x.detach().clone() if not x.is_leaf or x._view is not None else x
    new._parameter = True
    new._require(requires_grad)
    return new


_handles = itertools.count()


class BaseModule:
    """Keeps parameters, buffers and modules that are assigned to attributes; calling it runs ``forward``."""

    dialect: ClassVar[Dialect]
    training: bool

    def __init__(self) -> None:
        self._prepare()

    def _prepare(self) -> None:
        values = self.__dict__
        if "_modules" not in values:
            values.update(training=True, _parameters={}, _buffers={}, _modules={}, _hooks={}, _transient=set())

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        self = super().__new__(cls)
        self._prepare()
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_modules") is None:
            self._prepare()
        kept = [self._parameters, self._modules, self._buffers]
        if isinstance(value, BaseTensor) and value._parameter:
            self._own(name, value, self._parameters)
        elif isinstance(value, BaseModule):
            self._own(name, value, self._modules)
        elif name in self._buffers and (value is None or isinstance(value, BaseTensor)):
            self._buffers[name] = value
        elif name in self._parameters and value is None:
            self._parameters[name] = None
        elif name in self._parameters:
            raise TypeError(f"cannot assign a {type(value).__name__} as parameter {name!r}: wanted a Parameter or None")
        else:
            for table in kept:
                table.pop(name, None)
            object.__setattr__(self, name, value)

    def _own(self, name: str, value: Any, where: dict[str, Any]) -> None:
        self.__dict__.pop(name, None)
        for table in (self._parameters, self._modules, self._buffers):
            if table is not where:
                table.pop(name, None)
        where[name] = value

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_modules", "_buffers"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._modules, self._buffers):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        out = self.forward(*args, **keywords)
        for hook in list(self._hooks.values()):
            new = hook(self, args, out)
            out = out if new is None else new
        return out

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after each forward; what it returns, unless None, is the result."""
        self._hooks[key := next(_handles)] = hook
        return RemovableHandle(self._hooks, key)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """A tensor that is saved with the parameters but not trained."""
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def register_parameter(self, name: str, parameter: Any) -> None:
        self._parameters[name] = parameter

    def add_module(self, name: str, module: Any) -> None:
        self._modules[name] = module

    register_module = add_module

    # --- walking ---

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, BaseModule]]:
        """This module and all below it, each once."""
        seen: set[int] = set()
        stack: list[tuple[str, BaseModule]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                below = [(f"{name}.{k}" if name else k, m) for k, m in module._modules.items() if m is not None]
                stack.extend(reversed(below))

    def modules(self) -> Iterator[BaseModule]:
        return (m for _, m in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, BaseModule]]:
        return ((k, m) for k, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[BaseModule]:
        return (m for _, m in self.named_children())

    def _named(self, table: str) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, x in getattr(module, table).items():
                if x is not None and id(x) not in seen:
                    seen.add(id(x))
                    yield (f"{prefix}.{name}" if prefix else name), x

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Names and parameters, of the modules below as well, each once."""
        return self._named("_parameters")

    def parameters(self) -> Any:
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        return self._named("_buffers")

    def buffers(self) -> Iterator[Any]:
        return (b for _, b in self.named_buffers())

    def apply(self, function: Callable[[Any], Any]) -> Self:
        """Call ``function`` on every module, the innermost first."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    # --- state ---

    def state_dict(self) -> dict[str, Any]:
        """Names and values of parameters and buffers, which share memory with the module."""
        hidden = {f"{p}.{n}" if p else n for p, m in self.named_modules() for n in m._transient}
        every = [*self.named_parameters(), *((n, b) for n, b in self.named_buffers() if n not in hidden)]
        return {name: x.detach() for name, x in every}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Take values by name; with ``strict`` an error for names that are missing or too many."""
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        if strict and (missing or unexpected):
            raise RuntimeError(f"load_state_dict: missing {missing}, unexpected {unexpected}")
        for name, x in own.items():
            if name in state:
                new = np.asarray(state[name])
                if new.shape != x._dims:
                    raise RuntimeError(f"load_state_dict: {name} has shape {x._dims}, got {new.shape}")
                with no_grad():
                    x._replace(as_value(new, x.dtype), None)
        return missing, unexpected

    set_state_dict = load_state_dict

    def train(self, mode: bool = True) -> Self:
        """Say that this is training, which layers such as Dropout act upon."""
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        for p in self.parameters():
            p._require(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for p in self.parameters():
            clear(p, set_to_none)

    def to(self, dtype: Any) -> Self:
        """Parameters and buffers of floats as another dtype."""
        for x in (*self.parameters(), *self.buffers()):
            if x.dtype.kind == "f":
                x._replace(as_value(x._array(), dtype), x._edge)
        return self

    def double(self) -> Self:
        return self.to(np.float64)

    def float(self) -> Self:
        return self.to(np.float32)

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        below = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        if not below:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(below) + "\n)"


def clear(x: BaseTensor, set_to_none: bool) -> None:
    """Forget a gradient, or set it to zero."""
    if set_to_none or x._grad is None:
        x._grad = None
    else:
        x._grad = type(x)._make(as_value(np.zeros(x._dims, x.dtype)))
