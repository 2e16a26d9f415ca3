"""Rosenbrock's function in a million variables, minimised by L-BFGS-B with a compiled gradient."""

import time

import numpy as np
from scipy.optimize import minimize

import symgrad as sg

N = 10**6


@sg.value_and_grad
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def gradient_by_hand(x):
    miss = x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:-1] = -400.0 * x[:-1] * miss - 2.0 * (1.0 - x[:-1])
    gradient[1:] += 200.0 * miss
    return gradient


def main():
    rng = np.random.default_rng(0)
    point = rng.uniform(-2.0, 2.0, N)
    difference = np.max(np.abs(rosenbrock(point)[1] - gradient_by_hand(point)))
    print(f"gradient at a random point: largest difference from the one by hand {difference:.1e}")
    assert difference < 1e-9

    began = time.perf_counter()
    fit = minimize(rosenbrock, rng.uniform(0.8, 1.2, N), jac=True, method="L-BFGS-B", options={"maxcor": 5})
    seconds = time.perf_counter() - began
    distance = np.max(np.abs(fit.x - 1.0))
    print(f"{N} variables: {fit.nit} iterations, {fit.nfev} gradients, {seconds:.1f} s")
    print(f"value {fit.fun:.1e}, largest distance from the minimum at ones {distance:.1e}")
    assert distance < 1e-3, "L-BFGS-B stopped away from the minimum"


if __name__ == "__main__":
    main()
