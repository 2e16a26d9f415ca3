"""``results.json`` -> the tables in ``README.md`` here, and, with matplotlib, the picture ``ratios.svg``.

python benchmarks/report.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run import RESULTS

HERE = Path(__file__).parent
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def shown(microseconds: float) -> str:
    """Three digits, with a unit."""
    for factor, unit in ((1e-6, "s"), (1e-3, "ms"), (1.0, "µs")):
        if microseconds * factor >= 1:
            return f"{microseconds * factor:.3g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def table(records: list[dict[str, Any]]) -> list[str]:
    peers = sorted({p for r in records for p in r["peers"]})
    head = ["", "symgrad", "by hand", "ratio", "first call", *peers]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for r in records:
        hand = shown(r["by hand"]["least"]) if "by hand" in r else "–"
        others = [shown(v) if isinstance(v, int | float) else v for v in (r["peers"].get(p, "–") for p in peers)]
        ratio = f"{r['ratio']:.2f}" if "ratio" in r else "–"
        first = f"{r['first']:.2f} s"
        lines.append(f"| {' | '.join([r['name'], shown(r['symgrad']['least']), hand, ratio, first, *others])} |")
    return lines


def tables(results: dict[str, Any]) -> str:
    lines = [", ".join(f"{k} {v}" for k, v in results["machine"].items())]
    for cores in sorted(results.keys() - {"machine"}, key=lambda k: (k != "one core", k)):
        lines += ["", f"### {cores}", "", *table(results[cores])]
    return "\n".join(lines)


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Time over that of the gradient by hand, on a logarithmic scale."""
    from matplotlib.figure import Figure

    rows = [r for r in records if "ratio" in r][::-1]
    axes = (figure := Figure(figsize=(7, 5), layout="constrained")).subplots()
    for name, marker in (("symgrad", "o"), ("jax", "s"), ("pytorch", "^"), ("autograd", "x")):
        points = []
        for y, r in enumerate(rows):
            least = r["symgrad"]["least"] if name == "symgrad" else r["peers"].get(name)
            if isinstance(least, int | float):
                points.append((least / r["by hand"]["least"], y))
        if points:
            axes.plot(*zip(*points, strict=True), marker, label=name)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="time, written by hand = 1", yticks=range(len(rows)))
    axes.set_yticklabels([r["name"] for r in rows])
    figure.legend(loc="outside lower center", ncols=4)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    results = json.loads(RESULTS.read_text())
    page = HERE / "README.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{tables(results)}\n{END}{after}")
    try:
        draw(results["one core"], HERE / "ratios.svg")
    except ImportError:
        print("no picture: matplotlib is not installed")


if __name__ == "__main__":
    main()
