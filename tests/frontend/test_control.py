"""Control flow on traced conditions: the traced side gets the right parts and variables; poison and ranges."""

from __future__ import annotations

import contextlib
import types
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symgrad.errors import TraceError
from symgrad.frontend import control, ranges, rolled, statements
from symgrad.frontend.pyast import rewrite
from tests.frontend.plain_hooks import Plain
from tests.frontend.programs import compiled, programs


@dataclass
class Unknown:
    """A condition that the traced side decides; asking Python for its truth is an error."""

    truth: bool

    def __bool__(self):
        raise TypeError("not known")


def truth(x):
    return x.truth if isinstance(x, Unknown) else bool(x)


class Both(Plain):
    def negate(self, value, /):
        return Unknown(not value.truth) if isinstance(value, Unknown) else not value


class Fake:
    """A traced side that runs both arms of a branch, each from the same variables, and takes what one of them did."""

    def __init__(self, roll):
        self.roll = roll
        self.seen = []

    def traced_branch(self, test, then, otherwise, get, put, names, place):
        self.seen.append(("branch", names, place))
        before, after = get(), []
        for arm in (then, otherwise):
            arm()
            after.append(get())
            put(before)
        other, chosen = after[test.truth], after[not test.truth]
        put(
            [Unknown(truth(x)) if isinstance(x, bool) and x is not y else x for x, y in zip(chosen, other, strict=True)]
        )

    def traced_repeat(self, test, body, get, put, names, place):
        self.seen.append(("repeat", names, place))
        while truth(test()):
            body()
            put(get())

    def traced_each(self, items, body, get, put, names, place, more):
        self.seen.append(("each", names, place))
        if not self.roll:
            return NotImplemented
        for item in items:
            body(item)
            if more is not None and not truth(more()):
                break
        return None

    def traced_choose(self, test, then, otherwise, place):
        self.seen.append(("choose", place))
        return [otherwise(), then()][test.truth]


@pytest.fixture
def fake(monkeypatch):
    return lambda roll=True: faked(monkeypatch, roll)


def faked(monkeypatch, roll):
    side = Fake(roll)
    for module, names in ((statements, ("traced_branch", "traced_choose")), (rolled, ("traced_repeat", "traced_each"))):
        for name in names:
            monkeypatch.setattr(module, name, getattr(side, name))
    monkeypatch.setattr(control, "decided", lambda x: None if isinstance(x, Unknown) else bool(x))
    monkeypatch.setattr(control, "tracing", lambda: True)
    monkeypatch.setattr(control, "SHORT", 2)
    return side


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(effects=False), st.integers(-1, 3), st.booleans())
def test_random_programs_from_both_arms(text, n, roll):
    space = {"t": lambda x: x, "cm": lambda x: contextlib.nullcontext()}
    fun = compiled(text, space)
    args = n, 1, 2, n + 1
    wanted = fun(*args)
    with pytest.MonkeyPatch.context() as monkeypatch:
        faked(monkeypatch, roll)
        space["t"] = Unknown
        assert rewrite(fun, Both())(*args) == wanted


def test_branch_gets_the_names_that_its_arms_assign(fake):
    def f(x, y):
        if Unknown(x > 0):
            (a, [b, *c]), d = (1, [2, 3]), 4
            y += 1
        else:
            a = b = c = d = 0
            with contextlib.nullcontext(5) as e:
                for g in range(2):  # noqa: B007  the name is what is tested
                    import math as h
            y = e + g + h.floor(1.5)
        return a, b, c, d, y

    side = fake()
    assert rewrite(f, Both())(1, 2) == f_plain(f, 1, 2)
    ((_, names, place),) = side.seen
    assert names == ("a", "b", "c", "d", "e", "g", "h", "y") and place == f"line {f.__code__.co_firstlineno + 1}"


def f_plain(f, *args):
    """What ``f`` gives when its conditions are plain."""
    return types.FunctionType(f.__code__, {**globals(), "Unknown": bool}, "f", f.__defaults__, f.__closure__)(*args)


def test_names_that_are_not_needed_any_more_are_unbound(fake):
    seen = []

    def f(x):
        kept, label = 0, "before"
        if Unknown(x > 0):
            kept, scratch, label = 1, "left", "then"
            return kept + len(scratch) + len(label)
        label = "after"
        return len(label) + kept

    side = fake()
    wrapped = side.traced_branch

    def branch(test, then, otherwise, get, put, names, place):
        before = get()
        for arm in (then, otherwise):
            arm()
            seen.append({name for name, value in zip(names, get(), strict=True) if value is not control.UNBOUND})
            put(before)
        wrapped(test, then, otherwise, get, put, names, place)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(statements, "traced_branch", branch)
        assert rewrite(f, Both())(1) == 9 and rewrite(f, Both())(-1) == 5
    assert seen == [{"_sg_result"}] * 4


