"""Reading kept counts: a window is final and kept when the counts of all its groups are there."""

from __future__ import annotations

import pytest

from calmstream.consumer.read.kept import KeptCounts
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import recount

WINDOWS = 5
FORGED = 2


@pytest.fixture
def bench() -> Bench:
    bench = Bench(published_plan(windows=WINDOWS, groups=3))
    for log in bench.logs:
        for window in range(WINDOWS):
            cells = [log.group] * 3000 if window == FORGED else [0, 1, 2, 3]
            log.report(window, *cells).close(window)
    bench.put_all()
    work(bench.publication(), 40 * WINDOWS)
    return bench


def reading(bench: Bench) -> KeptCounts:
    found = KeptCounts(bench.plan, bench.broker, bench.names, bench.clock)
    found.refresh()
    return found


def test_counts_alone_say_what_questions_need_of_a_final(bench: Bench) -> None:
    bench.topics.delete([bench.names.snapshots])
    kept = reading(bench)
    assert kept.windows() == list(range(WINDOWS))
    for window in range(WINDOWS):
        assert kept.revision(window) == tuple(log.closed_at(window) for log in bench.logs)
        assert kept.suspicious(window) == (window == FORGED)


def test_a_window_without_the_counts_of_one_group_is_not_kept(bench: Bench) -> None:
    left = recount(bench, lambda key: key != b"4/0001" and not key.startswith(b"1/"))
    late = [record for record in left if record.key == b"4/0001"]
    kept = reading(bench)
    assert kept.windows() == [0, 2, 3]
    for record in late:
        bench.sink.send(bench.names.counts, record.key, record.value, partition=0).wait(5)
    kept.refresh()
    assert kept.windows() == [0, 2, 3, 4]
