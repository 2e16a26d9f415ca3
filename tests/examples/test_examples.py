"""Every example runs to its end: each checks its own answer, and prints what it found."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW = {"rosenbrock"}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "gallery")  # see the last test


def test_the_examples_are_found() -> None:
    assert "logistic_regression" in NAMES and set(NAMES) >= SLOW


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in NAMES]
)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 2


@pytest.mark.slow
def test_the_gallery() -> None:
    """Every formula is verified; the page shows every function. How far formulas are simplified depends on time."""
    gallery = runpy.run_path(str(EXAMPLES / "gallery.py"))
    shown = gallery["PAGE"].read_text()
    for function, wrt, types in gallery["GALLERY"]:
        assert gallery["gradient_formula"](function, wrt, types).verify(), function.__name__
        assert inspect.getsource(function) in shown
        assert all(f"∂{function.__name__}/∂{name}" in shown for name in wrt.split())
