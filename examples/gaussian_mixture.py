"""A Gaussian mixture on the Iris measurements: maximum likelihood by gradients, checked against the EM algorithm.

Each covariance is full. Its inverse is written as L.T @ L, where L is lower triangular with a diagonal of
exponentials, so that every vector of parameters is a valid mixture and no constraint is needed.
"""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import symgrad as sg

DATA = Path(__file__).parent / "data" / "iris.csv"
K, D = 3, 4  # components, measurements
BELOW = np.tril(np.ones((D, D)), -1)


def log_likelihood(logits, means, log_diagonal, lower, x):
    whitened = (x - means[:, None, :]) @ np.swapaxes(lower * BELOW, 1, 2)
    whitened = whitened + (x - means[:, None, :]) * np.exp(log_diagonal)[:, None, :]
    log_density = np.sum(log_diagonal, axis=1)[:, None] - 0.5 * np.sum(whitened**2, axis=2)
    log_weights = logits - logsumexp(logits)
    return np.sum(logsumexp(log_weights[:, None] + log_density, axis=0)) - 0.5 * x.size * np.log(2 * np.pi)


@sg.value_and_grad
def loss(theta, x):
    logits = theta[:K]
    means = theta[K : K + K * D].reshape(K, D)
    log_diagonal = theta[K + K * D : K + 2 * K * D].reshape(K, D)
    lower = theta[K + 2 * K * D :].reshape(K, D, D)
    return -log_likelihood(logits, means, log_diagonal, lower, x) / x.shape[0]


def start(x):
    """Return weights, means and covariances to start from: those of K equal slices across the main axis."""
    main_axis = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][0]
    slices = np.split(x[np.argsort(x @ main_axis)], K)
    means = np.stack([part.mean(axis=0) for part in slices])
    return np.full(K, 1 / K), means, np.stack([np.cov(part.T) for part in slices])


def pack(weights, means, covariances):
    """Return the parameter vector of a mixture."""
    factor = np.stack([np.linalg.inv(np.linalg.cholesky(c)) for c in covariances])
    log_diagonal = np.log(np.diagonal(factor, axis1=1, axis2=2))
    return np.concatenate([np.log(weights), means.ravel(), log_diagonal.ravel(), (factor * BELOW).ravel()])


def expectation_maximisation(weights, means, covariances, x, tolerance=1e-13):
    """Return the log-likelihood that EM converges to, in NumPy alone."""
    previous = -np.inf
    while True:
        joint = np.empty((K, len(x)))
        for k in range(K):
            away = x - means[k]
            distance = np.sum(away * np.linalg.solve(covariances[k], away.T).T, axis=1)
            joint[k] = np.log(weights[k]) - 0.5 * (np.linalg.slogdet(2 * np.pi * covariances[k])[1] + distance)
        top = joint.max(axis=0)
        total = top + np.log(np.exp(joint - top).sum(axis=0))
        if total.sum() - previous < tolerance * abs(total.sum()):
            return total.sum()
        previous = total.sum()
        share = np.exp(joint - total)
        count = share.sum(axis=1)
        weights, means = count / len(x), share @ x / count[:, None]
        covariances = np.stack([(share[k] * (x - means[k]).T) @ (x - means[k]) / count[k] for k in range(K)])


def main():
    x = np.loadtxt(DATA, delimiter=",", skiprows=1, usecols=range(D))
    initial = start(x)
    options = {"gtol": 1e-8, "ftol": 1e-15, "maxiter": 2000, "maxfun": 4000}
    fit = minimize(loss, pack(*initial), args=(x,), jac=True, method="L-BFGS-B", options=options)
    by_gradient = -fit.fun * len(x)
    by_em = expectation_maximisation(*initial, x)

    weights = np.exp(fit.x[:K] - logsumexp(fit.x[:K]))
    print(f"{len(x)} flowers, {K} components: log-likelihood {by_gradient:.8f} after {fit.nit} iterations")
    for weight, mean in zip(weights, fit.x[K : K + K * D].reshape(K, D), strict=True):
        print(f"  weight {weight:.3f}  mean {np.array2string(mean, precision=3)}")
    print(f"EM from the same start: {by_em:.8f}")
    assert abs(by_gradient - by_em) < 1e-6, "gradients and EM found different optima"


if __name__ == "__main__":
    main()
