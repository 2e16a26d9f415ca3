"""NumPy programs from science and engineering, as their users would write them, with arguments at random.

Each takes one array or a few and returns a float; none was written for symgrad.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[np.random.Generator], Arguments]]] = {}


def program(make: Callable[[np.random.Generator], Arguments]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a program with the maker of its arguments."""

    def enter(fun: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fun.__name__] = fun, make
        return fun

    return enter


# --- regression and classification -----------------------------------------------------------------------------------


@program(lambda r: (r.normal(size=(4, 3)), r.normal(size=(6, 4)), np.array([0, 2, 1, 1, 0, 2])))
def softmax_regression(w, x, labels):
    logits = x @ w
    logits = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -np.mean(log_probabilities[np.arange(len(labels)), labels])


@program(lambda r: (r.normal(size=3), r.normal(size=(7, 3)), (r.random(7) > 0.5).astype(float)))
def logistic_regression(w, x, y):
    p = 1 / (1 + np.exp(-x @ w))
    return -np.sum(y * np.log(p) + (1 - y) * np.log(1 - p)) + 0.1 * w @ w


@program(lambda r: (r.normal(size=3), r.normal(size=(7, 3)), r.normal(size=7)))
def ridge(w, x, y):
    residual = y - x.dot(w)
    return 0.5 * residual.dot(residual) + 0.3 * np.linalg.norm(w) ** 2


@program(lambda r: (r.normal(size=3), r.normal(size=(7, 3)), r.normal(size=7)))
def huber(w, x, y):
    r = np.abs(y - x @ w)
    return np.where(r < 1.0, 0.5 * r**2, r - 0.5).mean()


@program(lambda r: (r.normal(size=2), r.normal(size=(9, 2)), r.normal(size=9)))
def quantile_loss(w, x, y):
    error = y - x @ w
    return np.mean(np.maximum(0.9 * error, -0.1 * error))


@program(lambda r: (r.normal(size=3), r.normal(size=(8, 3)), np.sign(r.normal(size=8))))
def hinge(w, x, y):
    return np.sum(np.maximum(0.0, 1 - y * (x @ w)) ** 2) + np.sum(np.abs(w))


@program(lambda r: (r.normal(size=2), r.normal(size=(6, 2)), r.poisson(2.0, size=6)))
def poisson_regression(beta, x, counts):
    eta = x @ beta
    return np.sum(np.exp(eta) - counts * eta)


@program(lambda r: (r.normal(size=(5, 3)), r.normal(size=(3, 2)), r.normal(size=(4, 5)), r.normal(size=(4, 2))))
def two_layer_network(w1, w2, x, y):
    hidden = np.maximum(x @ w1, 0.01 * (x @ w1))
    return ((hidden @ w2 - y) ** 2).sum() / y.size


@program(lambda r: (r.normal(size=4), r.normal(size=(3, 4)), r.normal(size=(3, 4))))
def layer_normalisation(gain, x, target):
    mean = x.mean(axis=-1, keepdims=True)
    std = x.std(axis=-1, keepdims=True)
    return np.sum((gain * (x - mean) / (std + 1e-5) - target) ** 2)


@program(lambda r: tuple(r.normal(size=(4, 3)) for _ in range(3)))
def attention(q, k, v):
    scores = q @ k.T / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.sum((weights @ v) ** 2)


@program(lambda r: (r.normal(size=(5, 3)), np.array([0, 1, 0, 1, 1])))
def contrastive(z, group):
    z = z / np.linalg.norm(z, axis=1)[:, None]
    similarity = z @ z.T
    same = group[:, None] == group[None, :]
    return np.sum(np.where(same, 1 - similarity, np.maximum(similarity - 0.2, 0)))


@program(lambda r: (r.normal(size=(4, 2)), r.normal(size=(6, 2))))
def kmeans_distortion(centres, points):
    d = ((points[:, np.newaxis, :] - centres[np.newaxis]) ** 2).sum(-1)
    return d.min(axis=1).sum()


