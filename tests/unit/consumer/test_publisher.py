"""The publisher role: what it writes, skips, rewrites and deletes, and who is in charge."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from broker.in_process import SendFault
from broker.transport import Partition, Record
from consumer import estimate
from consumer import publication as publishing
from consumer.merge import MergedWindow
from consumer.publication import Publication
from consumer.publisher_config import PublisherConfig
from consumer.snapshots import SnapshotSet, build_set
from estimators.errors import FatalError, RecoverableError
from estimators.plan import Plan
from estimators.wire.snapshot import Kind, Manifest, decode, parse_key
from tests.publisher_support import Bench, published_plan, shown, work

EARLY, FINAL, TOTAL = Kind.EARLY, Kind.FINAL, Kind.TOTAL


@pytest.fixture
def bench() -> Bench:
    """One group, two partitions, three windows."""
    return Bench(published_plan(groups=1))


def close_all(bench: Bench, windows: int = 3) -> None:
    """Every slot gets reports in every window and closes it."""
    for log in bench.logs:
        for window in range(windows):
            log.report(window, *([log.slot % 4] * 50), window % 4).close(window)


def set_records(bench: Bench, window: int, kind: Kind) -> list[int]:
    """Offsets of a set's records in the snapshots topic."""
    return [
        offset
        for offset, (key, value) in enumerate(bench.snapshot_records())
        if parse_key(key)[:2] == (window, kind) and value is not None
    ]


def steps(publication: Publication, until: Callable[[], bool]) -> None:
    """Steps, at most a thousand, until it holds."""
    for _ in range(1000):
        if until():
            return
        publication.step(0.0)
    raise AssertionError("not within a thousand steps")


# Early revisions


def test_early_revisions_follow_the_state_at_the_refresh_interval(bench: Bench) -> None:
    first, second = bench.logs
    first.report(0, 1, 2)
    second.report(0, 3)
    bench.put(first, first.state())
    publisher = bench.publisher()
    work(publisher)
    assert [s.revision for s in bench.shown()] == [(2, 0)]
    bench.put(second, second.state())
    work(publisher)
    assert [s.revision for s in bench.shown()] == [(2, 0)]
    bench.clock.advance(5)
    work(publisher)
    assert [s.revision for s in bench.shown()] == [(2, 0), (2, 1)]
    assert bench.shown()[-1].manifest.reports == 3
    bench.clock.advance(5)
    work(publisher)
    assert len(bench.shown()) == 2  # nothing new, nothing written
    assert len(set_records(bench, 0, EARLY)) == 6


def test_an_early_without_reports_is_not_worth_a_record(bench: Bench) -> None:
    bench.logs[0].close(0)
    bench.put(bench.logs[0], bench.logs[0].closed(0))
    work(bench.publisher())
    assert bench.snapshot_records() == []


def test_a_stale_publisher_writes_nothing_below_what_it_finds(bench: Bench) -> None:
    log = bench.logs[0].report(0, 1, 2, 3)
    bench.put(log, log.state(2))
    work(bench.publication())
    assert [s.revision for s in bench.shown()] == [(2, 0)]
    work(bench.publication())  # a second one finds the same vector: not above
    assert len(bench.snapshot_records()) == 3
    bench.put(log, log.state(3))
    work(bench.publication())
    assert [s.revision for s in bench.shown()] == [(2, 0), (3, 0)]


def test_the_default_refresh_is_a_tenth_of_the_window_and_at_least_five_seconds() -> None:
    config = PublisherConfig()
    plan = published_plan()
    assert config.refresh(plan) == 5
    object.__setattr__(plan, "window", 3600)
    assert config.refresh(plan) == 360
    assert PublisherConfig(refresh_seconds=1).refresh(plan) == 1


# Finals and totals


def test_every_window_gets_one_final_and_one_total_in_order(bench: Bench) -> None:
    close_all(bench)
    bench.put_all()
    publisher = bench.publisher()
    work(publisher)
    assert bench.kinds() == [(w, kind) for w in range(3) for kind in (FINAL, TOTAL)]
    assert len(bench.snapshot_records()) == 3 * 2 * 3
    for snapshot in bench.shown():
        at = tuple(log.closed_at(snapshot.window) for log in bench.logs)
        assert snapshot.revision == at
        expected = 102 * (1 if snapshot.kind is FINAL else snapshot.window + 1)
        assert snapshot.manifest.reports == expected
    assert publisher.finished


