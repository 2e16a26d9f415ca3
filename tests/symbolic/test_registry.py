"""The check of every primitive finds a rule that is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symgrad.ir.op import REGISTRY
from symgrad.symbolic.registry import verify_registry


def test_every_rule_there_is_holds():
    report = verify_registry()
    assert report, str(report)
    names = {c.name.partition("(")[0] for c in report.checks}
    assert {"sin", "pow", "erf", "sum", "max", "dot", "gather", "scatter_add", "logsumexp"} <= names


@pytest.mark.parametrize("name", ["tanh", "hypot"])
def test_a_wrong_partial_is_found(name, monkeypatch):
    op = REGISTRY[name]
    wrong = replace(op, partials=lambda *args: tuple(p * 1.0000001 for p in op.partials(*args)))
    monkeypatch.setitem(REGISTRY, name, wrong)
    report = verify_registry()
    assert [c.name for c in report.checks if not c.passed] == [name]