# --- matrices --------------------------------------------------------------------------------------------------------


@program(lambda r: (r.normal(size=(5, 2)), r.normal(size=(4, 2)), r.normal(size=(5, 4)), r.random((5, 4)) > 0.3))
def matrix_factorisation(u, v, ratings, seen):
    error = (u @ v.T - ratings) * seen
    return np.sum(error**2) + 0.1 * (np.sum(u**2) + np.sum(v**2))


@program(lambda r: (r.normal(size=(4, 4)), r.normal(size=4)))
def rayleigh_quotient(a, x):
    s = (a + a.T) / 2
    return x @ s @ x / (x @ x)


@program(lambda r: (r.normal(size=(3, 3)),))
def determinant_by_hand(a):
    return (
        a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
        - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
        + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
    )


@program(lambda r: (r.normal(size=(3, 3)) / 4,))
def matrix_exponential_series(a):
    term, total = np.eye(3), np.eye(3)
    for k in range(1, 9):
        term = term @ a / k
        total = total + term
    return np.trace(total)


@program(lambda r: (r.normal(size=(4, 4)) + 4 * np.eye(4), r.normal(size=4)))
def jacobi_iterations(a, b):
    d = np.diag(a)
    off = a - np.diag(d)
    x = np.zeros_like(b)
    for _ in range(6):
        x = (b - off @ x) / d
    return np.sum(x**2)


@program(lambda r: (r.normal(size=(4, 4)) + 5 * np.eye(4),))
def cholesky_by_hand(m):
    a = m @ m.T
    n = 4
    l = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - np.sum(l[i, :j] * l[j, :j])
            l[i, j] = np.sqrt(s) if i == j else s / l[j, j]
    return 2 * np.sum(np.log(np.diag(l)))


@program(lambda r: (r.normal(size=(3, 4)), r.normal(size=(4, 2)), r.normal(size=(2, 3))))
def einsum_chain(a, b, c):
    return np.einsum("ij,jk,ki->", a, b, c) + np.einsum("ij,jk->ik", a, b).ravel()[3]


@program(lambda r: (r.normal(size=(6, 3)),))
def covariance_trace(x):
    centred = x - np.mean(x, axis=0)
    c = centred.T @ centred / (len(x) - 1)
    return np.trace(c @ c)


@program(lambda r: (r.normal(size=(6, 4)),))
def correlation(x):
    z = (x - x.mean(0)) / x.std(0)
    return np.sum(np.triu(z.T @ z / x.shape[0], 1) ** 3)


# --- densities and statistics ----------------------------------------------------------------------------------------


@program(lambda r: (r.normal(size=3), r.random(3) + 0.5, r.normal(size=(5, 3))))
def gaussian_log_density(mean, scale, x):
    z = (x - mean) / scale
    return np.sum(-0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi))


@program(lambda r: (r.normal(size=3), r.normal(size=3), r.normal(size=3), r.normal(size=8)))
def mixture_log_likelihood(logits, means, log_scales, x):
    weights = logits - np.log(np.exp(logits).sum())
    z = (x[:, None] - means) / np.exp(log_scales)
    parts = weights - 0.5 * z**2 - log_scales
    top = parts.max(axis=1)
    return np.sum(top + np.log(np.sum(np.exp(parts - top[:, None]), axis=1)))


@program(lambda r: (r.random() + 2, r.random() + 1, r.random(6)))
def gamma_density_by_stirling(shape, rate, x):
    log_gamma = (shape - 0.5) * math.log(shape) - shape + 0.5 * math.log(2 * math.pi) + 1 / (12 * shape)
    return np.sum(shape * np.log(rate) - log_gamma + (shape - 1) * np.log(x) - rate * x)


@program(lambda r: (r.normal(size=4), r.normal(size=4)))
def kullback_leibler(a, b):
    p, q = np.exp(a) / np.exp(a).sum(), np.exp(b) / np.exp(b).sum()
    return np.sum(p * (np.log(p) - np.log(q)))


