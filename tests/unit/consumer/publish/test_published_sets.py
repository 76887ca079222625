"""Which sets the publisher writes, from the state and closed records that workers write."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.broker.transport import Record
from calmstream.common.errors import RecoverableError
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.schedule import _QUICK_ATTEMPTS, REWRITE_SECONDS
from calmstream.consumer.publish.session import PublishingSession
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind, decode, encode
from calmstream.estimators.wire.state import WindowCount
from tests.support.faulty_broker import SendFault
from tests.support.publisher import Bench, published_plan, steps, work

EARLY, FINAL, TOTAL = Kind.EARLY, Kind.FINAL, Kind.TOTAL

SET_RECORDS = 3  # records of a set with reports: the two tables of the plan and a manifest

WINDOW_REPORTS = 2 * 51  # after `Bench.close_all`: 51 in each of the two partitions

REFRESH_SECONDS = 5  # time between two early sets of a window of this plan


def has_read_state(publication: PublishingSession) -> bool:
    return bool(publication.follower.merger._states)


def knows_state_ends(publication: PublishingSession) -> bool:
    """Return whether it has fetched the ends of the state topic, which it does before it reads."""
    check = publication.follower._end_check
    return check is not None and check._ends.keys() >= set(publication.follower._unread[-1])


# Early revisions


def test_early_revisions_follow_the_state_at_the_refresh_interval(bench: Bench) -> None:
    first, second = bench.logs
    first.report(0, 1, 2)
    second.report(0, 3)
    bench.put(first, first.state())
    publisher = bench.publisher()
    work(publisher)
    # Two reports of the first partition are counted, none of the second one.
    assert [s.revision for s in bench.shown()] == [(2, 0)]
    bench.put(second, second.state())
    work(publisher)
    assert [s.revision for s in bench.shown()] == [(2, 0)]
    bench.clock.advance(REFRESH_SECONDS)
    work(publisher)
    assert [s.revision for s in bench.shown()] == [(2, 0), (2, 1)]
    assert bench.shown()[-1].manifest.reports == 3
    bench.clock.advance(REFRESH_SECONDS)
    work(publisher)
    assert len(bench.shown()) == 2  # nothing new, nothing written
    assert len(bench.set_records(0, EARLY)) == 2 * SET_RECORDS


def test_an_early_set_is_written_again_only_when_its_counts_changed(bench: Bench) -> None:
    first = bench.logs[0].report(0, 1, 2)
    bench.put(first, first.state())
    publisher = bench.publisher()
    work(publisher)
    first.report(1, 3)  # of the next window: the revision of window 0 moves, its counts do not
    bench.put(first, first.state())
    bench.clock.advance(REFRESH_SECONDS)
    work(publisher)
    assert [(s.window, s.revision) for s in bench.shown()] == [(0, (2, 0)), (1, (3, 0))]
    assert len(bench.set_records(0, EARLY)) == SET_RECORDS
    first.report(0, 2)
    bench.put(first, first.state())
    bench.clock.advance(REFRESH_SECONDS)
    work(publisher)
    shown_of_first = [s.revision for s in bench.shown() if s.window == 0]
    assert shown_of_first == [(2, 0), (4, 0)]
    assert len(bench.set_records(0, EARLY)) == 2 * SET_RECORDS


def test_the_default_refresh_is_a_tenth_of_the_window_and_at_least_five_seconds() -> None:
    config = PublisherConfig()
    plan = published_plan()
    assert config.refresh(plan) == 5
    object.__setattr__(plan, "window", 3600)
    assert config.refresh(plan) == 360
    assert PublisherConfig(refresh_seconds=1).refresh(plan) == 1


# Finals and totals


def test_every_window_gets_one_final_and_one_total_in_order(bench: Bench) -> None:
    bench.close_all()
    bench.put_all()
    publisher = bench.publisher()
    work(publisher)
    assert bench.kinds() == [(w, kind) for w in range(3) for kind in (FINAL, TOTAL)]
    assert len(bench.snapshot_records()) == 3 * 2 * SET_RECORDS  # windows, final and total
    for snapshot in bench.shown():
        at = tuple(log.closed_at(snapshot.window) for log in bench.logs)
        assert snapshot.revision == at
        expected = WINDOW_REPORTS * (1 if snapshot.kind is FINAL else snapshot.window + 1)
        assert snapshot.manifest.reports == expected
    assert publisher.finished


def test_a_manifest_is_not_written_before_its_tables_are_acknowledged(bench: Bench) -> None:
    bench.close_all(windows=1)
    bench.put_all()
    bench.broker.faults.plan(bench.names.snapshots, SendFault.FAIL)
    publication = bench.publication()
    with pytest.raises(RecoverableError):
        work(publication)
    assert [key for key, _ in bench.snapshot_records()] == [b"0/final/a0+a1"]
    work(publication)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL)]


@pytest.mark.parametrize("kind", [EARLY, FINAL])
def test_a_written_set_is_not_written_again_before_it_is_read_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    publication = bench.publication()
    bench.logs[0].report(0, 1, 2)
    if kind is FINAL:
        for log in bench.logs:
            log.close(0)
    bench.put_all()
    steps(publication, lambda: has_read_state(publication))
    # From now on the session cannot read what it writes.
    poll = publication._reader.poll
    monkeypatch.setattr(publication._reader, "poll", lambda *_: [])
    for _ in range(10):
        publication.step(0.0)
        bench.clock.advance(REFRESH_SECONDS)
    expected = SET_RECORDS if kind is EARLY else 2 * SET_RECORDS  # a final and a total
    assert len(bench.snapshot_records()) == expected
    monkeypatch.setattr(publication._reader, "poll", poll)
    work(publication)
    assert len([r for r in bench.snapshot_records() if r[1]]) == expected


def test_a_set_that_is_not_read_back_complete_is_written_again_after_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a set that another program overwrites; when it stops, the set becomes complete."""
    bench.close_all(windows=1)
    bench.put_all()
    publication = bench.publication()
    read = publication.follower.assembler.read
    monkeypatch.setattr(publication.follower.assembler, "read", lambda *_: None)
    work(publication)
    of_an_attempt = 2 * SET_RECORDS  # a final and a total
    assert len(bench.snapshot_records()) == _QUICK_ATTEMPTS * of_an_attempt
    for attempt in (_QUICK_ATTEMPTS + 1, _QUICK_ATTEMPTS + 2):
        bench.clock.advance(REWRITE_SECONDS + 1)
        work(publication)
        assert len(bench.snapshot_records()) == attempt * of_an_attempt
    monkeypatch.setattr(publication.follower.assembler, "read", read)
    bench.clock.advance(REWRITE_SECONDS + 1)
    work(publication)
    assert publication.follower.assembler.count(Kind.FINAL) == 1
    assert publication.follower.assembler.count(Kind.TOTAL) == 1


