"""backward and grad: against derivatives by hand and exact differences of polynomials."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import symgrad as sg


def leaf(data, dtype=np.float64):
    return sg.tensor(data, dtype=dtype, requires_grad=True)


def test_gradient_of_a_product_and_a_sum():
    x, y = leaf([1.0, -2.0]), leaf([3.0, 0.5])
    (x * y + x).sum().backward()
    assert_allclose(x.grad.numpy(), [4.0, 1.5])
    assert_allclose(y.grad.numpy(), [1.0, -2.0])


def test_gradients_add_up_until_they_are_cleared():
    x = leaf(2.0)
    (x * x).backward()
    (3.0 * x).backward()
    assert x.grad.item() == 7.0
    x.clear_grad()
    assert x.grad is None


def test_several_outputs_with_and_without_seeds():
    x = leaf([1.0, 2.0])
    y, z = x * x, (x * 3.0).sum()
    sg.autograd.backward([y, z], [sg.tensor([1.0, 10.0]), None])
    assert_allclose(x.grad.numpy(), [2.0 + 3.0, 40.0 + 3.0])


def test_an_output_may_be_given_twice():
    x = leaf(3.0)
    y = x * x
    sg.autograd.backward([y, y])
    assert x.grad.item() == 12.0


def test_a_seed_of_one_element_fits_a_number():
    x = leaf(3.0)
    (x * x).backward(sg.tensor([2.0]))
    assert x.grad.item() == 12.0


def test_non_scalar_output_needs_a_seed():
    with pytest.raises(RuntimeError, match=r"only for scalar outputs, this one has shape \(2,\)"):
        (leaf([1.0, 2.0]) * 2.0).backward()


def test_seed_of_another_shape():
    with pytest.raises(RuntimeError, match=r"gradient of shape \(3,\) was given for a tensor of shape \(2,\)"):
        (leaf([1.0, 2.0]) * 2.0).backward(sg.tensor([1.0, 2.0, 3.0]))


def test_number_of_seeds():
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        sg.autograd.backward([leaf(1.0) * 2.0], [None, None])


def test_tensor_without_gradient():
    with pytest.raises(RuntimeError, match="does not require grad"):
        sg.tensor(1.0).backward()


def test_second_backward_needs_retain_graph():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert x.grad.item() == 6.0  # nothing was added by the failed one


def test_retained_graph_goes_back_again():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0


def test_freed_part_below_a_new_operation():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        (y * 2.0).backward()


def test_shared_intermediate_is_visited_once_and_summed():
    x = leaf(0.5)
    y = x
    for _ in range(30):
        y = y + y  # 2**30 paths
    y.backward()
    assert x.grad.item() == 2.0**30


def test_gradient_after_the_value_was_read_in_between():
    x = leaf([0.3, 0.7])
    y = (x * x).sum()
    assert_allclose(float(y), 0.58)
    z = y * y
    assert_allclose(z.item(), 0.58**2)
    z.backward()
    assert_allclose(x.grad.numpy(), 4 * 0.58 * np.array([0.3, 0.7]))


def test_grad_returns_gradients_and_leaves_grad_alone():
    x, y = leaf(2.0), leaf(5.0)
    gx, gy = sg.autograd.grad(x * x * y, [x, y])
    assert (gx.item(), gy.item()) == (20.0, 4.0)
    assert x.grad is None and not gx.requires_grad


def test_grad_in_an_intermediate():
    x = leaf(2.0)
    y = x * x
    (g,) = sg.autograd.grad(y * y * x, y)
    assert g.item() == 2 * 4.0 * 2.0


def test_unused_input():
    x, u = leaf(2.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        sg.autograd.grad(x * x, [x, u])
    gx, gu = sg.autograd.grad(x * x, [x, u], allow_unused=True)
    assert gx.item() == 4.0 and gu is None


def test_derivatives_of_a_power_to_the_fourth_order():
    x = leaf(1.5)
    d = x**5
    for order, factor in enumerate((5, 20, 60, 120), 1):
        (d,) = sg.autograd.grad(d, x, create_graph=True)
        assert_allclose(d.item(), factor * 1.5 ** (5 - order), rtol=1e-14)


def test_gradient_penalty():
    """d/dx of |grad f|**2 for f = sum(x**3): 2 * (3 x**2) * (6 x)."""
    x = leaf([1.0, -2.0])
    (g,) = sg.autograd.grad((x**3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert_allclose(x.grad.numpy(), 36 * np.array([1.0, -8.0]))


def test_hessian_vector_product_of_a_matrix_form():
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    x, v = leaf([1.0, 2.0]), sg.tensor([1.0, -1.0])
    (g,) = sg.autograd.grad(x @ sg.tensor(a) @ x, x, create_graph=True)
    (hv,) = sg.autograd.grad(g, x, v)
    assert_allclose(hv.numpy(), (a + a.T) @ [1.0, -1.0])


def test_backward_with_create_graph():
    x = leaf(2.0)
    sg.autograd.backward(x**3, create_graph=True)
    x.grad.backward()
    assert x.grad.item() == 12.0 + 12.0  # first and second derivative add up in the same place


def test_backward_into_chosen_inputs_only():
    x, y = leaf(2.0), leaf(3.0)
    sg.autograd.backward(x * y, inputs=[x])
    assert x.grad.item() == 3.0 and y.grad is None


@pytest.mark.parametrize("mode", [sg.autograd.no_grad(), sg.autograd.no_grad])
def test_no_grad_as_decorator(mode):
    @mode
    def double(x):
        return x * 2.0

    assert not double(leaf(1.0)).requires_grad
    assert sg.autograd.is_grad_enabled()


def test_enable_grad_inside_no_grad():
    x = leaf(2.0)
    with sg.autograd.no_grad():
        with sg.autograd.enable_grad():
            y = x * x
        assert not sg.autograd.is_grad_enabled()
        assert not (x * x).requires_grad
    y.backward()
    assert x.grad.item() == 4.0


def test_mode_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError), sg.autograd.no_grad():
        raise ZeroDivisionError
    assert sg.autograd.is_grad_enabled()


def test_the_untaken_element_of_a_choice_has_no_influence():
    """sqrt has an infinite slope at 0, which where does not choose."""
    x = leaf([0.0, 4.0])
    np.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert_allclose(x.grad.numpy(), [0.0, 0.25])


def test_mask_travels_through_several_operations():
    x = leaf([0.0, 4.0])
    safe = np.where(x > 0, (x * 1.0).sqrt().sqrt() * 1.0, 2.0)
    safe.sum().backward()
    assert_allclose(x.grad.numpy(), [0.0, 0.25 * 4.0**-0.75])


def test_flags():
    x = leaf([1.0])
    y = x * 2.0
    assert x.is_leaf and x.grad_fn is None and x.requires_grad and not x.stop_gradient
    assert not y.is_leaf and y.grad_fn is not None and y.requires_grad
    assert y.detach().is_leaf and not y.detach().requires_grad
    x.stop_gradient = True
    assert not (x * 2.0).requires_grad


def test_integers_have_no_gradient():
    with pytest.raises(RuntimeError, match="floating-point"):
        sg.tensor([1, 2], requires_grad=True)
    x = leaf([0.3, 1.7])
    assert not np.floor(x).astype(np.int64).requires_grad


def test_grad_setter_checks():
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="tensor or None"):
        x.grad = 1.0
    with pytest.raises(RuntimeError, match="has that shape"):
        x.grad = sg.tensor([1.0])


def test_float32_stays_float32():
    x = leaf([1.0, 2.0], np.float32)
    (x * 2.5 + 1).sum().backward()
    assert x.grad.dtype == np.float32
    assert_allclose(x.grad.numpy(), [2.5, 2.5])


def test_a_step_function_has_a_gradient_of_zeros():
    x = leaf([0.0, 2.0])
    np.floor(x.sqrt()).sum().backward()  # sqrt has an infinite slope at 0
    assert_allclose(x.grad.numpy(), [0.0, 0.0])


def test_a_kept_gradient_is_part_of_the_repeated_program():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    for turn in range(4):
        y = x * 3.0
        z = y * y
        y.retain_grad()
        z.retain_grad()
        before = sg.autograd.cache_info().misses
        z.sum().backward()
        assert y.grad.tolist() == [6.0, 12.0] and z.grad.tolist() == [1.0, 1.0]
        assert x.grad.tolist() == [18.0 * (turn + 1), 36.0 * (turn + 1)]
        if turn > 1:
            assert sg.autograd.cache_info().misses == before


def test_a_kept_gradient_of_a_tensor_that_died_goes_nowhere():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        x.grad = None
        y = x * 3.0
        y.retain_grad()
        z = (y * y).sum()
        del y
        z.backward()
        assert x.grad.tolist() == [18.0, 36.0]
