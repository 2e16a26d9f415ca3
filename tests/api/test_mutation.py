"""Python containers and objects in branches and loops that the program decides: right, or refused; never forgotten."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

P = np.array([1.0, 0.9])


def appended(p):
    xs = [p[0]]
    for _ in range(40):
        xs.append(xs[-1] * p[1])
    return np.sum(np.array(xs))


def item_set(p):
    d = {"x": p[0]}
    for _ in range(40):
        d["x"] = d["x"] * p[1]
    return d["x"]


def attribute_set(p):
    box = Box(p[0])
    for _ in range(40):
        box.x = box.x * p[1]
    return box.x


class Box:
    def __init__(self, x):
        self.x = x


def counted(p):
    xs = []
    for _ in range(40):
        xs.append(1.0)
    return p[0] * len(xs)


def rows(p):
    table, xs = np.arange(120.0).reshape(40, 3) * p[1], set()
    total = 0.0
    for k, row in enumerate(table):
        xs.add(k)
        total = total + np.sum(row) * len(xs)
    return total * p[0]


@pytest.mark.parametrize("f", [appended, item_set, attribute_set, counted, rows])
def test_a_loop_that_changes_a_container_is_unrolled(f):
    value, slope = sg.value_and_grad(f)(P)
    assert value == pytest.approx(f(P), rel=1e-13)
    for k in range(2):
        h = np.zeros(2)
        h[k] = 1e-6
        assert slope[k] == pytest.approx((f(P + h) - f(P - h)) / 2e-6, rel=1e-6, abs=1e-8)


def test_a_trip_count_as_an_argument_too():
    def f(p, n):
        xs = [p[0]]
        for _ in range(n):
            xs.append(xs[-1] * p[1])
        return np.sum(np.array(xs))

    g = sg.jit(f)
    for n in (5, 3, 40):
        assert g(P, n) == pytest.approx(f(P, n), rel=1e-13)


def branch_item(p):
    d = {"x": p[0]}
    if p[1] > 0.95:
        d["x"] = p[1]
    return d["x"]


def branch_append(p):
    xs = [p[0]]
    if p[1] > 0.95:
        xs.append(p[1])
    return xs[-1] * 3


def branch_attribute(p):
    box = Box(p[0])
    if p[1] > 0.95:
        box.x = p[1]
    return box.x


def while_append(p):
    xs = [p[0]]
    while xs[-1] > 0.5:
        xs.append(xs[-1] * p[1])
    return np.sum(np.array(xs))


def through_a_helper(p):
    xs = [p[0]]

    def note(x):
        xs.append(x)
        return x

    y = note(p[1]) if p[1] > 0.95 else p[0]
    return y + len(xs)


@pytest.mark.parametrize("f", [branch_item, branch_append, branch_attribute, while_append, through_a_helper])
def test_what_only_the_program_decides_is_refused(f):
    with pytest.raises(sg.TraceError, match=r"is changed in the .*assign a new one"):
        sg.grad(f)(P)


def test_a_container_made_inside_is_free_to_change():
    def f(p):
        total = p[0] * 0.0
        for _ in range(40):
            parts = []
            parts.append(p[0] * 0.5)
            parts.append(p[1])
            if p[1] > 0.5:
                inner = [p[0]]
                inner.append(p[1])
                total = total + inner[1]
            total = total + sum(parts)
        return total

    value, slope = sg.value_and_grad(f)(P)
    assert value == pytest.approx(f(P), rel=1e-13)
    np.testing.assert_allclose(slope, [20.0, 80.0], rtol=1e-13)
