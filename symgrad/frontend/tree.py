"""Nested container of values -> flat list of leaves and a ``TreeDef``, and back.

``unflatten(treedef, leaves)`` inverts ``flatten``. The leaves of trees with equal definitions correspond one to one.
A dict's leaves are ordered by its keys where those can be sorted, so that insertion order does not matter; the rebuilt
dict has the insertion order of the dict that was flattened.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from symgrad.errors import ShapeError, TraceError

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True, eq=False)
class TreeDef:
    """The structure of a tree; ``container`` is None for a leaf, ``order`` (of dict keys) takes no part in equality."""

    container: Container | None
    cls: type
    keys: tuple[Hashable, ...]
    children: tuple[TreeDef, ...]
    num_leaves: int
    default_factory: Callable[[], object] | None = None
    order: tuple[Hashable, ...] | None = None
    hash_value: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash_value", hash((self.cls, self.keys, self.children)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeDef):
            return NotImplemented
        return (
            self.hash_value == other.hash_value
            and self.cls is other.cls
            and self.keys == other.keys
            and self.default_factory == other.default_factory
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return self.hash_value

    def __str__(self) -> str:
        return "*" if self.container is None else self.container.show(self, [str(child) for child in self.children])

    def paths(self) -> Iterator[str]:
        """The path of each leaf, in order."""
        if self.container is None:
            yield ""
            return
        for step, child in zip(self.container.steps(self), self.children, strict=True):
            for rest in child.paths():
                yield step + rest


class Parts(NamedTuple):
    """What a container splits into: the names and values of its children, in leaf order."""

    keys: tuple[Hashable, ...]
    children: Iterable[object]
    default_factory: Callable[[], object] | None = None
    order: tuple[Hashable, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """One kind of container: how to split it, build it again, name its children and print it."""

    split: Callable[..., Parts]
    build: Callable[[TreeDef, list[object]], object]
    steps: Callable[[TreeDef], list[str]]
    show: Callable[[TreeDef, list[str]], str]


class _LeafType:
    """The ``cls`` of a leaf's definition, so that it differs from that of every container."""


LEAF = TreeDef(None, _LeafType, (), (), 1)


def _indices(treedef: TreeDef) -> list[str]:
    return [f"[{i}]" for i in range(len(treedef.children))]


def _items(treedef: TreeDef) -> list[str]:
    return [f"[{key!r}]" for key in treedef.keys]


def _attributes(treedef: TreeDef) -> list[str]:
    return [f".{name}" for name in treedef.keys]


