"""Random tensors from one generator that can be seeded."""

from __future__ import annotations

from typing import Any

import numpy as np

_generator = [np.random.default_rng()]


def seed(number: int) -> None:
    """Begin a sequence of random numbers that is the same each time."""
    _generator[0] = np.random.default_rng(number % 2**64)


def generator() -> np.random.Generator:
    """The generator that all random tensors come from."""
    return _generator[0]


def get_state() -> dict[str, Any]:
    """Where the sequence is now."""
    return dict(_generator[0].bit_generator.state)


def set_state(state: dict[str, Any]) -> None:
    """Go back to a place of the sequence."""
    _generator[0].bit_generator.state = state
