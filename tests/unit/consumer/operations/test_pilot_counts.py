"""The counts of a plan's final windows."""

from __future__ import annotations

from calmstream.planning.pilot import PilotCounts, counted
from tests.support.publisher import Bench, count_of, published_plan, work


def filled() -> Bench:
    bench = Bench(published_plan(windows=3))
    for log in bench.logs:
        for window in range(2):
            log.report(window, window, 1, 1 + log.group).close(window)
    bench.put_all()
    work(bench.publication())
    return bench


def count(bench: Bench) -> PilotCounts:
    return counted(bench.plan, bench.broker, bench.names, bench.clock)


def check(bench: Bench, found: PilotCounts) -> None:
    assert (found.windows, found.reports) == (2, sum(6 for _ in bench.logs))
    for group, tally in enumerate(found.tallies):
        logs = [log for log in bench.logs if log.group == group]
        cells = [c for log in logs for c in log.through(len(log.events), 1)]
        assert tally == count_of(cells).tally


def test_kept_counts_stay_when_the_state_is_deleted() -> None:
    bench = filled()
    check(bench, count(bench))
    bench.topics.delete([bench.names.state])
    check(bench, count(bench))


def test_before_the_first_final_nothing_is_counted() -> None:
    assert count(Bench(published_plan(windows=3))) == PilotCounts((), 0)
