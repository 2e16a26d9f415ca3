"""What the C program fits: a decaying oscillation, by the sum of squared misses."""

import numpy as np


def misfit(p, t, y):
    curve = p[0] * np.exp(-p[1] * t) * np.cos(p[2] * t + p[3])
    return np.sum((curve - y) ** 2)
