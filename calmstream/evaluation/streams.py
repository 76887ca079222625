"""Measures what finals, totals and current sets know of a table whose records have a time.

In each window devices are drawn from its records and report as a plan states; the truth is the
table of all records of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods as registry
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import inside, sse
from calmstream.estimators.methods.base import Method, Model, ReadsReports
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.evaluation.evaluate import draw_targets
from calmstream.evaluation.population import collect, local_plan
from calmstream.tables.records import RecordTable
from calmstream.tables.table import FileColumn, listed

MOST_MEASURED = 24
"""Windows in which tables are fitted and compared; all are collected."""

MOST_WINDOWS = 100_000
"""Maximum number of windows from the first record to the last one."""


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One line: the mean errors of one method at one epsilon.

    Attributes:
        method: registry name.
        epsilon: privacy loss of a report.
        windows: windows with records.
        measured: windows whose tables were compared.
        users: devices of a window.
        final, total, current: mean of the squared error, summed over the cells of a target.
        coverage: share of the true cells inside the 95 % intervals of current sets.
    """

    method: str
    epsilon: float
    windows: int
    measured: int
    users: int
    final: float
    total: float
    current: float
    coverage: float


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
    table: RecordTable,
    times: NDArray[np.float64],
    *,
    window: int,
    methods: Sequence[str],
    epsilons: Sequence[str],
    k: int,
    users: int,
    targets: int,
    seed: int,
    progress: Callable[[], object] = lambda: None,
) -> Iterator[StreamResult]:
    """Measure every method at every epsilon; yield results one by one."""
    numbers = ((times - times.min()) // window).astype(np.int64)
    if numbers.max() >= MOST_WINDOWS:
        raise InvalidInput(f"--window: {numbers.max() + 1:,} windows; at most {MOST_WINDOWS:,}")
    order = np.argsort(numbers, kind="stable")
    windows, starts = np.unique(numbers[order], return_index=True)
    if len(windows) < 2:
        raise InvalidInput("--window: all records are in one window, which is no stream")
    records = dict(zip(windows.tolist(), np.split(order, starts[1:]), strict=True))
    chosen = draw_targets(len(table.domain), k, targets, np.random.default_rng((seed, 0)))
    for name in methods:
        method = registry.get(name)
        if isinstance(method, ReadsReports):
            raise InvalidInput(f"method {name} reads reports one by one: it has no current sets")
        for epsilon in epsilons:
            plan = local_plan(method, Request(table.domain, epsilon, users, k))
            stream = _Stream(method, replace(plan, window=window, expires=window * MOST_WINDOWS))
            yield stream.run(table, records, chosen, seed, progress)


class _Stream:
    def __init__(self, method: Method, plan: Plan) -> None:
        self._method = method
        self._plan = plan
        self._tracker = Tracker(plan)
        self._total: list[Tally] | None = None

    def run(
        self,
        table: RecordTable,
        records: dict[int, NDArray[np.int64]],
        targets: Sequence[Attributes],
        seed: int,
        progress: Callable[[], object],
    ) -> StreamResult:
        windows, plan = sorted(records), self._plan
        late = windows[len(windows) // 4 :]
        places = np.linspace(0, len(late) - 1, min(MOST_MEASURED, len(late))).astype(int)
        measured, rows = {late[i] for i in places}, []
        for window in windows:
            own = table.codes[records[window]]
            generator = np.random.default_rng((seed, 1, window))
            codes = own[generator.integers(len(own), size=plan.users)]
            noise = np.random.SeedSequence((seed, 2, window))
            final = collect(plan, codes, noise, exact=True)
            before = self._total
            total = final if before is None else [a + b for a, b in zip(before, final, strict=True)]
            self._total = total
            self._tracker.add(window, final)
            if window in measured:
                truths = [plan.domain.histogram(own, target) / len(own) for target in targets]
                fits = [self._method.fit(self._plan, tallies) for tallies in (final, total)]
                fits.append(self._tracker.current().model(self._plan))
                errors = [_errors(model, targets, truths) for model in fits]
                rows.append((*(error for error, _ in errors), errors[-1][1]))
            progress()
        means = np.mean(rows, axis=0).tolist()
        return StreamResult(
            self._method.name, float(plan.epsilon), len(windows), len(rows), plan.users, *means
        )


def _errors(
    model: Model, targets: Sequence[Attributes], truths: Sequence[NDArray[np.float64]]
) -> tuple[float, float]:
    """Return the mean squared error of the targets, and the share of cells in intervals."""
    found = [model.marginal(target) for target in targets]
    pairs = list(zip(found, truths, strict=True))
    held = np.concatenate([inside(one.table, one.stderr, truth) for one, truth in pairs])
    return float(np.mean([sse(one.table, truth) for one, truth in pairs])), float(held.mean())
