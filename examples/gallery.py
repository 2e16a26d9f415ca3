"""Functions that people know, with their gradients as formulas: printed, and each proved or compared at fifty digits.

``python examples/gallery.py --write`` puts them into ``docs/gallery.md``.
"""

import inspect
import sys
from pathlib import Path

import numpy as np
from scipy.special import erf

import symgrad as sg

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"
VECTOR = {"x": "f64[n]"}


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x, y):
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def least_squares(w, X, y):
    r = X @ w - y
    return r @ r


def ridge(w, X, y, alpha):
    r = X @ w - y
    return r @ r + alpha * (w @ w)


def quadratic_form(x, A):
    return x @ A @ x


def logistic_loss(w, b, x, y):
    return np.log(1 + np.exp(-y * (w * x + b)))


def softmax_cross_entropy(a, b, c):
    return np.log(np.exp(a) + np.exp(b) + np.exp(c)) - a


def poisson_log_likelihood(x, y):
    return np.sum(y * x - np.exp(x))


def entropy(x):
    return -np.sum(x * np.log(x))


def euclidean_norm(x):
    return np.sqrt(np.sum(x * x))


def cosine_similarity(x, y):
    return np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y))


def huber(r, delta):
    if abs(r) < delta:
        return 0.5 * r**2
    return delta * (abs(r) - 0.5 * delta)


def neuron(w, b, x, y):
    return (np.tanh(w * x + b) - y) ** 2


def normal_log_likelihood(x, mean, scale):
    return np.sum(-0.5 * ((x - mean) / scale) ** 2 - np.log(scale))


def student_log_likelihood(x, nu):
    return np.sum(-0.5 * (nu + 1) * np.log(1 + x**2 / nu))


def mixture_of_two(x, p, a, b):
    return np.log(p * np.exp(-0.5 * (x - a) ** 2) + (1 - p) * np.exp(-0.5 * (x - b) ** 2))


def black_scholes(spot, strike, rate, volatility, maturity):
    root = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / root
    cdf1, cdf2 = 0.5 * (1 + erf(d1 / np.sqrt(2))), 0.5 * (1 + erf((d1 - root) / np.sqrt(2)))
    return spot * cdf1 - strike * np.exp(-rate * maturity) * cdf2


def lennard_jones(r, depth, size):
    s6 = (size / r) ** 6
    return 4 * depth * (s6**2 - s6)


def michaelis_menten(s, vmax, km):
    return vmax * s / (km + s)


def square_root(a):
    root = 1.0
    for _ in range(20):
        root = 0.5 * (root + a / root)
    return root


def pendulum(angle, speed):
    for _ in range(100):
        speed = speed - 0.01 * np.sin(angle)
        angle = angle + 0.01 * speed
    return angle


# Function, arguments to differentiate in, types of those that are not numbers.
GALLERY = [
    (rosenbrock, "x", VECTOR),
    (himmelblau, "x y", {}),
    (least_squares, "w", {"w": "f64[d]", "X": "f64[n,d]", "y": "f64[n]"}),
    (ridge, "w", {"w": "f64[d]", "X": "f64[n,d]", "y": "f64[n]"}),
    (quadratic_form, "x", {"x": "f64[n]", "A": "f64[n,n]"}),
    (logistic_loss, "w b", {}),
    (softmax_cross_entropy, "a b c", {}),
    (poisson_log_likelihood, "x", {"x": "f64[n]", "y": "f64[n]"}),
    (entropy, "x", VECTOR),
    (euclidean_norm, "x", VECTOR),
    (cosine_similarity, "x", {"x": "f64[n]", "y": "f64[n]"}),
    (huber, "r", {}),
    (neuron, "w b", {}),
    (normal_log_likelihood, "mean scale", VECTOR),
    (student_log_likelihood, "x nu", VECTOR),
    (mixture_of_two, "p a b", {}),
    (black_scholes, "spot volatility", {}),
    (lennard_jones, "r", {}),
    (michaelis_menten, "s vmax km", {}),
    (square_root, "a", {}),
    (pendulum, "angle speed", {}),
]


def gradient_formula(function, wrt, types):
    """The formula of the value and of the gradient in the arguments named."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return sg.grad(function, argnums=tuple(names.index(n) for n in wrt.split())).formula(**types)


def page():
    """The text of the page."""
    parts = [
        "# Gallery",
        "",
        "Made by `python examples/gallery.py --write`: each gradient is read off the compiled program,",
    ]
    parts += ["and verified.", ""]
    for function, wrt, types in GALLERY:
        formula = gradient_formula(function, wrt, types)
        assert formula.verify(), function.__name__
        title = function.__name__.replace("_", " ")
        parts += [f"## {title.capitalize()}", "", "```python", inspect.getsource(function).rstrip(), "```", ""]
        parts += ["```", str(formula), "```", ""]
    return "\n".join(parts)


def main():
    text = page()
    if "--write" in sys.argv:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
