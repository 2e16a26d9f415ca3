"""Time as a ratio to the same gradient by hand, in one process, in rounds that alternate between the two."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from byhand import by_hand
from check import agree, agrees_with_differences, gradient
from peers import PEERS
from workloads import Workload

import symgrad

Loop = Callable[[int], None]


def seconds(loop: Loop, times: int) -> float:
    began = time.perf_counter()
    loop(times)
    return (time.perf_counter() - began) / times


def calls_within(loop: Loop, limit: float) -> int:
    """How many calls take about ``limit`` seconds, once they are warm."""
    loop(3)
    times = 1
    while (took := seconds(loop, times) * times) < limit / 4 and times < 1 << 24:
        times *= 4
    return max(1, round(times * limit / max(took, 1e-9)))


def looped(function: Any, args: tuple[Any, ...]) -> Loop:
    """Calls with nothing else between them."""
    names = [f"a{k}" for k in range(len(args))]
    text = f"def loop(times):\n    for _ in range(times):\n        f({', '.join(names)})\n"
    space = {"f": function, **dict(zip(names, args, strict=True))}
    exec(text, space)
    loop: Loop = space["loop"]
    return loop


def measure(workload: Workload, *, parallel: int | None, rounds: int, limit: float, peers: list[str]) -> dict[str, Any]:
    """Microseconds of a call, the least and the median over rounds, and the median ratio to the gradient by hand."""
    ours = gradient(workload, parallel)
    began = time.perf_counter()
    result = ours(*workload.args)
    record: dict[str, Any] = {"name": workload.name, "first": round(time.perf_counter() - began, 3)}
    agrees_with_differences(workload, result)
    hand = by_hand(workload)
    if hand is not None:
        agree(workload, result, hand())
    loops = [looped(ours, workload.args)] + ([hand.loop] if hand is not None else [])
    counts = [calls_within(loop, limit) for loop in loops]
    times = [[seconds(loop, n) for loop, n in zip(loops, counts, strict=True)] for _ in range(rounds)]
    record["symgrad"] = _microseconds([t[0] for t in times])
    if hand is not None:
        record["by hand"] = _microseconds([t[1] for t in times])
        record["ratio"] = round(statistics.median(t[0] / t[1] for t in times), 2)
    record["peers"] = {name: _peer(name, workload, limit) for name in peers}
    return record


def _microseconds(times: list[float]) -> dict[str, float]:
    return {"least": round(min(times) * 1e6, 3), "median": round(statistics.median(times) * 1e6, 3)}


def _peer(name: str, workload: Workload, limit: float) -> float | str:
    """Least microseconds of a call of another system, or why there is none."""
    if workload.long_loop:
        return "not asked"
    try:
        call = PEERS[name](workload)
        call()
    except ImportError:
        return "not installed"
    except Exception as error:  # a system that cannot is a result too
        return f"cannot: {type(error).__name__}"

    def loop(times: int) -> None:
        for _ in range(times):
            call()

    count = calls_within(loop, limit)
    return round(min(seconds(loop, count) for _ in range(5)) * 1e6, 3)


def machine() -> dict[str, str]:
    """What the figures depend on."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "symgrad": symgrad.__version__,
        "date": datetime.date.today().isoformat(),
    }