@program(lambda r: (r.normal(size=7), r.normal(size=7)))
def student_t(x, y):
    return -2.5 * np.log1p((x - y) ** 2 / 4).sum()


@program(lambda r: (r.normal(size=8),))
def skew_and_kurtosis(x):
    d = x - x.mean()
    v = np.mean(d**2)
    return np.mean(d**3) / v**1.5 + np.mean(d**4) / v**2


@program(lambda r: (r.random(6) + 0.1,))
def entropy(weights):
    p = weights / weights.sum()
    return -(p * np.log2(p)).sum()


@program(lambda r: (r.normal(size=9),))
def trimmed_mean(x):
    return np.sort(x)[2:-2].mean() + np.median(x)


@program(lambda r: (r.normal(size=6), r.normal(size=6)))
def rank_loss(scores, relevance):
    order = np.argsort(-relevance)
    s = scores[order]
    return np.sum(np.log(np.cumsum(np.exp(s[::-1]))) - s[::-1])


@program(lambda r: (r.normal(size=5), r.normal(size=5)))
def wasserstein_in_one_dimension(a, b):
    return np.abs(np.sort(a) - np.sort(b)).mean()


@program(lambda r: (r.normal(size=7), r.random() + 0.5))
def kernel_density(x, h):
    u = (x[:, None] - x[None, :]) / h
    return np.log(np.exp(-0.5 * u * u).mean(axis=1)).sum()


# --- dynamics --------------------------------------------------------------------------------------------------------


def _lorenz(s, p):
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


@program(lambda r: (r.normal(size=3), np.array([10.0, 28.0, 8 / 3])))
def lorenz_by_runge_kutta(s, p):
    h = 0.01
    for _ in range(5):
        k1 = _lorenz(s, p)
        k2 = _lorenz(s + h / 2 * k1, p)
        k3 = _lorenz(s + h / 2 * k2, p)
        k4 = _lorenz(s + h * k3, p)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(s**2)


@program(lambda r: (np.array([1.0, 0.3]), r.random() + 0.5))
def pendulum_leapfrog(state, length):
    q, v = state
    for _ in range(10):
        v = v - 0.05 * 9.81 / length * np.sin(q)
        q = q + 0.1 * v
    return q**2 + v * q


@program(lambda r: (r.normal(size=2), r.normal(size=(2, 2)) / 2, r.normal(size=(4, 2)), r.random(2) + 0.1))
def kalman_filter_diagonal(x, a, observations, noise):
    p, likelihood = np.eye(2), 0.0
    for z in observations:
        x, p = a @ x, a @ p @ a.T + 0.1 * np.eye(2)
        s = np.diag(p) + noise
        innovation = z - x
        likelihood = likelihood - 0.5 * np.sum(innovation**2 / s + np.log(s))
        gain = p / s
        x = x + gain @ innovation
        p = p - gain * s @ gain.T
    return likelihood


@program(lambda r: (r.normal(size=(4, 2)), r.random(4) + 0.5))
def n_body_energy(positions, masses):
    i, j = np.triu_indices(4, 1)
    d = positions[i] - positions[j]
    return -np.sum(masses[i] * masses[j] / np.sqrt(np.sum(d * d, axis=1) + 0.01))


@program(lambda r: (r.normal(size=(5, 3)) * 2,))
def lennard_jones(x):
    d2 = ((x[:, None] - x) ** 2).sum(-1) + np.eye(len(x))
    inverse6 = 1 / (d2 + 0.5) ** 3
    return np.sum(np.triu(inverse6**2 - inverse6, 1))


@program(lambda r: (r.normal(size=12),))
def heat_equation(u):
    for _ in range(4):
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return np.sum(u**4)