# Reading


def test_closed_records_are_rewritten_beyond_the_ends_that_the_publisher_reads_to(
    bench: Bench,
) -> None:
    """They are rewritten after the ends were fetched; compaction deletes the earlier ones."""
    bench.close_all(windows=2)
    bench.put_all()
    publication = bench.publication()
    poll, moved = publication._reader.poll, []

    def polling(timeout: float, max_records: int = 500) -> list[Record]:
        if not moved and knows_state_ends(publication):
            for window in (0, 1):
                bench.put(bench.logs[0], bench.logs[0].closed(window))
            bench.broker.compact(bench.names.state, active=0)
            moved.append(True)
            return poll(timeout, 2)
        return poll(timeout, 3)

    publication._reader.poll = polling  # type: ignore[method-assign]
    steps(publication, lambda: publication.caught_up)
    assert moved
    assert publication.follower.merger.closed_windows() == [0, 1]
    work(publication)
    assert bench.kinds() == [(0, FINAL), (0, TOTAL), (1, FINAL), (1, TOTAL)]


def test_nothing_is_written_before_the_state_and_snapshots_topics_were_read(bench: Bench) -> None:
    log = bench.logs[0].report(0, *([1] * 40))
    for below in range(1, 40):
        bench.put(log, log.state(below))
    publication = bench.publication()
    steps(publication, lambda: publication.caught_up or bench.snapshot_records() != [])
    assert bench.snapshot_records() == []
    work(publication)
    assert [s.revision for s in bench.shown()] == [(39, 0)]


def test_counts_that_look_forged_have_no_central_statement() -> None:
    """Forged reports hide nobody, and how many they are is not known."""
    plan = published_plan(early=False)
    counts = np.array([[5000, 0, 0, 0]])
    tallies = tuple(WindowCount(Tally(np.array([5000]), counts)) for _ in plan.groups)
    manifest = build_set(plan, MergedWindow(0, FINAL, (1,) * len(plan.groups), tallies)).manifest
    assert manifest.poisoning["suspicious"]
    assert not manifest.central


def test_a_plan_without_early_sets_publishes_none() -> None:
    plan = published_plan(early=False)
    bench = Bench(plan, refresh_seconds=0)
    for log in bench.logs:
        bench.put(log, log.report(0, 1, 2).state())
    publication = bench.publication()
    work(publication)
    assert bench.kinds() == []
    for log in bench.logs:
        log.close(0)
    bench.put_all()
    work(publication)
    assert {kind for _, kind in bench.kinds()} == {FINAL, TOTAL}


@pytest.mark.parametrize(
    ("early", "reports", "stated"), [(False, 5000, True), (True, 5000, False), (False, 3, False)]
)
def test_the_manifest_of_a_final_has_a_central_statement(
    early: bool, reports: int, stated: bool
) -> None:
    plan = published_plan(early=early)
    mechanism = plan.mechanisms[0]
    tallies = []
    for group in plan.groups:
        cells = np.full(mechanism.cells, reports // mechanism.cells)
        counts = mechanism.draw_tally(cells, np.random.default_rng(1))
        tallies.append(WindowCount(Tally(np.array([int(cells.sum())]), counts[None])))
        assert len(group.views) == 1
    for kind in (FINAL, TOTAL):
        merged = MergedWindow(0, kind, (1,) * 2 * len(plan.groups), tuple(tallies))
        manifest = build_set(plan, merged).manifest
        again = decode(encode(manifest), plan)
        assert again == manifest
        assert bool(manifest.central) == (stated and kind is FINAL)
        assert (b'"central"' in encode(manifest)) == bool(manifest.central)
