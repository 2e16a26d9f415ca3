"""Exceptions under traced conditions -> checks, which make them again from values of the program when it runs.

A part of the program is run while it is traced. When it raises, what Python would raise is known but for the values in
it: those become operands of a ``check`` (``symgrad.ops.check``), and the part ends there. A part that ends so has no
results; what follows the branch is what follows the other arm.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from symgrad.errors import SymgradError, TraceError
from symgrad.frontend.lines import is_internal, located
from symgrad.frontend.shown import is_marked, plain, written
from symgrad.frontend.tracer import TracedSize, Tracer, size_of, value
from symgrad.frontend.tracing import current_trace, implements
from symgrad.frontend.tree import flatten, unflatten
from symgrad.ir.loops import Site
from symgrad.ir.node import Node, literal, param, size_node
from symgrad.ir.types import TensorType, boolean
from symgrad.ops.check import check
from symgrad.ops.folds import sum_
from symgrad.ops.kinds import number
from symgrad.ops.pointwise import eq, or_

Template = Callable[[Sequence[Any]], Any]
Line = tuple[str, str, int]  # file, function, line
_ROOT = "trace_call"  # the function of this package below which the user's function runs


class LeavesError(BaseException):
    """Unwinds a part of the program behind which nothing is reached: a check ends the call."""


@contextmanager
def without_checks(name: str) -> Iterator[None]:
    """TraceError for checks made inside, where they have no place in the program."""
    trace = current_trace()
    flag = trace.flag
    try:
        yield
        if trace.flag is not flag:
            raise TraceError(
                f"{name}: raise and assert on traced values have no place in a derivative rule: check in the function"
            )
    finally:
        trace.flag = flag


def current_flag() -> Node:
    """The flag that the next check takes."""
    flag = current_trace().flag
    return number(False, boolean) if flag is None else flag


def goes_on(part: Callable[[], Any]) -> bool:
    """Run a part of the program. Where it raises it does not go on, and there is a check."""
    try:
        part()
    except LeavesError:
        return False
    except SymgradError:
        raise
    except (Exception, SystemExit) as e:
        _refuse_own(e)
        fail_where(number(True, boolean), e)
        return False
    return True


def ends(part: Callable[[], Any]) -> bool:
    """Run a whole function. Where it raises behind a check, or with values of the program, there is another check.

    What it raises otherwise is raised now, whatever the program would do.
    """
    trace = current_trace()
    flag = trace.flag
    try:
        part()
    except LeavesError:
        return False
    except SymgradError:
        raise
    except (Exception, SystemExit) as e:
        nodes: dict[Node, int] = {}
        _exception(e, nodes, ())
        if trace.flag is flag and not nodes:
            raise
        fail_where(number(True, boolean), e)
        return False
    return True


@dataclass(frozen=True, eq=False)
class Checks:
    """The checks of a function that is traced apart: the flag that the last one gives on, if there are any.

    ``entry`` stands for the flag that the first one takes, which is ``before``.
    """

    entry: Node
    before: Node
    results: tuple[Node, ...]

    def give_on(self, flag: Node, axis: int | None = None) -> None:
        """Go on behind them: ``flag`` is that flag in the graph at hand, ``axis`` its batch axis if it has one."""
        current_trace().flag = flag if axis is None else or_(self.before, sum_(flag, axes=(axis,)))


def run_checked(function: Callable[[], Any]) -> tuple[list[Any], Checks]:
    """The result of a function, or none where it raises, and its checks."""
    trace = current_trace()
    outside, before, entry = trace.flag, current_flag(), param(TensorType(boolean))
    results: list[Any] = []
    trace.flag = entry
    try:
        ends(lambda: results.append(function()))
    finally:
        last, trace.flag = trace.flag, outside
    return results, Checks(entry, before, () if last is entry or last is None else (last,))


def _refuse_own(e: BaseException) -> None:
    """TraceError for what a traced value cannot do, rather than the user's function."""
    trail = e.__traceback__
    while trail is not None and trail.tb_next is not None:
        trail = trail.tb_next
    own = trail is not None and is_internal(trail.tb_frame.f_code.co_filename)
    if own and isinstance(e, TypeError | AttributeError | RecursionError):
        raise TraceError(
            f"{type(e).__name__} ({e}) is raised under a condition that only the compiled program knows: "
            "check before the call"
        ) from e


def fail_where(failing: Node, e: BaseException) -> None:
    """End the call with an exception like ``e`` where ``failing`` holds."""
    refuse_handled(e)
    nodes: dict[Node, int] = {}
    make = _exception(e, nodes, [*_stack(), *_trail(e)])
    site = Site(type(e).__name__, _text(e), make)
    current_trace().flag = check(current_flag(), failing, *nodes, site=site, lanes=((),) * len(nodes))


def _text(e: BaseException) -> str:
    try:
        return plain(str(e))
    except Exception:  # the user's __str__ on traced values
        return ""


@implements("divisor")
def check_divisor(name: str, divisor: Node) -> None:
    """End the call where a Python int is divided by zero."""
    known = literal(divisor)
    if known is not None and known.all():
        return
    try:
        (operator.floordiv if name == "floor_divide" else operator.mod)(1, 0)
    except ZeroDivisionError as e:
        fail_where(eq(divisor, 0), e)


