"""The workloads: a plain NumPy function, the same value and gradient written by hand in NumPy, and arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """``by_hand(*args)`` returns ``(value, grads)`` as ``value_and_grad(function, argnums)`` does."""

    name: str
    function: Callable[..., Any]
    by_hand: Callable[..., Any]
    args: tuple[Any, ...]
    argnums: int | tuple[int, ...] = 0


def two_floats(x, y):
    return np.sin(x) * y + np.exp(x * y)


def two_floats_by_hand(x: float, y: float) -> tuple[float, tuple[float, float]]:
    e = np.exp(x * y)
    s = np.sin(x)
    return s * y + e, (y * np.cos(x) + y * e, s + x * e)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_by_hand(x: Array) -> tuple[float, Array]:
    head, miss = x[:-1], x[1:] - x[:-1] ** 2
    gradient = np.empty_like(x)
    gradient[:-1] = -400.0 * head * miss - 2.0 * (1.0 - head)
    gradient[-1] = 0.0
    gradient[1:] += 200.0 * miss
    return np.sum(100.0 * miss**2 + (1.0 - head) ** 2), gradient


def black_scholes(spot, strike, maturity, volatility, rate):
    spread = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / spread
    d2 = d1 - spread
    cdf1, cdf2 = 0.5 * (1.0 + erf(d1 * np.sqrt(0.5))), 0.5 * (1.0 + erf(d2 * np.sqrt(0.5)))
    return np.sum(spot * cdf1 - strike * np.exp(-rate * maturity) * cdf2)


def black_scholes_by_hand(
    spot: Array, strike: Array, maturity: Array, volatility: Array, rate: float
) -> tuple[float, tuple[Array, ...]]:
    root = np.sqrt(maturity)
    spread = volatility * root
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / spread
    d2 = d1 - spread
    cdf1, cdf2 = 0.5 * (1.0 + erf(d1 * np.sqrt(0.5))), 0.5 * (1.0 + erf(d2 * np.sqrt(0.5)))
    discount = np.exp(-rate * maturity)
    vega = spot * root * np.exp(-0.5 * d1 * d1) / np.sqrt(2 * np.pi)
    by_maturity = vega * volatility / (2 * maturity) + rate * strike * discount * cdf2
    return np.sum(spot * cdf1 - strike * discount * cdf2), (cdf1, -discount * cdf2, by_maturity, vega)


def logistic(w, x, y):
    return np.mean(np.logaddexp(0.0, -y * (x @ w)))


def logistic_by_hand(w: Array, x: Array, y: Array) -> tuple[float, Array]:
    margins = -y * (x @ w)
    return np.mean(np.logaddexp(0.0, margins)), x.T @ (-y / (1.0 + np.exp(-margins))) / len(y)


def log_sum_exp(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - top), axis=1)) + top[:, 0])


def log_sum_exp_by_hand(x: Array) -> tuple[float, Array]:
    top = np.max(x, axis=1, keepdims=True)
    e = np.exp(x - top)
    total = np.sum(e, axis=1, keepdims=True)
    return np.sum(np.log(total) + top), e / total


def workloads() -> list[Workload]:
    """All of them, with arguments drawn from a fixed seed."""
    rng = np.random.default_rng(0)
    n = 10**6
    options = (rng.uniform(80, 120, n), rng.uniform(80, 120, n), rng.uniform(0.2, 2, n), rng.uniform(0.1, 0.5, n), 0.03)
    labels = np.where(rng.random(10_000) < 0.5, 1.0, -1.0)
    regression = (0.1 * rng.standard_normal(100), rng.standard_normal((10_000, 100)), labels)
    scores = (rng.standard_normal((1000, 1000)),)
    return [
        Workload("two floats", two_floats, two_floats_by_hand, (0.7, 1.3), (0, 1)),
        Workload("rosenbrock 1e3", rosenbrock, rosenbrock_by_hand, (rng.uniform(-2, 2, 1000),)),
        Workload("rosenbrock 1e6", rosenbrock, rosenbrock_by_hand, (rng.uniform(-2, 2, n),)),
        Workload("black-scholes 1e6", black_scholes, black_scholes_by_hand, options, (0, 1, 2, 3)),
        Workload("logistic 10000x100", logistic, logistic_by_hand, regression),
        Workload("logsumexp 1000x1000", log_sum_exp, log_sum_exp_by_hand, scores),
    ]
