"""NumPy's functions and protocols on tensors, conversion, printing, pickling."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg
import symgrad.numpy as snp

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


@pytest.mark.parametrize(
    "f",
    [
        np.sin,
        np.sum,
        np.mean,
        lambda x: np.std(x, axis=1),
        lambda x: np.max(x, axis=0),
        lambda x: np.stack([x, x * 2.0]),
        lambda x: np.concatenate([x, x], axis=1),
        lambda x: np.maximum(x, 0.5),
        lambda x: np.add.reduce(x),
        lambda x: np.linalg.norm(x, axis=0),
        lambda x: np.einsum("ij,kj->ik", x, x),
        lambda x: x.T @ x,
        lambda x: x.sum(axis=0, keepdims=True) / x.prod(),
        lambda x: x.transpose(1, 0).reshape(2, 3),
        lambda x: X * x + x * X - np.float64(2.0) * x,
        lambda x: 2.0 / x - 1 + (x > 0) * x,
        lambda x: x % 0.3 + x // 0.3 - abs(-x),
        lambda x: x[:, ::-1] ** 2,
        lambda x: np.clip(x, -0.5, 1.0),
        lambda x: snp.exp(x),
        lambda x: x[..., None, 0],
        lambda x: np.cumsum(x, axis=1).argmax(axis=1),
    ],
)
def test_functions_are_numpys(f):
    got = f(sg.tensor(X))
    assert isinstance(got, sg.Tensor)
    want = f(X)
    assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype
    assert_allclose(got.numpy(), want, rtol=1e-13)


def test_array_is_a_view_that_cannot_be_written():
    x = sg.tensor(X)
    shared = np.asarray(x)
    assert_allclose(shared, X)
    with pytest.raises(ValueError, match="read-only"):
        shared[0, 0] = 1.0
    own = x.numpy()
    own[0, 0] = 99.0
    assert x[0, 0].item() == 0.5
    assert np.asarray(x, dtype=np.float32).dtype == np.float32


def test_data_are_copied():
    data = X.copy()
    x = sg.tensor(data)
    data[:] = 0.0
    assert_allclose(x.numpy(), X)


def test_conversions():
    assert float(sg.tensor([2.5])) == 2.5 and int(sg.tensor(3)) == 3 and complex(sg.tensor(1.0)) == 1
    assert bool(sg.tensor(1.0) > 0.5) and [10, 20][sg.tensor(1)] == 20
    assert sg.tensor(X).tolist() == X.tolist() and len(sg.tensor(X)) == 2
    assert [row.sum().item() for row in sg.tensor(X)] == [1.5, 1.0]
    assert 2.0 in sg.tensor(X) and 7.0 not in sg.tensor(X)
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(sg.tensor(X))
    with pytest.raises(ValueError, match="one element"):
        sg.tensor(X).item()
    with pytest.raises(TypeError, match="0-d"):
        len(sg.tensor(1.0))
    with pytest.raises(sg.DTypeError, match="tensors hold numbers"):
        sg.tensor(["a"])


def test_printing():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2.0) == "tensor([2., 4.], grad_fn=<multiplyBackward>)"
    assert repr(sg.tensor([1.0], dtype=np.float32)) == "tensor([1.], dtype=float32)"
    assert f"{sg.tensor(0.5):.3f}" == "0.500"


def test_pickle_and_copy():
    x = sg.tensor(X, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert_allclose(y.numpy(), X)
        assert y.requires_grad and y.is_leaf and y is not x
    with pytest.raises(RuntimeError, match="only leaves"):
        copy.deepcopy(x * 2.0)


def test_dlpack_goes_to_numpy_and_back():
    x = sg.tensor(X)
    assert_allclose(np.from_dlpack(x), X)
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(sg.tensor(X, requires_grad=True))


def test_unsupported_functions_say_so():
    with pytest.raises(sg.UnsupportedError, match=r"np\.fft|np\.ldexp"):
        np.ldexp(sg.tensor(X), 2)
    with pytest.raises(sg.UnsupportedError, match="out="):
        np.sin(sg.tensor(X), out=np.zeros(X.shape))


def test_wrong_shapes_carry_the_users_line():
    with pytest.raises(sg.ShapeError, match=r"(?s)\(2, 3\).*\(4,\).*test_protocols.py"):
        sg.tensor(X) + sg.tensor(np.ones(4))


def test_functions_take_tensors_as_arguments():
    x = sg.tensor(X)
    assert_allclose(sg.grad(lambda a: np.sum(a * a))(x), 2 * X)
    with pytest.raises(sg.TraceError, match="pass it in as an argument"):
        sg.jit(lambda a: a * x)(X)


def test_tensor_from_outside_in_a_compiled_function():
    net = sg.nn.Linear(3, 1)
    other = sg.tensor(np.ones((2, 3)))

    class Leaky(sg.nn.Module):
        def forward(self, x):
            return x * other

    with pytest.raises(sg.TraceError, match="pass it in as an argument"):
        sg.jit(lambda x: sg.func(Leaky())({}, x))(X)
    assert net(other).shape == (2, 1)


def test_random_numbers_are_reproducible():
    import symgrad.compat.torch as torch

    draws = []
    for _ in range(2):
        sg.random.seed(7)
        draws.append((torch.randn(3).numpy(), sg.nn.Linear(2, 2).weight.numpy()))
    assert_allclose(draws[0][0], draws[1][0], rtol=0)
    assert_allclose(draws[0][1], draws[1][1], rtol=0)
    state = sg.random.get_state()
    first = torch.rand(4).numpy()
    sg.random.set_state(state)
    assert_allclose(torch.rand(4).numpy(), first, rtol=0)
