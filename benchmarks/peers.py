"""The same functions on other systems, as far as these take them: their NumPy in place of ours."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from workloads import Workload

Call = Callable[[], Any]


def _translated(function: Callable[..., Any], names: dict[str, Any]) -> Callable[..., Any]:
    """A function of ``workloads`` that finds other modules under the names it uses."""
    return types.FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)


def jax(workload: Workload) -> Call:
    """Compiled by ``jax.jit``, in double precision, on one device; the call waits for its result."""
    import jax
    from jax.scipy.special import erf, logsumexp

    jax.config.update("jax_enable_x64", True)
    function = _translated(workload.function, {"np": jax.numpy, "erf": erf, "logsumexp": logsumexp})
    if workload.rows:
        compiled = jax.jit(jax.vmap(jax.jacrev(function, argnums=workload.argnums)))
    else:
        compiled = jax.jit(jax.value_and_grad(function, argnums=workload.argnums))
    args = [jax.numpy.asarray(a) for a in workload.args]
    return lambda: jax.block_until_ready(compiled(*args))


def autograd(workload: Workload) -> Call:
    """HIPS autograd: NumPy with a tape."""
    import autograd
    from autograd import numpy
    from autograd.scipy.special import erf, logsumexp

    if workload.rows:
        raise NotImplementedError("no vmap")
    function = _translated(workload.function, {"np": numpy, "erf": erf, "logsumexp": logsumexp})
    compiled = autograd.value_and_grad(function, argnum=workload.argnums)
    return lambda: compiled(*workload.args)


def pytorch(workload: Workload) -> Call:
    """Eager PyTorch on one thread, in the precision of the inputs; no compiler."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    names = {"np": torch, "erf": torch.erf, "logsumexp": _torch_logsumexp(torch)}
    function = _translated(workload.function, names)
    nums = workload.argnums if isinstance(workload.argnums, tuple) else (workload.argnums,)
    args = [torch.tensor(a) if isinstance(a, np.ndarray) or k in nums else a for k, a in enumerate(workload.args)]
    if workload.rows:
        jacobian = torch.func.vmap(torch.func.jacrev(function, argnums=workload.argnums))
        return lambda: jacobian(*args)

    def call() -> Any:
        given = [a.detach().requires_grad_() if k in nums else a for k, a in enumerate(args)]
        value = function(*given)
        return value, torch.autograd.grad(value, [given[k] for k in nums])

    return call


def _torch_logsumexp(torch: Any) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: torch.logsumexp(
        x, tuple(range(x.ndim)) if axis is None else axis, keepdims
    )


PEERS: dict[str, Callable[[Workload], Call]] = {"jax": jax, "autograd": autograd, "pytorch": pytorch}
