"""The workloads: plain NumPy functions as a user writes them, with their inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf, logsumexp


@dataclass(frozen=True)
class Workload:
    """A function of ``args`` whose value and gradient in ``argnums`` is timed.

    ``by_hand`` names the same in ``byhand.c`` or, where that is matrix products, in ``byhand.py``. With ``rows`` it is
    the Jacobian of each row that is timed, without the value. A ``long_loop`` is one of Python's, of a thousand steps.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    argnums: int | tuple[int, ...] = 0
    by_hand: str = ""
    rows: bool = False
    long_loop: bool = False


def two_floats(x, y):
    return np.sin(x) * y + np.exp(x * y)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def black_scholes(spot, strike, maturity, volatility, rate):
    spread = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / spread
    d2 = d1 - spread
    cdf1, cdf2 = 0.5 * (1.0 + erf(d1 * np.sqrt(0.5))), 0.5 * (1.0 + erf(d2 * np.sqrt(0.5)))
    return np.sum(spot * cdf1 - strike * np.exp(-rate * maturity) * cdf2)


def logistic(w, x, y):
    return np.mean(np.logaddexp(0.0, -y * (x @ w)))


def network(w1, b1, w2, b2, w3, b3, x, right):
    h = np.tanh(x @ w1 + b1)
    h = np.tanh(h @ w2 + b2)
    scores = h @ w3 + b3
    return -np.mean(np.sum(right * (scores - logsumexp(scores, axis=1, keepdims=True)), axis=1))


def mixture(weights, means, factors, logs, x):
    """Log-likelihood of Gaussians with full covariances: lower triangles of ``factors``, logs of their diagonals."""
    d = means.shape[1]
    low = np.tril(factors, -1)
    low = low + np.eye(d) * np.exp(logs)[:, None]
    z = (x - means[:, None]) @ np.swapaxes(low, 1, 2)
    inner = (weights + np.sum(logs, axis=1))[:, None] - 0.5 * np.sum(z * z, axis=2)
    return np.sum(logsumexp(inner, axis=0)) - len(x) * logsumexp(weights)


def recurrent(w, u, b, readout, xs):
    """A layer of LSTM cells along a sequence, and the square of what it reads out."""
    n = u.shape[0]
    h, c, total = np.zeros(n), np.zeros(n), 0.0
    for x in xs:
        gates = w @ x + u.T @ h + b
        i, f, o, g = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
        c = c / (1.0 + np.exp(-f)) + np.tanh(g) / (1.0 + np.exp(-i))
        h = np.tanh(c) / (1.0 + np.exp(-o))
        total = total + (readout @ h) ** 2
    return total


def reprojection(camera, point):
    """Where a camera (rotation vector, centre, focal length, principal point, two distortions) sees a point."""
    r, x = camera[:3], point - camera[3:6]
    angle = np.sqrt(np.sum(r * r))
    axis = r / angle
    cos, sin = np.cos(angle), np.sin(angle)
    x = x * cos + np.cross(axis, x) * sin + axis * (np.sum(axis * x) * (1.0 - cos))
    p = x[:2] / x[2]
    square = np.sum(p * p)
    return camera[6] * p * (1.0 + camera[9] * square + camera[10] * square**2) + camera[7:9]


def lennard_jones(x):
    d = x[:, None] - x[None]
    square = np.sum(d * d, axis=2) + np.eye(len(x))
    inverse = 1.0 / square**3
    pairs = 4.0 * (inverse**2 - inverse) * (1.0 - np.eye(len(x)))
    return 0.5 * np.sum(pairs)


def pendulum(angle, speed, damping):
    """A damped pendulum after a thousand steps of Runge and Kutta's fourth-order method."""
    step = 0.01
    for _ in range(1000):
        a1, s1 = speed, -np.sin(angle) - damping * speed
        a2, s2 = speed + 0.5 * step * s1, -np.sin(angle + 0.5 * step * a1) - damping * (speed + 0.5 * step * s1)
        a3, s3 = speed + 0.5 * step * s2, -np.sin(angle + 0.5 * step * a2) - damping * (speed + 0.5 * step * s2)
        a4, s4 = speed + step * s3, -np.sin(angle + step * a3) - damping * (speed + step * s3)
        angle = angle + step / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        speed = speed + step / 6 * (s1 + 2 * s2 + 2 * s3 + s4)
    return angle * angle + speed * speed


