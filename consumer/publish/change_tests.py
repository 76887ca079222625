"""Tests the newest final for changes, beside the estimates: no set waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from calmstream.consumer.metrics import publisher as m
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.estimate_runner import Start
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.runtime.threads import begin
from calmstream.estimators.changes import Comparison, compare, source
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.counts import decode_counts
from calmstream.estimators.wire.snapshot import Kind

Tests = Mapping[str, Comparison]
"""The tests of a final by what it is tested against: the window before, or all windows before."""


def tests_of(plan: Plan, own: Mapping[int, bytes], previous: Mapping[int, bytes] | None) -> Tests:
    """Return the tests of a final, from the kept counts of its groups and of the window before."""
    counts = [decode_counts(plan, own[group]) for group in sorted(own)]
    now = [one.tally for one in counts]
    sides = {
        "previous": [decode_counts(plan, raw).tally for _, raw in sorted((previous or {}).items())],
        "before": [Tally(c.total.n - c.tally.n, c.total.counts - c.tally.counts) for c in counts],
    }
    return {against: _compared(plan, then, now) for against, then in sides.items()}


def _compared(plan: Plan, then: Sequence[Tally], now: Sequence[Tally]) -> Comparison:
    """Return the tests between two sides; none where a side has no reports."""
    if not all(any(tally.reports for tally in side) for side in (then, now)):
        return Comparison(())
    return compare(source(plan, then), source(plan, now), plan.marginals, details=False)


class ChangeTests:
    """Tests one final at a time, each time the newest that is complete."""

    def __init__(self, context: PublisherContext, follower: TopicFollower, start: Start) -> None:
        self._context = context
        self._follower = follower
        self._start = start
        self._window = -1
        self._job: Future[Tests] | None = None

    @property
    def pending(self) -> bool:
        """Whether the newest final is not tested yet, and may be."""
        return self._job is not None or self._newest() is not None

    def turn(self, *, idle: bool) -> bool:
        """Begin a test if idle, or note what it found; return whether more may be due at once."""
        if self._job is None and idle and (window := self._newest()) is not None:
            own, previous = map(self._follower.untested.records, (window, window - 1))
            assert own is not None
            self._follower.untested.finish(window)
            self._window = window
            self._job = begin(partial(tests_of, self._context.plan, own, previous), self._start)
        if self._job is None or not self._job.done():
            return False
        job, self._job = self._job, None
        try:
            self._show(job.result())
        except Exception as error:  # noqa: BLE001 - the final is published, whatever they raise
            self._context.log.error(  # noqa: TRY400 - one line
                "the tests of change failed; please report it with the plan",
                window=self._window,
                error=f"{type(error).__name__}: {error}",
            )
        return True

    def _newest(self) -> int | None:
        complete = self._follower.completeness.complete
        whole = self._follower.untested.whole()
        return next((w for w in reversed(whole) if complete(w, Kind.FINAL)), None)

    def _show(self, tests: Tests) -> None:
        metrics = self._context.metrics
        for against, found in tests.items():
            metrics.set(m.CHANGES_TESTED, found.tested, against=against)
            metrics.set(m.CHANGES_FOUND, found.changed, against=against)
            metrics.set(m.CHANGES_SMALLEST, found.smallest, against=against)