# --- handlers --------------------------------------------------------------------------------------------------------


@contextmanager
def handling(caught: Callable[[], Any]) -> Iterator[None]:
    """What is raised inside may be caught by ``except caught()``."""
    handlers = current_trace().handlers
    handlers.append(caught)
    try:
        yield
    finally:
        handlers.pop()


def noted(context: Any) -> Any:
    """A context manager of the user's; of ``contextlib.suppress`` it is known what it catches."""
    return _suppressing(context) if type(context) is suppress else context


@contextmanager
def _suppressing(context: Any) -> Iterator[None]:
    with handling(lambda: context._exceptions), context:
        yield


def refuse_handled(e: BaseException) -> None:
    """TraceError when the user's function would catch the exception, and go on."""
    trace = current_trace()
    for caught in reversed(trace.handlers):
        if isinstance(e, caught()):
            name = "an exception" if isinstance(e, LeavesError) else type(e).__name__
            trace.refused = located(
                TraceError(
                    f"{name} is raised under a condition that only the compiled program knows, in a try that catches "
                    "it: write what the except clause does into the branch, in place of the raise"
                )
            )
            raise trace.refused


# --- exceptions as functions of values -------------------------------------------------------------------------------


def _exception(e: BaseException, nodes: dict[Node, int], lines: Sequence[Line]) -> Template:
    """How to make an exception like ``e``, with its cause and context, from the values of ``nodes``."""
    cls = type(e)
    base: Any = next(c for c in cls.__mro__ if c.__module__ == "builtins")  # its slots are set by its __init__
    args, state = _template(e.args, nodes), _template(dict(e.__dict__), nodes)
    cause, context = (
        None if x is None or isinstance(x, SymgradError) else _exception(x, nodes, list(_trail(x)))
        for x in (e.__cause__, e.__context__)
    )
    suppressed = e.__suppress_context__

    def make(values: Sequence[Any]) -> BaseException:
        given = args(values)
        new: BaseException = base.__new__(cls, *given)
        base.__init__(new, *given)
        new.__dict__.update(state(values))
        new.__cause__ = None if cause is None else cause(values)
        new.__context__ = None if context is None else context(values)
        new.__suppress_context__ = suppressed
        return new.with_traceback(_traceback(lines))

    return make


def _template(x: Any, nodes: dict[Node, int]) -> Template:
    """A structure as a function of the values of the traced leaves and texts in it."""
    leaves, tree = flatten(x)
    parts = [_leaf(leaf, nodes) for leaf in leaves]
    if all(part is None for part in parts):
        return lambda values: x
    return lambda values: unflatten(
        tree, [leaf if part is None else part(values) for leaf, part in zip(leaves, parts, strict=True)]
    )


def _leaf(x: Any, nodes: dict[Node, int]) -> Template | None:
    def position(n: Node) -> int:
        return nodes.setdefault(n, len(nodes))

    if type(x) is Tracer:
        k, of = position(value(x)), x.made_of
        return lambda values: of(values[k])
    if type(x) is TracedSize:
        k = position(size_node(size_of(x)))
        return lambda values: int(values[k])
    return written(x, position) if isinstance(x, str) and is_marked(x) else None


# --- lines -----------------------------------------------------------------------------------------------------------


def _stack() -> list[Line]:
    """The lines of the user's functions at work, the outermost first."""
    out: list[Line] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != _ROOT:
        if not is_internal(frame.f_code.co_filename):
            out.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return out[::-1]


def _trail(e: BaseException) -> Iterator[Line]:
    """The lines of the user's functions through which an exception has come."""
    trail = e.__traceback__
    while trail is not None:
        code = trail.tb_frame.f_code
        if not is_internal(code.co_filename):
            yield code.co_filename, code.co_name, trail.tb_lineno
        trail = trail.tb_next


def _traceback(lines: Sequence[Line]) -> types.TracebackType | None:
    """A traceback through these lines; of an arm and the function that it is in, the line of the arm."""
    found: types.TracebackType | None = None
    for k in reversed(range(len(lines))):
        if k + 1 == len(lines) or lines[k][:2] != lines[k + 1][:2]:
            here = _raised_at(*lines[k])
            found = types.TracebackType(found, here.tb_frame, here.tb_lasti, here.tb_lineno)
    return found


def _raised_at(file: str, function: str, line: int) -> types.TracebackType:
    """A traceback whose only line is one of the user's."""
    code = compile("raise error", file, "exec").replace(co_name=function, co_firstlineno=line)
    units = len(code.co_code) // 2
    no_columns = [bytes((0x80 | 13 << 3 | min(units - k, 8) - 1, 0)) for k in range(0, units, 8)]
    code = code.replace(co_linetable=b"".join(no_columns))  # else they are shown of this text, below the user's
    try:
        exec(code, {"error": LeavesError()})
    except LeavesError as e:
        assert e.__traceback__ is not None and e.__traceback__.tb_next is not None
        return e.__traceback__.tb_next
    raise AssertionError("it raises")