def _pairs(treedef: TreeDef, shown: list[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(treedef.keys, shown, strict=True)) + "}"


def _call(treedef: TreeDef, shown: list[str]) -> str:
    inside = ", ".join(f"{name}={child}" for name, child in zip(treedef.keys, shown, strict=True))
    return f"{treedef.cls.__name__}({inside})"


def _sorted_keys(keys: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    try:
        return tuple(sorted(keys))  # type: ignore[type-var]  # keys that do not compare are caught below
    except TypeError:
        pass
    try:
        return tuple(sorted(keys, key=lambda key: (type(key).__qualname__, key)))
    except TypeError:
        return keys  # no order of their own: that of insertion becomes part of the structure


def _split_dict(tree: dict[Hashable, object]) -> Parts:
    order = tuple(tree)
    keys = _sorted_keys(order)
    return Parts(keys, [tree[key] for key in keys], None, order)


def _split_defaultdict(tree: defaultdict[Hashable, object]) -> Parts:
    return _split_dict(tree)._replace(default_factory=tree.default_factory)


def _restore(treedef: TreeDef, values: list[object], into: dict[Hashable, object]) -> object:
    by_key = dict(zip(treedef.keys, values, strict=True))
    into.update((key, by_key[key]) for key in treedef.order or ())
    return into


def _split_dataclass(tree: object) -> Parts:
    names = tuple(each.name for each in fields(tree) if hasattr(tree, each.name))  # type: ignore[arg-type]  # is one
    return Parts(names, [getattr(tree, name) for name in names])


def _build_dataclass(treedef: TreeDef, values: list[object]) -> object:
    # Neither __init__ nor __post_init__ runs: it may validate, convert, or take other arguments than the fields.
    tree: object = object.__new__(treedef.cls)
    for name, value in zip(treedef.keys, values, strict=True):
        object.__setattr__(tree, str(name), value)
    return tree


def _show_tuple(treedef: TreeDef, shown: list[str]) -> str:
    return f"({shown[0]},)" if len(shown) == 1 else f"({', '.join(shown)})"


_DATACLASS = Container(_split_dataclass, _build_dataclass, _attributes, _call)
_NAMEDTUPLE = Container(
    lambda tree: Parts(tree._fields, tree),
    lambda treedef, values: treedef.cls._make(values),  # type: ignore[attr-defined]  # what makes it a namedtuple
    _attributes,
    _call,
)
_BUILTIN: dict[type, Container] = {
    type(None): Container(lambda _: Parts((), ()), lambda *_: None, lambda _: [], lambda *_: "None"),
    tuple: Container(lambda tree: Parts((), tree), lambda _, values: tuple(values), _indices, _show_tuple),
    list: Container(
        lambda tree: Parts((), tree), lambda _, values: values, _indices, lambda _, shown: f"[{', '.join(shown)}]"
    ),
    dict: Container(_split_dict, lambda treedef, values: _restore(treedef, values, {}), _items, _pairs),
    defaultdict: Container(
        _split_defaultdict,
        lambda treedef, values: _restore(treedef, values, defaultdict(treedef.default_factory)),
        _items,
        lambda treedef, shown: f"defaultdict({treedef.default_factory!r}, {_pairs(treedef, shown)})",
    ),
    OrderedDict: Container(
        lambda tree: Parts(tuple(tree), tree.values()),
        lambda treedef, values: OrderedDict(zip(treedef.keys, values, strict=True)),
        _items,
        lambda treedef, shown: f"OrderedDict({_pairs(treedef, shown)})",
    ),
}
_LEAF_TYPES: set[type] = {bool, int, float, complex, str, bytes, np.ndarray, np.bool_}
_LEAF_TYPES.update(np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"])
_STRING = frozenset({str})
_classified: weakref.WeakKeyDictionary[type, list[Container]] = weakref.WeakKeyDictionary()


def register_leaf(cls: C) -> C:
    """Make every instance of exactly ``cls`` a leaf, even where it would be a container; a class decorator.

    For classes that live as long as the program: it is kept for ever, and is quick to recognise.
    """
    _LEAF_TYPES.add(cls)
    return cls


def flatten(tree: object) -> tuple[list[Any], TreeDef]:
    """Return the leaves of ``tree`` and its definition.

    >>> leaves, treedef = flatten({"w": [1.0, 2.0], "b": 3.0})
    >>> leaves, str(treedef)
    ([3.0, 1.0, 2.0], "{'b': *, 'w': [*, *]}")
    """
    if type(tree) in _LEAF_TYPES:
        return [tree], LEAF
    if type(tree) is tuple and _LEAF_TYPES.issuperset(map(type, tree)):
        return list(tree), _flat_sequence(tuple, len(tree))
    leaves: list[object] = []
    try:
        return leaves, _flatten_into(tree, leaves)
    except RecursionError:
        raise TraceError(f"a {type(tree).__name__} is nested too deeply, or contains itself") from None


def unflatten(treedef: TreeDef, leaves: Iterable[object]) -> Any:
    """Build the tree of this definition from its leaves.

    >>> unflatten(flatten((1, [2, None]))[1], "ab")
    ('a', ['b', None])
    """
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise ShapeError(f"unflatten: {treedef} has {treedef.num_leaves} leaves, got {len(leaves)}")
    return _build(treedef, iter(leaves))


def tree_map(fn: Callable[..., object], *trees: object) -> Any:
    """Apply ``fn`` to corresponding leaves of trees of one structure; the result has the first one's.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"b": (20,), "a": 10})
    {'a': 11, 'b': (22,)}
    """
    if not trees:
        raise ShapeError("tree_map: needs at least one tree")
    flat = [flatten(tree) for tree in trees]
    treedef = flat[0][1]
    for position, (_, other) in enumerate(flat):
        if other != treedef:
            raise ShapeError(f"tree_map: tree {position} is {other}, but tree 0 is {treedef}")
    columns = (leaves for leaves, _ in flat)
    return unflatten(treedef, [fn(*row) for row in zip(*columns, strict=True)])


def leaf_paths(tree: object) -> list[str]:
    """Name each leaf of ``tree`` as Python would reach it; the path of a lone leaf is empty.

    >>> leaf_paths({"w": [1.0, 2.0]})
    ["['w'][0]", "['w'][1]"]
    """
    return list(flatten(tree)[1].paths())


@lru_cache(maxsize=256)
def _flat_sequence(cls: type, length: int) -> TreeDef:
    return TreeDef(_BUILTIN[cls], cls, (), (LEAF,) * length, length)


@lru_cache(maxsize=256)
def _flat_dict(names: tuple[str, ...]) -> TreeDef:
    return TreeDef(_BUILTIN[dict], dict, tuple(sorted(names)), (LEAF,) * len(names), len(names), None, names)


def _container_of(cls: type) -> Container | None:
    """The container kind of a class that is neither built in nor a registered leaf."""
    known = _classified.get(cls)
    if known is None:
        known = _classified[cls] = _classify(cls)
    return known[0] if known else None


def _classify(cls: type) -> list[Container]:
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return [_NAMEDTUPLE]
    if is_dataclass(cls) and not issubclass(cls, type):
        return [_DATACLASS]
    return []


def _flatten_into(tree: object, leaves: list[object]) -> TreeDef:
    cls = type(tree)
    if cls in _LEAF_TYPES:
        leaves.append(tree)
        return LEAF
    # The common flat containers, whose definitions are shared.
    if isinstance(tree, list | tuple) and cls in _BUILTIN and _LEAF_TYPES.issuperset(map(type, tree)):
        leaves.extend(tree)
        return _flat_sequence(type(tree), len(tree))
    if cls is dict and isinstance(tree, dict) and _LEAF_TYPES.issuperset(map(type, tree.values())):
        names = tuple(tree)
        if _STRING.issuperset(map(type, names)):  # the cache would take 1 for True
            treedef = _flat_dict(names)
            leaves.extend([tree[name] for name in treedef.keys])
            return treedef
    return _flatten_any(tree, leaves)


def _flatten_any(tree: object, leaves: list[object]) -> TreeDef:
    cls = type(tree)
    container = _BUILTIN.get(cls) or _container_of(cls)
    if container is None:
        leaves.append(tree)
        return LEAF
    parts = container.split(tree)
    before = len(leaves)
    children = tuple([_flatten_into(child, leaves) for child in parts.children])
    return TreeDef(container, cls, parts.keys, children, len(leaves) - before, parts.default_factory, parts.order)


def _build(treedef: TreeDef, leaves: Iterator[object]) -> object:
    if treedef.container is None:
        return next(leaves)
    return treedef.container.build(treedef, [_build(child, leaves) for child in treedef.children])
