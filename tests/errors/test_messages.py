"""Every error a user can cause: what it says, where it points, and that nothing is half-done after."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.capture import recorder
from symgrad.frontend.tracing import tracing

X = np.array([1.0, 2.0, 3.0])
HERE = "test_messages.py"


def failing(error, fun, *args, transform=sg.jit, match=None, line="", **kwargs):
    """``fun`` under ``transform`` raises ``error`` with this file, ``line`` and ``match`` in the message."""
    compiled = transform(fun)
    with pytest.raises(error, match=match) as caught:
        compiled(*args, **kwargs)
    message = str(caught.value)
    assert HERE in message, message
    assert line in message, message
    assert not tracing() and recorder() is None
    with pytest.raises(error, match=match):  # not remembered, and not half-done
        compiled(*args, **kwargs)
    assert compiled.cache_info().misses == 0
    return message


# --- the tree --------------------------------------------------------------------------------------------------------


def test_the_tree():
    assert issubclass(sg.ShapeError, ValueError) and issubclass(sg.DTypeError, TypeError)
    assert issubclass(sg.UnsupportedError, NotImplementedError)
    for kind in (sg.TraceError, sg.ShapeError, sg.DTypeError, sg.UnsupportedError, sg.ExportError):
        assert issubclass(kind, sg.SymgradError)


# --- results that cannot be differentiated ---------------------------------------------------------------------------


def test_gradient_of_an_array():
    def curve(x):
        return x * 2

    message = failing(sg.ShapeError, curve, X, transform=sg.grad, match=r"gradient of curve.*scalar.*\(3,\)")
    assert "jacobian" in message


def test_gradient_of_nothing():
    def nothing(x):
        x * 2

    failing(sg.TraceError, nothing, X, transform=sg.grad, match=r"gradient of nothing.*nothing")


def test_gradient_of_several_results():
    def several(x):
        return x.sum(), x.sum()

    failing(sg.TraceError, several, X, transform=sg.grad, match="2 results")


def test_gradient_of_an_integer_result():
    def count(x):
        return np.argmax(x)

    failing(sg.DTypeError, count, X, transform=sg.grad, match=r"count.*int64")


def test_gradient_of_a_string():
    failing(sg.SymgradError, lambda x: "text", X, transform=sg.grad, match="str")


# --- arguments -------------------------------------------------------------------------------------------------------


def test_gradient_in_integers():
    def energy(positions):
        return np.sum(positions)

    message = failing(sg.DTypeError, energy, np.arange(3), transform=sg.grad, match=r"positions of energy.*int64")
    assert "float64" in message


def test_gradient_in_an_item_of_a_dict():
    message = failing(sg.DTypeError, lambda p: p["w"].sum(), {"w": np.arange(3)}, transform=sg.grad)
    assert "p['w']" in message


@pytest.mark.parametrize("bad", [True, np.array([True])])
def test_gradient_in_bools(bad):
    failing(sg.DTypeError, lambda flag: flag * 1.0, bad, transform=sg.grad, match=r"flag.*bool")


def test_argnums_twice():
    failing(sg.ShapeError, lambda x, y: x * y, 1.0, 2.0, transform=lambda f: sg.grad(f, (0, -2)), match="twice")


@pytest.mark.parametrize("argnums", ["x", 1.0, ("x",), None])
def test_argnums_that_are_no_positions(argnums):
    with pytest.raises(TypeError, match=r"argnums.*position"):
        sg.grad(lambda x: x, argnums=argnums)


@pytest.mark.parametrize("transform", [sg.jacobian, sg.jacfwd, sg.jacrev])
def test_jacobian_of_nothing_and_of_integers(transform):
    failing(sg.TraceError, lambda x: None, X, transform=transform, match="nothing")
    failing(sg.DTypeError, lambda x: (x, np.argmax(x)), X, transform=transform, match="int64")


@pytest.mark.parametrize("argnums", [1, -2, (0, 1), 5])
def test_argnums_out_of_range(argnums):
    def f(x):
        return np.sum(x)

    failing(sg.SymgradError, f, X, transform=lambda g: sg.grad(g, argnums), match=r"argnums.*f .*1 positional")


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ("text", "static_argnames"),
        (b"bytes", "static_argnames"),
        (np.array(["a", "b"]), "dtype|str"),
        (np.array([object()]), "dtype|object"),
        (1j, "complex"),
        (np.array([1j]), "complex"),
        ({1, 2}, "set"),
        (object(), "object"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "datetime|dtype"),
        ({"a": [1.0, "x"]}, r"y\['a'\]\[1\]"),
        (np.zeros(2, dtype=[("a", "f8")]), "dtype|void"),
        (2**70, "64 bits"),
    ],
)
def test_arguments_of_the_wrong_kind(bad, match):
    def f(x, y):
        return x

    message = failing(sg.SymgradError, f, X, bad, match=match)
    assert "y" in message


def test_ragged_lists():
    failing(
        (sg.SymgradError, ValueError),
        lambda xs: np.sum(np.stack(xs)),
        [X, X[:2]],
        match=r"\(3,\).*\(2,\)",
        line="np.stack",
    )


def test_wrong_number_of_arguments():
    f = sg.jit(lambda x, y: x)
    for args, match in [((1.0,), "missing.*'y'"), ((1.0, 2.0, 3.0), "too many positional")]:
        with pytest.raises(TypeError, match=match):
            f(*args)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        f(1.0, 2.0, z=2.0)
    assert f(1.0, 2.0) == 1.0


def test_unhashable_static_argument():
    with pytest.raises(TypeError, match="static argument must be hashable"):
        sg.jit(lambda x, y: x, static_argnums=1)(X, [1, 2])


def test_a_container_that_contains_itself():
    a = [1.0]
    a.append(a)
    with pytest.raises(sg.TraceError, match="contains itself"):
        sg.jit(lambda x: x)(a)


# --- shapes and indices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fun", "y", "match"),
    [
        (lambda x, y: x + y, np.ones(4), r"\(3,\).*\(4,\)"),
        (lambda x, y: x @ y, np.ones((4, 2)), r"\(3,\).*\(4, 2\)"),
        (lambda x, y: np.concatenate([x, y]), np.ones((2, 2)), "dimension|shapes|concatenate"),
        (lambda x, y: np.where(x > 0, x, y), np.ones(2), r"\(3,\).*\(2,\)"),
        (lambda x, y: np.stack([x, y]), np.ones(4), r"\(3,\).*\(4,\)"),
        (lambda x, y: np.dot(x, y), np.ones(5), r"\(3,\).*\(5,\)"),
        (lambda x, y: np.einsum("i,i", x, y), np.ones(5), "i"),
        (lambda x, y: x.reshape(2, 2), np.ones(5), r"\(3,\)|size 3"),
        (lambda x, y: y.reshape(x.shape), np.ones(5), r"\(5,\)|size 5"),
        (lambda x, y: np.sum(x, axis=2), np.ones(5), "axis 2.*dimension 1|axis 2"),
        (lambda x, y: np.transpose(x, (0, 1)), np.ones(5), "axes"),
        (lambda x, y: np.broadcast_to(x, (2, 2)), np.ones(5), r"\(3,\).*\(2, 2\)"),
    ],
)
def test_shapes_that_do_not_fit(fun, y, match):
    failing(ValueError, fun, X, y, match=match, line="lambda x, y:")


def test_shapes_that_do_not_fit_at_free_lengths():
    f = sg.jit(lambda x, y: x + y)
    f(np.ones(2), np.ones(2))
    f(np.ones(5), np.ones(5))
    with pytest.raises(sg.ShapeError, match=r"\(3,\).*\(4,\)"):
        f(np.ones(3), np.ones(4))
    assert f(np.ones(7), np.ones(7)).sum() == 14


def test_vmap_over_different_lengths():
    failing(sg.ShapeError, lambda x, y: x + y, X, np.ones(4), transform=sg.vmap, match=r"\(3,\).*\(4,\)")


def test_vmap_over_no_axis():
    failing(sg.ShapeError, lambda x: x, X, transform=lambda f: sg.vmap(f, in_axes=None), match="in_axes")
    failing(sg.ShapeError, lambda x: x, X, transform=lambda f: sg.vmap(f, in_axes=1), match=r"\(3,\).*axis 1")
    failing(sg.ShapeError, lambda x: x, X, transform=lambda f: sg.vmap(f, in_axes=(0, 0)), match=r"2.*1")
    failing(sg.ShapeError, lambda x: x, 3.0, transform=sg.vmap, match=r"\(\).*axis")


def test_index_out_of_range():
    failing(IndexError, lambda x: x[5], X, match=r"5.*out of bounds.*size 3", line="x[5]")
    failing(IndexError, lambda x: x[-4], X, match=r"-4.*out of bounds", line="x[-4]")
    failing(IndexError, lambda x: x[0, 0], X, match="too many indices", line="x[0, 0]")


def test_index_out_of_range_at_run_time():
    f = sg.jit(lambda x, i: x[i])
    assert f(X, np.int64(2)) == 3.0
    for bad in (3, -4, 100):
        with pytest.raises(IndexError, match="out of bounds"):
            f(X, np.int64(bad))
    assert f(X, np.int64(-1)) == 3.0
    g = sg.jit(lambda x, i: x[i])
    with pytest.raises(IndexError, match="out of bounds"):
        g(X, np.array([0, 3]))
    assert g(X, np.array([0, 2])).tolist() == [1.0, 3.0]


# --- what tracing cannot do ------------------------------------------------------------------------------------------


def test_condition_of_a_comprehension():
    def f(x):
        return sum([v for v in x if v > 0])

    message = failing(sg.TraceError, f, X, match="truth of a traced value", line="[v for v in x if v > 0]")
    assert "np.where" in message


def test_truth_of_several_elements():
    def f(x):
        if x > 0:
            return x
        return -x

    failing(ValueError, f, X, match="ambiguous", line="if x > 0")


@pytest.mark.parametrize(("fun", "line"), [(lambda x: x.sum().item(), ".item()"), (lambda x: x.tolist(), ".tolist()")])
def test_item_and_tolist(fun, line):
    failing(sg.TraceError, fun, X, match="traced value", line=line)


def test_numpy_randomness():
    message = failing(
        sg.UnsupportedError, lambda x: x + np.random.normal(), X, match=r"np.random.normal", line="np.random.normal()"
    )
    assert "outside" in message and "pass" in message
    failing(sg.UnsupportedError, lambda x: x + np.random.default_rng(0).normal(), X, match="random", line="default_rng")


def test_functions_that_are_not_supported():
    failing(sg.UnsupportedError, lambda x: np.fft.fft(x), X, match=r"np.fft.fft", line="np.fft.fft(x)")
    failing(sg.UnsupportedError, lambda x: np.linalg.eig(x), np.eye(3), match=r"np.linalg.eig", line="np.linalg.eig(x)")
    failing(sg.SymgradError, lambda x: x.ctypes, X, match="ctypes", line="x.ctypes")


def test_storing_into_a_numpy_array():
    buffer = np.zeros(3)

    def f(x):
        buffer[0] = x[0]
        return x

    failing(sg.SymgradError, f, X, line="buffer[0] = x[0]")
    assert buffer.tolist() == [0, 0, 0]


def test_mutation_of_an_argument():
    def f(x):
        x[0] = 1.0
        return x

    message = failing(sg.TraceError, f, X, match="argument or captured", line="x[0] = 1.0")
    assert "copy" in message
    assert X[0] == 1.0


def test_mutation_of_an_argument_in_place():
    def f(x):
        x *= 2
        return x

    before = X.copy()
    failing(sg.TraceError, f, X, match="copy", line="x *= 2")
    assert np.array_equal(X, before)


def test_mutation_of_a_captured_array():
    w = np.ones(3)

    def f(x):
        w[:] = x
        return x

    failing(sg.TraceError, f, X, match="captured", line="w[:] = x")
    assert w.tolist() == [1, 1, 1]


def test_a_traced_value_kept_in_a_global():
    def f(x):
        global kept
        kept = x * 2
        return x

    sg.jit(f)(X)
    with pytest.raises(sg.SymgradError):
        sg.jit(lambda y: y + kept)(X)
    with pytest.raises(sg.SymgradError):
        np.asarray(kept)


def test_a_traced_value_kept_by_an_inner_function():
    def f(x):
        stored = []

        def inner(y):
            stored.append(y * 2)
            return y * y

        sg.grad(inner)(x)
        return stored[0]

    failing(sg.TraceError, f, 2.0, match="inner function")


# --- functions without text ------------------------------------------------------------------------------------------


def test_functions_without_source_still_compile_where_no_text_is_needed():
    scope = {"np": np}
    exec("def f(x):\n    return np.sum(np.sin(x) * x)\n", scope)
    assert np.allclose(sg.grad(scope["f"])(X), np.cos(X) * X + np.sin(X))


def test_errors_in_functions_without_source_name_the_place():
    scope = {"np": np}
    exec("def f(x):\n    return x + np.ones(4)\n", scope)
    with pytest.raises(sg.ShapeError, match=r"\(3,\).*\(4,\)") as caught:
        sg.jit(scope["f"])(X)
    assert "<string>:2" in str(caught.value)


# --- exceptions of the user's ----------------------------------------------------------------------------------------


class Custom(Exception):
    pass


@pytest.mark.parametrize("error", [Custom, KeyboardInterrupt, ZeroDivisionError, RecursionError, StopIteration])
@pytest.mark.parametrize("transform", [sg.jit, sg.grad, sg.vmap, sg.hessian])
def test_exceptions_of_the_users_come_through(error, transform):
    broken = True

    @transform
    def f(x):
        if broken:
            raise error("mine")
        return np.sum(x**2)

    arg = np.ones((2, 2)) if transform is sg.vmap else X
    with pytest.raises(error, match="mine"):
        f(arg)
    assert not tracing() and recorder() is None
    broken = False
    f(arg)
    assert sg.jit(lambda x: x + 1)(1.0) == 2.0


def test_a_real_traceback_ends_in_the_users_code():
    def f(x):
        return x.missing_attribute

    with pytest.raises(AttributeError, match="missing_attribute") as caught:
        sg.jit(f)(X)
    files = [entry.path.name for entry in caught.traceback if hasattr(entry.path, "name")]
    assert HERE in files


def test_name_errors_are_pythons():
    with pytest.raises(NameError, match="undefined_name"):
        sg.jit(lambda x: x + undefined_name)(X)  # noqa: F821  # on purpose


def test_infinite_recursion_is_a_recursion_error():
    def f(x):
        return f(x) + 1

    with pytest.raises(RecursionError):
        sg.jit(f)(X)
    assert not tracing()


def test_errors_in_compiled_functions_of_compiled_functions_name_the_inner_line():
    @sg.jit
    def inner(x):
        return x @ np.ones(4)

    failing(sg.ShapeError, lambda x: inner(x) * 2, X, match=r"\(3,\).*\(4,\)", line="x @ np.ones(4)")


# --- options and specs -----------------------------------------------------------------------------------------------


def test_unknown_backend():
    with pytest.raises(sg.UnsupportedError, match=r"backend 'tpu'.*cpu"):
        sg.jit(lambda x: x, backend="tpu")(1.0)


@pytest.mark.parametrize(
    ("spec", "match"), [("f65[n]", "f65.*known are"), ("f64[n", "bracket"), ("f64[n+1]", r"n\+1"), ("", "dtype")]
)
def test_bad_specs(spec, match):
    with pytest.raises(sg.DTypeError, match=match):
        sg.jit(lambda x: x).lower(spec)


def test_unknown_stage():
    with pytest.raises(sg.UnsupportedError, match=r"'ir'.*graph, loops, llvm"):
        sg.jit(lambda x: x).lower("f64").as_text("ir")
