"""Programs with control flow, made at random: values are Python's, derivatives those of differences.

``PROGRAMS=2000`` in the environment makes a long run.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import symgrad as sg
from tests.api.random_programs import Truth, module_of, slopes, source_of

COUNT = int(os.environ.get("PROGRAMS", "60"))
POINTS: list[tuple[float, list[float], int]] = [
    (0.3, [0.7, -0.4, 0.2], 3),
    (-0.8, [0.1, 0.9, -0.6], 0),
    (1.4, [-0.3, 0.6, 1.1], 5),
]
DIRECTION = (0.8, np.array([0.5, -0.7, 0.3]))


@st.composite
def programs(draw: Any) -> str:
    return source_of(lambda count: draw(st.integers(0, count - 1)))


def close(got: Any, wanted: float, tolerance: float, what: str) -> None:
    scale = tolerance * max(1.0, abs(wanted))
    assert abs(float(got) - wanted) <= scale, f"{what}: {float(got)!r}, not {wanted!r}"


def check_program(text: str, folder: Path, extra: int, counts: Counter[str]) -> None:
    """Compare a program with its truth. ``extra``: 1 for the second derivative, 2 and 3 for vmap as well."""
    module, truth = module_of(text, folder), Truth(text)
    f = module.f
    arguments = [(x, np.array(y), n) for x, y, n in POINTS]
    exact = [truth(*point) for point in arguments]
    plain = [float(f(*point)) for point in arguments]
    noise = max(abs(v - float(e)) for v, (e, _) in zip(plain, exact, strict=True))
    if not np.all(np.isfinite(plain)) or noise > 1e-13:  # chaotic, or a decision at the edge of rounding
        counts["unstable"] += 1
        return
    counts["programs"] += 1
    compiled = sg.jit(f, stabilize=False)
    try:
        compiled(*arguments[0])
    except sg.TraceError as e:
        assert "make a copy" in str(e)  # two names are the same array in some runs only
        counts["refused"] += 1
        return
    for point, value in zip(arguments, plain, strict=True):
        close(compiled(*point), value, 1e-12, f"value at {point}")
    assert compiled.cache_info().misses == 1, "one program serves all branches"
    check_derivatives(f, arguments, truth, extra == 1, counts)
    if extra >= 2:
        counts["vmap"] += 1
        x, y, n = (np.stack([point[k] for point in arguments]) for k in range(3))
        lanes = sg.vmap(f, in_axes=(0, 0, 0))(x, y, n) if extra == 2 else sg.vmap(f, in_axes=(0, 0, None))(x, y, 3)
        for k, (a, b, c) in enumerate(arguments):
            close(lanes[k], float(f(a, b, c if extra == 2 else 3)), 1e-12, f"lane {k}")


def check_derivatives(f: Any, arguments: Any, truth: Truth, twice: bool, counts: Counter[str]) -> None:
    reverse = sg.value_and_grad(f, argnums=(0, 1))
    second = sg.grad(sg.grad(f)) if twice else None
    for x, y, n in arguments:
        dx, dy = DIRECTION
        value, (gx, gy) = reverse(x, y, n)
        close(value, float(f(x, y, n)), 1e-11, "value beside the gradient")
        by_reverse = gx * dx + gy @ dy
        _, by_forward = sg.jvp(lambda a, b, n=n: f(a, b, n), (x, y), (dx, dy))
        close(by_forward, by_reverse, 1e-11, f"forward against reverse at {(x, y, n)}")
        found = slopes(lambda t, x=x, y=y, n=n: truth(x + t * np.longdouble(dx), y + t * dy.astype(np.longdouble), n))
        if found is None or found.doubt > 1e-6:
            counts["no difference"] += 1
            continue
        counts["slopes"] += 1
        close(by_reverse, found.first, 1e-8 + 10 * found.doubt, f"gradient at {(x, y, n)}")
        along = slopes(lambda t, x=x, y=y, n=n: truth(x + t, y, n)) if second is not None else None
        if second is not None and along is not None and along.doubt < 1e-6:
            counts["second"] += 1
            close(second(x, y, n), along.second, 1e-6 + 100 * along.doubt, f"second derivative at {(x, y, n)}")


@settings(max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(text=programs(), extra=st.integers(0, 5))
def test_random_programs(tmp_path_factory: Any, text: str, extra: int) -> None:
    note(text)
    check_program(text, tmp_path_factory.mktemp("programs"), extra, Counter())
