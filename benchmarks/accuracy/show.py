"""Write tables (Markdown) and plots (PNG) of the results of the accuracy report.

A figure has panels, a panel has curves, and a curve has points; a point is a piece
(`benchmarks.accuracy.pieces.Piece`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.accuracy.measure import RESULTS, Ledger
from benchmarks.accuracy.pieces import FIGURES, Piece
from benchmarks.accuracy.show_applications import APPLICATIONS

COLOURS = {
    "calm": "#d62728",
    "inp-ht": "#1f77b4",
    "ft": "#1f77b4",
    "characters": "#9467bd",
    "am": "#2ca02c",
    "marg-ps": "#2ca02c",
    "marg-ht": "#17becf",
    "marg-rr": "#bcbd22",
    "fc": "#ff7f0e",
    "inp-ps": "#ff7f0e",
    "inp-rr": "#8c564b",
    "inp-em": "#e377c2",
    "inp-em (most likely)": "#8c564b",
    "inp-em (paper's stop)": "#7f7f7f",
    "inp-olh": "#bcbd22",
    "inp-htcms": "#ff7f0e",
    "uniform": "black",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a figure is drawn."""

    title: str
    measure: str  # the error that is shown: "sse" (squared error) or "tv" (total variation)
    axis: str
    across: Callable[[Piece], float]  # returns the place of a piece on the horizontal axis
    columns: int  # number of panels side by side
    log_x: bool = False  # whether the horizontal axis is logarithmic


STYLES = {
    "calm-fig4": Style(
        "Squared error against epsilon, n = 2^18", "sse", "epsilon", lambda p: float(p.epsilon), 3
    ),
    "calm-fig5": Style(
        "Squared error, at most 3 categories, n = 2^18",
        "sse",
        "epsilon",
        lambda p: float(p.epsilon),
        2,
    ),
    "cormode-fig4": Style(
        "Total variation on MovieLens, epsilon = ln 3", "tv", "N", lambda p: p.users, 3, log_x=True
    ),
    "cormode-fig5": Style(
        "Total variation on taxi, epsilon = ln 3, N = 2^18", "tv", "k", lambda p: p.k, 1
    ),
    "cormode-fig6": Style("Total variation on taxi, N = 2^18", "tv", "d", lambda p: p.d, 3),
    "cormode-fig9": Style(
        "Total variation on MovieLens, N = 2^18", "tv", "epsilon", lambda p: float(p.epsilon), 3
    ),
    "cormode-fig10": Style(
        "Frequency oracles over whole records, epsilon = ln 3, N = 2^18",
        "tv",
        "d",
        lambda p: p.d,
        1,
    ),
}

NOTE = (
    "Unbiased tables before any clipping, as the papers plot them; CALM and InpEM have "
    "no other than their final tables. Bars: ± 2 standard errors over the repeats."
)


def show(figures: Sequence[str]) -> None:
    """Write the table and plot of every figure that has results."""
    for figure in figures:
        ledger = Ledger(figure)
        if not ledger.path.exists():
            continue
        if figure in FIGURES:
            pieces = list(FIGURES[figure]())
            plot(figure, STYLES[figure], pieces, ledger)
            text = tables(STYLES[figure], pieces, ledger)
        else:
            text = APPLICATIONS[figure](ledger)
        (RESULTS / f"{figure}.md").write_text(text)


def values(piece: Piece, ledger: Ledger, name: str) -> np.ndarray:
    """Return one error of a piece for all repeats; empty if it was refused or has no such error."""
    errors = [r[name] for r in ledger.results(piece.key) if name in r]
    return np.array(errors, float)


def primary(piece: Piece, ledger: Ledger, measure: str) -> np.ndarray:
    """Return the plotted errors of a piece: those of unbiased tables if the method has them."""
    raw = values(piece, ledger, f"{measure}_raw")
    return raw if raw.size and piece.method != "uniform" else values(piece, ledger, measure)


def stderr(errors: np.ndarray) -> float:
    """Return the standard error of the mean; 0 for a single repeat."""
    return float(errors.std(ddof=1) / np.sqrt(errors.size)) if errors.size > 1 else 0.0


def by_panel(pieces: Sequence[Piece]) -> dict[str, dict[str, list[Piece]]]:
    """Group the pieces by panel and curve."""
    panels: dict[str, dict[str, list[Piece]]] = defaultdict(lambda: defaultdict(list))
    for piece in pieces:
        panels[piece.panel][piece.curve].append(piece)
    return panels