def test_a_final_waits_for_every_partition(bench: Bench) -> None:
    first, second = bench.logs
    first.report(0, 1).close(0)
    second.report(0, 2)
    for record in (first.closed(0), first.state()):
        bench.put(first, record)
    bench.put(second, second.state())
    publisher = bench.publisher()
    work(publisher)
    assert bench.kinds() == [(0, EARLY)]
    assert bench.shown()[0].revision == (1, 1)
    second.close(0)
    bench.put(second, second.closed(0))
    work(publisher)
    assert bench.kinds() == [(0, EARLY), (0, FINAL), (0, TOTAL)]


def test_windows_without_reports_become_final_without_tables() -> None:
    bench = Bench(published_plan())
    for log in bench.logs:
        log.close(0).close(1)
    bench.logs[0].report(1)
    bench.put_all()
    work(bench.publisher())
    assert bench.kinds() == [(0, FINAL), (0, TOTAL), (1, FINAL), (1, TOTAL)]
    assert all(s.manifest.reports == 0 and not s.marginals for s in bench.shown())
    assert len(bench.snapshot_records()) == 4


def test_manifests_come_last(bench: Bench) -> None:
    close_all(bench)
    bench.put_all()
    work(bench.publisher())
    for window in range(3):
        for kind in (FINAL, TOTAL):
            offsets = set_records(bench, window, kind)
            keys = [bench.snapshot_records()[offset][0] for offset in offsets]
            assert [parse_key(key)[2] for key in keys] == [False, False, True]


def test_a_manifest_is_not_written_before_its_tables_are_acknowledged(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.put_all()
    bench.broker.faults.plan(bench.names.snapshots, SendFault.FAIL)
    publication = bench.publication()
    with pytest.raises(RecoverableError):
        work(publication)
    assert [key for key, _ in bench.snapshot_records()] == [b"0/final/a0+a1"]
    work(publication)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL)]


def test_a_restart_between_tables_and_manifest_rewrites_the_set(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.put_all()
    crashing = bench.publication()
    bench.broker.faults.plan(bench.names.snapshots, SendFault.NONE, SendFault.NONE, SendFault.FAIL)
    with pytest.raises(RecoverableError):
        work(crashing)
    assert len(set_records(bench, 0, FINAL)) == 2
    assert bench.shown() == []
    work(bench.publication())
    assert bench.kinds() == [(0, FINAL), (0, TOTAL)]
    assert len(set_records(bench, 0, FINAL)) == 5


def test_a_set_found_complete_is_left_alone(bench: Bench) -> None:
    close_all(bench)
    bench.put_all()
    work(bench.publication())
    before = bench.snapshot_records()
    work(bench.publication())
    bench.broker.compact(bench.names.snapshots)
    work(bench.publication())
    assert bench.snapshot_records() == before


def test_replaying_the_state_gives_the_same_bytes() -> None:
    written = []
    for _ in range(2):
        bench = Bench(published_plan(groups=1))
        close_all(bench)
        bench.put_all()
        work(bench.publisher())
        written.append(bench.snapshot_records())
    assert written[0] == written[1]


def test_lost_acknowledgements_cost_a_rewrite_and_nothing_else(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.put_all()
    bench.broker.faults.plan(
        bench.names.snapshots, SendFault.NONE, SendFault.NONE, SendFault.LOSE_ACK
    )
    publication = bench.publication()
    with pytest.raises(RecoverableError):
        work(publication)
    work(publication)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL)]


@pytest.mark.parametrize("kind", [EARLY, FINAL])
def test_what_is_written_is_not_written_again_while_it_is_on_its_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    publication = bench.publication()
    bench.logs[0].report(0, 1, 2)
    if kind is FINAL:
        for log in bench.logs:
            log.close(0)
    bench.put_all()
    steps(publication, lambda: bool(publication._merger._states))
    poll = publication._reader.poll
    monkeypatch.setattr(publication._reader, "poll", lambda *_: [])
    for _ in range(10):
        publication.step(0.0)
        bench.clock.advance(5)
    assert len(bench.snapshot_records()) == (3 if kind is EARLY else 6)
    monkeypatch.setattr(publication._reader, "poll", poll)
    work(publication)
    assert len([r for r in bench.snapshot_records() if r[1]]) == (3 if kind is EARLY else 6)


def test_a_set_that_is_never_found_complete_stops_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_all(bench, windows=1)
    bench.put_all()
    publication = bench.publication()
    monkeypatch.setattr(publication._assembler, "read", lambda *_: None)
    with pytest.raises(FatalError, match="was written 5 times and never found complete"):
        work(publication)


# Reading


