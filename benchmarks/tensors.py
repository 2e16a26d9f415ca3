"""A training step through ``symgrad.compat.torch`` against the same step on PyTorch itself, in one process.

Prints the time of a step of each, in processor time, and the median ratio PyTorch / symgrad over alternating rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch as theirs

import symgrad.compat.torch as ours

NETWORKS = {"2-3-2, batch 1": (1, 2, 3, 2), "64-128-64, batch 32": (32, 64, 128, 64)}


def training_step(T, batch, features, hidden, outputs):
    """One step of gradient descent on a two-layer network of sigmoids, in the namespace ``T``."""
    rng = np.random.default_rng(0)
    first, second, activation = T.nn.Linear(features, hidden), T.nn.Linear(hidden, outputs), T.nn.Sigmoid()
    criterion = T.nn.MSELoss()
    optimizer = T.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    inputs = T.tensor(rng.random((batch, features)), dtype=T.float32)
    labels = T.tensor(rng.random((batch, outputs)), dtype=T.float32)

    def step():
        optimizer.zero_grad()
        loss = criterion(activation(second(activation(first(inputs)))), labels)
        loss.backward()
        optimizer.step()

    return step


def recording(T):
    """A chain of 300 products with a number, and its value."""
    x = T.ones(3, requires_grad=True)

    def chain():
        y = x
        for _ in range(300):
            y = y * 1.01
        y.sum().item()

    return chain


def seconds(step, repeats):
    start = time.process_time()
    for _ in range(repeats):
        step()
    return (time.process_time() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    theirs.set_num_threads(1)
    cases = {name: [training_step(T, *sizes) for T in (ours, theirs)] for name, sizes in NETWORKS.items()}
    cases["300 products"] = [recording(T) for T in (ours, theirs)]
    print(f"{'':22}{'symgrad':>12}{'PyTorch':>12}{'ratio':>8}")
    for name, (a, b) in cases.items():
        for step in (a, b):
            seconds(step, 20)
        rounds = [(seconds(a, options.repeats), seconds(b, options.repeats)) for _ in range(options.rounds)]
        ratio = statistics.median(t / s for s, t in rounds)
        mine, other = (min(r[k] for r in rounds) for k in (0, 1))
        print(f"{name:22}{mine * 1e6:9.0f} µs{other * 1e6:9.0f} µs{ratio:8.2f}")


if __name__ == "__main__":
    main()
