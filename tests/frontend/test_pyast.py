# mypy: ignore-errors
# The programs below are odd on purpose.
"""The rewriter: under transparent hooks nothing changes, and every hook sees what it should."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import inspect
import linecache
import math
import sys
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from symgrad.errors import UnsupportedError
from symgrad.frontend.control import Control
from symgrad.frontend.pyast import Hooks, bound, has_source, rewrite


@dataclass
class Recorder(Control):
    """Transparent hooks that rewrite whatever Python function is called, and note all that they are asked."""

    seen: list[tuple[object, ...]] = field(default_factory=list)

    def callee(self, function: object, /) -> Callable[..., object]:
        self.seen.append(("callee", function))
        return rewrite(function, self) if isinstance(function, types.FunctionType) else function

    def outer(self, name: str, value: object, /) -> object:
        self.seen.append(("outer", name, value))
        return value

    def attribute(self, owner: object, name: str, /) -> object:
        self.seen.append(("attribute", name))
        return getattr(owner, name)

    def item(self, owner: object, key: object, /) -> object:
        self.seen.append(("item", key))
        return owner[key]

    def slice(self, start: object, stop: object, step: object, /) -> object:
        return slice(start, stop, step)

    def named(self, hook: str) -> list[object]:
        return [entry[1] for entry in self.seen if entry[0] == hook]


def seen(fun, *args, hook):
    recorder: Hooks = Recorder()
    result = rewrite(fun, recorder)(*args)
    assert result == fun(*args)
    return recorder.named(hook)


scale = 3
table = {"a": [1, 2, 3], "b": (4, 5)}
state = {"n": 0}
mutable_global = 0


@dataclass
class Box:
    value: int

    def get(self):
        return self.value

    def add(self, n):
        return Box(self.value + n)


class Meta(type):
    pass


# ---- corpus: functions of no arguments; each must give the same result, or the same exception from the same lines ----


def c_positional_only_and_defaults():
    def f(a, /, b=2, *rest, c, d=4, **more):
        return a, b, rest, c, d, more

    return f(1, c=3), f(1, 2, 3, c=5, e=6), f(*[1, 2], **{"c": 1}), f(1, *[2, 3], c=4)


def c_defaults_see_the_scope_of_definition():
    n = 2

    def f(x=n * scale, *, y=table["a"][n]):
        return x + y

    n = 5
    return f(), (lambda x=n: x)()


def c_subscripts():
    x = np.arange(24).reshape(2, 3, 4)
    n = 1
    parts = x[0], x[..., 1], x[n:, :, ::2], x[:, None, n], x[(0, 1)], x[-1][::-1], x[[0, 1], :2], x[n:][0]
    return [part.tolist() for part in parts], "text"[1:3], table["a"][-2:], table["b"][: len("x")]


def c_starred_subscript():
    key = (0, 1)
    return np.eye(2)[*key], np.arange(8).reshape(2, 2, 2)[*key, 0]


def c_stores_and_deletes():
    x = [1, 2, 3, 4, 5]
    x[1:3] = [9]
    x[0], x[-1] = x[-1], x[0]
    x[len(x) - 2] += 10
    del x[0], x[:1]
    b = Box(1)
    b.value += 3
    b.extra = Box(5)
    b.extra.value *= scale
    b.extra.other, [b.extra.third, *b.rest] = 1, [2, 3, 4]
    del b.extra.other
    return x, b.value, b.extra.value, vars(b.extra), b.rest


def c_comprehensions():
    n = 2
    rows = [[i * j + n for j in range(i) if j != n] for i in range(scale + 2) if i]
    sets = {x for row in rows for x in row}
    pairs = {k: v for k, v in zip("ab", [scale, n], strict=True)}
    total = sum(x * scale for x in sets if (y := x) > 1)
    return rows, sets, pairs, total, y, [scale for scale in range(2)], [table for table in table["a"]]


def c_comprehension_closures():
    late = [lambda: i + scale for i in range(3)]  # noqa: B023  late binding is what is tested
    return [f() for f in late], [(lambda i=i: i)() for i in range(3)]


def c_generators():
    def count(n):
        got = yield n
        while got is not None:
            n += got
            got = yield n
        return "done"

    def outer():
        result = yield from count(scale)
        yield result

    g = outer()
    return next(g), g.send(2), g.send(5), next(g), list(x for x in count(1))


def c_fstrings():
    x, width = 3.14159, 8
    return f"{x:{width}.{scale - 1}f}|{x!r:>10}|{table['a'][0]=}|{Box(1).value}{{}}|{max(1, 2)}"


def c_walrus():
    if (n := len(table["a"])) > 2 and (m := n + scale):
        return n, m, [last := i for i in range(n)], last
    return None


def c_match():
    def describe(value):
        match value:
            case 0 | -1:
                return "small"
            case Box(value=math.pi):
                return "pi box"
            case Box(value=v) if v > scale:
                return "box", v
            case [first, *rest]:
                return first, rest
            case {"k": inner, **others}:
                return inner, others
            case str() as text:
                return text.upper()
            case _:
                return table["b"][0]

    return [describe(v) for v in (0, -1, Box(math.pi), Box(7), Box(1), [1, 2, 3], {"k": 1, "l": 2}, "s")]


def c_try():
    log = []
    for bad in (lambda: 1 / 0, lambda: table["zz"], lambda: Box(1).missing, lambda: [][scale], lambda: int("x")):
        try:
            bad()
        except (ZeroDivisionError, KeyError) as error:
            log.append((type(error).__name__, error.args))
        except AttributeError as error:
            log.append(error.name)
        except Exception as error:
            log.append(str(error))
        else:
            log.append("none")
        finally:
            log.append(len(log))
    return log


def c_with():
    log = []

    @contextlib.contextmanager
    def entered(name):
        log.append(("in", name))
        try:
            yield Box(name)
        finally:
            log.append(("out", name))

    with entered(1) as a, entered(a.value + 1) as (b := Box(0)).value, contextlib.suppress(ValueError):
        log.append((a.value, b.value.value))
        raise ValueError(log[0])
    return log


def c_decorators():
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(f(*args))

        return wrapper

    def add(n):
        return lambda f: lambda x: f(x) + n

    @twice
    @add(scale)
    def step(x):
        return x * 2

    return step(1), twice(abs)(-3)


def c_nested_class():
    n = 2

    class Local(Box, metaclass=Meta):
        """Doc."""

        factor = n
        doubled = factor * scale
        listed = tuple([x * scale for x in range(n)])
        kind: int = doubled

        def get(self):
            return super().get() * self.factor * n

        @property
        def prop(self):
            return self.__secret()

        def __secret(self):
            return __class__.__name__, self.doubled

        @classmethod
        def make(cls, **options):
            return cls(**options)

        class Inner:
            __hidden = 4

            def hidden(self):
                return self.__hidden

    made = Local.make(value=3)
    names = Local.__qualname__, Local.Inner.__qualname__, Local.get.__qualname__, Local.__doc__, Local.__module__
    return made.get(), made.prop, Local.listed, Local.Inner().hidden(), names, Local.__annotations__


def c_names_of_nested_functions():
    def inner():
        return lambda: (yield)

    return inner.__qualname__, inner().__qualname__, inner.__module__, inner.__doc__, inner.__name__


def c_nonlocal():
    n = 0

    def bump(by=1):
        nonlocal n
        n += by
        return n

    return [bump(), bump(scale), n]


def c_global():
    global mutable_global
    mutable_global = 1
    mutable_global += scale

    def inner():
        global mutable_global
        mutable_global *= 2
        return mutable_global

    return inner(), mutable_global


def c_local_shadows_global():
    scale = 10
    len = lambda x: "mine"  # noqa: E731
    return scale, len([]), (lambda table: table)(1)


def c_class_body_scope_is_skipped():
    class K:
        scale = 100

        def method(self):
            return scale

        value = scale + 1

    return K().method(), K.value


def c_imports():
    import os.path as p
    from math import sqrt

    import numpy.linalg

    return p.basename("a/b"), sqrt(16), float(numpy.linalg.norm([3, 4]))


def c_control_flow():
    out = []
    for i in range(6):
        if i == 1:
            continue
        elif i == 4:
            break
        else:
            out.append(i if i % 2 else -i)
    else:
        out.append("unreachable")
    while len(out) < 5:
        out.append(out[-1] + 1)
    assert out, "message"
    return out, 0 < len(out) <= 5 < scale or (out[0] and not out)


def c_frame_calls():
    a, b = 1, scale
    names = sorted(set(locals()) - {"__sg__"})
    return names, eval("a + b"), globals()["scale"], a, sorted(set(vars()) & {"a", "b"}), sorted(set(dir()) & {"a"})


def c_exec():
    space = {"v": 2}
    exec("w = v * 2", space)
    return space["w"]


def c_annotated_locals():
    x: NotDefined = 1  # noqa: F821
    y: AlsoNotDefined  # noqa: F821
    box = Box(0)
    box.value: int = 5

    def f(a: str = "s", *args: int) -> float:
        return a

    y = f()
    return x, y, box.value, f.__annotations__


def c_recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(10)


def c_calls_other_functions():
    return c_walrus(), c_subscripts()[1:], helper(2)


def helper(x, *, k=scale):
    return x * k + table["a"][0]


def c_lambda_chains():
    compose = lambda *fs: lambda x: functools.reduce(lambda acc, f: f(acc), fs, x)  # noqa: E731
    return compose(lambda x: x + scale, lambda x: x * x, abs)(1)


def c_chained_calls():
    return (
        Box(1)
        .add(2)
        .add(
            scale,
        )
        .get()
    )


def c_star_targets_and_sort_keys():
    first, *rest = sorted(table["a"], key=lambda v: -v)
    (a, [b, c]), d = (1, [2, 3]), 4
    return first, rest, a, b, c, d, [*rest, *table["b"]], {**table, "c": 1}


def c_async_is_left_alone():
    async def f(x):
        return [scale + x]

    coroutine = f(1)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def c_except_star():
    caught = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(scale)])
    except* ValueError as group:
        caught.append(group.exceptions[0].args)
    except* KeyError as group:
        caught.append(group.exceptions[0].args)
    return caught


def e_zero_division():
    x = scale
    return [
        x,
        x / (x - scale),
    ]


def e_name():
    return 1 + undefined_name  # noqa: F821


def e_unbound():
    if not scale:
        value = 1
    return value + 1


def e_attribute_on_another_line():
    return (
        Box(1)
        .add(1)
        .missing.more
    )  # fmt: skip


def e_method_on_another_line():
    return (
        Box(1)
        .add(1)
        .add(
            "x",
        )
        .get()
    )


def e_missing_method():
    return (
        Box(1)
        .add(1)
        .nothing(
            1,
        )
    )  # fmt: skip


def e_wrong_arguments():
    return helper(
        1,
        2,
        3,
    )


def e_star_call():
    box = Box(1)
    return (
        box
        .add(*[
            1, 2,
        ])
    )  # fmt: skip


def e_index():
    return table["a"][
        10
    ]  # fmt: skip


def e_key_in_comprehension():
    return [
        table[key]
        for key in (
            "a",
            "z",
        )
    ]


def e_nested():
    def inner(x):
        y = x + 1
        return y + "s"

    return inner(
        scale,
    )


def e_raise():
    raise ValueError("own", scale)


def e_assert():
    assert scale == 4, f"scale is {scale}"


def e_lambda():
    return (lambda x: (x +
                       "s"))(1)  # fmt: skip


def e_not_callable():
    return scale(
        1,
    )


CORPUS = [value for name, value in list(globals().items()) if name.startswith(("c_", "e_"))]


def outcome(fun):
    """The result, or the exception with the lines and columns (in this file) it came through."""
    global mutable_global
    mutable_global = 0
    try:
        return fun()
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if frame.filename == __file__]
        hooks = inspect.getsourcelines(Recorder)[1] + np.arange(len(inspect.getsourcelines(Recorder)[0]))
        places = [(frame.name, frame.lineno, frame.end_lineno) for frame in frames if frame.lineno not in hooks]
        # A test runner adds lines of its own to the messages of assertions.
        return type(error), [str(arg).partition("\n")[0] for arg in error.args], places


@pytest.mark.parametrize("fun", CORPUS, ids=lambda fun: fun.__name__)
def test_same_behaviour(fun):
    recorder = Recorder()
    rewritten = rewrite(fun, recorder)
    assert rewritten is not fun
    assert outcome(rewritten) == outcome(fun)
    assert recorder.seen or "shadows" in fun.__name__ or fun in (e_unbound, e_name)


@pytest.mark.parametrize("fun", CORPUS, ids=lambda fun: fun.__name__)
def test_every_load_goes_through_a_hook(fun):
    attributes, subscripts = set(), set()
    stack = [rewrite(fun, Recorder()).__code__]
    while stack:
        code = stack.pop()
        if code.co_flags & inspect.CO_COROUTINE or code.co_name == "describe":
            continue  # async bodies, and patterns, load by themselves
        for instruction in dis.get_instructions(code):
            if instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
                attributes.add(instruction.argval)
            if instruction.opname == "BINARY_SUBSCR":
                subscripts.add(code.co_name)
        stack.extend(const for const in code.co_consts if isinstance(const, types.CodeType))
    in_place = {"value"}  # b.value += v
    assert attributes - in_place <= {name for name in dir(Hooks) if not name.startswith("_")}
    assert subscripts <= {"c_stores_and_deletes"}  # x[k] += v


# ---- what the hooks see ----------------------------------------------------------------------------------------------


def test_callee_sees_functions_before_their_arguments():
    order = []

    class Noting(Recorder):
        def callee(self, function, /):
            order.append(function)
            return function

    fun = rewrite(lambda: max(len("ab"), order.append("argument") or 1), Noting())
    assert fun() == 2
    assert [getattr(f, "__name__", f) for f in order] == ["max", "len", "append", "argument"]


def test_callee_may_replace():
    class Replacing(Recorder):
        def callee(self, function, /):
            return (lambda *args: -function(*args)) if function is math.sqrt else function

    assert rewrite(lambda x: math.sqrt(x) + abs(-1), Replacing())(4.0) == -1.0


def test_outer_sees_globals_and_cells_but_no_builtins():
    captured = 5

    def f(x):
        y = x + captured
        return [max(v, scale, y) for v in table["a"]]

    assert sorted(set(seen(f, 1, hook="outer"))) == ["captured", "scale", "table"]


def test_outer_may_replace():
    class Replacing(Recorder):
        def outer(self, name, value, /):
            return 100 if name == "scale" else value

    assert rewrite(lambda x: x * scale, Replacing())(2) == 200
    assert rewrite(lambda: [(lambda: scale)() for _ in range(2)], Replacing())() == [100, 100]


def test_outer_sees_inside_nested_functions_and_classes():
    def f():
        def g(y=scale):
            class K:
                z = table

                def m(self):
                    return mutable_global

            return K().m()

        return g()

    assert seen(f, hook="outer") == ["scale", "table", "mutable_global"]


def test_outer_is_not_asked_for_what_the_function_rebinds():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n + scale

    recorder = Recorder()
    rewritten = rewrite(count, recorder)
    assert (rewritten(), rewritten(), n) == (4, 5, 2)
    assert recorder.named("outer") == ["scale", "scale"]


def test_outer_is_asked_for_a_global_that_is_only_declared():
    def f():
        global scale
        return scale

    assert seen(f, hook="outer") == ["scale"]


def test_shadowed_builtin_is_a_global():
    fun = types.FunctionType((lambda: abs(-1)).__code__, {"abs": lambda x: "mine"})
    recorder = Recorder()
    assert rewrite(fun, recorder)() == "mine" and recorder.named("outer") == ["abs"]
    plain = types.FunctionType(fun.__code__, {"__builtins__": builtins})
    recorder = Recorder()
    assert rewrite(plain, recorder)() == 1 and recorder.named("outer") == []


def test_item_sees_slices_tuples_and_ellipsis():
    x, n = np.zeros((3, 3)), 1
    keys = []

    class Noting(Recorder):
        def item(self, owner, key, /):
            keys.append(key)
            return owner[key]

    rewrite(lambda: (x[n:, ::2], x[...], x[..., :n], x[0], x[:]), Noting())()
    whole = slice(None, None, None)
    assert keys == [(slice(1, None), slice(None, None, 2)), ..., (..., slice(None, 1)), 0, whole]


def test_attribute_sees_loads_only():
    def f():
        box = Box(1)
        box.value = 2
        box.value += 1
        box.add(1).value = 7
        return box.value

    assert seen(f, hook="attribute") == ["add", "value"]


def test_attribute_of_a_module_goes_through_the_hook():
    assert seen(lambda: np.linalg.norm([3, 4]), hook="attribute") == ["linalg", "norm"]


class Private:
    __shared = 2

    def __init__(self):
        self.__x = 1

    def read(self):
        return self.__x + self.__shared + Private.__shared

    def keyword(self, *, __k=3):
        return (lambda: __k)() + self.__with(4)

    def __with(self, __y):
        return __y

    def captured(self):
        __local = 5

        def inner():
            return __local

        return inner

    @functools.lru_cache  # noqa: B019
    def cached(self):
        return super().__hash__() and 1


def test_mangled_names():
    assert seen(Private.read, Private(), hook="attribute") == ["_Private__x", "_Private__shared", "_Private__shared"]
    assert seen(Private.keyword, Private(), hook="attribute") == ["_Private__with"]
    assert seen(Private().captured(), hook="outer") == ["_Private__local"]


class Parent:
    def name(self, x):
        return "parent", x


class Child(Parent):
    def name(self, x):
        return super().name(x), __class__, super(Child, self).name(x)  # noqa: UP008  the form with arguments


def test_super_and_class_cell():
    assert rewrite(Child.name, Recorder())(Child(), 1) == Child().name(1)


# ---- what the rewritten function is ----------------------------------------------------------------------------------


def test_attributes_are_copied():
    def original(a, b: int = 2, *, c: float = 3.0) -> str:
        """Doc."""

    original.extra = [1]
    new = rewrite(original, Recorder())
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"):
        assert getattr(new, name) == getattr(original, name)
    assert new.__annotations__ == original.__annotations__ and new.extra is original.extra
    assert new.__globals__ is original.__globals__
    assert inspect.signature(new) == inspect.signature(original)


def test_code_keeps_file_name_and_first_line():
    for fun in (helper, Private.__dict__["cached"].__wrapped__, Private.read, lambda: scale):
        old, new = fun.__code__, rewrite(fun, Recorder()).__code__
        for name in ("co_filename", "co_firstlineno", "co_name", "co_qualname", "co_varnames", "co_argcount"):
            assert getattr(new, name) == getattr(old, name)
        assert new.co_flags | inspect.CO_NESTED == old.co_flags | inspect.CO_NESTED


def test_cells_and_globals_are_shared():
    n = 1

    def f():
        return n, mutable_global

    new = rewrite(f, Recorder())
    assert new.__closure__[new.__code__.co_freevars.index("n")] is f.__closure__[0]
    n = 2
    globals()["mutable_global"] = 7
    assert new() == (2, 7)


def test_defaults_are_those_of_the_function_object():
    def f(x=1, *, y=2):
        return x, y

    f.__defaults__, f.__kwdefaults__ = (10,), {"y": 20}
    assert rewrite(f, Recorder())() == (10, 20)


def test_code_is_compiled_once_and_cells_bound_each_time():
    def make(n):
        return lambda: n

    one, two = rewrite(make(1), Recorder()), rewrite(make(2), Recorder())
    assert one.__code__ is two.__code__ and (one(), two()) == (1, 2)


def test_equal_code_at_different_places_keeps_its_place():
    first, second = (lambda: scale), (lambda: scale)
    columns = [max(place[2] or 0 for place in rewrite(f, Recorder()).__code__.co_positions()) for f in (first, second)]
    assert columns[0] < columns[1]


def test_rewritten_functions_are_left_alone_nested_ones_too():
    def f():
        def inner():
            return lambda: 1

        return inner

    new = rewrite(f, Recorder())
    inner = new()
    for produced in (new, inner, inner()):
        assert rewrite(produced, Recorder()) is produced and has_source(produced)


def test_without_source():
    space = {}
    exec("def f(x): return x", space)
    assert rewrite(space["f"], Recorder()) is space["f"] and not has_source(space["f"])
    assert has_source(helper)


def test_async_is_left_alone():
    async def f():
        return scale

    async def g():
        yield scale

    assert rewrite(f, Recorder()) is f and rewrite(g, Recorder()) is g


def test_long_sums_do_not_recurse(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("a = 1\ndef f():\n    return " + " + ".join(["a"] * 1500) + "\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert rewrite(space["f"], Recorder())() == 1500


def test_too_deep_is_an_error(tmp_path):
    path = tmp_path / "deep.py"
    depth = 700
    path.write_text("def f(x):\n    return x" + "[0]" * depth + "\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(UnsupportedError, match="f: an expression is nested too deeply"):
        rewrite(space["f"], Recorder())


def test_future_annotations_of_the_file_are_kept():
    def f():
        def inner(x: undefined):  # noqa: F821
            return x

        return inner.__annotations__

    assert rewrite(f, Recorder())() == {"x": "undefined"}


def test_traceback_shows_the_text():
    with pytest.raises(ZeroDivisionError) as raised:
        rewrite(e_zero_division, Recorder())()
    frame = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert frame.line == "x / (x - scale),"
    start, end = frame.colno, frame.end_colno
    assert linecache.getline(__file__, frame.lineno)[start:end] == "x / (x - scale)"


# ---- bound -----------------------------------------------------------------------------------------------------------


class Callable_:
    def __call__(self, x):
        return x

    def method(self, x):
        return x

    @staticmethod
    def static(x):
        return x

    @classmethod
    def make(cls, x):
        return cls


class StaticCall:
    __call__ = staticmethod(helper)


def test_bound():
    box = Callable_()
    assert bound(helper) == (helper, ())
    assert bound(box) == (Callable_.__call__, (box,))
    assert bound(box.method) == (Callable_.method, (box,))
    assert bound(Callable_.make) == (Callable_.make.__func__, (Callable_,))
    assert bound(Callable_.static) == bound(Callable_.__dict__["static"]) == (Callable_.static, ())
    assert bound(functools.partial(box.method, 1)) == (Callable_.method, (box, 1))
    assert bound(StaticCall()) == (helper, ())


@pytest.mark.parametrize("fun", [len, np.sin, Box, int, 3, "text", [].append, functools.partial(len), print])
def test_bound_of_what_has_no_python_function(fun):
    assert bound(fun) is None


def test_bound_partial_with_keywords():
    function, leading = bound(functools.partial(helper, 2, k=5))
    assert leading == (2,) and function(*leading) == 11 and function(*leading, k=7) == 15
    recorder = Recorder()
    assert rewrite(function, recorder)(*leading) == 11
    assert helper in recorder.named("callee") and "table" in recorder.named("outer")


def test_wraps_is_rewritten_as_the_wrapper():
    @functools.wraps(helper)
    def wrapper(x):
        return helper(x) + 1

    assert bound(wrapper) == (wrapper, ())
    assert rewrite(wrapper, Recorder())(1) == helper(1) + 1


def test_the_caller_seen_from_a_callee_is_the_function():
    def caller():
        return sys._getframe(1).f_code.co_name

    def asks():
        return caller()

    assert rewrite(asks, Recorder())() == "asks"
