"""Functions with derivative rules of the user's own, in either mode, usable in both."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from symgrad.autodiff.reverse import pull
from symgrad.autodiff.rules import Linear
from symgrad.errors import ShapeError, SymgradError, TraceError
from symgrad.frontend.hooks import prepared
from symgrad.frontend.raising import without_checks
from symgrad.frontend.tracer import Tracer, is_traced, value, wrap
from symgrad.frontend.tracing import tracing
from symgrad.frontend.transforms import about
from symgrad.frontend.tree import TreeDef, flatten, unflatten
from symgrad.ir.graph import substitute
from symgrad.ir.node import Node, param
from symgrad.ir.sizes import same_shape, shown
from symgrad.ir.types import Size, TensorType
from symgrad.ops import pointwise as p
from symgrad.ops.custom import Rule, outputs_of
from symgrad.ops.kinds import filled, zeros
from symgrad.ops.views import batched
from symgrad.passes.batch import batch

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Call:
    """One call under a rule: the structure of its arguments and results, and which leaves are traced."""

    name: str
    in_tree: TreeDef
    static: tuple[Any, ...]
    traced: tuple[bool, ...]
    weak: tuple[bool, ...]
    out_tree: TreeDef

    def arguments(self, inputs: Sequence[Node]) -> tuple[Any, ...]:
        """The arguments of the user's function on these nodes."""
        nodes, statics = iter(zip(inputs, self.weak, strict=True)), iter(self.static)
        leaves = [_argument(*next(nodes)) if t else next(statics) for t in self.traced]
        args: tuple[Any, ...] = unflatten(self.in_tree, leaves)
        return args

    def per_leaf(self, given: Any, like: Sequence[Node], what: str) -> list[Node | None]:
        """Derivatives as the user gave them, one for each traced leaf; None stands for zero."""
        args = unflatten(self.in_tree, list(range(len(self.traced))))
        given = given if isinstance(given, tuple | list) else (given,)
        if len(given) != len(args):
            raise TraceError(f"{self.name}: the rule gives {len(given)} {what}s for {len(args)} arguments")
        flat: list[Any] = []
        for g, arg in zip(given, args, strict=True):
            count = flatten(arg)[1].num_leaves
            leaves = [None] * count if g is None else flatten(g)[0]
            if len(leaves) != count:
                raise TraceError(f"{self.name}: a {what} has another structure than its argument")
            flat += leaves
        kept = [g for g, t in zip(flat, self.traced, strict=True) if t]
        return [fitted(self.name, g, n, what) for g, n in zip(kept, like, strict=True)]


def _argument(node: Node, weak: bool) -> Tracer:
    return wrap(node, weak=weak)


def fitted(name: str, given: Any, like: Node, what: str) -> Node | None:
    """A derivative of the right shape and dtype; a scalar zero or None is none."""
    if given is None or not like.dtype.is_float:
        return None
    node = value(given)
    if not same_shape(node.shape, like.shape):
        raise ShapeError(f"{name}: the rule gives a {what} of shape {shown(node.shape)}, wanted {shown(like.shape)}")
    return p.as_dtype(node, like.dtype)


@contextmanager
def located_at(rule: Function) -> Iterator[None]:
    """Errors without a line of the user's name the rule."""
    try:
        yield
    except SymgradError as e:
        raise about(e, rule) from None


def _transposed(results: Sequence[Node | None], cts: Sequence[Node | None], seeds: Sequence[Node]) -> list[Node | None]:
    """The transpose, applied to ``cts``, of what maps ``seeds`` linearly to ``results``."""
    pairs = [(r, c) for r, c in zip(results, cts, strict=True) if r is not None and c is not None]
    pulled = pull([r for r, _ in pairs], [Linear(c) for _, c in pairs], seeds)
    anything: dict[Node, Node] = {s: zeros(s.shape, s.dtype) for s in seeds}  # the transpose does not depend on them
    return [None if q is None else substitute([q], anything)[0] for q in pulled]


@dataclass(frozen=True, eq=False)
class VjpRule:
    """``forward(*args) -> (out, residuals)`` and ``backward(residuals, cotangent) -> cotangents``."""

    call: Call
    forward: Function
    backward: Function

    @property
    def name(self) -> str:
        return self.call.name

    def vjp(self, cts: Sequence[Node], outputs: Sequence[Node], inputs: Sequence[Node]) -> Sequence[Node | None]:
        with without_checks(self.name):
            result = prepared(self.forward)(*self.call.arguments(inputs))
        if not isinstance(result, tuple) or len(result) != 2:
            raise about(TraceError(f"{self.name}: the forward rule must return (result, residuals)"), self.forward)
        ct = unflatten(self.call.out_tree, [wrap(c) for c in cts])
        with located_at(self.backward), without_checks(self.name):
            return self.call.per_leaf(prepared(self.backward)(result[1], ct), inputs, "cotangent")

    def jvp(
        self, tangents: Sequence[Node | None], outputs: Sequence[Node], inputs: Sequence[Node]
    ) -> Sequence[Node | None]:
        """The transpose of the backward rule, which is linear in the cotangent."""
        cts = [param(y.type) for y in outputs]
        back = self.vjp(cts, outputs, inputs)
        return _transposed(back, tangents, cts)

    def batched(self, size: Size, types: Sequence[TensorType]) -> Rule:
        return BatchedRule(self, size, tuple(types))


