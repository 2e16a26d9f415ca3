"""What each command does; the exit status is returned."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

from symgrad import api
from symgrad.aot import export
from symgrad.cli.request import Request, request
from symgrad.errors import ExportError


def _request(options: argparse.Namespace) -> Request:
    return request(options.function, options.args, options.grad)


def compile_(options: argparse.Namespace) -> int:
    asked = _request(options)
    emit = None if options.emit is None else [k.strip() for k in options.emit.split(",") if k.strip()]
    name = options.name or asked.plain.__name__
    began = time.monotonic()
    made = export(
        asked.compiled(),
        options.output,
        asked.specs,
        name=name,
        emit=emit,
        target=options.target,
        cpu=options.cpu,
        trips=options.trips,
    )
    for reason in made.skipped.values():
        print(f"symgrad compile: {reason}", file=sys.stderr)
    took = time.monotonic() - began
    if took > 1:
        print(f"symgrad compile: took {took:.1f} s", file=sys.stderr)
    for path in made.files.values():
        print(path)
    return 0


def formula(options: argparse.Namespace) -> int:
    asked = _request(options)
    gradient = api.grad(asked.plain, argnums=asked.argnums)
    shown = gradient.formula(**dict(zip(asked.names, asked.specs, strict=True)))
    print(getattr(shown, options.format)() if options.format else shown)
    return 0


def show(options: argparse.Namespace) -> int:
    asked = _request(options)
    print(asked.compiled().lower(*asked.specs).as_text(options.stage))
    return 0


def check(options: argparse.Namespace) -> int:
    if options.rules:
        from symgrad.symbolic.registry import verify_registry  # sympy is loaded when first needed

        report = verify_registry()
    elif options.function is None or options.args is None:
        raise ExportError("FILE:FUNCTION and --args are needed, or --rules")
    else:
        asked = _request(options)
        report = asked.gradient().verify(*asked.random_arguments())
    print(report)
    return 0 if report else 1


def bench(options: argparse.Namespace) -> int:
    asked = _request(options)
    args = asked.random_arguments()
    forward, gradient = api.jit(asked.plain), asked.gradient()
    times = [_seconds(f, args) for f in (forward, gradient)]
    print(f"forward   {_shown(times[0])}")
    print(f"gradient  {_shown(times[1])}, {times[1] / times[0]:.2f} times as long")
    costs = gradient.lower(*args).cost()
    print(f"          {costs['flops']} operations, {costs['bytes']} bytes moved at least")
    return 0


def _seconds(f: Callable[..., Any], args: list[Any]) -> float:
    """Of one call, the least of several batches."""
    for _ in range(3):
        f(*args)
    began = time.perf_counter()
    f(*args)
    repeats = max(1, math.ceil(0.01 / max(time.perf_counter() - began, 1e-7)))
    best = math.inf
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(repeats):
            f(*args)
        best = min(best, (time.perf_counter() - began) / repeats)
    return best


def _shown(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
