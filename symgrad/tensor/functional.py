"""Modules of tensors -> pure functions of their parameters, for the transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from symgrad.errors import TraceError
from symgrad.frontend.tracer import is_traced, value, wrap
from symgrad.frontend.tracing import tracing
from symgrad.tensor.base import BaseTensor, as_value
from symgrad.tensor.modes import no_grad
from symgrad.tensor.nn.module import BaseModule
from symgrad.tensor.values import Value


def func(module: BaseModule) -> Callable[..., Any]:
    """``module`` as a pure function ``f(parameters, *args)`` of arrays, for ``sg.grad`` and the other transforms.

    ``parameters`` maps the names of parameters and buffers to arrays, as ``dict(module.named_parameters())`` does.

    >>> import numpy as np, symgrad as sg
    >>> net = sg.nn.Linear(2, 1)
    >>> f = func(net)
    >>> weights = {name: p.numpy() for name, p in net.named_parameters()}
    >>> slope = sg.grad(lambda w, x: np.sum(f(w, x)))(weights, np.array([[1.0, 2.0]]))
    >>> slope["weight"]
    array([[1., 2.]])
    """

    def pure(parameters: Mapping[str, Any], *args: Any, **keywords: Any) -> Any:
        own = dict([*module.named_parameters(), *module.named_buffers()])
        unknown = sorted(set(parameters) - set(own))
        missing = sorted(set(own) - set(parameters))
        if unknown or missing:
            raise TraceError(f"func({type(module).__name__}): parameters missing {missing}, unknown {unknown}")
        like = module.dialect.tensor
        with ExitStack() as stack:
            stack.enter_context(no_grad())
            for name, p in own.items():
                stack.callback(_put, p, p._value_now(), p._edge)
                _put(p, _value(parameters[name]), None)
            out = module(*(_tensor(a, like) for a in args), **{k: _tensor(v, like) for k, v in keywords.items()})
            return _arrays(out)

    pure.__name__ = type(module).__name__
    return pure


def _put(p: BaseTensor, new: Value, edge: Any) -> None:
    p._value, p._edge = new, edge


def _value(x: Any) -> Value:
    if is_traced(x):
        return Value(node=value(x))
    return x._value_now() if isinstance(x, BaseTensor) else as_value(x)


def _tensor(x: Any, like: type[BaseTensor]) -> Any:
    return like._make(_value(x)) if is_traced(x) or isinstance(x, np.ndarray | np.generic) else x


def _arrays(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(_arrays(item) for item in x)
    if not isinstance(x, BaseTensor):
        return x
    v = x._value_now()
    return wrap(v.node) if tracing() and v.pending else np.array(x._array())