@dataclass(frozen=True, eq=False)
class JvpRule:
    """``rule(primals, tangents) -> (out, tangent)``."""

    call: Call
    rule: Function

    @property
    def name(self) -> str:
        return self.call.name

    def jvp(
        self, tangents: Sequence[Node | None], outputs: Sequence[Node], inputs: Sequence[Node]
    ) -> Sequence[Node | None]:
        primals, seeds = self.call.arguments(inputs), self.call.arguments(filled(tangents, inputs))
        with located_at(self.rule), without_checks(self.name):
            result = prepared(self.rule)(primals, seeds)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TraceError(f"{self.name}: the rule must return (result, tangent)")
            return self._fitted(result[1], outputs)

    def _fitted(self, tangent: Any, outputs: Sequence[Node]) -> list[Node | None]:
        leaves, _ = flatten(tangent)
        if len(leaves) != len(outputs):
            raise TraceError(f"{self.name}: the rule gives {len(leaves)} tangents, the function {len(outputs)} results")
        return [fitted(self.name, t, y, "tangent") for t, y in zip(leaves, outputs, strict=True)]

    def vjp(self, cts: Sequence[Node], outputs: Sequence[Node], inputs: Sequence[Node]) -> Sequence[Node | None]:
        """The transpose of the rule, which is linear in the tangents."""
        seeds = [param(x.type) for x in inputs]
        out = self.jvp(seeds, outputs, inputs)
        return _transposed(out, cts, seeds)

    def batched(self, size: Size, types: Sequence[TensorType]) -> Rule:
        return BatchedRule(self, size, tuple(types))


@dataclass(frozen=True, eq=False)
class BatchedRule:
    """A rule under ``vmap``: the rule of one example, batched."""

    rule: VjpRule | JvpRule | BatchedRule
    size: Size
    types: tuple[TensorType, ...]

    @property
    def name(self) -> str:
        return self.rule.name

    def _over(
        self, groups: Sequence[Sequence[Node | None]], apply: Callable[..., Sequence[Node | None]]
    ) -> list[Node | None]:
        inner: dict[Node, tuple[Node, int]] = {}

        def one(n: Node | None) -> Node | None:
            if n is None:
                return None
            q = param(n.type.with_shape(n.shape[1:]))
            inner[q] = n, 0
            return q

        results = apply(*[[one(n) for n in group] for group in groups])
        kept = [r for r in results if r is not None]
        fronts = iter(batched(self.size, n, axis) for n, axis in batch(kept, inner, self.size))
        return [None if r is None else next(fronts) for r in results]

    def vjp(self, cts: Sequence[Node], outputs: Sequence[Node], inputs: Sequence[Node]) -> Sequence[Node | None]:
        return self._over((cts, outputs, inputs), self.rule.vjp)

    def jvp(
        self, tangents: Sequence[Node | None], outputs: Sequence[Node], inputs: Sequence[Node]
    ) -> Sequence[Node | None]:
        return self._over((tangents, outputs, inputs), self.rule.jvp)

    def batched(self, size: Size, types: Sequence[TensorType]) -> Rule:
        return BatchedRule(self, size, tuple(types))


class _WithRule(ABC):
    """A function that carries its own derivative; plain Python outside a trace."""

    def __init__(self, fun: Function) -> None:
        self.__wrapped__ = fun
        functools.update_wrapper(self, fun)

    __symgrad_transform__ = True

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @abstractmethod
    def _rule(self, call: Call) -> Rule:
        """The rule for one call."""

    def __call__(self, *args: Any) -> Any:
        if not tracing():
            return self.__wrapped__(*args)
        leaves, tree = flatten(args)
        traced = tuple(is_traced(x) for x in leaves)
        if not any(traced):
            return prepared(self.__wrapped__)(*args)
        inputs = [x.node for x in leaves if is_traced(x)]
        weak = tuple(x.weak for x in leaves if is_traced(x))
        out, out_tree = flatten(prepared(self.__wrapped__)(*args))
        static = tuple(x for x in leaves if not is_traced(x))
        name = getattr(self.__wrapped__, "__name__", "custom")
        rule = self._rule(Call(name, tree, static, traced, weak, out_tree))
        results = outputs_of([value(y) for y in out], inputs, rule)
        return unflatten(out_tree, [wrap(n) for n in results])


class CustomVjp(_WithRule):
    """A function with a reverse rule, given by ``defvjp``."""

    forward: Function | None = None
    backward: Function | None = None

    def defvjp(self, forward: Function, backward: Function) -> None:
        """``forward(*args) -> (out, residuals)``; ``backward(residuals, ct)`` gives cotangents, or None."""
        self.forward, self.backward = forward, backward

    def _rule(self, call: Call) -> Rule:
        if self.forward is None or self.backward is None:
            raise TraceError(
                f"{call.name} is a custom_vjp without rules: give them with {call.name}.defvjp(forward, backward)"
            )
        return VjpRule(call, self.forward, self.backward)


class CustomJvp(_WithRule):
    """A function with a forward rule, given by ``defjvp``."""

    rule: Function | None = None

    def defjvp(self, rule: Function) -> Function:
        """``rule(primals, tangents) -> (out, tangent of out)``; works as a decorator."""
        self.rule = rule
        return rule

    def _rule(self, call: Call) -> Rule:
        if self.rule is None:
            raise TraceError(f"{call.name} is a custom_jvp without a rule: give it with {call.name}.defjvp(rule)")
        return JvpRule(call, self.rule)
