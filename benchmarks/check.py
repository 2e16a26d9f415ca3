"""Results are checked before anything is timed: against the gradient by hand, and against differences of the value."""

from __future__ import annotations

from typing import Any

import numpy as np
from workloads import Workload

import symgrad as sg


def gradient(workload: Workload, parallel: int | None = None) -> Any:
    """What is timed of symgrad: a compiled function of the workload's arguments."""
    if workload.rows:
        return sg.vmap(sg.jacrev(workload.function, argnums=workload.argnums), parallel=parallel)
    return sg.value_and_grad(workload.function, argnums=workload.argnums, parallel=parallel)


def agree(workload: Workload, got: Any, wanted: Any) -> None:
    """AssertionError unless value and gradients are the same but for rounding, in the precision of the inputs."""
    single = any(getattr(a, "dtype", None) == np.float32 for a in workload.args)
    tolerance = 1e-5 if single else 1e-11
    (value, gradients), (right, slopes) = got, wanted
    np.testing.assert_allclose(value, right, rtol=tolerance, err_msg=workload.name)
    for ours, theirs in zip(_listed(gradients), _listed(slopes), strict=True):
        scale = float(np.max(np.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=10 * tolerance * scale, err_msg=workload.name)


def agrees_with_differences(workload: Workload, got: Any) -> None:
    """AssertionError unless the gradient along some direction is the slope of the function as NumPy runs it."""
    nums = workload.argnums if isinstance(workload.argnums, tuple) else (workload.argnums,)
    args = [np.asarray(a, np.float64) if isinstance(a, np.ndarray) else a for a in workload.args]
    if workload.rows:  # of one row
        args, got = [a[0] for a in args], (None, [np.asarray(g)[0] for g in _listed(got)])
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=np.shape(args[k])) for k in nums]
    size = np.sqrt(sum(np.sum(np.square(args[k])) for k in nums))
    step = 1e-5 * max(1.0, float(size)) / np.sqrt(sum(np.sum(d * d) for d in directions))

    def along(t: float) -> Any:
        moved = dict(zip(nums, directions, strict=True))
        return np.asarray(workload.function(*(a + t * moved[k] if k in moved else a for k, a in enumerate(args))))

    # fourth order, so that the step may be long
    slope = (8 * (along(step) - along(-step)) - (along(2 * step) - along(-2 * step))) / (12 * step)
    found = sum(
        np.tensordot(np.asarray(g, np.float64), d, d.ndim) for g, d in zip(_listed(got[1]), directions, strict=True)
    )
    noise = 1e-15 * np.max(np.abs(along(0.0))) / step
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e3 * noise, err_msg=workload.name)


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple | list) else [x]
