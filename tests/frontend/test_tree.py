"""Trees: what flattens to what, what comes back, and what compares equal."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import FrozenInstanceError, dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.errors import ShapeError, TraceError
from symgrad.frontend.tree import LEAF, flatten, leaf_paths, register_leaf, tree_map, unflatten

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Base:
    x: object
    y: object = 2


@dataclass(frozen=True)
class Derived(Base):
    z: object = field(default=None, init=False)

    def __post_init__(self):
        if not isinstance(self.x, int):
            raise TypeError("validated")


@dataclass(slots=True)
class Slotted:
    a: object


class Opaque:
    pass


@pytest.mark.parametrize(
    ("tree", "shown", "count"),
    [
        (1.0, "*", 1),
        (None, "None", 0),
        ((), "()", 0),
        ((1,), "(*,)", 1),
        ((1, [2, None]), "(*, [*, None])", 2),
        ({"b": 1, "a": (2, 3)}, "{'a': (*, *), 'b': *}", 3),
        (OrderedDict(b=1, a=2), "OrderedDict({'b': *, 'a': *})", 2),
        (defaultdict(list, {"a": [1]}), "defaultdict(<class 'list'>, {'a': [*]})", 1),
        (Point(1, [2]), "Point(x=*, y=[*])", 2),
        (Base(1), "Base(x=*, y=*)", 2),
        (Opaque(), "*", 1),
    ],
)
def test_structure(tree, shown, count):
    leaves, treedef = flatten(tree)
    assert (str(treedef), treedef.num_leaves, len(leaves)) == (shown, count, count)


def test_leaves_are_the_very_objects():
    x, y = np.ones(3), Opaque()
    leaves, _ = flatten({"a": x, "b": [y]})
    assert leaves[0] is x and leaves[1] is y


def test_dict_order_does_not_matter_but_is_restored():
    (first, one), (second, two) = flatten({"b": 1, "a": 2}), flatten({"a": 2, "b": 1})
    assert first == second == [2, 1]
    assert one == two and hash(one) == hash(two) and str(one) == str(two)
    assert list(unflatten(one, first)) == ["b", "a"]
    assert list(unflatten(two, first)) == ["a", "b"]


def test_keys_of_mixed_types_are_sorted_by_type_first():
    (leaves, one), (_, two) = flatten({"a": 1, 2: 3, 1: 4}), flatten({1: 4, "a": 1, 2: 3})
    assert one == two and leaves == [4, 3, 1]


def test_keys_without_an_order_keep_that_of_insertion():
    a, b = Opaque(), Opaque()
    assert flatten({a: 1, b: 2})[0] == [1, 2]
    assert flatten({a: 1, b: 2})[1] != flatten({b: 2, a: 1})[1]
    assert unflatten(flatten({b: 1, a: 2})[1], [3, 4]) == {b: 3, a: 4}


def test_order_of_an_ordered_dict_is_structure():
    assert flatten(OrderedDict(a=1, b=2))[1] != flatten(OrderedDict(b=2, a=1))[1]


def test_different_containers_differ():
    trees = [1, None, (), (1,), [1], {0: 1}, OrderedDict({0: 1}), defaultdict(int, {0: 1}), defaultdict(list, {0: 1})]
    assert len({flatten(tree)[1] for tree in trees}) == len(trees)


def test_subclasses_of_containers_are_leaves():
    class MyList(list):
        pass

    class MyDict(dict):
        pass

    assert flatten([MyList([1]), MyDict(a=1)])[1].num_leaves == 2


def test_defaultdict_keeps_its_factory():
    tree = unflatten(*reversed(flatten(defaultdict(list, a=1))))
    assert type(tree) is defaultdict and tree.default_factory is list and tree == {"a": 1}


def test_dataclass_is_rebuilt_without_running_its_code():
    leaves, treedef = flatten(Derived(1))
    rebuilt = unflatten(treedef, ["not an int", 5])
    assert type(rebuilt) is Derived and (rebuilt.x, rebuilt.y, rebuilt.z) == ("not an int", 5, None)
    assert leaves == [1, 2]
    with pytest.raises(FrozenInstanceError):
        rebuilt.x = 3


def test_slotted_dataclass():
    assert unflatten(flatten(Slotted(1))[1], [7]) == Slotted(7)


def test_dataclass_itself_is_a_leaf():
    assert flatten(Base)[1] is LEAF


def test_registered_leaf_is_not_opened():
    @register_leaf
    @dataclass
    class Traced:
        x: int

    traced = Traced(1)
    assert flatten(traced) == ([traced], LEAF)
    assert flatten((traced, [traced]))[0] == [traced, traced]


def test_flat_tuple_agrees_with_the_general_way():
    fast, slow = flatten((1, 2))[1], flatten(([1, 2], (1, 2)))[1].children[1]
    assert fast == slow and hash(fast) == hash(slow)


def test_frozen():
    with pytest.raises(AttributeError):
        flatten((1,))[1].num_leaves = 3


def test_leaf_paths():
    tree = {"w": [Point(1, Base(2)), (3,)], 0: 4}
    assert leaf_paths(tree) == ["[0]", "['w'][0].x", "['w'][0].y.x", "['w'][0].y.y", "['w'][1][0]"]
    assert leaf_paths(1.0) == [""]


def test_tree_map_over_several_trees():
    assert tree_map(lambda x, y: x - y, (1, {"a": 2}), (10, {"a": 20})) == (-9, {"a": -18})


def test_tree_map_wants_equal_structures():
    with pytest.raises(ShapeError, match=r"tree 1 is \[\*\], but tree 0 is \(\*,\)"):
        tree_map(max, (1,), [1])


def test_unflatten_wants_as_many_leaves():
    with pytest.raises(ShapeError, match=r"\(\*, \*\) has 2 leaves, got 1"):
        unflatten(flatten((1, 2))[1], [1])


def test_tree_that_contains_itself():
    tree = [1]
    tree.append(tree)
    with pytest.raises(TraceError, match="contains itself"):
        flatten(tree)


keys = st.one_of(st.integers(-3, 3), st.text("ab", max_size=2))
trees = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text("xyz", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.dictionaries(keys, inner, max_size=3).map(lambda items: defaultdict(int, items)),
        st.builds(Point, inner, inner),
        st.builds(Base, inner, inner),
    ),
    max_leaves=12,
)


@given(trees)
def test_round_trip(tree):
    leaves, treedef = flatten(tree)
    rebuilt = unflatten(treedef, leaves)
    assert type(rebuilt) is type(tree) and rebuilt == tree and str(rebuilt) == str(tree)
    assert None not in leaves and not any(isinstance(leaf, list | tuple | dict | Base) for leaf in leaves)


@given(trees)
def test_definition_does_not_depend_on_the_leaves(tree):
    leaves, treedef = flatten(tree)
    other = tree_map(lambda _: Opaque(), tree)
    assert flatten(other)[1] == treedef and hash(flatten(other)[1]) == hash(treedef)
    assert len(set(leaf_paths(tree))) == len(leaves) == treedef.num_leaves


@given(trees)
def test_paths_reach_the_leaves(tree):
    for path, leaf in zip(leaf_paths(tree), flatten(tree)[0], strict=True):
        assert eval(f"tree{path}", {"tree": tree}) is leaf


@given(trees, trees)
def test_equal_definitions_accept_each_others_leaves(one, two):
    (leaves, first), (_, second) = flatten(one), flatten(two)
    if first == second:
        assert unflatten(second, leaves) == one
    else:
        assert str(first) != str(second)
