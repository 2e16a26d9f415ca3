"""Fail when a workload has become slower, beside its gradient by hand, than ``results.json`` says it was.

python benchmarks/guard.py [--tolerance 1.5] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import sys

from run import RESULTS, one_core


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tolerance", type=float, default=1.5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    one_core()
    from measure import measure
    from workloads import workloads

    recorded = {r["name"]: r["ratio"] for r in json.loads(RESULTS.read_text())["one core"] if "ratio" in r}
    slower = []
    for workload in workloads():
        if workload.name not in recorded or options.only not in workload.name:
            continue
        ratio = min(  # a busy machine is not a slower program
            measure(workload, parallel=None, rounds=7, limit=0.03, peers=[])["ratio"] for _ in range(2)
        )
        verdict = "slower" if ratio > options.tolerance * recorded[workload.name] else "as before"
        print(f"{workload.name:24}{ratio:8.2f}, recorded {recorded[workload.name]:.2f}: {verdict}", flush=True)
        slower += [workload.name] if verdict == "slower" else []
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
