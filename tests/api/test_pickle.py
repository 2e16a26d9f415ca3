"""Compiled functions through pickle: by name, by value with cloudpickle, or a clear error."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import symgrad as sg
from tests.api.truth import same

X = np.array([1.0, 2.0])


@sg.grad
def by_name(x):
    return np.sum(x**3)


class Model:
    def __init__(self, w):
        self.w = w

    @sg.jit
    def at(self, x):
        return self.w * x


def plain(x):
    return np.sum(x**2)


not_its_name = sg.grad(plain)


def test_by_import_name():
    assert pickle.loads(pickle.dumps(by_name)) is by_name


def test_a_transform_of_a_plain_function_goes_by_its_function():
    again = pickle.loads(pickle.dumps(not_its_name))
    same(again(X), 2 * X)
    assert again.__wrapped__ is plain


def test_options_and_settings_are_kept():
    f = sg.value_and_grad(plain_two, argnums=(1,), static_argnames="k")
    again = pickle.loads(pickle.dumps(f))
    same(again(2.0, 3.0, k=2), (np.float64(18.0), (np.float64(12.0),)))


def plain_two(x, y, k=1):
    return x * y**k


def test_transforms_of_transforms():
    again = pickle.loads(pickle.dumps(sg.jit(sg.vmap(sg.grad(plain), in_axes=1))))
    same(again(np.ones((3, 2))), np.full((2, 3), 2.0))


def test_closures_and_lambdas_are_a_clear_error():
    k = 2.0
    for f in (sg.grad(lambda x: x * k), sg.jit(lambda x: x)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            pickle.dumps(f)


def test_closures_and_lambdas_through_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    k = np.array([1.0, 10.0])

    def local(x):
        return np.sum(k * x**2)

    f = pickle.loads(cloudpickle.dumps(sg.grad(local)))
    same(f(X), 2 * k * X)
    g = pickle.loads(cloudpickle.dumps(sg.value_and_grad(lambda x: x**2)))
    same(g(3.0), (np.float64(9.0), np.float64(6.0)))


def test_bound_methods():
    m = Model(3.0)
    at = pickle.loads(pickle.dumps(m.at))
    same(at(X), 3 * X)
    same(pickle.loads(pickle.dumps(m)).at(X), 3 * X)


def test_copies_are_the_function_itself_or_work_like_it():
    f = sg.grad(lambda x: x**2)
    same(copy.copy(f)(3.0), np.float64(6.0))
    same(copy.deepcopy(f)(3.0), np.float64(6.0))
    assert copy.deepcopy({"f": by_name})["f"] is by_name