def test_compaction_moves_a_rewritten_closed_record_past_the_reader(bench: Bench) -> None:
    """The state topic is rewritten and compacted while the publisher is reading it."""
    close_all(bench, windows=2)
    bench.put_all()
    publication = bench.publication()
    poll, moved = publication._reader.poll, []

    def polling(timeout: float, max_records: int = 500) -> list[Record]:
        if not moved and publication._ends.keys() >= set(publication._state):
            # Ends were fetched, nothing below them was read; now it moves behind them.
            for window in (0, 1):
                bench.put(bench.logs[0], bench.logs[0].closed(window))
            bench.broker.compact(bench.names.state, active=0)
            moved.append(True)
            return poll(timeout, 2)
        return poll(timeout, 3)

    publication._reader.poll = polling  # type: ignore[method-assign]
    steps(publication, lambda: publication.caught_up)
    assert moved
    assert publication._merger.closed_windows() == [0, 1]
    work(publication)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL), (1, FINAL), (1, TOTAL)]


def test_nothing_is_written_before_both_topics_were_read(bench: Bench) -> None:
    log = bench.logs[0].report(0, *([1] * 40))
    for below in range(1, 40):
        bench.put(log, log.state(below))
    publication = bench.publication()
    steps(publication, lambda: publication.caught_up or bench.snapshot_records() != [])
    assert bench.snapshot_records() == []
    work(publication)
    assert [s.revision for s in bench.shown()] == [(39, 0)]


def test_a_window_whose_closed_record_is_missing_waits(bench: Bench) -> None:
    first, second = bench.logs
    first.report(0, 1).close(0)
    second.report(0, 1)
    bench.put(first, first.state())
    bench.put(second, second.state())
    work(bench.publisher())
    assert bench.snapshot_records() == []


@pytest.mark.parametrize("topic", ["state", "snapshots"])
def test_foreign_records_stop_it(bench: Bench, topic: str) -> None:
    name = getattr(bench.names, topic)
    bench.sink.send(name, b"what", b"ever", partition=0).wait(5)
    with pytest.raises(FatalError, match="foreign key"):
        work(bench.publisher())


# Deleting


def test_a_publisher_down_beyond_retention_publishes_finals_and_then_deletes(bench: Bench) -> None:
    close_all(bench)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    bench.broker.compact(bench.names.state)
    publisher = bench.publisher()
    work(publisher)
    assert bench.kinds() == [(w, kind) for w in range(3) for kind in (FINAL, TOTAL)]
    bench.clock.advance(60)
    work(publisher)
    assert bench.state_keys() == {b"0000/0", b"0000/1"}
    bench.broker.compact(bench.names.state, active=0, tombstones=True)
    before = bench.snapshot_records()
    work(bench.publisher())
    assert bench.snapshot_records() == before


def test_closed_records_stay_while_the_input_holds_their_end(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.fill_inputs()
    bench.put_all()
    first, second = bench.logs
    at = first.closed_at(0)
    assert at is not None
    inputs = [Partition(bench.names.reports(0), number) for number in (0, 1)]
    bench.topics.trim({inputs[0]: at, inputs[1]: len(second.events)})
    publisher = bench.publisher()
    work(publisher)
    bench.clock.advance(60)
    work(publisher)
    # Partition 0 starts at closed_at, not above it; partition 1 above.
    assert bench.state_keys() == {b"0000/0", b"0000/1", b"0000/0/0"}
    bench.topics.trim({inputs[0]: at + 1})
    bench.clock.advance(60)
    work(publisher)
    assert bench.state_keys() == {b"0000/0", b"0000/1"}


def test_closed_records_stay_until_final_and_total_were_found(bench: Bench) -> None:
    close_all(bench, windows=2)
    bench.fill_inputs()
    first, second = bench.logs
    bench.put(first, first.closed(0))
    bench.put(first, first.state())
    bench.put(second, second.state(10))
    bench.trim_inputs()
    publisher = bench.publisher()
    work(publisher)
    bench.clock.advance(600)
    work(publisher)
    assert b"0000/0/0" in bench.state_keys()


def test_a_closed_record_written_again_is_deleted_again(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    publisher = bench.publisher()
    for _ in range(2):
        work(publisher)
        bench.clock.advance(60)
        work(publisher)
        assert bench.state_keys() == {b"0000/0", b"0000/1"}
        bench.put(bench.logs[0], bench.logs[0].closed(0))


def test_a_successor_finishes_a_deletion_cut_short(bench: Bench) -> None:
    close_all(bench, windows=1)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    work(bench.publication())
    bench.put(bench.logs[0], (bench.logs[0].closed(0)[0], None))
    before = [r for r in bench.snapshot_records() if r[1] is not None]
    successor = bench.publication()
    bench.clock.advance(60)
    work(successor)
    assert bench.state_keys() == {b"0000/0", b"0000/1"}
    assert [r for r in bench.snapshot_records() if r[1] is not None] == before


def test_early_records_go_once_the_final_is_found(bench: Bench) -> None:
    log, other = bench.logs
    log.report(0, 1, 2)
    bench.put(log, log.state())
    publisher = bench.publisher()
    work(publisher)
    assert len(set_records(bench, 0, EARLY)) == 3
    log.close(0)
    other.close(0)
    for slot in bench.logs:
        bench.put(slot, slot.closed(0))
    bench.clock.advance(60)
    work(publisher)
    deleted = [key for key, value in bench.snapshot_records() if value is None]
    assert [parse_key(key) for key in deleted] == [(0, EARLY, True)] + [(0, EARLY, False)] * 2
    bench.broker.compact(bench.names.snapshots, active=0, tombstones=True)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL)]
    assert len(bench.snapshot_records()) == 6


