"""Values and derivatives of the special functions against mpmath, at ordinary and awkward points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import symgrad.ops.folds  # noqa: F401  # registers the views that constants are broadcast with
from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph, evaluate, rewrite
from symgrad.ir.node import Node, param
from symgrad.ir.op import Expand, Op
from symgrad.ir.types import TensorType, f32, f64
from symgrad.ops import special
from symgrad.ops.kinds import broadcast_to, number

mpmath.mp.dps = 60


def expanded(graph: Graph) -> Graph:
    """Every expansion carried out, so that the graph computes as a native function does."""

    def emit(n: Node) -> Node:
        while isinstance(n.op.lower, Expand):
            n = expanded_once(n)
        return n

    def expanded_once(n: Node) -> Node:
        assert isinstance(n.op.lower, Expand)
        (out,) = rewrite(
            Graph((), (n.op.lower.build(*n.args, **dict(n.attrs)),)), lambda m: m if m is n else emit(m)
        ).results
        return out

    return rewrite(graph, emit)


def run(build: Callable[..., Node], *arrays: Any, dtype: Any = f64) -> Any:
    """The expanded value of ``build`` on arrays."""
    params = [param(TensorType(dtype, np.shape(a))) for a in arrays]
    (value,) = evaluate(expanded(Graph(tuple(params), (build(*params),))), *arrays)
    return value


def partial(op: Op, k: int, **attrs: Any) -> Callable[..., Node]:
    """Partial derivative ``k`` of a primitive as a function of nodes."""

    def build(*args: Node) -> Node:
        assert op.partials is not None
        p = op.partials(op(*args, **attrs), *args, **attrs)[k]
        return p if isinstance(p, Node) else broadcast_to(number(p, args[0].dtype), args[0].shape)

    return build


def truth(f: Callable[..., Any], *arrays: Any) -> Any:
    return np.array([float(f(*(mpmath.mpf(float(v)) for v in row))) for row in zip(*arrays, strict=True)])


def close(got: Any, want: Any, rtol: float = 1e-13, atol: float = 0.0) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def mp_erfcx(x: Any) -> Any:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def mp_log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


# --- sinc ------------------------------------------------------------------------------------------------------------

SINC_POINTS = np.array([0.0, 1e-300, 1e-9, -1e-4, 0.3, -0.9, 1.47, 1.51, 2.5, -2.99, 3.01, 5.0, 7.0, -30.0])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_every_derivative_of_sinc_is_accurate_at_0_and_away(n: int) -> None:
    want = []
    for x in SINC_POINTS:
        z = mpmath.mpf(float(x))
        mean = mpmath.quad(lambda t, z=z: t**n * mpmath.cos(z * t + n * mpmath.pi / 2), mpmath.linspace(0, 1, 5))
        want.append(float(mean))
    close(run(lambda x: special.sinc_n(x, n=n), SINC_POINTS), want, rtol=0, atol=2e-15)


def test_sinc_is_numpys() -> None:
    x = np.array([0.0, -0.0, 1.0, 2.0, 0.3, 1e5 + 0.25, np.nan])
    close(run(special.sinc, x), np.sinc(x), atol=1e-16)


def test_second_derivative_of_sinc_at_0() -> None:
    assert run(partial(special.sinc_n, 0, n=0), [0.0])[0] == 0
    close(run(partial(special.sinc_n, 0, n=1), [0.0]), [-1 / 3])


def test_sqrt_of_squares_is_flat_at_0() -> None:
    assert run(partial(special.sqrt_of_squares, 0), [0.0, 4.0]).tolist() == [0, 0.25]


# --- the error function ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_scaled_integrals_of_erfc(n: int) -> None:
    x = np.array([-4.0, -1.0, -1e-3, 0.0, 0.3, 1.0, 1.7, 1.99, 2.0, 2.01, 2.9, 3.0, 5.0, 30.0, 1e4, 1e150])

    def one(v: Any) -> Any:
        if v > 1e100:
            return 2 / mpmath.sqrt(mpmath.pi) * (2 * v) ** -(n + 1)
        f = lambda t: t**n * mpmath.exp(-t * t - 2 * v * t)  # noqa: E731  # an integrand
        near = 20 / (1 + abs(v))
        return 2 / mpmath.sqrt(mpmath.pi) / mpmath.factorial(n) * mpmath.quad(f, [0, near / 4, near, max(12, 2 * near)])

    close(run(lambda v: special.erfcx_n(v, n=n), x), truth(one, x), rtol=(3e-15, 1e-13, 3e-13, 1e-12, 3e-12)[n])


def test_log_ndtr_in_both_tails() -> None:
    x = np.array([-1e8, -1e3, -38.0, -20.0, -5.0, -1.0, -1e-9, 0.0, 0.5, 3.0, 9.0])
    with mpmath.workdps(40):
        want = [
            float(mp_log_ndtr(mpmath.mpf(float(v)))) if v > -1e7 else -(v**2) / 2 - np.log(-v * np.sqrt(2 * np.pi))
            for v in x
        ]
    close(run(lambda v: special.log_ndtr(v), x), want, rtol=1e-14)


def test_derivatives_of_log_ndtr_in_the_left_tail() -> None:
    x = np.array([-1e4, -300.0, -20.0, -1.0, 0.0, 2.0, 50.0])

    def first(v: Any) -> Any:
        return mpmath.sqrt(2 / mpmath.pi) / mp_erfcx(-v / mpmath.sqrt(2))

    close(run(partial(special.log_ndtr, 0), x), truth(first, x), rtol=3e-14)

    def second(v: Node) -> Node:
        # d(c/e0)/dx with e0' = sqrt(2) e1: what the division and erfcx_n rules give
        z = v * (-1 / np.sqrt(2))
        e0, e1 = special.erfcx_n(z, n=0), special.erfcx_n(z, n=1)
        slope: Node = e1 / e0 * (-2 / np.sqrt(np.pi)) / e0
        return slope

    want = truth(lambda v: -first(v) * (v + first(v)), x[:4])
    close(run(second, x[:4]), want, rtol=3e-13)


@pytest.mark.parametrize("x", [0.0, 1e-300, -1e-12, 0.1, 0.4999, 0.5, -0.7, 0.99, 0.999999, 1 - 2.0**-53])
def test_erfinv(x: float) -> None:
    close(run(lambda v: special.erfinv(v), [x])[0], float(mpmath.erfinv(mpmath.mpf(x))), rtol=1e-14)


def test_erfinv_at_the_ends_and_outside() -> None:
    close(run(lambda v: special.erfinv(v), [1.0, -1.0, 1.5, np.nan]), [np.inf, -np.inf, np.nan, np.nan])


@pytest.mark.parametrize("q", [1e-300, 1e-100, 1e-16, 1e-3, 0.4, 0.6, 1.0, 1.3, 1.999, 2 - 2.0**-52])
def test_erfcinv(q: float) -> None:
    with mpmath.workdps(330):
        want = float(mpmath.erfinv(1 - mpmath.mpf(q)))
    close(run(lambda v: special.erfcinv(v), [q])[0], want, rtol=3e-15)


def test_ndtri_inverts_ndtr() -> None:
    p = np.array([1e-200, 1e-8, 0.02, 0.3, 0.5, 0.9])
    close(run(lambda v: special.ndtr(special.ndtri(v)), p), p, rtol=2e-13)
    assert run(special.ndtri, [0.0])[0] == -np.inf


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_partials_of_erf(name: str) -> None:
    x = np.array([-2.0, 0.0, 1e-5, 0.7, 5.0, 30.0])
    want = [float(mpmath.diff(getattr(mpmath, name), v)) if abs(v) < 6 else 0.0 for v in x]
    close(run(partial(getattr(special, name), 0), x), want, rtol=1e-13)


# --- gamma -----------------------------------------------------------------------------------------------------------

POSITIVE = np.array([1e-300, 1e-8, 1e-3, 0.1, 0.5, 1.0, 1.2, 2.0, 3.7, 9.99, 10.0, 25.0, 1e3, 1e6, 1e15])
NEGATIVE = np.array([-1e-9, -0.1, -0.5, -0.9, -1.5, -2.3, -10.25, -100.4])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_polygamma_of_positive_numbers(n: int) -> None:
    x = POSITIVE if n == 0 else POSITIVE[1:]
    close(run(lambda v: special.polygamma(v, n=n), x), truth(lambda v: mpmath.psi(n, v), x), rtol=2e-14)


def test_digamma_around_its_zero_is_accurate_absolutely() -> None:
    x = 1.4616321449683622 + np.array([-1e-3, 0.0, 1e-6, 0.05])
    close(run(special.digamma, x), truth(lambda v: mpmath.psi(0, v), x), rtol=0, atol=2e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma_of_negative_numbers(n: int) -> None:
    want = truth(lambda v: mpmath.psi(n, v), NEGATIVE)
    close(run(lambda v: special.polygamma(v, n=n), NEGATIVE), want, rtol=1e-12, atol=1e-12)


def test_poles_of_polygamma_are_scipys() -> None:
    x = [0.0, -0.0, -1.0, -4.0, np.inf, np.nan]
    close(run(special.digamma, x), [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan])
    assert run(lambda v: special.polygamma(v, n=1), [-3.0])[0] == np.inf


def test_polygamma_in_f32() -> None:
    x = np.array([0.01, 0.5, 3.0, 1e4, 1e20], np.float32)
    close(run(special.digamma, x, dtype=f32), truth(lambda v: mpmath.psi(0, v), x), rtol=1e-6)


def test_order_of_polygamma_is_limited() -> None:
    with pytest.raises(UnsupportedError, match=r"the order is 101, supported are 0 to 100"):
        special.polygamma(param(TensorType(f64)), n=101)


@pytest.mark.parametrize("name", ["gammaln", "gamma"])
def test_values_and_partials_of_gamma(name: str) -> None:
    x = np.array([1e-3, 0.5, 1.0, 2.5, 20.0, -0.5, -3.3])
    f = mpmath.gamma if name == "gamma" else lambda v: mpmath.log(abs(mpmath.gamma(v)))
    close(run(lambda v: getattr(special, name)(v), x), truth(f, x), rtol=1e-13, atol=1e-15)
    close(
        run(partial(getattr(special, name), 0), x),
        truth(lambda v: mpmath.diff(f, v, h=mpmath.mpf(10) ** -20), x),
        rtol=1e-12,
    )


# --- logarithms ------------------------------------------------------------------------------------------------------


def test_xlogy_where_x_is_0() -> None:
    x, y = np.zeros(5), np.array([0.0, 2.0, np.inf, -1.0, np.nan])
    close(run(lambda a, b: special.xlogy(a, b), x, y), [0, 0, 0, 0, np.nan])
    close(run(partial(special.xlogy, 0), x[:2], y[:2]), [-np.inf, np.log(2)])
    close(run(partial(special.xlogy, 1), x[:3], y[:3]), [0, 0, 0])


def test_an_argument_behind_the_logarithm_of_0_is_masked_only_at_the_corner() -> None:
    def mask(x: Node, y: Node) -> Node:
        assert special.xlogy.masks is not None
        m = special.xlogy.masks(special.xlogy(x, y), x, y)[1]
        assert m is not None
        return m

    assert run(mask, [0.0, 0.0, 1.0], [0.0, 2.0, 0.0]).tolist() == [False, True, True]


def test_xlog1py() -> None:
    x, y = np.array([0.0, 0.0, 1e-3, 2.0]), np.array([-1.0, 3.0, 1e-17, -0.5])
    close(run(lambda a, b: special.xlog1py(a, b), x, y), [0, 0, 1e-20, 2 * np.log(0.5)])
    close(run(partial(special.xlog1py, 1), x, y), [0, 0, 1e-3, 4.0])


def test_entr() -> None:
    close(run(special.entr, [0.0, 0.5, 1.0, -1.0]), [0, 0.5 * np.log(2), 0, -np.inf])


def test_rel_entr() -> None:
    x, y = np.array([0.0, 0.0, 1.0, 1.0, 1.0 + 1e-9, -1.0, 3.0]), np.array([0.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.5])
    want = [0, 0, np.inf, 0, (1 + 1e-9) * np.log1p(x[4] - 1), np.inf, 3 * np.log(6)]
    close(run(lambda a, b: special.rel_entr(a, b), x, y), want)
    close(run(partial(special.rel_entr, 0), x, y), [0, -np.inf, np.inf, 1, 1 + np.log(x[4]), 0, np.log(6) + 1])
    close(run(partial(special.rel_entr, 1), x, y), [0, 0, -np.inf, -1, -x[4], 0, -6])


def test_kl_div_of_equal_numbers_is_0() -> None:
    close(run(special.kl_div, [0.3, 0.0], [0.3, 2.0]), [0, 2])


def test_logit() -> None:
    p = np.array([0.0, 1e-300, 0.1, 0.25, 0.5 + 1e-12, 0.75, 0.9, 1.0, 1.5])
    want = [-np.inf, *truth(lambda v: mpmath.log(v / (1 - v)), p[1:7]), np.inf, np.nan]
    close(run(lambda v: special.logit(v), p), want, rtol=1e-14)


def test_log_cosh_without_overflow() -> None:
    x = np.array([0.0, -1.0, 20.0, 1e3])
    close(run(lambda v: special.log_cosh(v), x), [0, *np.log(np.cosh(x[1:3])), 1e3 - np.log(2)])


def test_softplus_and_log_expit_without_overflow() -> None:
    x = np.array([-np.inf, -1e3, -1.0, 0.0, 1e3, np.inf])
    want = [0, 0, np.log1p(np.exp(-1)), np.log(2), 1e3, np.inf]
    close(run(special.softplus, x), want)
    close(run(special.log_expit, -x), -np.array(want))


@pytest.mark.parametrize(
    ("op", "args", "attrs"),
    [
        (special.sinc_n, [[0.1, 0.02, 1.3, 14.9, 15.1, -6.2]], {"n": 3}),
        (special.erfcx_n, [[-1.0, 0.5, 1.4, 1.6, 8.0]], {"n": 2}),
        (special.polygamma_n, [[0.5, 3.0, 40.0, -1.3]], {"n": 1}),
        (special.log_ndtr, [[-30.0, -1.0, 2.0]], {}),
        (special.erfinv, [[-0.3, 0.99]], {}),
        (special.rel_entr, [[0.3, 0.0], [0.5, 1.0]], {}),
    ],
    ids=lambda v: v.name if isinstance(v, Op) else "",
)
def test_the_numpy_reference_is_the_expansion(op: Op, args: Any, attrs: Any) -> None:
    arrays = [np.array(a) for a in args]
    close(run(lambda *nodes: op(*nodes, **attrs), *arrays), op.numpy(*arrays, **attrs), rtol=1e-11)
