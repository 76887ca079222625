"""Draw Figs. 3, 5, 6 and 7 of the Castell paper from ``results/castell.csv``.

`benchmarks/castell.md` names the paper, which describes the methods ``rr-*``. In the figures, w is
the number of attributes of a marginal, n is the number of records, and AVD is the error that
`benchmarks.castell.avd` measures: the largest error of a table's cells, averaged over attribute
sets.

Run ``python -m benchmarks.castell.plots`` after ``benchmarks.castell.avd``. It needs matplotlib,
which is in the dependency group ``accuracy`` only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.castell.avd import RESULTS, Point, read

COLOURS = {
    "rr-ind-joint": "tab:blue",
    "rr-independent": "tab:red",
    "rr-hybrid": "tab:green",
    "rr-truncated": "tab:purple",
    "rr-joint": "tab:brown",
    "lopub": "tab:orange",
    "uniform": "tab:gray",
}
DATASETS = {"adult": "Adult", "nursery": "Nursery", "ipums1980": "IPUMS 1980, 8 attributes"}
# The methods in Figs. 5 to 7. Fig. 3 has all methods of `COLOURS`.
METHODS = ("rr-ind-joint", "rr-independent", "rr-hybrid", "rr-truncated", "uniform")


def curve(
    axes: Axes, points: Sequence[Point], x: Callable[[Point], float], label: str, style: str
) -> None:
    """Draw the curve of one method."""
    if not points:
        return
    points = sorted(points, key=x)
    height = [p.avd for p in points]
    # The bars are deviations over attribute sets. As in the paper, a bar has no lower half where it
    # would reach below 0.
    below = [p.deviation if p.deviation < p.avd else 0.0 for p in points]
    axes.errorbar(
        [x(p) for p in points],
        height,
        yerr=[below, [p.deviation for p in points]],
        fmt=style,
        color=COLOURS[points[0].method],
        label=label,
        capsize=2,
        markersize=4,
        linewidth=1,
        elinewidth=0.6,
        markerfacecolor="none",
    )


def finish(axes: Axes, title: str, label: str) -> None:
    """Add title, scales and legend."""
    axes.set(yscale="log", title=title, xlabel=label, ylabel="AVD")
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(fontsize=6)


def figure_3(points: Sequence[Point]) -> None:
    """Draw the errors of all methods against w on Adult in three panels.

    Two panels show what is measured at epsilon 4 and 1 per attribute. The third one shows Table VI
    of the paper, and the errors of an estimate from expected counts that are rounded to whole
    records; they agree with the first row of Table VI (see `Point.source`).
    """
    _, panels = plt.subplots(1, 3, figsize=(15, 4.5), sharey=True, layout="constrained")
    own = [p for p in points if p.figure == "3"]
    for axes, epsilon in zip(panels[:2], (4.0, 1.0), strict=True):
        for method in COLOURS:
            chosen = [
                p for p in own if (p.source, p.method, p.epsilon) == ("measured", method, epsilon)
            ]
            curve(axes, chosen, by_w, method, "o-")
        total = f"{epsilon:g} per attribute ({8 * epsilon:g} a record)"
        finish(axes, f"Fig. 3: Adult, measured, epsilon {total}", "w")
    for method in COLOURS:
        chosen = [p for p in own if (p.source, p.method) == ("printed", method)]
        curve(panels[2], chosen, by_w, f"{method}, printed", "s--")
    rounded = [p for p in own if p.source == "rounded"]
    curve(panels[2], rounded, by_w, "rr-ind-joint of expected counts, rounded, epsilon 1", "x-")
    finish(panels[2], "Table VI as printed (epsilon 4), and its first row explained", "w")
    save("castell-fig3.png")


def by_dataset(
    figure: str, points: Sequence[Point], x: Callable[[Point], float], label: str, *, log: bool
) -> None:
    """Draw a figure with one panel per data set; ``log``: the horizontal axis is logarithmic."""
    own = [p for p in points if (p.figure, p.source) == (figure, "measured")]
    _, panels = plt.subplots(1, 3, figsize=(15, 4.5), sharey=True, layout="constrained")
    for axes, (dataset, name) in zip(panels, DATASETS.items(), strict=True):
        for method in METHODS:
            chosen = [p for p in own if (p.dataset, p.method) == (dataset, method)]
            curve(axes, chosen, x, method, "o-")
        if log:
            axes.set_xscale("log")
            ticks = sorted({x(p) for p in own if p.dataset == dataset})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=7)
            axes.minorticks_off()
        finish(axes, f"Fig. {figure}: {name}", label)
    save(f"castell-fig{figure}.png")


def by_w(point: Point) -> float:
    """Return w, the number of attributes of the marginal."""
    return point.w


def save(name: str) -> None:
    """Write a figure beside its data."""
    plt.savefig(RESULTS.parent / name, dpi=110)
    plt.close()


def main() -> None:
    """Draw all figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    points = read()
    figure_3(points)
    by_dataset("5", points, by_w, "w, epsilon 4 per attribute", log=False)
    by_dataset("6", points, lambda p: p.n, "n, w = 2, epsilon 4 per attribute", log=True)
    by_dataset("7", points, lambda p: p.epsilon, "epsilon per attribute, w = 2", log=True)


if __name__ == "__main__":
    main()
