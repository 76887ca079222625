"""Measure tracked tables on streams of which one knows the truth; resumable.

One column of a real table moves over the windows, the others given it stay. Seven streams, two
fleets, two methods; errors and intervals of published tables of two attributes against the law of
each window. Fixed windows sum the last L finals; for noise-aware, whose fits are slow, only the
length that is best for calm. A cell is one stream of one data set.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.populations import first
from benchmarks.study import Study
from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.marginal import inside, sse
from calmstream.estimators.methods.base import Model, Request
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.evaluation.population import local_plan

STUDY = Study(Path(__file__).parents[1] / "results" / "streams.jsonl")
DAY, WINDOWS, BEGIN = 86_400, 200, 40
METHODS = {"calm": 10, "noise-aware": 5}
"""Methods, and the number of windows whose tables are measured."""

LENGTHS = (2, 4, 8, 16, 32, 64, WINDOWS)
SETS = {"adult": 5, "taxi": 6, "census3": 6}
FLEETS = (20_000, 200_000)
MOVED = 0.3  # share of the commonest label that moves to the next one


def streams() -> dict[str, Floats]:
    """Return how far the column has moved in each window, from 0 to 1, by the stream's name."""
    t = np.arange(WINDOWS)
    steps = np.random.default_rng(0).normal(0, 0.12, WINDOWS)
    return {
        "flat": np.full(WINDOWS, 0.3),
        "sine": 0.5 + 0.5 * np.sin(2 * np.pi * t / 80),
        "logistic": 1 / (1 + np.exp(-(t - 100) / 12)),
        "walk": 0.5 + 0.5 * np.tanh(steps.cumsum()),
        "steps": (t // 50 % 2).astype(float),
        "weekly": 0.3 + 0.5 * (t % 7 >= 5),
        "release": (t >= 120).astype(float),
    }


class Moving:
    """The laws of a plan's views and of the targets, for a data set whose first column moves."""

    def __init__(self, dataset: str, method: str, users: int) -> None:
        table = first(dataset, SETS[dataset])
        assert table is not None
        self.method = methods.get(method)
        plan = local_plan(self.method, Request(table.domain, "1", users, 2))
        self.plan: Plan = replace(plan, window=DAY, expires=DAY * WINDOWS)
        self.targets = list(combinations(range(len(table.domain)), 2))
        codes = table.codes
        share = np.bincount(codes[:, 0], minlength=table.domain.cardinalities[0]) / len(codes)
        common, other = np.argsort(-share)[:2]
        moved = share.copy()
        moved[common] -= MOVED * share[common]
        moved[other] += MOVED * share[common]
        self._ends = []
        for goal in (share, moved):
            weight = (goal / np.maximum(share, 1e-12))[codes[:, 0]] / len(codes)
            views = [
                [np.bincount(v.inputs(codes, table.domain), weight, m.cells) for v in group.views]
                for group, m in zip(self.plan.groups, self.plan.mechanisms, strict=True)
            ]
            tables = [
                np.bincount(table.domain.cells(codes, t), weight, table.domain.size(t))
                for t in self.targets
            ]
            self._ends.append((views, tables))

    def tallies(self, x: float, generator: np.random.Generator) -> list[Tally]:
        shares = np.diff(self.plan.cumulative_shares, prepend=0) / self.plan.total_share
        sizes, at, found = generator.multinomial(self.plan.users, shares), 0, []
        for group, mechanism in enumerate(self.plan.mechanisms):
            rows, views = [], len(self.plan.groups[group].views)
            for view in range(views):
                low, high = (end[0][group][view] for end in self._ends)
                law = (1 - x) * low + x * high
                drawn = generator.multinomial(sizes[at + view], law / law.sum())
                rows.append(mechanism.draw_tally(drawn, generator))
            found.append(Tally(sizes[at : at + views].astype(np.int64), np.stack(rows)))
            at += views
        return found

    def errors(self, model: Model, x: float) -> tuple[float, list[float], list[float]]:
        """Return the mean squared error, and which cells (that move) are in their intervals."""
        squares, held, moving = [], [], []
        for place, target in enumerate(self.targets):
            low, high = (end[1][place] for end in self._ends)
            truth, found = (1 - x) * low + x * high, model.marginal(target)
            squares.append(sse(found.table, truth))
            good = inside(found.table, found.stderr, truth)
            held += good.tolist()
            moving += good[np.abs(high - low) > 1e-3].tolist()
        return float(np.mean(squares)), held, moving


def measure(
    dataset: str, method: str, users: int, stream: str, lengths: Sequence[int]
) -> dict[str, Any]:
    """Return the errors of finals, current sets and fixed windows, and the coverage of current."""
    moving, shape = Moving(dataset, method, users), streams()[stream]
    generator = np.random.default_rng(sorted(streams()).index(stream))
    tracker, sums = Tracker(moving.plan), list[list[Tally]]()
    measured = set(np.linspace(BEGIN, WINDOWS - 1, METHODS[method]).astype(int).tolist())
    errors: dict[str, list[float]] = {}
    held, held_moving, misfit = list[float](), list[float](), 1.0
    for t, x in enumerate(shape.tolist()):
        final = moving.tallies(x, generator)
        sums.append([a + b for a, b in zip(sums[-1], final, strict=True)] if sums else final)
        tracker.add(t, final)
        if t not in measured:
            continue
        current = tracker.current()
        misfit = max(misfit, float(current.misfit.max()))
        known = {"final": final} | {str(n): _last(sums, n) for n in lengths}
        fits = {name: moving.method.fit(moving.plan, tallies) for name, tallies in known.items()}
        fits["current"] = current.model(moving.plan)
        for name, model in fits.items():
            error, cells, of_moving = moving.errors(model, x)
            errors.setdefault(name, []).append(error)
            if name == "current":
                held, held_moving = held + cells, held_moving + of_moving
    means = {name: float(np.mean(values)) for name, values in errors.items()}
    held_moving = held_moving or [1.0]
    return {
        "final": means.pop("final"),
        "current": means.pop("current"),
        "fixed": means,
        "coverage": float(np.mean(held)),
        "moving": float(np.mean(held_moving)),
        "misfit": misfit,
    }


def _last(sums: list[list[Tally]], length: int) -> list[Tally]:
    if length >= len(sums):
        return sums[-1]
    return [
        Tally(a.n - b.n, a.counts - b.counts)
        for a, b in zip(sums[-1], sums[-1 - length], strict=True)
    ]


def table(found: dict[str, dict[str, Any]]) -> Grid:
    """Return the streams' means over data sets, fleets apart."""
    names = ("now/final", "now/best fixed", "coverage", "of moving cells")
    grid = Grid("stream", "devices", "method", *names, box=None)
    for stream in streams():
        for users in FLEETS:
            for method in METHODS:
                rows = [found.get(f"{s}/{method}/{users}/{stream}") for s in SETS]
                have = [row for row in rows if row is not None]
                if not have:
                    continue
                ratio = np.exp(np.mean([np.log(r["current"] / r["final"]) for r in have]))
                best = [
                    r["current"] / min(*r["fixed"].values(), r["final"]) for r in have if r["fixed"]
                ]
                grid.add_row(
                    stream,
                    f"{users:,}",
                    method,
                    f"{ratio:.3f}",
                    f"{np.exp(np.mean(np.log(best))):.2f}" if best else "",
                    f"{np.mean([r['coverage'] for r in have]):.3f}",
                    f"{np.mean([r['moving'] for r in have]):.3f}",
                )
    return grid


def run() -> None:
    for dataset, method, users, stream in product(SETS, METHODS, FLEETS, streams()):
        name = f"{dataset}/{method}/{users}/{stream}"
        if STUDY.claim(name):
            lengths: Sequence[int] = LENGTHS
            if method != "calm":
                fixed = STUDY.read()[f"{dataset}/calm/{users}/{stream}"]["fixed"]
                lengths = [int(min(fixed, key=fixed.__getitem__))]
            STUDY.put(name, measure(dataset, method, users, stream, lengths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="run", choices=("run", "table"))
    if parser.parse_args().task == "run":
        run()
    Console(width=100).print(table(STUDY.read()))


if __name__ == "__main__":
    main()
