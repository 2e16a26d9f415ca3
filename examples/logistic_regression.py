"""Logistic regression on the Wisconsin breast cancer data: a plain NumPy loss, minimised with its compiled gradient."""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import symgrad as sg

DATA = Path(__file__).parent / "data" / "breast_cancer.csv"
RIDGE = 1e-3


def sample_loss(w, x, y):
    return np.log(1 + np.exp(-y * w * x))


@sg.value_and_grad
def loss(theta, x, y):
    margins = y * (x @ theta)
    return np.mean(np.logaddexp(0.0, -margins)) + 0.5 * RIDGE * np.sum(theta[1:] ** 2)


def load():
    """Return the names, a design matrix (a column of ones, then standardised features) and labels of -1 and +1."""
    names = DATA.read_text().splitlines()[0].split(",")[:-1]
    table = np.loadtxt(DATA, delimiter=",", skiprows=1)
    features = table[:, :-1]
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return names, np.column_stack([np.ones(len(table)), features]), 2.0 * table[:, -1] - 1.0


def newton(x, y, steps=50):
    """Minimise the same loss by Newton's method, with gradient and Hessian written by hand."""
    theta = np.zeros(x.shape[1])
    ridge = RIDGE * np.diag(np.r_[0.0, np.ones(x.shape[1] - 1)])
    for _ in range(steps):
        wrong = 1.0 / (1.0 + np.exp(y * (x @ theta)))
        gradient = -x.T @ (y * wrong) / len(y) + ridge @ theta
        curvature = (x.T * (wrong * (1.0 - wrong))) @ x / len(y) + ridge
        theta = theta - np.linalg.solve(curvature, gradient)
    return theta


def main():
    print("The loss of one sample and its derivative, as compiled:")
    print(sg.grad(sample_loss).formula())

    names, x, y = load()
    fit = minimize(loss, np.zeros(x.shape[1]), args=(x, y), jac=True, method="BFGS", options={"gtol": 1e-9})
    reference = newton(x, y)
    difference = np.max(np.abs(fit.x - reference))
    accuracy = np.mean((x @ fit.x > 0) == (y > 0))

    print(f"\n{len(y)} samples, {len(names)} features: loss {fit.fun:.6f} after {fit.nit} iterations")
    for name, weight in zip(["(intercept)", *names], fit.x, strict=True):
        print(f"  {name:<24}{weight:>9.4f}")
    print(f"training accuracy {accuracy:.1%}; largest difference from Newton's method by hand {difference:.1e}")
    assert difference < 1e-5, "the fit disagrees with Newton's method"
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
