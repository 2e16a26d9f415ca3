"""Measure the workloads and write what was found to ``results.json`` beside this file.

    python benchmarks/run.py [--only NAME] [--parallel 2] [--peers jax autograd pytorch] [--rounds 15] [--out FILE]

On one core, unless ``--parallel`` says how many threads share large loops.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

RESULTS = Path(__file__).with_name("results.json")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--parallel", type=int, help="threads; without it, one core is used")
    parser.add_argument("--peers", nargs="*", default=[], help="other systems: jax, autograd, pytorch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each system in a round")
    parser.add_argument("--out", type=Path, help="where to write; by default nothing is written with --only")
    return parser.parse_args()


def one_core() -> None:
    """Keep this process on one core, and the threads of BLAS from starting; before NumPy is imported."""
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    options = arguments()
    if options.parallel is None:
        one_core()
    from measure import machine, measure
    from workloads import workloads

    found = []
    for workload in workloads():
        if options.only not in workload.name:
            continue
        record = measure(
            workload, parallel=options.parallel, rounds=options.rounds, limit=options.seconds, peers=options.peers
        )
        found.append(record)
        hand = f"{record['by hand']['least']:12.2f} µs by hand{record['ratio']:7.2f}" if "ratio" in record else ""
        print(f"{record['name']:24}{record['symgrad']['least']:12.2f} µs{hand}  {record['peers'] or ''}", flush=True)
    out = options.out or (None if options.only else RESULTS)
    if out is not None:
        kept = json.loads(out.read_text()) if out.exists() else {}
        kept["machine"] = machine()
        kept["one core" if options.parallel is None else f"{options.parallel} threads"] = found
        out.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
