"""What optimisers share: groups of parameters with options, states, and a step that is one operation for a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from symgrad.tensor.base import BaseTensor
from symgrad.tensor.modes import MODE, enable_grad
from symgrad.tensor.nn.module import clear
from symgrad.tensor.operations import SLOT, bound
from symgrad.tensor.program import record
from symgrad.tensor.values import Value, number


class BaseOptimizer(ABC):
    """Parameters in groups; an option is that of the group, else the default."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[int, dict[str, Any]] = {}
        given: list[Any] = [params] if isinstance(params, BaseTensor) else list(params)
        if not given:
            raise ValueError("an optimizer needs parameters, got an empty list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """More parameters, with options of their own."""
        params = group["params"]
        params = [params] if isinstance(params, BaseTensor) else list(params)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, BaseTensor):
                raise TypeError(f"an optimizer takes tensors, got {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("an optimizer takes leaves only, this tensor was computed")
            if id(p) in known:
                raise ValueError("a parameter is in two groups")
        self.param_groups.append({**self.defaults, **group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                clear(p, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients; with ``closure``, which computes these, return its loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        before, MODE.enabled = MODE.enabled, False
        try:
            for group in self.param_groups:
                params = [p for p in group["params"] if p._grad is not None]
                if params:
                    self._step(group, params)
        finally:
            MODE.enabled = before
        return loss

    @abstractmethod
    def _step(self, group: dict[str, Any], params: Sequence[BaseTensor]) -> None:
        """Change parameters that have gradients."""

    def of(self, p: BaseTensor) -> dict[str, Any]:
        """What is kept for a parameter."""
        return self.state.setdefault(id(p), {})

    def state_dict(self) -> dict[str, Any]:
        """Options and states, as arrays and numbers; parameters by their number."""
        order = [p for g in self.param_groups for p in g["params"]]
        numbers = {id(p): k for k, p in enumerate(order)}
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        state = {
            numbers[key]: {k: np.array(v) if isinstance(v, BaseTensor) else v for k, v in kept.items()}
            for key, kept in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take options and states; the parameters are this optimizer's own."""
        from symgrad.tensor.base import as_value

        order = [p for g in self.param_groups for p in g["params"]]
        sizes = [len(g["params"]) for g in state["param_groups"]]
        if sizes != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("load_state_dict: the groups have other numbers of parameters")
        for own, group in zip(self.param_groups, state["param_groups"], strict=True):
            own.update({k: v for k, v in group.items() if k != "params"})
        self.state = {
            id(order[k]): {
                name: type(order[k])._make(as_value(v)) if isinstance(v, np.ndarray) else v for name, v in kept.items()
            }
            for k, kept in state["state"].items()
        }


def update(
    rule: Callable[..., Any], flags: tuple[Any, ...], params: Sequence[BaseTensor], operands: list[Any], states: int
) -> Sequence[Value]:
    """Replace parameters by what ``rule(flags, *operands)`` gives, which is one operation; the new states return.

    For each parameter the rule gives the new one and ``states`` states.
    """
    key = (rule, flags, len(operands))
    function = _rules.get(key)
    if function is None:
        function = _rules[key] = bound(rule, (flags, *(SLOT,) * len(operands)), {})
    results, _ = record(function, [x._value_now() if isinstance(x, BaseTensor) else number(x) for x in operands])
    for p, new in zip(params, results[:: 1 + states], strict=True):
        p._replace(new, p._edge)
    return results


_rules: dict[Any, Any] = {}
