"""What the benchmarks time is right: by the gradient by hand, and by differences of what NumPy computes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are part of the repository only", allow_module_level=True)

sys.path.insert(0, str(BENCHMARKS))
byhand, check, measure, workloads = map(importlib.import_module, ("byhand", "check", "measure", "workloads"))

WORKLOADS = {
    w.name: w for w in workloads.workloads() if w.name not in ("rosenbrock 1e6", "rosenbrock 1e7", "mixture d=64 k=50")
}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("parallel", [None, 2])
def test_the_gradient_that_is_timed(name, parallel):
    workload = WORKLOADS[name]
    result = check.gradient(workload, parallel)(*workload.args)
    if parallel is None:
        check.agrees_with_differences(workload, result)
    hand = byhand.by_hand(workload)
    if hand is not None:
        check.agree(workload, result, hand())


def test_a_wrong_gradient_is_found():
    workload = WORKLOADS["logistic 10000x100"]
    value, gradient = check.gradient(workload)(*workload.args)
    for wrong in ((value, gradient * 1.001), (value * 1.001, gradient)):
        with pytest.raises(AssertionError):
            check.agree(workload, wrong, (value, gradient))
    with pytest.raises(AssertionError):
        check.agrees_with_differences(workload, (value, gradient * 1.001))


def test_a_measurement():
    record = measure.measure(WORKLOADS["kepler"], parallel=None, rounds=2, limit=1e-3, peers=["nobody"])
    assert record["symgrad"]["least"] > 0 and record["peers"] == {"nobody": "cannot: KeyError"}
