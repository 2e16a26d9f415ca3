"""Errors and times of the elementary functions, into the table of ``docs/elementary-functions.md``.

    python benchmarks/elementary.py [--points 2000]

Errors are the largest found, in units in the last place of the exact value (mpmath), over random bit patterns,
intervals around zero, magnitudes, neighbours of one and of multiples of pi/2. Times are of a loop over 10 000 numbers
between -3 and 3, or in the domain, beside the same call of NumPy or SciPy, on one core.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "elementary-functions.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
for name in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import mpmath  # noqa: E402
import numpy as np  # noqa: E402
from scipy import special  # noqa: E402

import symgrad as sg  # noqa: E402


@dataclass(frozen=True)
class Function:
    """A function of NumPy or SciPy, its exact value, and where it is timed."""

    name: str
    numpy: Callable[..., Any]
    exact: Callable[..., Any]
    low: float = -3.0
    high: float = 3.0
    arguments: int = 1


FUNCTIONS = [
    Function("exp", np.exp, mpmath.exp),
    Function("exp2", np.exp2, lambda x: mpmath.power(2, x)),
    Function("expm1", np.expm1, mpmath.expm1),
    Function("log", np.log, mpmath.log, 0.1),
    Function("log2", np.log2, lambda x: mpmath.log(x, 2), 0.1),
    Function("log10", np.log10, mpmath.log10, 0.1),
    Function("log1p", np.log1p, mpmath.log1p, -0.9),
    Function("sin", np.sin, mpmath.sin),
    Function("cos", np.cos, mpmath.cos),
    Function("tan", np.tan, mpmath.tan),
    Function("sinh", np.sinh, mpmath.sinh),
    Function("cosh", np.cosh, mpmath.cosh),
    Function("tanh", np.tanh, mpmath.tanh),
    Function("expit", special.expit, lambda x: 1 / (1 + mpmath.exp(-x))),
    Function("arcsin", np.arcsin, mpmath.asin, -1, 1),
    Function("arccos", np.arccos, mpmath.acos, -1, 1),
    Function("arctan", np.arctan, mpmath.atan),
    Function("arctan2", np.arctan2, mpmath.atan2, arguments=2),
    Function("arcsinh", np.arcsinh, mpmath.asinh),
    Function("arccosh", np.arccosh, mpmath.acosh, 1),
    Function("arctanh", np.arctanh, mpmath.atanh, -1, 1),
    Function("cbrt", np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    Function("power", np.power, mpmath.power, 0.1, arguments=2),
    Function("erf", special.erf, lambda x: mpmath.erf(x) if abs(x) < 1000 else mpmath.sign(x)),
    Function("erfc", special.erfc, lambda x: mpmath.erfc(x) if abs(x) < 1000 else 1 - mpmath.sign(x)),
]


def points(kind: Any, count: int, seed: int) -> Any:
    """Numbers of every size."""
    rng = np.random.default_rng(seed)
    bits = np.uint64 if kind is np.float64 else np.uint32
    patterns = rng.integers(0, np.iinfo(bits).max, count, dtype=bits).view(kind)
    near_zero = [rng.uniform(-s, s, count) for s in (0.5, 1, 3, 30, 800)]
    sizes = np.exp(rng.uniform(-45, 8, count)) * rng.choice([-1, 1], count)
    near_one = 1 + rng.normal(size=count) * np.exp(rng.uniform(-30, 0, count))
    turns = np.round(rng.uniform(-6e5, 6e5, count)) * (np.pi / 2)
    return np.concatenate([patterns, *(a.astype(kind) for a in (*near_zero, sizes, near_one, turns))])


def largest_error(f: Function, kind: Any, count: int) -> float:
    """In units in the last place."""
    args = [points(kind, count, seed) for seed in range(f.arguments)]
    with np.errstate(all="ignore"):
        wanted = np.isfinite(f.numpy(*args))  # outside of the domain there is nothing to compare
        args = [a[wanted] for a in args]
        got = sg.jit(lambda *x: f.numpy(*x))(*args)
    worst = 0.0
    for k, y in enumerate(got):
        exact = f.exact(*(mpmath.mpf(float(a[k])) for a in args))
        if np.isfinite(y) and isinstance(exact, mpmath.mpf) and exact:
            worst = max(worst, abs(float((mpmath.mpf(float(y)) - exact) / ulp(exact, kind))))
    return worst


def ulp(exact: Any, kind: Any) -> Any:
    """The distance of the floats around a number."""
    info = np.finfo(kind)
    _, exponent = mpmath.frexp(exact)
    return mpmath.ldexp(1, max(int(exponent), int(info.minexp) + 1) - int(info.nmant) - 1)


def nanoseconds(call: Callable[..., Any], args: list[Any]) -> float:
    """Of one element, the least of many calls."""
    best = math.inf
    for _ in range(200):
        began = time.perf_counter()
        call(*args)
        best = min(best, time.perf_counter() - began)
    return best / len(args[0]) * 1e9


def row(f: Function, count: int) -> str:
    cells = [f"`{f.name}`"]
    for kind in (np.float64, np.float32):
        rng = np.random.default_rng(0)
        args = [rng.uniform(f.low, f.high, 10_000).astype(kind) for _ in range(f.arguments)]
        ours = sg.jit(lambda *x: f.numpy(*x))
        ours(*args)
        times = nanoseconds(ours, args), nanoseconds(f.numpy, args)
        cells += [f"{largest_error(f, kind, count):.2f}", *(f"{t:.2f}" for t in times)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2000, help="of each kind")
    options = parser.parse_args()
    mpmath.mp.prec = 200
    head = ["", *(f"{kind} {what}" for kind in ("f64", "f32") for what in ("ulp", "ns", "ns, NumPy"))]
    lines = [f"Measured on {_processor()}, {options.points} points of each kind.", ""]
    lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for f in FUNCTIONS:
        lines.append(row(f, options.points))
        print(lines[-1], flush=True)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return platform.machine()


if __name__ == "__main__":
    main()
