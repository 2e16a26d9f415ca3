"""Loops and branches that do no more than is asked of them.

``merge_loops``: a loop that was made again with a tape or with tangents replaces the one it was made from.
``prune``: results that nobody reads, and the state, slices and operands that only they need, are dropped; state that no
trip changes becomes an operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.ir.graph import Graph, substitute, topological
from symgrad.ir.node import GET, Node, make
from symgrad.ops.control import get
from symgrad.ops.loop import Layout, clock

MOST_ROUNDS = 8


def tidy(graph: Graph) -> Graph:
    """Merge and prune until nothing changes, in the graphs inside as well."""
    graph = merge_loops(graph)
    for _ in range(MOST_ROUNDS):
        new = prune(graph)
        if new.results == graph.results:
            break
        graph = new
    return graph


# --- merging ---------------------------------------------------------------------------------------------------------


def merge_loops(graph: Graph) -> Graph:
    """Let extended loops replace what they extend."""
    results, loops = graph.results, _loops(graph)
    current = loops
    for n in loops:
        longer = next((m for m in reversed(current) if m is not n and _extends(m, n)), None)
        if longer is not None:
            results = tuple(substitute(results, _moved(n, longer)))
            current = _loops(Graph(graph.params, results))
    return Graph(graph.params, results, graph.origin)


def _loops(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes() if n.op.name == "loop"]


def _extends(m: Node, n: Node) -> bool:
    """Whether ``m`` runs the body of ``n`` on the same operands, and more."""
    body: Graph | None = m.attr("body")
    while body is not None and body is not n.attr("body"):
        body = body.origin
    if body is None or m.attr("length") != n.attr("length") or m.attr("reverse") != n.attr("reverse"):
        return False
    groups = zip(m.attr("layout").operands(m.args), n.attr("layout").operands(n.args), strict=True)
    return all(long[: len(short)] == short for long, short in groups) and n not in set(topological(m.args))


def _moved(n: Node, m: Node) -> dict[Node, Node]:
    """Results of ``n`` -> those of ``m``: the carries stand in front, then the stacked ones."""
    k, more = n.attr("layout").carry, m.attr("layout").carry
    return {get(n, j): get(m, j if j < k else more + j - k) for j in range(len(n.type.items))}


# --- pruning ---------------------------------------------------------------------------------------------------------


def prune(graph: Graph) -> Graph:
    """Drop what nobody reads from loops and branches, once."""
    used: dict[Node, set[int]] = {}
    for n in graph.nodes():
        if n.op is GET:
            used.setdefault(n.args[0], set()).add(n.attr("index"))
    pruned: dict[Node, dict[int, Node]] = {}
    env: dict[Node, Node] = {}
    for old in graph.nodes():
        if old.op is GET and old.args[0] in pruned:
            env[old] = pruned[old.args[0]][old.attr("index")]
            continue
        new = old
        if any(env[a] is not a for a in old.args):
            new = make(old.op, *(env[a] for a in old.args), **dict(old.attrs))
        if old.op.name in ("loop", "cond"):
            pruned[old] = (_loop if old.op.name == "loop" else _cond)(new, used.get(old, set()))
        env[old] = new
    return Graph(graph.params, tuple(env[r] for r in graph.results), graph.origin)


def _cond(n: Node, used: set[int]) -> dict[int, Node]:
    """A branch with the results that are read and the operands that these need."""
    arms = [n.attr("then"), n.attr("otherwise")]
    kept = sorted(used)
    smaller = [tidy(Graph(g.params, tuple(g.results[k] for k in kept))) for g in arms]
    needed = [set(topological(g.results)) for g in smaller]
    operands = [
        k for k in range(len(n.args) - 1) if any(g.params[k] in s for g, s in zip(smaller, needed, strict=True))
    ]
    graphs = [Graph(tuple(g.params[k] for k in operands), g.results) for g in smaller]
    unchanged = len(kept) == len(arms[0].results) and len(operands) == len(n.args) - 1
    if unchanged and all(a.results == b.results for a, b in zip(graphs, arms, strict=True)):
        return {k: get(n, k) for k in kept}
    node = make(n.op, n.args[0], *(n.args[1 + k] for k in operands), then=graphs[0], otherwise=graphs[1])
    return {k: get(node, j) for j, k in enumerate(kept)}


def _loop(n: Node, used: set[int]) -> dict[int, Node]:
    """A loop with the results that are read and the state that these need."""
    layout: Layout = n.attr("layout")
    body, condition = tidy(n.attr("body")), n.attr("condition")
    index, carry, slices, consts = layout.params(body)
    after, ys = layout.results(body.results)
    fixed = [k for k, c in enumerate(carry) if after[k] is c]
    wanted_ys = [k for k in range(len(ys)) if layout.carry + k in used]
    live = _grown(layout, body, condition, {k for k in used if k < layout.carry}, [ys[k] for k in wanted_ys]) - set(
        fixed
    )
    reached = set(topological([after[k] for k in live] + [ys[k] for k in wanted_ys]))
    tested = set(topological(condition.results)) if condition is not None else set()
    c_carry, c_consts = layout.tested(condition)
    state = sorted(live)
    moved = [k for k in fixed if carry[k] in reached or (condition is not None and c_carry[k] in tested)]
    kept_slices = [k for k, s in enumerate(slices) if s in reached]
    kept_consts = [k for k, c in enumerate(consts) if c in reached or (condition is not None and c_consts[k] in tested)]
    a_carry, a_xs, a_consts = layout.operands(n.args)
    timing = clock(a_xs, n.attr("length"))
    if timing is not None and clock([a_xs[k] for k in kept_slices], n.attr("length")) is None:
        kept_slices = sorted({*kept_slices, timing})
    counts = (len(state), len(kept_slices), len(moved) + len(kept_consts), len(wanted_ys))
    results = {k: a_carry[k] for k in fixed if k in used}
    same = counts == (len(carry), len(slices), len(consts), len(ys)) and body.results == n.attr("body").results
    if same:
        return {k: get(n, k) for k in used}
    new_body = Graph(
        (
            index,
            *(carry[k] for k in state),
            *(slices[k] for k in kept_slices),
            *(carry[k] for k in moved),
            *(consts[k] for k in kept_consts),
        ),
        (*(after[k] for k in state), *(ys[k] for k in wanted_ys)),
        body.origin,
    )
    test = None
    if condition is not None:
        test = Graph(
            (
                condition.params[0],
                *(c_carry[k] for k in state),
                *(c_carry[k] for k in moved),
                *(c_consts[k] for k in kept_consts),
            ),
            condition.results,
        )
    node = make(
        n.op,
        *(a_carry[k] for k in state),
        *(a_xs[k] for k in kept_slices),
        *(a_carry[k] for k in moved),
        *(a_consts[k] for k in kept_consts),
        **{**dict(n.attrs), "body": new_body, "condition": test, "layout": Layout(len(state), len(kept_slices))},
    )
    results |= {k: get(node, j) for j, k in enumerate(state) if k in used}
    results |= {layout.carry + k: get(node, len(state) + j) for j, k in enumerate(wanted_ys)}
    return results


def _grown(layout: Layout, body: Graph, condition: Graph | None, live: set[int], roots: Sequence[Node]) -> set[int]:
    """The carries that those ``live``, the condition and ``roots`` need, trip after trip."""
    _, carry, _, _ = layout.params(body)
    after, _ = layout.results(body.results)
    if condition is not None:
        tested = set(topological(condition.results))
        live = live | {k for k, c in enumerate(layout.tested(condition)[0]) if c in tested}
    while True:
        reached = set(topological([*(after[k] for k in live), *roots]))
        more = live | {k for k, c in enumerate(carry) if c in reached}
        if more == live:
            return live
        live = more
