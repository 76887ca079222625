"""Check the replay, which counts windows again from the log.

The same log gives the same snapshots, and a rejected record is counted at most once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, InvalidInput, Reason
from calmstream.consumer.operations.replay import replay
from calmstream.consumer.publish import changes as publish_changes
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.job import EstimateRunner
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.wire.changes import ChangesRecord, decode_changes, is_changes_key
from calmstream.estimators.wire.counts import decode_counts
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import AWAIT_SECONDS, publisher_context
from tests.support.tally import batch_id, body, small_plan
from tests.support.tally_bench import Stage


def renamed(stage: Stage, namespace: str = "again") -> TopicNames:
    return replace(stage.names, output_namespace=namespace)


def filled(partitions: int = 2) -> tuple[Stage, object]:
    """Return a stage with four closed and published windows of reports, some of them bad."""
    stage = Stage(small_plan(windows=4, partitions=partitions))
    worker = stage.worker()
    dice = np.random.Generator(np.random.PCG64(5))
    for second in range(40):
        stage.move_to(second + 0.6)
        for partition in range(partitions):
            cells = dice.integers(4, size=5).tolist()
            stage.batch(second // 10, cells, partition=partition)
        if second % 7 == 0:
            stage.send(batch_id(second), b"{")
        stage.turns(worker, count=1, step=0.1)
    stage.move_to(60)
    stage.turns(worker, count=12, step=0.5)
    return stage, worker


def publish(stage: Stage, steps: int = 60) -> None:
    config = PublisherConfig(poll_seconds=0)
    work = PublishingSession(
        publisher_context(stage.plan, stage.names, stage.clock, config),
        stage.broker,
        EstimateRunner(start_tests=lambda run: run(), wait_seconds=AWAIT_SECONDS),
    )
    for _ in range(steps):
        work.step(0.0)


def sets(stage: Stage, names: TopicNames) -> dict[bytes, bytes]:
    """Return the newest value of every record of a final or total."""
    records = stage.broker.records(Partition(names.snapshots, 0))
    by_key = {r.key: r.value for r in records if b"/early/" not in r.key}
    return {key: value for key, value in by_key.items() if value is not None}


def counts(stage: Stage, names: TopicNames) -> dict[bytes | None, bytes | None]:
    """Return the newest value of each key of the counts topic."""
    return {r.key: r.value for r in stage.broker.records(Partition(names.counts, 0))}


def changes(stage: Stage, names: TopicNames) -> dict[int, ChangesRecord]:
    """Return the tests of change by window."""
    found = counts(stage, names).items()
    tests = [decode_changes(stage.plan, k, v) for k, v in found if k and is_changes_key(k)]
    return {record.window: record for record in tests}


def final(stage: Stage, names: TopicNames, window: int) -> Snapshot:
    assembler = SnapshotAssembler(stage.plan)
    for record in stage.broker.records(Partition(names.snapshots, 0)):
        snapshot = assembler.read(record.key, record.value)
        if snapshot is not None and (snapshot.window, snapshot.kind) == (window, Kind.FINAL):
            return snapshot
    raise AssertionError(f"no final of window {window}")


def test_a_rebuild_publishes_the_same_bytes() -> None:
    stage, _ = filled()
    publish(stage)
    names = renamed(stage)
    done = replay(stage.plan, stage.broker, stage.names, names, stage.clock)
    assert done.windows == (0, 1, 2, 3)
    assert done.totals
    assert done.reports == 400
    expected = sets(stage, stage.names)
    assert len(expected) == 4 * 3 * 2
    assert sets(stage, names) == expected
    assert set(counts(stage, names)) == {
        key for w in range(4) for key in (b"%d/0000" % w, b"%d/changes" % w)
    }
    assert counts(stage, names) == counts(stage, stage.names)
    tests = changes(stage, names)
    assert [family.tested for family in tests[3].families] == [1, 1]


def test_tests_of_change_can_be_left_out() -> None:
    stage, _ = filled()
    names = renamed(stage)
    replay(stage.plan, stage.broker, stage.names, names, stage.clock, test_changes=False)
    assert set(counts(stage, names)) == {b"%d/0000" % w for w in range(4)}


def test_a_failed_test_does_not_stop_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    stage, _ = filled()
    publish(stage)
    names = renamed(stage)
    monkeypatch.setattr(publish_changes, "changes_record", broken)
    with capture_logs() as logs:
        replay(stage.plan, stage.broker, stage.names, names, stage.clock)
    assert [log["error"] for log in logs] == ["LinAlgError: singular"] * 4
    assert sets(stage, names) == sets(stage, stage.names)
    assert changes(stage, names) == {}


def test_a_range_from_a_trimmed_log_gives_the_same_finals() -> None:
    stage, _ = filled()
    publish(stage)
    cut = {
        stage.input(p): next(
            r.offset
            for r in stage.broker.records(stage.input(p))
            if r.timestamp >= stage.plan.window_start(1) + 2000
        )
        for p in range(2)
    }
    stage.topics.trim(cut)
    names = renamed(stage)
    given = (stage.plan, stage.broker, stage.names, names, stage.clock)
    with pytest.raises(FatalError, match="windows from 2 on can be counted again"):
        replay(*given, first=1)
    done = replay(*given, first=2, last=3)
    assert done.windows == (2, 3)
    assert not done.totals
    expected = {
        k: v for k, v in sets(stage, stage.names).items() if k[:7] in (b"2/final", b"3/final")
    }
    assert len(expected) == 4
    assert sets(stage, names) == expected
    live = counts(stage, stage.names)
    again = counts(stage, names)
    assert set(again) == {b"2/0000", b"3/0000", b"2/changes", b"3/changes"}
    for key in (b"2/0000", b"3/0000"):
        value = again[key]
        one, other = (decode_counts(stage.plan, v or b"") for v in (value, live[key]))
        assert one == replace(other, total=None)
    tests, known = changes(stage, names), changes(stage, stage.names)
    assert tests[3].families[0] == known[3].families[0]
    reasons = [family.reason for w in (2, 3) for family in tests[w].families]
    unknown = "the counts of the windows before are not kept"
    assert reasons == [unknown, unknown, "", unknown]


def test_late_reports_are_counted_after_all_and_only_once() -> None:
    stage, worker = filled()
    late = body(stage.plan, 1, [3] * 7)
    stage.send(batch_id(1), late, partition=1)
    stage.send(batch_id(1), late, partition=1)  # twice: one is counted
    stage.batch(2, [0])
    records = stage.broker.records(stage.input())
    accepted = next(r for r in records if (r.value or b"")[20:24] == b"\x01\x00\x00\x00")
    stage.send(accepted.key, accepted.value)  # counted in time already; late as a resend
    stage.turns(worker, count=12, step=0.3)
    publish(stage)
    names = renamed(stage)
    done = replay(stage.plan, stage.broker, stage.names, names, stage.clock, admit=[Reason.LATE])
    assert done.admitted == {"late": 2}
    assert done.refused == {"duplicate": 2}
    before, after = final(stage, stage.names, 1), final(stage, names, 1)
    assert after.manifest.reports == before.manifest.reports + 7
    assert after.manifest.processing[0] == "rejected records admitted: late 2"
    assert (
        final(stage, names, 2).manifest.reports == final(stage, stage.names, 2).manifest.reports + 1
    )
    assert done.reports == 400 + 8


def test_a_late_record_among_many_leaves_the_window_of_its_own_time() -> None:
    stage = Stage(small_plan(windows=3, grace=5))
    worker = stage.worker()
    stage.batch(0, [1])
    stage.move_to(15.5)
    for _ in range(12):
        stage.batch(1, [0])
    stage.move_to(21)  # the clock is in window 2, and window 1 is still open
    stage.batch(0, [2, 2])
    stage.batch(2, [3])
    stage.turns(worker)
    stage.move_to(60)
    stage.turns(worker, count=12)
    names = renamed(stage)
    replay(stage.plan, stage.broker, stage.names, names, stage.clock, admit=[Reason.LATE])
    assert [final(stage, names, window).manifest.reports for window in range(3)] == [3, 12, 1]
    assert [final(stage, names, window).manifest.rejected for window in range(3)] == [{}, {}, {}]


def test_a_letter_written_twice_is_one() -> None:
    stage, worker = filled()
    stage.send(batch_id(9), body(stage.plan, 0, [3]))
    stage.turns(worker, count=1)
    letter, record = stage.dead_letters()[-1]
    assert letter.reason is Reason.LATE
    stage.sink.send(
        stage.names.dead_letters, record.key, record.value, partition=0, headers=record.headers
    ).wait(1)
    done = replay(
        stage.plan, stage.broker, stage.names, renamed(stage), stage.clock, admit=[Reason.LATE]
    )
    assert done.admitted == {"late": 1}
    assert done.refused == {}


def test_existing_snapshots_are_not_overwritten() -> None:
    stage, _ = filled()
    given = (stage.plan, stage.broker, stage.names)
    with pytest.raises(InvalidInput, match="a new namespace"):
        replay(*given, stage.names, stage.clock)
    replay(*given, renamed(stage), stage.clock)
    with pytest.raises(InvalidInput, match="holds snapshots already"):
        replay(*given, renamed(stage), stage.clock)


def test_an_open_window_is_refused() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker)
    given = (stage.plan, stage.broker, stage.names, renamed(stage), stage.clock)
    with pytest.raises(InvalidInput, match="window 0 is not closed"):
        replay(*given, last=0)
    with pytest.raises(InvalidInput, match="no window from 0 on is closed"):
        replay(*given)


def test_duplicates_are_never_admitted() -> None:
    stage, _ = filled()
    with pytest.raises(InvalidInput, match="never admitted"):
        replay(
            stage.plan,
            stage.broker,
            stage.names,
            renamed(stage),
            stage.clock,
            admit=[Reason.DUPLICATE],
        )


def test_late_reports_of_packed_views_are_counted_per_view() -> None:
    stage = Stage(small_plan(windows=2, packed=True))
    worker = stage.worker()
    stage.batch(0, [0, 1, 2])
    stage.move_to(14)
    stage.batch(0, [3, 3, 3, 3, 3])
    stage.turns(worker)
    stage.move_to(40)
    stage.turns(worker, count=12)
    names = renamed(stage)
    done = replay(stage.plan, stage.broker, stage.names, names, stage.clock, admit=[Reason.LATE])
    assert (done.admitted, done.reports) == ({"late": 1}, 8)
    assert final(stage, names, 0).manifest.reports == 8