def test_memory_holds_nothing_of_windows_that_are_done() -> None:
    bench = Bench(published_plan(groups=1, windows=30))
    close_all(bench, windows=30)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    publication = bench.publication()
    work(publication, turns=150)
    bench.clock.advance(60)
    work(publication)
    merger, assembler = publication._merger, publication._assembler
    held = (merger._closed, merger._closed_at, assembler._pending, assembler._shown)
    assert [len(x) for x in held] == [0, 0, 0, 0]
    assert (publication._sent, publication._sent_early, publication._early_keys) == ({}, {}, {})


# Estimating


def test_a_long_estimate_does_not_hold_up_the_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def slow(plan: Plan, merged: MergedWindow) -> SnapshotSet:
        assert release.wait(30)
        return build_set(plan, merged)

    close_all(bench, windows=2)
    bench.put_all()
    publisher = bench.publisher()
    with monkeypatch.context() as patched:
        patched.setattr(estimate, "build_set", slow)
        patched.setattr(publishing, "_PATIENCE_SECONDS", 0.01)
        work(publisher, 10)
        assert publisher.active
        assert bench.snapshot_records() == []
        # Somebody else publishes that window meanwhile: this estimate is not wanted any more.
        patched.setattr(estimate, "build_set", build_set)
        work(bench.publication())
        release.set()
    before = bench.snapshot_records()
    assert len(before) == 12
    work(publisher)
    assert bench.snapshot_records() == before
    assert publisher._work is not None
    assert publisher._work._estimate is None


def test_what_the_method_raises_stops_the_publisher(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(plan: Plan, merged: MergedWindow) -> SnapshotSet:
        raise FatalError(f"window {merged.window} cannot be estimated")

    close_all(bench)
    bench.put_all()
    monkeypatch.setattr(estimate, "build_set", broken)
    with pytest.raises(FatalError, match="window 0 cannot be estimated"):
        work(bench.publisher())


# Membership


def test_one_of_two_is_active_and_the_other_takes_over(bench: Bench) -> None:
    close_all(bench)
    one, two = bench.publisher(), bench.publisher()
    for _ in range(4):
        one.turn()
        two.turn()
    assert [one.active, two.active].count(True) == 1
    active, waiting = (one, two) if one.active else (two, one)
    assert not waiting.finished
    assert waiting.ready
    active.close()
    assert not active.active
    bench.put_all()
    work(waiting)
    assert waiting.active
    assert waiting.finished


def test_a_zombie_beside_a_live_publisher_does_no_harm(bench: Bench) -> None:
    first, second = bench.logs
    first.report(0, 1, 1)
    bench.put(first, first.state())
    zombie = bench.publication()
    steps(zombie, lambda: zombie.caught_up)
    live = bench.publication()
    first.report(0, 2, 2)
    second.report(0, 3).close(0)
    bench.put(first, first.state())
    bench.put(second, second.closed(0))
    work(live)
    work(zombie)
    first.close(0)
    bench.put(first, first.closed(0))
    for _ in range(30):
        live.step(0.0)
        zombie.step(0.0)
        bench.clock.advance(5)
    kinds = [(s.kind, s.revision) for s in bench.shown()]
    assert kinds[0] == (EARLY, (4, 1))
    assert (FINAL, (4, 1)) in kinds
    assert sorted(k for k, _ in kinds[1:]) == [FINAL, TOTAL]


def test_losing_the_membership_stops_the_work_and_winning_it_starts_anew(bench: Bench) -> None:
    close_all(bench)
    bench.put_all()
    publisher = bench.publisher()
    publisher.turn()
    assert publisher.active
    publisher._member.expire()  # type: ignore[attr-defined]
    rival = bench.publisher()
    rival.turn()
    publisher.turn()
    rival.turn()
    assert [publisher.active, rival.active].count(True) == 1
    for _ in range(40):
        publisher.turn()
        rival.turn()
    assert bench.kinds() == [(w, kind) for w in range(3) for kind in (FINAL, TOTAL)]


# The loop


def test_failures_that_pass_are_tried_again(bench: Bench) -> None:
    close_all(bench)
    bench.put_all()
    bench.broker.faults.plan(bench.names.snapshots, *[SendFault.FAIL] * 2)
    publisher = bench.publisher()
    stop = threading.Event()
    runner = threading.Thread(target=publisher.run, args=(stop,), daemon=True)
    runner.start()
    deadline = threading.Event()
    for _ in range(200):
        if len(bench.shown()) == 6:
            break
        deadline.wait(0.05)
    stop.set()
    runner.join(10)
    assert not runner.is_alive()
    assert len(bench.shown()) == 6
    assert not publisher.active


def test_failures_that_last_stop_it_when_the_budget_is_spent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Publication, __: float) -> bool:
        bench.clock.advance(61)
        raise RecoverableError("nobody answers")

    monkeypatch.setattr(Publication, "step", fail)
    publisher = bench.publisher()
    with pytest.raises(FatalError, match="no success for 61 s: nobody answers"):
        publisher.run(threading.Event())
    assert not publisher.active


