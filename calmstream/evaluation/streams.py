"""Measures what finals, totals and current sets know of a table whose records have a time.

In each window devices are drawn from its records and report as a plan states; the truth is the
table of all records of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators import planning
from calmstream.estimators.domain import Attributes
from calmstream.estimators.plan import Plan
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.evaluation.evaluate import ReadsReports, draw_targets, errors
from calmstream.evaluation.population import Study, collect, local_plan, true_tables
from calmstream.tables.table import FileColumn, listed

MOST_MEASURED = 24  # windows in which tables are fitted and compared; all are collected
MOST_WINDOWS = 100_000  # maximum number of windows from the first record to the last one


def times_of(columns: Sequence[FileColumn], name: str | None) -> tuple[str, NDArray[np.float64]]:
    """Return the column with times, and the seconds since the epoch of each record: shape (n,)."""
    for column in columns:
        if name in (None, column.name):
            seconds = [_seconds(value) for value in column.texts]
            if None not in seconds and len(seconds) == len(column.values):
                return column.name, np.array(seconds, float)[column.places]
            if name is not None:
                wrong = [v for v in column.values if not isinstance(v, str) or _seconds(v) is None]
                raise InvalidInput(f"--time: {name!r} has {listed(wrong, 2)}, which are no times")
    known = listed(column.name for column in columns)
    raise InvalidInput(f"no column has a time in every cell; --time names one of {known}")


def _seconds(text: str) -> float | None:
    """Return a time in ISO 8601, UTC unless it says otherwise, in seconds; None for other texts."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def evaluate_stream(
    study: Study, *, times: NDArray[np.float64], window: int
) -> Iterator[dict[str, Any]]:
    """Yield for each method and epsilon the mean squared errors, summed over a target's cells."""
    numbers = ((times - times.min()) // window).astype(np.int64)
    if numbers.max() >= MOST_WINDOWS:
        raise InvalidInput(f"--window: {numbers.max() + 1:,} windows; at most {MOST_WINDOWS:,}")
    order = np.argsort(numbers, kind="stable")
    windows, starts = np.unique(numbers[order], return_index=True)
    if len(windows) < 2:
        raise InvalidInput("--window: all records are in one window, which is no stream")
    records = dict(zip(windows.tolist(), np.split(order, starts[1:]), strict=True))
    chosen = draw_targets(len(study.table.domain), study.k, study.targets, study.random(0))
    for method, request in study.requests():
        if isinstance(method, ReadsReports):
            raise InvalidInput(f"method {method.name} reads reports one by one: no current sets")
        plan = replace(local_plan(method, request), window=window, expires=window * MOST_WINDOWS)
        rows = list(_errors(study, plan, records, chosen))
        final, total, current, coverage = np.mean(rows, axis=0).tolist()
        yield {
            "method": method.name,
            "epsilon": float(plan.epsilon),
            "windows": len(records),  # those with records
            "measured": len(rows),  # of these windows
            "n": study.users,  # devices of a window
            "final": final,
            "total": total,
            "current": current,
            "coverage": coverage,  # share of the true cells in the 95 % intervals of current
        }


def _errors(
    study: Study,
    plan: Plan,
    records: dict[int, NDArray[np.int64]],
    targets: Sequence[Attributes],
) -> Iterator[tuple[float, float, float, float]]:
    """Yield the errors of final, total and current of each measured window, and the coverage."""
    windows, tracker, total = sorted(records), Tracker(plan), planning.empty_tallies(plan)
    late = windows[len(windows) // 4 :]
    places = np.linspace(0, len(late) - 1, min(MOST_MEASURED, len(late))).astype(int)
    measured = {late[i] for i in places}
    for window in windows:
        own = study.table.codes[records[window]]
        codes = own[study.random(1, window).integers(len(own), size=plan.users)]
        final = collect(plan, codes, np.random.SeedSequence((study.seed, 2, window)), exact=True)
        total = [before + now for before, now in zip(total, final, strict=True)]
        tracker.add(window, final)
        if window in measured:
            truths = true_tables(plan.domain, own, targets)
            fits = [registry.get(plan.method).fit(plan, tallies) for tallies in (final, total)]
            models = (*fits, tracker.current().model(plan))
            found = [errors([m.marginal(one) for one in targets], truths) for m in models]
            first, second, third = (one["sse_mean"] for one in found)
            yield first, second, third, found[-1]["coverage"]
        study.progress()
