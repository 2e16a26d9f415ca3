"""Traced values in text: what formatting one gives stands for the text that its value will give.

An f-string or ``str(x)`` in the user's function runs while it is traced. It gets a mark such as ``<traced f64 #3>``,
from which the message of an exception is made when the program has run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.frontend.tracing import current_trace, tracing
from symgrad.ir.node import Node

_MARK = re.compile(r"<traced [^<>]* #(\d+)>")


class Mark(str):
    """A mark that may itself be formatted: ``f"{x!r:>10}"``."""

    __slots__ = ("conversion", "node", "of")
    node: Node
    of: Callable[[Any], Any]
    conversion: str

    def __format__(self, spec: str) -> str:
        return mark(self.node, self.of, self.conversion, spec) if spec else str(self)


def mark(node: Node, of: Callable[[Any], Any], conversion: str, spec: str = "") -> str:
    """The mark for ``node``; ``of`` makes the user's value of an array, ``conversion`` is as in format strings."""
    if not tracing():
        return f"Traced {node.type}"
    texts = current_trace().texts
    number = texts.setdefault((node, of, conversion, spec), len(texts) + 1)
    out = Mark(f"<traced {node.type} #{number}>")
    out.node, out.of, out.conversion = node, of, conversion
    return out


def is_marked(text: str) -> bool:
    """Whether there are marks in a text."""
    return _MARK.search(text) is not None


def plain(text: str) -> str:
    """A text with dots in place of marks."""
    return _MARK.sub("…", text)


def written(text: str, position: Callable[[Node], int]) -> Callable[[Sequence[Any]], str]:
    """A text as a function of the values of the nodes in it, which stand at a ``position``."""
    known = list(current_trace().texts)
    parts: list[Any] = list(_MARK.split(text))
    for k in range(1, len(parts), 2):
        node, of, conversion, spec = known[int(parts[k]) - 1]
        parts[k] = position(node), of, conversion, spec
    return lambda values: "".join(p if isinstance(p, str) else _formatted(values[p[0]], *p[1:]) for p in parts)


def _formatted(array: Any, of: Callable[[Any], Any], conversion: str, spec: str) -> str:
    value = of(array)
    return format(str(value) if conversion == "s" else repr(value) if conversion == "r" else value, spec)