def plot(figure: str, style: Style, pieces: Sequence[Piece], ledger: Ledger) -> None:
    """Draw one PNG with all panels."""
    panels = by_panel(pieces)
    rows = -(-len(panels) // style.columns)
    size = (4.0 * style.columns + 1.6, 3.0 * rows + 0.9)
    drawing, axes = plt.subplots(rows, style.columns, figsize=size, squeeze=False)
    for axis, (panel, curves) in zip(axes.flat, panels.items(), strict=False):
        for curve, points in curves.items():
            _curve(axis, curve, points, style, ledger)
        axis.set_title(panel, fontsize=9)
        axis.set_yscale("log")
        if style.log_x:
            axis.set_xscale("log", base=2)
        axis.set_xlabel(style.axis, fontsize=8)
        axis.set_ylabel(
            {"sse": "squared error", "tv": "total variation"}[style.measure], fontsize=8
        )
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3, which="both", linewidth=0.4)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    known = {}
    for axis in axes.flat:
        known.update(dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True)))
    drawing.legend(known.values(), known.keys(), loc="center right", fontsize=8)
    drawing.suptitle(f"{style.title}\n{NOTE}", fontsize=8)
    drawing.tight_layout(rect=(0, 0, 1 - 1.4 / size[0], 1))
    drawing.savefig(RESULTS / f"{figure}.png", dpi=90, metadata={"Software": None})
    plt.close(drawing)


def _curve(
    axis: plt.Axes, curve: str, points: Sequence[Piece], style: Style, ledger: Ledger
) -> None:
    measured = [(style.across(p), primary(p, ledger, style.measure)) for p in points]
    measured = [(x, v) for x, v in measured if v.size]
    if not measured:
        return
    x = [place for place, _ in measured]
    y = [float(v.mean()) for _, v in measured]
    bars = [2 * stderr(v) for _, v in measured]
    line = "--" if curve == "uniform" else "-"
    axis.errorbar(
        x, y, bars, label=curve, color=COLOURS[curve], linestyle=line, marker=".", markersize=5,
        linewidth=1.2, capsize=2,
    )  # fmt: skip


def tables(style: Style, pieces: Sequence[Piece], ledger: Ledger) -> str:
    """Return the text of a table for each panel.

    A curve of squared errors has a second row for its clipped tables, if it has them.
    """
    measure = {"sse": "mean squared error of a marginal", "tv": "mean total variation"}
    counts = {primary(p, ledger, style.measure).size for p in pieces} - {0}
    repeats = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)
    lines = [f"# {style.title}", "", f"{measure[style.measure]}, {repeats} repeats. {NOTE}", ""]
    for panel, curves in by_panel(pieces).items():
        places = list(dict.fromkeys(style.across(p) for points in curves.values() for p in points))
        shown = [f"2^{np.log2(x):.0f}" if style.log_x else f"{x:.4g}" for x in places]
        header = " | ".join(f"{style.axis} = {place}" for place in shown)
        lines += [f"## {panel}", "", f"| method | {header} |", "|---|" + "---:|" * len(places)]
        for curve, points in curves.items():
            cells = [_cell(p, ledger, style.measure) for p in points]
            lines.append(f"| {curve} | " + " | ".join(cells) + " |")
            clipped = [values(p, ledger, style.measure) for p in points]
            has_raw = [values(p, ledger, f"{style.measure}_raw").size for p in points]
            if any(has_raw) and curve != "uniform" and style.measure == "sse":
                means = [f"{c.mean():.3g}" if c.size else "" for c in clipped]
                lines.append(f"| {curve}, clipped | " + " | ".join(means) + " |")
        lines.append("")
        refusals = {
            result["refused"]
            for points in curves.values()
            for p in points
            for result in ledger.results(p.key)
            if "refused" in result
        }
        lines += [*(f"Refused: {text}." for text in sorted(refusals)), ""] if refusals else []
    return "\n".join(lines).rstrip() + "\n"


def _cell(piece: Piece, ledger: Ledger, measure: str) -> str:
    errors = primary(piece, ledger, measure)
    if not errors.size:
        return "refused" if ledger.results(piece.key) else ""
    spread = f" ± {stderr(errors):.1g}" if errors.size > 1 else ""
    return f"{errors.mean():.3g}{spread}"
