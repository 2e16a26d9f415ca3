"""What a native call path takes and gives: reads of Python objects, what each must be, and how results are built.

Python objects are named by their place in a table that belongs to one loaded path, so that code holds no addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from symgrad.ir.types import DType, Size


@dataclass(frozen=True, slots=True)
class Given:
    """A positional argument; ``default`` is the place of what stands for one that is not given."""

    position: int
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """The contents of a closure cell."""

    cell: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a dict, by a string."""

    mapping: int
    name: int


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a tuple or list that an earlier read found."""

    of: int
    index: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an object that an earlier read found; looking it up may run Python code."""

    of: int
    name: int


@dataclass(frozen=True, slots=True)
class Python:
    """An object of the table."""

    place: int


Source = Given | Cell | Entry | Item | Attribute | Python


@dataclass(frozen=True, slots=True)
class Exactly:
    """The very object."""

    place: int


@dataclass(frozen=True, slots=True)
class OfType:
    """An object of just this type."""

    place: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple (``type`` may be a subclass) or a list, of a known length."""

    kind: Literal["tuple", "list"]
    length: int
    type: int | None = None


@dataclass(frozen=True, slots=True)
class NumberLeaf:
    """A Python float or int (``python``), or a NumPy scalar. ``pinned``: the only value that fits."""

    dtype: DType
    python: bool
    pinned: float | int | None = None


@dataclass(frozen=True, slots=True)
class ArrayLeaf:
    """An aligned C-contiguous array of exactly ``numpy.ndarray``. A name is a length above one, a number just that."""

    dtype: DType
    shape: tuple[int | str, ...]


Check = Exactly | OfType | Sequence | NumberLeaf | ArrayLeaf


@dataclass(frozen=True, slots=True)
class Read:
    """An object that a call looks at. ``input``: which input of the program it is."""

    source: Source
    check: Check
    input: int | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """``left relation right`` of the lengths."""

    left: Size
    relation: Literal["==", "!=", "<="]
    right: Size


@dataclass(frozen=True, slots=True)
class Value:
    """A result of the program: a new array, or a NumPy scalar."""

    dtype: DType
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A new tuple or list."""

    kind: Literal["tuple", "list"]
    parts: tuple[Result, ...]


Result = Value | Python | Built


@dataclass(frozen=True, slots=True)
class Signature:
    """Calls with ``fewest`` to ``most`` positional arguments and no keywords.

    ``capacity`` names the size that is read from the table, since it grows; all others are lengths of arrays that are
    read. The values of ``result`` are the outputs of the program, in order.
    """

    fewest: int
    most: int
    reads: tuple[Read, ...]
    relations: tuple[Relation, ...]
    result: Result
    capacity: str