@pytest.mark.parametrize("roll", [True, False])
def test_names_that_the_next_round_reads_are_kept(fake, roll):
    def f(x):
        y = z = 0
        for k in range(4):
            y = y + z
            if Unknown(k > 1):  # noqa: SIM108  a statement is what is tested
                z = k
            else:
                z = 10
        w = 0
        while w < 3:
            y += z
            if Unknown(y > 0):
                z = w
            w += 1
        return y

    fake(roll)
    assert rewrite(f, Both())(1) == f_plain(f, 1)


def test_flags_are_hidden_names(fake):
    def f(n):
        total = 0
        for i in range(4):
            if Unknown(i == n):
                break
            total += i
        return total

    side = fake(roll=False)
    assert rewrite(f, Both())(2) == 1
    names = {name for entry in side.seen for name in entry[1] if entry[0] == "branch"}
    assert names == {"i", "total", "_sg_broke1"}


def test_repeat_takes_over_where_the_condition_is_not_known(fake):
    counts = []

    def f(x):
        k = 0
        while k < 3 or Unknown(x < 20):
            counts.append(k)
            x, k = x + 3, k + 1
        return x

    side = fake()
    assert rewrite(f, Both())(1) == 22
    assert [entry[0] for entry in side.seen].count("repeat") == 1 and counts == list(range(7))


def test_arms_keep_their_value_when_the_condition_is_plain(fake):
    def f(x):
        if x > 0:
            x = Unknown(True)
        return 1 if x else 2

    side = fake()
    assert rewrite(f, Both())(1) == 1 and rewrite(f, Both())(0) == 2
    assert [entry[0] for entry in side.seen] == ["choose"]


def test_an_assertion_on_a_traced_value_is_a_branch_whose_other_arm_raises(fake, monkeypatch):
    def f(x):
        assert Unknown(x > 3), "message"
        return x

    fake()
    seen = []
    monkeypatch.setattr(
        statements, "traced_branch", lambda test, then, otherwise, *rest: seen.append((test.truth, then, otherwise))
    )
    assert rewrite(f, Both())(5) == 5
    ((holds, then, otherwise),) = seen
    assert holds and then() is None
    with pytest.raises(AssertionError, match=r"^message$"):
        otherwise()


# ---- poison ---------------------------------------------------------------------------------------------------------

USES = [
    lambda y: y + 1, lambda y: 1 - y, lambda y: -y, lambda y: y.shape, lambda y: y[0], lambda y: y(), lambda y: bool(y),
    lambda y: float(y), lambda y: y == 1, lambda y: y < 1, lambda y: list(y), lambda y: len(y), lambda y: np.sin(y),
    lambda y: np.zeros(2) + y, lambda y: np.sum(y), lambda y: f"{y}", lambda y: 1 in y, lambda y: np.asarray(y),
    lambda y: {y: 1}, lambda y: control.present(y),
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_poison_is_explained(use):
    with pytest.raises(TraceError, match=r"y has a value only in some cases.*line 7.*give y a value before"):
        use(control.Poison("y", "line 7"))


def test_reading_a_name_that_may_be_unbound_asks():
    asked = []

    class Asking(Plain):
        def present(self, value, /):
            asked.append(value)
            return value

    def f(x):
        sure = 1
        if x:
            y, sure = 2, 3
        return [y, sure]

    assert rewrite(f, Asking())(1) == [2, 3] and asked == [2]


# ---- ranges ---------------------------------------------------------------------------------------------------------


def test_ranges_of_plain_numbers_are_pythons():
    assert ranges.CALLEES[range](2, 9, 3) == range(2, 9, 3)
    assert list(ranges.CALLEES[enumerate]("ab", 1)) == [(1, "a"), (2, "b")]
    assert list(ranges.CALLEES[zip]("ab", range(2), strict=True)) == [("a", 0), ("b", 1)]
    assert list(ranges.CALLEES[reversed]([1, 2])) == [2, 1]


@pytest.mark.parametrize("make", [
    lambda c, r, x: c[enumerate](x, 3), lambda c, r, x: c[zip](x, r), lambda c, r, x: c[reversed](r),
    lambda c, r, x: c[reversed](x), lambda c, r, x: c[enumerate](c[zip](r, c[reversed](x))), lambda c, r, x: x,
])  # fmt: skip
def test_items_by_position_are_those_one_by_one(make, monkeypatch):
    monkeypatch.setattr(ranges, "tracing", lambda: True)
    monkeypatch.setattr(ranges, "wrap", lambda x: x)
    monkeypatch.setattr(ranges, "value", lambda x: x)
    x, r = np.arange(40) * 2, range(5, 85, 2)
    items = make(ranges.CALLEES, r, x)
    wanted = make({f: f for f in (enumerate, zip, reversed)}, r, x)
    rolled = ranges.rollable(items, 32)
    out = []
    step = rolled.stepping(out.append)
    for k in rolled.over:
        step(k)
    assert str(list(wanted)) == str(out)


def test_short_and_foreign_things_are_not_rolled():
    assert ranges.rollable(range(32), 32) is None and ranges.rollable(range(33), 32) is not None
    assert ranges.rollable(list(range(100)), 32) is None and ranges.rollable({}, 32) is None