@program(lambda r: (r.normal(size=10), r.random(10) + 1))
def wave_with_fixed_ends(u, speed):
    old = u.copy()
    for _ in range(3):
        new = np.zeros_like(u)
        new[1:-1] = 2 * u[1:-1] - old[1:-1] + 0.1 * speed[1:-1] ** 2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        old, u = u, new
    return np.sum(u**2)


@program(lambda r: (r.normal(size=8),))
def burgers_upwind(u):
    for _ in range(3):
        left, right = np.roll(u, 1), np.roll(u, -1)
        u = u - 0.1 * (np.maximum(u, 0) * (u - left) + np.minimum(u, 0) * (right - u))
    return u @ u


@program(lambda r: (r.random() + 0.2, r.random() + 0.2, np.array([0.9, 0.1, 0.0])))
def epidemic(beta, gamma, state):
    s, i, recovered = state
    total = 0.0
    for _ in range(8):
        new, healed = beta * s * i, gamma * i
        s, i, recovered = s - new, i + new - healed, recovered + healed
        total = total + i
    return total + recovered


@program(lambda r: (r.normal(size=(3, 3)), r.normal(size=3), r.normal(size=(5, 3))))
def recurrent_network(w, b, inputs):
    h = np.zeros(3)
    for x in inputs:
        h = np.tanh(w @ h + x + b)
    return h.sum()


@program(lambda r: (r.random(3) / 3, r.normal(size=10)))
def autoregression(a, x):
    predicted = a[0] * x[2:-1] + a[1] * x[1:-2] + a[2] * x[:-3]
    return np.mean((x[3:] - predicted) ** 2)


@program(lambda r: (np.array([0.1, 0.2, 0.6]), r.normal(size=7)))
def garch(p, returns):
    variance, total = 1.0, 0.0
    for k in range(7):
        total = total + np.log(variance) + returns[k] ** 2 / variance
        variance = p[0] + p[1] * returns[k] ** 2 + p[2] * variance
    return total


# --- signals and images ----------------------------------------------------------------------------------------------


@program(lambda r: (r.normal(size=3), r.normal(size=10)))
def convolution_by_slices(kernel, x):
    n = len(x) - len(kernel) + 1
    return np.sum(sum(kernel[k] * x[k : k + n] for k in range(3)) ** 2)


@program(lambda r: (r.normal(size=(2, 2)), r.normal(size=(5, 5))))
def image_convolution(kernel, image):
    out = np.zeros((4, 4))
    for i in range(2):
        for j in range(2):
            out += kernel[i, j] * image[i : i + 4, j : j + 4]
    return np.tanh(out).sum()


@program(lambda r: (r.normal(size=(5, 4)),))
def total_variation(image):
    dx, dy = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1]
    return np.sum(np.sqrt(dx**2 + dy**2 + 1e-3))


@program(lambda r: (r.normal(size=(6, 6)),))
def average_pooling(image):
    return np.sum(image.reshape(3, 2, 3, 2).mean(axis=(1, 3)) ** 3)


@program(lambda r: (r.normal(size=(4, 6)),))
def max_pooling(image):
    return image.reshape(2, 2, 3, 2).max(axis=(1, 3)).sum()


@program(lambda r: (r.normal(size=8),))
def fourier_power(x):
    n = np.arange(8)
    angle = 2 * np.pi * np.outer(n, n) / 8
    real, imaginary = np.cos(angle) @ x, np.sin(angle) @ x
    return np.log1p(real**2 + imaginary**2).sum()


@program(lambda r: (r.normal(size=6),))
def haar_wavelet(x):
    even, odd = x[::2], x[1::2]
    return np.sum(np.abs(np.concatenate([(even + odd) / 2, (even - odd) / 2])) ** 1.5)


@program(lambda r: (r.normal(size=(3, 4)),))
def bilinear_sample(image):
    y, x = 1.3, 1.6
    i, j = int(y), int(x)
    fy, fx = y - i, x - j
    top = image[i, j] * (1 - fx) + image[i, j + 1] * fx
    bottom = image[i + 1, j] * (1 - fx) + image[i + 1, j + 1] * fx
    return (top * (1 - fy) + bottom * fy) ** 2


