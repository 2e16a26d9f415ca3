"""The sessions of the README and of the documentation print what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "fewest"), [("README.md", 10), ("docs/imperative.md", 10), ("docs/ahead-of-time.md", 5)]
)
def test_pages(page: str, fewest: int) -> None:
    result = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert result.attempted > fewest and result.failed == 0
