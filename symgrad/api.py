"""The transforms that users call, as functions and as decorators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from symgrad.frontend import combinators, transforms
from symgrad.frontend.checkpoint import Checkpointed
from symgrad.frontend.compiled import Compiled, Options
from symgrad.frontend.custom import CustomJvp, CustomVjp
from symgrad.frontend.tracing import tracing

Function = Callable[..., Any]
Argnums = int | Sequence[int]


def _compiled(fun: Function | None, transform: str, settings: dict[str, Any], options: dict[str, Any]) -> Any:
    """The compiled function, or a decorator when there is no function yet."""
    for name in ("static_argnums", "static_argnames"):
        if name in options:
            given = options[name]
            options[name] = (given,) if isinstance(given, int | str) else tuple(given)
    if "argnums" in settings:
        settings["argnums"] = _positions(settings["argnums"])
    if fun is None:
        return lambda f: Compiled(f, transform, settings, Options(**options))
    if not callable(fun):
        raise TypeError(f"{transform} wants a function, got {type(fun).__name__}")
    return Compiled(fun, transform, settings, Options(**options))


def _positions(argnums: Any) -> int | tuple[int, ...]:
    """Argnums as an int or a tuple of them."""
    if isinstance(argnums, int):
        return argnums
    if isinstance(argnums, Iterable) and not isinstance(argnums, str):
        nums = tuple(argnums)
        if all(isinstance(n, int) for n in nums):
            return nums
    raise TypeError(f"argnums={argnums!r}: wanted the position of an argument, or several in a tuple")


def jit(fun: Function | None = None, **options: Any) -> Any:
    """Compile ``fun``: plain NumPy in, one native function out.

    Keywords, also of the transforms below: ``static_argnums``, ``static_argnames`` (arguments that are part of the
    program), ``backend`` (``"cpu"``), ``parallel`` (how many threads share large loops, at most 64; None
    for one), ``stabilize`` (False: NumPy's values exactly). In a class, positions count the arguments after the object.
    Raises TraceError, ShapeError, DTypeError or UnsupportedError, each with the user's line.

    >>> import numpy as np
    >>> jit(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    np.float64(5.0)
    """
    return _compiled(fun, "jit", {}, options)


def grad(fun: Function | None = None, argnums: Argnums = 0, *, has_aux: bool = False, **options: Any) -> Any:
    """The gradient of scalar ``fun`` in its ``argnums``, shaped like them; with ``has_aux``, ``(gradient, aux)``.

    >>> grad(lambda x: x * x)(3.0)
    np.float64(6.0)
    """
    return _compiled(fun, "grad", {"argnums": argnums, "has_aux": has_aux}, options)


def value_and_grad(fun: Function | None = None, argnums: Argnums = 0, *, has_aux: bool = False, **options: Any) -> Any:
    """``(value, gradient)`` of scalar ``fun``; with ``has_aux``, ``((value, aux), gradient)``.

    >>> value_and_grad(lambda x, y: x * y, argnums=(0, 1))(3.0, 2.0)
    (np.float64(6.0), (np.float64(2.0), np.float64(3.0)))
    """
    return _compiled(fun, "value_and_grad", {"argnums": argnums, "has_aux": has_aux}, options)


def jacrev(fun: Function | None = None, argnums: Argnums = 0, **options: Any) -> Any:
    """The Jacobian by reverse mode: shape of the result, then shape of the argument."""
    return _compiled(fun, "jacrev", {"argnums": argnums}, options)


def jacfwd(fun: Function | None = None, argnums: Argnums = 0, **options: Any) -> Any:
    """The Jacobian by forward mode: shape of the result, then shape of the argument."""
    return _compiled(fun, "jacfwd", {"argnums": argnums}, options)


def jacobian(fun: Function | None = None, argnums: Argnums = 0, **options: Any) -> Any:
    """The Jacobian, by the mode that needs fewer passes.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _compiled(fun, "jacobian", {"argnums": argnums}, options)


def hessian(fun: Function | None = None, argnums: Argnums = 0, **options: Any) -> Any:
    """Second derivatives of scalar ``fun``: shape of the argument twice.

    >>> hessian(lambda x: x**3)(2.0)
    np.float64(12.0)
    """
    return _compiled(fun, "hessian", {"argnums": argnums}, options)


def hvp(fun: Function | None = None, argnums: int = 0, **options: Any) -> Any:
    """``(*args, v) -> H v``, the Hessian of scalar ``fun`` times ``v``, without the Hessian."""
    return _compiled(fun, "hvp", {"argnums": argnums}, options)


def vmap(fun: Function | None = None, in_axes: Any = 0, out_axes: Any = 0, **options: Any) -> Any:
    """``fun`` over an axis of its arguments at once; an axis of None gives every example the whole argument.

    >>> import numpy as np
    >>> vmap(np.dot)(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])
    """
    return _compiled(fun, "vmap", {"in_axes": in_axes, "out_axes": out_axes}, options)


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """``(out, pullback)``: ``pullback(ct)`` gives a tuple of cotangents, one for each of ``primals``."""
    if tracing():
        return transforms.vjp(fun, *primals, has_aux=has_aux)
    out = jit(fun)(*primals)

    def pulled(primals: Any, ct: Any) -> Any:
        return transforms.vjp(fun, *primals, has_aux=has_aux)[1](ct)

    pullback = jit(pulled)
    if has_aux:
        return out[0], lambda ct: pullback(primals, ct), out[1]
    return out, lambda ct: pullback(primals, ct)


def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``(out, tangent)``: the derivative of ``fun`` at ``primals`` in the direction ``tangents``.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (np.float64(9.0), np.float64(6.0))
    """
    if tracing():
        return transforms.jvp(fun, primals, tangents)
    both: tuple[Any, Any] = jit(lambda primals, tangents: transforms.jvp(fun, primals, tangents))(
        tuple(primals), tuple(tangents)
    )
    return both


def stop_gradient(x: Any) -> Any:
    """``x`` as a constant for differentiation; works on arrays, numbers and containers of them."""
    return transforms.stop_gradient(x)


def custom_vjp(fun: Function) -> CustomVjp:
    """A function whose reverse rule is given by ``fun.defvjp(forward, backward)``; it works in both modes.

    ``forward(*args)`` returns ``(result, residuals)``, ``backward(residuals, ct)`` one cotangent for each argument, or
    None for zero.
    """
    return CustomVjp(fun)


def custom_jvp(fun: Function) -> CustomJvp:
    """A function whose forward rule is given by ``fun.defjvp(rule)``; it works in both modes.

    ``rule(primals, tangents)`` returns ``(result, tangent)`` and is linear in the tangents.
    """
    return CustomJvp(fun)


def checkpoint(fun: Function | None = None, *, every: int = 1) -> Any:
    """``fun``, computed again on the way back instead of keeping its intermediate values: less memory, more time.

    As the body of ``scan``, ``fori_loop`` or ``while_loop``, ``every=k`` keeps one state in k.

    >>> grad(checkpoint(lambda x: x * x))(3.0)
    np.float64(6.0)
    """
    every = operator.index(every)
    if every < 1:
        raise ValueError(f"checkpoint: every must be a positive integer, got {every!r}")
    return Checkpointed(fun, every) if fun is not None else lambda f: Checkpointed(f, every)


cond = combinators.cond
switch = combinators.switch
while_loop = combinators.while_loop
fori_loop = combinators.fori_loop
scan = combinators.scan
