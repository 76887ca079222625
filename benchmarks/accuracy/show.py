"""Write tables of the results of the accuracy report, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.measure import RESULTS, Ledger
from benchmarks.accuracy.pieces import FIGURES, Piece
from benchmarks.accuracy.show_applications import APPLICATIONS


@dataclass(frozen=True, slots=True)
class Style:
    title: str
    measure: str  # the error that is shown: "sse" (squared error) or "tv" (total variation)
    axis: str
    across: Callable[[Piece], float]  # returns the column of a piece
    log_x: bool = False  # whether columns are powers of two


STYLES = {
    "calm-fig4": Style(
        "Squared error against epsilon, n = 2^18", "sse", "epsilon", lambda p: float(p.epsilon)
    ),
    "calm-fig5": Style(
        "Squared error, at most 3 categories, n = 2^18",
        "sse",
        "epsilon",
        lambda p: float(p.epsilon),
    ),
    "cormode-fig4": Style(
        "Total variation on MovieLens, epsilon = ln 3", "tv", "N", lambda p: p.users, log_x=True
    ),
    "cormode-fig5": Style(
        "Total variation on taxi, epsilon = ln 3, N = 2^18", "tv", "k", lambda p: p.k
    ),
    "cormode-fig6": Style("Total variation on taxi, N = 2^18", "tv", "d", lambda p: p.d),
    "cormode-fig9": Style(
        "Total variation on MovieLens, N = 2^18", "tv", "epsilon", lambda p: float(p.epsilon)
    ),
    "cormode-fig10": Style(
        "Frequency oracles over whole records, epsilon = ln 3, N = 2^18",
        "tv",
        "d",
        lambda p: p.d,
    ),
}

NOTE = (
    "Unbiased tables before any clipping, as the papers plot them; CALM and InpEM have "
    "no other than their final tables. {spread}"
)


def show(figures: Sequence[str]) -> None:
    for figure in figures:
        ledger = Ledger(figure)
        if not ledger.path.exists():
            continue
        (RESULTS / f"{figure}.md").write_text(page(figure, ledger))


def page(figure: str, ledger: Ledger) -> str:
    if figure in APPLICATIONS:
        return APPLICATIONS[figure](ledger)
    return tables(STYLES[figure], list(FIGURES[figure]()), ledger)


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
    panels: dict[str, dict[str, list[Piece]]] = defaultdict(lambda: defaultdict(list))
    for piece in pieces:
        panels[piece.panel][piece.curve].append(piece)
    return panels


def tables(style: Style, pieces: Sequence[Piece], ledger: Ledger) -> str:
    """Return a table for each panel; curves of squared errors have a second row, clipped."""
    measure = {"sse": "mean squared error of a marginal", "tv": "mean total variation"}
    counts = {primary(p, ledger, style.measure).size for p in pieces} - {0}
    repeats = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)
    note = NOTE.format(spread=_spread(pieces, ledger, style.measure))
    lines = [f"# {style.title}", "", f"{measure[style.measure]}, {repeats} repeats. {note}", ""]
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
    return f"{errors.mean():.3g}"


def _spread(pieces: Sequence[Piece], ledger: Ledger, measure: str) -> str:
    """Return a sentence about the standard errors over the repeats, as shares of the values."""
    every = (primary(piece, ledger, measure) for piece in pieces)
    shares = [stderr(errors) / errors.mean() for errors in every if errors.size > 1]
    usual = f"{np.median(shares):.0%} of a value in the median"
    return f"Standard errors: {usual}, {max(shares):.0%} at most."
