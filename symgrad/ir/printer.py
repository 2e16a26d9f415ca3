"""Graph -> stable text: one line a node, constants inline, names by position."""

from __future__ import annotations

from typing import Any

from symgrad.ir.graph import Graph
from symgrad.ir.node import CONSTANT, PARAM, Node, literal


def graph_text(graph: Graph) -> str:
    """A listing such as ``%2: f64[n] = mul %0 %1``."""
    names = {p: f"%{i}" for i, p in enumerate(graph.params)}
    lines: list[str] = []
    for n in graph.nodes():
        if n in names:
            continue
        if n.op is CONSTANT and not n.shape:
            names[n] = _number(n)
            continue
        names[n] = f"%{len(graph.params) + len(lines)}"
        operands = " ".join(names[a] for a in n.args)
        lines.append(f"  {names[n]}: {n.type} = {n.op.name}{_attributes(n)} {operands}".rstrip())
    head = ", ".join(f"{names[p]}: {p.type}" for p in graph.params)
    return "\n".join([f"graph({head}) {{", *lines, f"  return {' '.join(names[r] for r in graph.results)}", "}"])


def _number(n: Node) -> str:
    value = literal(n).item()
    return f"{value}" if n.dtype.name in ("f64", "i64", "bool") else f"{value}:{n.dtype}"


def _attributes(n: Node) -> str:
    if n.op is PARAM:
        return " (outside)"
    if n.op is CONSTANT:
        return f"[{n.attr('type').shape}]"
    shown = [f"{k}={_short(v)}" for k, v in n.attrs if not callable(v)]
    return f"[{', '.join(shown)}]" if shown else ""


def _short(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
