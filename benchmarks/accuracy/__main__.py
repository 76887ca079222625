"""Measure the figures of two papers again on real data sets: the accuracy report.

The papers are CALM (Zhang et al., 2018) and Cormode et al. (2018). The program ``python -m
benchmarks.accuracy`` measures what is missing and writes tables of everything. The results
are lines in ``benchmarks/results/*.jsonl``, one for each point of a figure and each repeat. A run
can be stopped and started again; ``--times 5`` measures five times as many repeats. Point and
repeat determine the seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.accuracy.applications import experiments
from benchmarks.accuracy.measure import RESULTS, Ledger, measure
from benchmarks.accuracy.pieces import FIGURES, Piece

REPEATS = {
    "calm-fig4": 3,
    "calm-fig5": 5,
    "cormode-fig4": 5,
    "cormode-fig5": 10,
    "cormode-fig6": 3,
    "cormode-fig7": 40,
    "cormode-fig8": 10,
    "cormode-fig9": 5,
    "cormode-fig10": 10,
    "cormode-table3": 1,
}
"""Repeats of every point of a figure, which ``--times`` multiplies; chosen so that all take about
twenty minutes of one core."""

Job = tuple[str, str, int, Callable[[], dict[str, Any]]]
"""Name of the figure, key of the result, number of the repeat, and a function that measures it."""


def jobs(figures: set[str], times: int) -> Iterator[Job]:
    """Yield measurements, all of repeat 0 first: a run that is stopped has as many of each."""
    wanted = {figure: times * REPEATS[figure] for figure in figures}
    for repeat in range(max(wanted.values())):
        for name, pieces in FIGURES.items():
            if repeat < wanted.get(name, 0):
                for piece in sorted(pieces(), key=lambda p: p.population):
                    yield name, piece.key, repeat, _measuring(piece, repeat)
        for experiment in experiments():
            if repeat < wanted.get(experiment.figure, 0):
                yield experiment.figure, experiment.key, repeat, _running(experiment.run, repeat)


def _measuring(piece: Piece, repeat: int) -> Callable[[], dict[str, Any]]:
    return lambda: measure(piece, repeat)


def _running(run: Callable[[int], dict[str, Any]], repeat: int) -> Callable[[], dict[str, Any]]:
    return lambda: run(repeat)


def main() -> None:
    every = [*FIGURES, *dict.fromkeys(e.figure for e in experiments())]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--times", type=int, default=1, help="measure this many times the repeats (%(default)s)"
    )
    parser.add_argument("--figures", default=",".join(every), help="figures (%(default)s)")
    parser.add_argument("--minutes", type=float, help="stop measuring after this time")
    parser.add_argument("--show-only", action="store_true", help="measure nothing")
    args = parser.parse_args()
    figures = set(args.figures.split(","))
    if unknown := figures - set(every):
        sys.exit(f"accuracy: no figure {min(unknown)!r}; there are {', '.join(every)}")
    RESULTS.mkdir(exist_ok=True)
    if not args.show_only:
        run(figures, args.times, args.minutes)
    from benchmarks.accuracy.show import show

    show(sorted(figures))


def run(figures: set[str], times: int, minutes: float | None) -> None:
    ledgers = {figure: Ledger(figure) for figure in figures}
    todo = [job for job in jobs(figures, times) if not ledgers[job[0]].has(job[1], job[2])]
    until = time.monotonic() + 60 * minutes if minutes else float("inf")
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task("measuring", total=len(todo))
        for figure, key, repeat, measurement in todo:
            if time.monotonic() > until:
                print(f"stopped after {minutes:g} minutes; start again to go on", file=sys.stderr)
                break
            progress.update(task, description=f"{figure} {key}"[:70])
            if not ledgers[figure].has(key, repeat):
                ledgers[figure].add(key, repeat, measurement())
            progress.advance(task)


if __name__ == "__main__":
    main()
