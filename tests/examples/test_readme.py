"""The sessions of the README and of the documentation print what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


TENSORS = README.parent / "docs" / "imperative.md"


def test_tensors() -> None:
    result = doctest.testfile(str(TENSORS), module_relative=False, encoding="utf-8")
    assert result.attempted > 10 and result.failed == 0


def test_readme() -> None:
    result = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert result.attempted > 10 and result.failed == 0
