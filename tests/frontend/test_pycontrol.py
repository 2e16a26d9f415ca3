"""Rewritten control flow: nothing changes for plain values."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import traceback
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symgrad.frontend.pyast import rewrite
from tests.frontend.plain_hooks import Plain
from tests.frontend.programs import compiled, programs


def places(error):
    """The lines of this file that an exception came through; those of arms are those of their function."""
    out, frame = [], error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_filename == __file__ and code.co_name not in HOOKS:
            nested = out and code in out[-1][2].co_consts and code.co_name == out[-1][0]
            out[-1 if nested else len(out) :] = [(code.co_name, frame.tb_lineno, code)]
        frame = frame.tb_next
    return [(name, line) for name, line, _ in out][1:]


HOOKS = {name for name in dir(Plain) if not name.startswith("_")}


def outcome(fun, *args):
    log = []
    try:
        return fun(log, *args), log
    except Exception as error:
        return *described(error), log, places(error)


def described(error):
    """Unbound variables that are shared with arms are NameErrors; a test runner adds to the messages of assertions."""
    message = str(error).partition("\n")[0]
    if isinstance(error, NameError):
        return NameError, message.replace("free variable", "local variable").replace(" in enclosing scope", "")
    return type(error), "" if message.startswith("assert ") else message


def same(fun, *args):
    new = rewrite(fun, Plain(__file__))
    assert new is not fun
    left, right = outcome(new, *args), outcome(fun, *args)
    assert left == right
    return right


# ---- functions of a log and a number -------------------------------------------------------------------------------


def f_if(log, n):
    if n > 2:
        a = 1
    elif n == 1:
        a = b = 2
        log.append(b)
    else:
        a = 3
    return a


def f_guards(log, n):
    if n < 0:
        return "negative"
    if n == 0:
        log.append("zero")
        return
    elif n == 1:
        log.append("one")
    else:
        if n == 2:
            return "two"
        log.append("many")
    return n


def f_unbound(log, n):
    if n > 1:
        x = 1
    return x


def f_del(log, n):
    x = y = 1
    if n > 1:
        del x
        y = 2
    for k in range(n):
        if k == 1:
            del y
    return x, y


def f_loops(log, n):
    total = 0
    for i in range(n):
        j = 0
        while True:
            j += 1
            if j > 3:
                break
            elif (i + j) % 2:
                continue
            total += i * j
            log.append((i, j))
        else:
            log.append("never")
        if i == 3:
            break
    else:
        log.append("all")
    return total, i, j


def f_return_in_loops(log, n):
    for i in range(4):
        for j in range(4):
            log.append((i, j))
            if i * j == n:
                return i, j
            if j > i:
                break
        else:
            log.append("full")
            continue
        log.append("next")
    return None


def f_while_else(log, n):
    while n < 5:
        n += 1
        if n == 3:
            log.append("three")
            continue
        if n == 4:
            break
    else:
        log.append("else")
        return n
    return -n


def f_forever(log, n):
    while 1:
        n += 1
        if n > 4:
            return n


def f_nested_else_breaks(log, n):
    for i in range(5):
        for j in range(n):
            if j == 2:
                log.append("broke")
                break
        else:
            log.append("else")
            if i > 1:
                break
            continue
        if i > 2:
            return i, j
    return "end"


def f_with(log, n):
    @contextlib.contextmanager
    def cm(name):
        log.append(("in", name))
        try:
            yield name
        finally:
            log.append(("out", name))

    for i in range(3):
        with cm(i) as name, contextlib.suppress(ZeroDivisionError):
            if i == n:
                return name
            if i == n - 1:
                1 / (i - n + 1)
            if n == 5:
                continue
            log.append("end of with")
        log.append("after")
    return "none"


def f_try(log, n):
    for i in range(4):
        try:
            if i == n:
                return "early"
            if n == 7 and i == 1:
                break
            if i == 2:
                raise KeyError(i)
            if i == 3:
                continue
        except KeyError as error:
            log.append(error.args)
            if n == 8:
                return "handled"
        else:
            log.append("else")
        finally:
            log.append(("finally", i))
    return "end"


def f_return_in_finally(log, n):
    for i in range(3):
        try:
            if i == n:
                raise ValueError
        finally:
            if i == 1:
                return i  # noqa: B012
    return None


def f_raise(log, n):
    if n > 1:
        log.append("raise")
        raise ValueError(
            n,
        )
    for i in range(3):
        if i == n:
            x = [i]
            return x[i + 1]
    return 1 / 0


def f_bad_test(log, n):
    x = np.zeros(2)
    while x < n:
        pass


def f_bad_iterable(log, n):
    for i in n:
        log.append(i)


def f_bad_target(log, n):
    for a, b in [(1, 2), (n,)]:
        log.append(a + b)


def f_targets(log, n):
    x = [0] * 5
    for x[n % 5], (a, *b) in zip(range(3), ["ab", "cde", "f"], strict=True):
        log.append((list(x), a, b))
    if n:
        (c, d), x[0], *e = (1, 2), 3, 4
        x[1] += n
        d += 1
    else:
        c = d = e = None
    return x, a, b, c, d, e


def f_closures(log, n):
    made = []
    for i in range(3):
        if i != n:
            made.append(lambda: (i, n))  # noqa: B023
    n += 10
    if n > 10:

        def inner(k=n):
            nonlocal n
            n += 1
            return k

        class K:
            value = n

            def method(self):
                if self.value > 10:
                    return n, type(self).__qualname__
                return inner.__qualname__

        made += [inner, K().method]
    return [f() for f in made], [f.__qualname__ for f in made], n


counter = 0


def f_global(log, n):
    global counter
    counter = 0
    for _ in range(n):
        counter += 1
        if counter == 3:
            global other
            other = counter
            break
    else:
        other = -1
    return counter, other


def f_walrus(log, n):
    out = []
    if (k := n + 1) > 2 and (m := k * 2) > 5:
        out.append(m)
    while (k := k - 1) > 0:
        out.append(k)
    values = [last := v for v in range(n) if v] if n else []
    if n > 1:
        out.append([late := v for v in values])
        out.append(late)
        out.append(last)
    return out, 0 < (z := n) < 3, z


def f_expressions(log, n):
    def say(x):
        log.append(x)
        return x

    a = say(1) if say(n) > 1 else say(2)
    b = say(n) and say(0) and say(3), say(0) or say("") or say(n), not say(n)
    c = say(0) < say(n) <= say(3) != say(5), 1 < n > 0 in [True], say(1) is not None is not say(2)
    d = [x if x else -1 for x in range(n) if x or (n > 1 and x != 2)]
    e = (lambda y: y if y else say("lambda"))(n)
    g = list(v and w for v in d for w in d if v != w or None)
    return a, b, c, d, e, g, f"{'yes' if n else 'no':>4}"


def f_assert(log, n):
    assert n < 3, f"n is {n}"
    assert n != 1
    return n


def f_match(log, n):
    for i in range(5):
        match i, n:
            case 0, _:
                continue
            case 1, 1 | 2:
                log.append("break")
                break
            case k, 4 if k > 1 and n:
                return k
            case _:
                log.append(i)
        log.append("after")
    return "end"


def f_annotated(log, n):
    x: Missing = 1  # noqa: F821
    if n:
        x: Missing = 2  # noqa: F821
        y: Missing  # noqa: F821
        for y in range(n):
            z: int = y
    return x, (y, z) if n else None


def f_docs(log, n):
    """Doc."""

    def inner():
        """Inner doc."""
        if n:
            return 1
        return 2

    return inner(), inner.__doc__, inner.__name__


def f_dead_code(log, n):
    if n:
        return n
    return 0
    n = later = 2  # noqa: F841


def f_later_local(log, n):
    if n:
        return scale  # noqa: F821
    return 1
    scale = 2  # noqa: F841


def f_generator(log, n):
    def inner():
        for i in range(n):
            if i == 2:
                return
            got = yield i
            log.append(got)

    return list(inner()), list(x if x else None for x in inner())


def f_frame(log, n):
    def inner():
        a = 1
        if n:
            b = a
        return sorted(set(locals()) - {"__sg__"})

    return inner(), eval("n") if n else None


def f_imports(log, n):
    if n:
        import os.path
        from math import sqrt as root

        return os.path.basename("a/b"), root(n)
    import json

    return json.dumps(n)


def f_recursive(log, n):
    if n < 2:
        return n
    return f_recursive(log, n - 1) + f_recursive(log, n - 2)


def f_infinite_iterable(log, n):
    steps = itertools.count()
    for i in steps:
        if i == abs(n):
            break
    return next(steps)


def f_long_ladder(log, n):
    if n == 0:
        return "a"
    if n == 1:
        return "b"
    if n == 2:
        x = 5
    elif n == 3:
        return "c"
    elif n == 4:
        for i in range(3):
            if i:
                return i
    else:
        x = 7
    if x == 5:
        log.append(x)
    elif x == 7:
        raise KeyError(x)
    return x


class Base:
    def value(self, n):
        return "base", n


class Derived(Base):
    __hidden = 3

    def value(self, n):
        if n:
            __x = self.__hidden
            for __k in range(n):
                __x += super().value(n)[1]
            return super().value(__x) if n > 1 else super().value(0)
        return __class__.__name__


def f_super(log, n):
    class Local(Base):
        def value(self, n):
            while True:
                if n:
                    return super().value(n)
                n += 1

    return rewrite(Derived.value, Plain(__file__))(Derived(), n), Local().value(n)


FUNCTIONS = [value for name, value in list(globals().items()) if name.startswith("f_")]


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda fun: fun.__name__)
def test_same_behaviour(fun):
    for n in (0, 1, 2, 3, 4, 5, 7, 8, -1):
        same(fun, n)


def test_names_of_functions_are_the_users():
    new = rewrite(f_loops, Plain(__file__))
    stack, names = [new.__code__], set()
    while stack:
        code = stack.pop()
        names.add((code.co_name, code.co_qualname))
        stack += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    assert names == {("f_loops", "f_loops")}


def test_a_function_without_control_flow_has_no_cells():
    def f(log, x):
        y = x + 1
        return y

    assert rewrite(f, Plain(__file__)).__code__.co_cellvars == ()


def test_signature_doc_and_defaults_are_kept():
    def f(x, *, y=2):
        """Doc."""
        if x:
            return y
        return x

    new = rewrite(f, Plain(__file__))
    assert (new(1), new.__doc__, str(inspect.signature(new))) == (2, "Doc.", "(x, *, y=2)")


def test_very_deep_nesting_is_left_alone(tmp_path):
    lines = ["def f(x):", "    y = 0"]
    lines += ["    " * (k + 1) + f"if x > {k}:" for k in range(90)] + ["    " * 91 + "y = 1", "    return y"]
    path = tmp_path / "deep.py"
    path.write_text("\n".join(lines) + "\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    new = rewrite(space["f"], Plain(__file__))
    assert new is not space["f"] and (new(90), new(5)) == (1, 0) and new.__code__.co_cellvars == ()


def test_long_ladders_are_left_alone(tmp_path):
    path = tmp_path / "ladder.py"
    path.write_text("def f(x):\n" + "".join(f"    if x == {k}: return {k}\n" for k in range(600)))
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert rewrite(space["f"], Plain(__file__))(599) == 599


# ---- random programs ------------------------------------------------------------------------------------------------


def ran(fun, log, *args):
    log.clear()
    try:
        return fun(*args), list(log)
    except Exception as error:
        file = fun.__code__.co_filename
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        return *described(error), lines[-1], list(log)


def with_the_right_line(outcome, text):
    """What else may come out: CPython 3.11 can give the line of a loop for a name that is unbound in the line below."""
    if outcome[0] not in (NameError, UnboundLocalError):
        return []
    kind, message, line, log = outcome
    name = re.search(r"'(\w+)'", message)[1]
    reads = [bool(re.search(rf"\b{name}\b", row)) for row in ["", *text.splitlines()]]
    return [] if reads[line] else [(kind, message, k, log) for k, found in enumerate(reads) if found]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(effects=True), st.integers(-1, 3))
def test_random_programs_are_the_same(text, n):
    log = []

    @contextlib.contextmanager
    def cm(x):
        log.append(("in", x))
        with contextlib.suppress(KeyError):
            yield
        log.append(("out", x))

    fun = compiled(text, {"t": lambda x: x, "log": log.append, "cm": cm})
    args = n, 1, 2, n + 1
    plain = ran(fun, log, *args)
    assert ran(rewrite(fun, Plain(__file__)), log, *args) in (plain, *with_the_right_line(plain, text))