def kepler(mean, eccentricity):
    """The eccentric anomaly, by Newton's method until it stands still."""
    e = mean
    while True:
        step = (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        e = e - step
        if abs(step) < 1e-13:
            break
    return e


def log_sum_exp(x):
    return np.sum(logsumexp(x, axis=1))


LINKS = [(0.1, 1.2, 0.3), (0.05, -1.1, 0.2), (0.2, 0.9, 0.1), (-0.1, -1.4, 0.25), (0.15, 1.3, 0.05), (0.0, -0.8, 0.3)]


def reach(q):
    """The squared distance of a robot's hand from a place, by one Denavit-Hartenberg transform for each joint."""
    x, y, z, p = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
    for k, (length, twist, offset) in enumerate(LINKS):
        c, s, ct, st = np.cos(q[k]), np.sin(q[k]), np.cos(twist), np.sin(twist)
        u = [c * a + s * b for a, b in zip(x, y, strict=True)]
        w = [c * b - s * a for a, b in zip(x, y, strict=True)]
        p = [a + length * b + offset * d for a, b, d in zip(p, u, z, strict=True)]
        x, y, z = (
            u,
            [ct * a + st * b for a, b in zip(w, z, strict=True)],
            [ct * b - st * a for a, b in zip(w, z, strict=True)],
        )
    return (p[0] - 0.3) ** 2 + (p[1] + 0.2) ** 2 + (p[2] - 0.5) ** 2


def workloads() -> list[Workload]:
    """All of them, with the same inputs in every run."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape)

    n = 1_000_000
    market = (rng.uniform(80, 120, n), rng.uniform(80, 120, n), rng.uniform(0.1, 2, n), rng.uniform(0.1, 0.5, n), 0.02)
    examples = normal(10_000, 100)
    signs = np.sign(examples @ normal(100) + normal(10_000))
    sizes = (784, 256, 128, 10)
    layers = [
        a.astype(np.float32) for m, k in itertools.pairwise(sizes) for a in (normal(m, k) / np.sqrt(m), np.zeros(k))
    ]
    images = normal(64, 784).astype(np.float32)
    digits = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)]
    lattice = np.stack(np.meshgrid(*[np.arange(8.0)] * 3), axis=-1).reshape(-1, 3)[:500] * 1.2
    cameras = np.concatenate(
        [
            normal(1000, 3) * 0.1,
            normal(1000, 3),
            500 + 10 * normal(1000, 1),
            10 * normal(1000, 2),
            1e-2 * normal(1000, 2),
        ],
        axis=1,
    )
    points = normal(1000, 3) + np.array([0.0, 0.0, 20.0])
    return [
        Workload("two floats", two_floats, (0.7, 1.3), (0, 1), "two_floats"),
        *(
            Workload(f"rosenbrock {size:.0e}".replace("e+0", "e"), rosenbrock, (normal(int(size)),), 0, "rosenbrock")
            for size in (2, 1e3, 1e5, 1e6, 1e7)
        ),
        Workload("black-scholes 1e6", black_scholes, market, (0, 1, 2, 3), "black_scholes"),
        Workload("logistic 10000x100", logistic, (0.1 * normal(100), examples, signs), 0, "logistic"),
        Workload("network 784-256-128-10", network, (*layers, images, digits), tuple(range(6)), "network"),
        *(
            Workload(
                f"mixture d={d} k={k}",
                mixture,
                (normal(k), normal(k, d), 0.3 * normal(k, d, d), 0.1 * normal(k, d), normal(1000, d)),
                (0, 1, 2, 3),
                "mixture",
            )
            for d, k in ((10, 25), (64, 50))
        ),
        Workload(
            "lstm 1000 steps",
            recurrent,
            (0.3 * normal(56, 14), 0.3 * normal(14, 56), normal(56), normal(14), normal(1000, 14)),
            (0, 1, 2, 3),
            long_loop=True,
        ),
        Workload("cameras 1000", reprojection, (cameras, points), (0, 1), rows=True),
        Workload("lennard-jones 500", lennard_jones, (lattice + 0.05 * normal(500, 3),), 0, "lennard_jones"),
        Workload("pendulum 1000 steps", pendulum, (1.0, 0.5, 0.1), (0, 1, 2), "pendulum", long_loop=True),
        Workload("kepler", kepler, (1.1, 0.4), (0, 1), "kepler"),
        Workload("log-sum-exp 1000x1000", log_sum_exp, (normal(1000, 1000),), 0, "log_sum_exp"),
        Workload("robot arm", reach, (normal(6),), 0, "reach"),
    ]
