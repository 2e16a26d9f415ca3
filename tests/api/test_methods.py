"""Compiled functions in classes: the object is read at each call, whichever object it is."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0])


class Model:
    offset = 0.0

    def __init__(self, w, name="m"):
        self.w = w
        self.name = name
        self.calls = 0

    @sg.jit
    def predict(self, x):
        """Predict."""
        return self.scaled(x) + self.offset

    def scaled(self, x):
        return self.w * x

    @sg.grad
    def slope(self, x, power=2):
        return np.sum(self.predict(x) ** power)

    @sg.jit
    @sg.grad(argnums=1)
    def nested(self, x, y):
        return np.sum(self.w * x * y**2)

    @staticmethod
    @sg.jit
    def double(x):
        return 2 * x

    @classmethod
    @sg.jit
    def shifted(cls, x):
        return x + cls.offset

    @property
    @sg.jit
    def norm(self):
        return np.sqrt(np.sum(self.w**2))

    @sg.jit
    def leaky(self, x):
        self.last = x * 2
        return x


class Sub(Model):
    offset = 100.0

    def scaled(self, x):
        return -super().scaled(x)


def test_attributes_are_read_at_each_call():
    m = Model(2.0)
    same(m.predict(X), 2 * X)
    m.w = 3.0
    same(m.predict(X), 3 * X)
    m.w = np.array([1.0, 10.0])
    same(m.predict(X), [1, 10] * X)
    m.w[0] = 5.0
    same(m.predict(X), [5, 10] * X)


def test_one_program_serves_all_objects():
    class Scale:
        def __init__(self, k):
            self.k = k

        @sg.jit
        def at(self, x):
            return self.k * x

    for k in range(1, 8):
        same(Scale(float(k)).at(X), k * X)
    assert Scale.at.cache_info().misses == 1


def test_gradient_counts_arguments_after_the_object():
    m = Model(3.0)
    same(m.slope(X), 18 * X)
    same(m.slope(X, power=3), 81 * X**2)
    same(m.nested(X, 2.0), np.float64(12 * X.sum()))


def test_inheritance():
    same(Sub(2.0).predict(X), -2 * X + 100)
    same(Model(2.0).predict(X), 2 * X)


def test_class_attributes_are_read_at_each_call():
    m = Model(1.0)
    before = Model.offset
    try:
        same(m.predict(X), X + before)
        Model.offset = 7.0
        same(m.predict(X), X + 7)
        same(Model.shifted(X), X + 7)
        same(Sub.shifted(X), X + 100)
    finally:
        Model.offset = before


def test_static_methods_and_properties():
    same(Model.double(X), 2 * X)
    same(Model(1.0).double(X), 2 * X)
    same(Model(np.array([3.0, 4.0])).norm, np.float64(5.0))


def test_called_through_the_class():
    same(Model.predict(Model(2.0), X), 2 * X)


def test_a_method_replaced_on_the_class_is_noticed():
    class Fresh:
        def inner(self, x):
            return x

        @sg.jit
        def outer(self, x):
            return self.inner(x)

    f = Fresh()
    same(f.outer(X), X)
    Fresh.inner = lambda self, x: 5 * x
    same(f.outer(X), 5 * X)


def test_transforms_of_bound_methods():
    m = Model(2.0)
    g = sg.grad(lambda x: np.sum(m.scaled(x) ** 2))
    h = sg.jit(m.scaled)
    same(g(X), 8 * X)
    same(h(X), 2 * X)
    m.w = 3.0
    same(g(X), 18 * X)
    same(h(X), 3 * X)


def test_bound_methods_can_be_looked_into():
    m = Model(2.0)
    m.predict(X)
    assert m.predict.__name__ == "predict" and m.predict.__doc__ == "Predict."
    assert m.predict.__self__ is m
    assert m.predict.cache_info().misses >= 1
    assert "mul" in m.predict.lower("f64[n]").as_text("graph")


def test_storing_a_traced_value_in_the_object_is_an_error_and_undone():
    m = Model(2.0)
    with pytest.raises(sg.TraceError, match=r"'last'.*return"):
        m.leaky(X)
    assert not hasattr(m, "last")


def test_objects_made_inside_are_plain_python():
    class Total:
        def __init__(self):
            self.sum = 0.0

        def add(self, x):
            self.sum = self.sum + x
            return self

    f = sg.jit(lambda x: Total().add(x).add(x * 2).sum)
    same(f(X), 3 * X)
    same(f(X + 1), 3 * X + 3)


def test_objects_in_lists_attributes_and_dicts():
    class Layer:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return self.w * x

    class Net:
        def __init__(self):
            self.layers = [Layer(2.0), Layer(3.0)]
            self.named = {"a": Layer(1.0)}
            self.act = np.tanh

        @sg.jit
        def run(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.act(self.named["a"](x))

    net = Net()
    same(net.run(X), np.tanh(6 * X))
    net.layers[0].w = 0.5
    same(net.run(X), np.tanh(1.5 * X))
    net.layers[1] = Layer(1.0)
    same(net.run(X), np.tanh(0.5 * X))
    net.layers.append(Layer(2.0))
    same(net.run(X), np.tanh(X))
    net.named["a"] = Layer(3.0)
    same(net.run(X), np.tanh(3 * X))
    net.act = np.sin
    same(net.run(X), np.sin(3 * X))


def test_dataclasses_with_methods():
    @dataclass
    class Config:
        rate: float
        shape: tuple = (2,)

        @sg.jit
        def step(self, x):
            return x - self.rate * np.ones(self.shape)

    c = Config(0.5)
    same(c.step(X), X - 0.5)
    c.rate = 1.5
    same(c.step(X), X - 1.5)


def test_lazy_attributes_set_while_tracing():
    class Lazy:
        built = False

        @sg.jit
        def run(self, x):
            if not self.built:
                self.scale = 4.0
                self.built = True
            return self.scale * x

    lazy = Lazy()
    same(lazy.run(X), 4 * X)
    lazy.scale = 2.0
    same(lazy.run(X), 2 * X)


def test_properties_are_computed_at_each_call():
    class Box:
        def __init__(self):
            self.data = X.copy()

        @property
        def half(self):
            return self.data / 2

        @sg.jit
        def run(self, x):
            return x + self.half

    box = Box()
    same(box.run(X), 1.5 * X)
    box.data *= 2
    same(box.run(X), 2 * X)


def test_partial_methods():
    class Poly:
        def power(self, n, x):
            return x**n

        square = functools.partialmethod(power, 2)

    same(sg.jit(Poly().square)(X), X**2)