def test_topics_that_are_not_as_they_must_be_stop_it_with_the_remedy(bench: Bench) -> None:
    bench.topics.delete([bench.names.snapshots])
    with pytest.raises(FatalError, match=r"snapshots does not exist; create it: calmstream topics"):
        bench.publisher().run(threading.Event())


def test_metrics_tell_what_was_done(bench: Bench) -> None:
    close_all(bench)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    publisher = bench.publisher()
    registry = publisher._metrics.registry
    label = {"plan": f"{bench.plan.name}-{bench.plan.digest[:8]}"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"calmstream_{name}", label | more)

    assert value("publisher_active") == value("windows_final") == 0
    assert value("group_share_planned", group="0") == 1
    work(publisher)
    bench.clock.advance(60)
    work(publisher)
    assert value("publisher_active") == 1
    assert value("windows_final") == 3
    assert value("windows_waiting") == 0
    assert value("early_snapshots_published_total") == 0
    assert value("final_snapshots_published_total") == 3
    assert value("running_total_snapshots_published_total") == 3
    assert value("estimate_duration_seconds_count") == 6
    assert value("last_snapshot_timestamp_seconds") == bench.clock.now_ms() / 1000 - 60
    assert 0 < (value("expected_standard_error") or 0) < 1
    assert value("group_share_observed", group="0") == 1
    assert value("group_share_deviation", group="0") == 0
    assert value("final_window_reports") == 2 * 51
    assert value("publisher_tombstones_total") == 6
    publisher.close()
    assert value("publisher_active") == value("windows_final") == 0
    assert value("expected_standard_error") == value("final_window_reports") == 0
    assert value("group_share_observed", group="0") == 0


def test_shares_are_known_again_after_a_restart() -> None:
    bench = Bench(published_plan(partitions=1))
    bench.logs[0].report(0, *([1] * 30)).close(0)
    bench.logs[1].report(0, *([2] * 10)).close(0)
    bench.put_all()
    work(bench.publisher())
    publication = bench.publication()
    work(publication)
    label = f"{bench.plan.name}-{bench.plan.digest[:8]}"

    def by_group(name: str) -> list[float | None]:
        registry = publication._metrics.registry
        labels = ({"plan": label, "group": group} for group in ("0", "1"))
        return [
            registry.get_sample_value(f"calmstream_group_share_{name}", each) for each in labels
        ]

    assert by_group("observed") == [0.75, 0.25]
    # A fair coin thrown 40 times: a quarter is sqrt(10) standard deviations of a share.
    assert by_group("deviation") == pytest.approx([10**0.5, -(10**0.5)])


def test_the_written_manifest_says_what_was_rejected(bench: Bench) -> None:
    close_all(bench, windows=2)
    bench.put_all()
    work(bench.publisher())
    last = shown(bench.snapshot_records())[-1]
    assert isinstance(last.manifest, Manifest)
    assert last.manifest.rejected == {"late": 4}
    assert decode(bench.snapshot_records()[-1][1] or b"") == last.manifest
