"""Value and gradient: symgrad's time as a ratio to the same gradient by hand in NumPy, in one process.

    python benchmarks/run.py [--rounds 15] [--seconds 0.05] [--only rosenbrock]

Rounds alternate between the two, so that both meet the same state of the machine; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from workloads import Workload, workloads

import symgrad as sg


def check_agreement(got: Any, want: Any, name: str) -> None:
    """Raise AssertionError unless values and gradients agree to rounding."""
    (value, grads), (true_value, true_grads) = got, want
    np.testing.assert_allclose(value, true_value, rtol=1e-10, err_msg=name)
    pairs = zip(grads, true_grads, strict=True) if isinstance(true_grads, tuple) else [(grads, true_grads)]
    for ours, theirs in pairs:
        scale = float(np.max(np.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * scale, err_msg=name)


def seconds_per_call(call: Callable[..., Any], args: tuple[Any, ...], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call(*args)
    return (time.perf_counter() - began) / count


def calls_within(call: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> int:
    """How many calls take about ``seconds``."""
    count = 1
    while True:
        took = seconds_per_call(call, args, count)
        if took * count > seconds / 4:
            return max(1, round(seconds / took))
        count *= 4


def measure(workload: Workload, *, rounds: int, seconds: float) -> tuple[float, float, float, float]:
    """Return seconds to the first result, then per call: symgrad, by hand, and the median ratio."""
    began = time.perf_counter()
    ours = sg.value_and_grad(workload.function, argnums=workload.argnums)
    first = ours(*workload.args)
    compiling = time.perf_counter() - began
    check_agreement(first, workload.by_hand(*workload.args), workload.name)

    candidates = (ours, workload.by_hand)
    counts = [calls_within(call, workload.args, seconds) for call in candidates]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for call, count, kept in zip(candidates, counts, times, strict=True):
            kept.append(seconds_per_call(call, workload.args, count))
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    return compiling, statistics.median(times[0]), statistics.median(times[1]), ratio


def readable(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="for one round of one candidate")
    parser.add_argument("--only", default="", help="a part of the workload's name")
    options = parser.parse_args()

    print(f"{'workload':<22}{'first call':>12}{'symgrad':>12}{'NumPy':>12}{'ratio':>9}")
    for workload in workloads():
        if options.only in workload.name:
            first, ours, numpy, ratio = measure(workload, rounds=options.rounds, seconds=options.seconds)
            print(f"{workload.name:<22}{readable(first):>12}{readable(ours):>12}{readable(numpy):>12}{ratio:>9.2f}")


if __name__ == "__main__":
    main()
