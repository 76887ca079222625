"""Draw a 2-way marginal as a heat map, with the uncertainty of each cell beside it.

    python examples/heatmap.py --plan plan.json --bootstrap localhost:9092 --marginal region,theme

Shows the newest running total. Needs matplotlib, which is no dependency of calmstream. A cell is
hatched if its 95 % interval is wider than its value: draw no conclusion from it.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from calmstream import Snapshot, Table, read_plan, subscribe

Z95 = 1.96


def newest_total(plan_file: str, bootstrap: str) -> Snapshot | None:
    """Return the newest running total, or None if there is none."""
    plan = read_plan(Path(plan_file).read_bytes())
    found = subscribe(plan, bootstrap, kinds=["total"], from_window="latest", follow=False)
    return next(iter(found), None)


def draw(table: Table, names: tuple[str, str], axes: Any) -> None:
    """Draw proportions on the first axes, half widths of 95 % intervals on the second."""
    margin = Z95 * table.stderr
    top = float(max(table.table.max(), margin.max()))
    for pane, cells, title in zip(
        axes, (table.table, margin), ("proportion, %", "95 % interval, ± %"), strict=True
    ):
        pane.imshow(cells, vmin=0, vmax=top, cmap="viridis", aspect="auto")
        pane.set_title(title)
        pane.set_ylabel(names[0])
        pane.set_xlabel(names[1])
        pane.set_yticks(range(len(table.labels[0])), table.labels[0])
        pane.set_xticks(range(len(table.labels[1])), table.labels[1], rotation=45, ha="right")
        for (row, column), value in np.ndenumerate(cells):
            colour = "white" if value < top / 2 else "black"
            pane.text(column, row, f"{100 * value:.1f}", ha="center", va="center", color=colour)
    for row, column in np.argwhere(margin > table.table):
        axes[0].add_patch(_hatched(float(column), float(row)))


def _hatched(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="//", edgecolor="grey", lw=0)


def main(argv: list[str] | None = None) -> int:
    """Read the newest total, draw it and save the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--marginal", required=True, metavar="A,B")
    parser.add_argument("--out", default="heatmap.png")
    args = parser.parse_args(argv)
    names = tuple(args.marginal.split(","))
    if len(names) != 2:
        parser.error("--marginal: expected two attributes, A,B")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("this example needs matplotlib: pip install matplotlib")
    snapshot = newest_total(args.plan, args.bootstrap)
    if snapshot is None:
        sys.exit("no running total yet: the first appears with the first final window")
    table = snapshot.marginal(*names)
    figure = Figure(figsize=(12, 1.5 + 0.5 * len(table.labels[0])), layout="constrained")
    draw(table, (names[0], names[1]), figure.subplots(1, 2))
    manifest = snapshot.manifest
    figure.suptitle(
        f"{manifest.name}: {' × '.join(names)}, {manifest.reports:,} reports, "
        f"epsilon {manifest.epsilon}"
    )
    figure.savefig(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