# --- fits and curves -------------------------------------------------------------------------------------------------


@program(lambda r: (r.normal(size=4), r.normal(size=7), r.normal(size=7)))
def polynomial_fit(c, x, y):
    return np.sum((c[0] + x * (c[1] + x * (c[2] + x * c[3])) - y) ** 2)


@program(lambda r: (r.normal(size=4), r.normal(size=7), r.normal(size=7)))
def vandermonde_fit(c, x, y):
    return np.mean((x[:, None] ** np.arange(4) @ c - y) ** 2)


@program(lambda r: (np.array([1.0, 2.0, 0.5]), np.linspace(0, 1, 6), r.random(6)))
def exponential_decay_fit(p, t, y):
    amplitude, rate, offset = p
    return np.sum((amplitude * np.exp(-rate * t) + offset - y) ** 2)


@program(lambda r: (r.normal(size=5),))
def chebyshev_recurrence(c):
    x = np.linspace(-1, 1, 9)
    t0, t1 = np.ones_like(x), x
    total = c[0] * t0 + c[1] * t1
    for k in range(2, 5):
        t0, t1 = t1, 2 * x * t1 - t0
        total = total + c[k] * t1
    return np.sum(total**2)


@program(lambda r: (r.normal(size=(4, 2)),))
def bezier_length(p):
    t = np.linspace(0, 1, 12)[:, None]
    curve = (1 - t) ** 3 * p[0] + 3 * (1 - t) ** 2 * t * p[1] + 3 * (1 - t) * t**2 * p[2] + t**3 * p[3]
    return np.sum(np.hypot(*np.diff(curve, axis=0).T))


@program(lambda r: (r.normal(size=6),))
def trapezoidal_rule(y):
    x = np.array([0.0, 0.5, 0.7, 1.2, 2.0, 2.1])
    return np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)) ** 2


@program(lambda r: (r.random(3) + 1,))
def newton_square_roots(a):
    x = a
    for _ in range(5):
        x = 0.5 * (x + a / x)
    return np.sum(x)


@program(lambda r: (r.normal(size=5),))
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


@program(lambda r: (r.normal(size=4),))
def rastrigin_and_ackley(x):
    rastrigin = 10 * len(x) + np.sum(x**2 - 10 * np.cos(2 * np.pi * x))
    ackley = -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + math.e
    return rastrigin + ackley


@program(lambda r: (r.random(4) + 0.5, r.random(4) + 0.5))
def black_scholes_by_tanh(spot, vol):
    d1 = (np.log(spot / 1.0) + (0.05 + 0.5 * vol**2)) / vol
    d2 = d1 - vol

    def normal(z):
        return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))

    return np.sum(spot * normal(d1) - np.exp(-0.05) * normal(d2))


@program(lambda r: (r.normal(size=6),))
def pairwise_distances(x):
    points = x.reshape(3, 2)
    return sum(np.linalg.norm(points[i] - points[j]) for i in range(3) for j in range(i))


@program(lambda r: (r.normal(size=3),))
def rotation(angles):
    a, b, c = angles
    rx = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    ry = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    rz = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return (rx @ ry @ rz @ np.array([1.0, 2.0, 3.0]))[0]


@program(lambda r: (r.normal(size=4),))
def quaternion_norm(q):
    w, x, y, z = q / np.sqrt(q @ q)
    v = np.array([0.1, -0.4, 0.7])
    u = np.array([x, y, z])
    return np.sum(v + 2 * np.cross(u, np.cross(u, v) + w * v))


@program(lambda r: (r.normal(size=3), r.normal(size=3)))
def masked_statistics(x, y):
    keep = np.array([True, False, True])
    out = np.where(keep, x, y).copy()
    out[~keep] *= 3
    out[keep] += y[keep] ** 2
    return np.sum(out * np.arange(3))
