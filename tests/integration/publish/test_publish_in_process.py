"""Check the way of reports to snapshots on the in-process broker, with all roles."""

from __future__ import annotations

from collections import Counter

import pytest

from calmstream.broker.transport import Partition
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.wire.snapshot import Kind
from tests.support.tally import small_plan
from tests.support.tally_bench import DAY_MS, Stage


def by_kind(snapshots: list[Snapshot], kind: Kind) -> dict[int, Snapshot]:
    return {s.window: s for s in snapshots if s.kind is kind}


@pytest.fixture
def stage() -> Stage:
    return Stage(small_plan(windows=4, partitions=2, groups=2))


def test_every_window_of_a_plan_becomes_final_with_exactly_its_reports(stage: Stage) -> None:
    """Publish a log with a window without reports, an unused partition, and resends."""
    worker, publisher = stage.worker(), stage.publisher()
    sent: Counter[int] = Counter()
    for window in (0, 1, 3):
        stage.move_to(10 * window + 1)
        for number in range(4):
            stage.batch(window, [number % 4] * (5 + number), group=number % 2)
            sent[window] += 5 + number
        again = 700 + window
        for _ in range(3):
            stage.batch(window, [1, 2, 3], number=again, group=0)
        sent[window] += 3
        stage.together(worker, publisher)
    stage.move_to(60)
    stage.to_the_end(worker, publisher)
    snapshots = stage.snapshots()
    finals, totals = by_kind(snapshots, Kind.FINAL), by_kind(snapshots, Kind.TOTAL)
    assert {w: s.manifest.reports for w, s in finals.items()} == {
        window: sent[window] for window in range(4)
    }
    assert not finals[2].marginals
    assert [totals[w].manifest.reports for w in range(4)] == [
        sum(sent[v] for v in range(w + 1)) for w in range(4)
    ]
    assert finals[0].manifest.rejected == {"duplicate": 2}
    assert totals[3].manifest.rejected == {"duplicate": 6}
    for window, final in finals.items():
        closed_at = tuple(
            closed.closed_at
            for group in range(2)
            for number in range(2)
            for closed in stage.closed(number, group)
            if closed.window == window
        )
        assert final.revision == totals[window].revision == closed_at


def fill(stage: Stage, worker: TallyWorker, publisher: Publisher) -> None:
    for window in range(4):
        stage.move_to(10 * window + 1)
        stage.batch(window, [window, 0, 1], partition=window % 2, group=window % 2)
        stage.together(worker, publisher, 6)
    stage.move_to(60)
    stage.to_the_end(worker, publisher)


def recreate(stage: Stage, *names: str) -> None:
    stage.topics.delete(names)
    stage.topics.create(stage.names.specs(7 * DAY_MS))


def test_counting_again_beside_finished_snapshots_writes_none(stage: Stage) -> None:
    worker, publisher = stage.worker(), stage.publisher()
    fill(stage, worker, publisher)
    worker.finish()
    publisher.finish()
    recreate(stage, stage.names.state)
    where = Partition(stage.names.snapshots, 0)
    before = [r for r in stage.broker.records(where) if r.value is not None]
    successor = stage.publisher()
    stage.to_the_end(stage.worker(), successor)
    assert [r for r in stage.broker.records(where) if r.value is not None] == before
