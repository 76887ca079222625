"""Current sets: what the tables are now, from the counts topic alone."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.broker.transport import Partition
from calmstream.consumer.publish import current_sets
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import Bench, published_plan, work

WINDOWS = 6


@pytest.fixture
def bench() -> Bench:
    bench = Bench(published_plan(windows=WINDOWS), track=True)
    bench.close_all(WINDOWS)
    bench.put_all()
    return bench


def current(bench: Bench) -> dict[int, Snapshot]:
    return {one.window: one for one in bench.shown() if one.kind is Kind.CURRENT}


def records(bench: Bench) -> dict[bytes, bytes | None]:
    found = dict(bench.snapshot_records())
    return {key: value for key, value in found.items() if b"/current/" in key}


def test_each_final_has_one_and_the_first_is_the_final(bench: Bench) -> None:
    publication = bench.publication()
    work(publication)
    assert publication.finished
    assert sorted(current(bench)) == list(range(WINDOWS))
    assert len(bench.set_records(0, Kind.CURRENT)) == 3
    first = current(bench)[0]
    final = next(one for one in bench.shown() if one.window == 0 and one.kind is Kind.FINAL)
    for names, record in final.marginals.items():
        assert first.marginals[names].table == record.table
        assert first.marginals[names].stderr == record.stderr


def test_the_manifest_states_what_the_tables_rest_on(bench: Bench) -> None:
    work(bench.publication())
    last = current(bench)[WINDOWS - 1].manifest
    assert (last.tracking["since"], last.tracking["missing"]) == (0, 0)
    assert last.reports == sum(last.tracking["reports"]) == sum(last.groups)
    # Every window has the same counts, so that nothing moves.
    assert min(last.tracking["windows"]) > 3
    assert set(last.tracking["anew"]) == {0}


def test_another_publisher_writes_the_same_bytes(bench: Bench) -> None:
    work(bench.publication())
    other = Bench(bench.plan, track=True)
    other.close_all(WINDOWS)
    other.put_all()
    # The second one stops somewhere in between, and a third begins with what is there.
    for turns in (9, 4, 60):
        work(other.publication(), turns)
    assert records(other) == records(bench)


def test_counts_of_published_windows_do_not_wait_for_the_end_of_the_topics(bench: Bench) -> None:
    work(bench.publication())
    later = bench.publication()
    while not later.follower.caught_up:
        later.step(0)
    assert later.follower.untracked.whole() == []
    work(later)
    assert later.finished


def test_a_plan_with_one_window_has_none() -> None:
    bench = Bench(published_plan(windows=1), track=True)
    bench.close_all(1)
    bench.put_all()
    publication = bench.publication()
    work(publication)
    assert publication.finished
    assert current(bench) == {}


def test_counts_that_are_gone_are_stated(bench: Bench) -> None:
    """The counts of windows 0, 1 and 4 and the last current sets are gone: the manifest says so."""
    work(bench.publication())
    other = Bench(bench.plan, track=True)
    for key, value in bench.snapshot_records():
        if not key.startswith((b"3/current/", b"4/current/", b"5/current/")):
            other.sink.send(bench.names.snapshots, key, value).wait(5)
    for record in bench.broker.records(Partition(bench.names.counts, 0)):
        if not (record.key or b"").startswith((b"0/", b"1/", b"4/")):
            other.sink.send(bench.names.counts, record.key, record.value).wait(5)
    work(other.publication())
    found = {window: one.manifest.tracking for window, one in current(other).items()}
    assert (found[3]["since"], found[3]["missing"]) == (2, 0)
    assert (found[5]["since"], found[5]["missing"]) == (2, 1)
    assert 4 not in found


def test_a_failed_set_stops_no_final(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(current_sets, "build", broken)
    publication = bench.publication()
    work(publication)
    assert publication.finished
    assert {kind for _, kind in bench.kinds()} == {Kind.FINAL, Kind.TOTAL}


def test_damaged_counts_stop_no_publisher(bench: Bench) -> None:
    work(bench.publication())
    counts = Partition(bench.names.counts, 0)
    key, value = next((r.key, r.value) for r in bench.broker.records(counts) if r.key == b"2/0000")
    assert value is not None
    damaged = value.partition(b"\n")[0] + b"\nnothing"
    bench.sink.send(bench.names.counts, key, damaged).wait(5)
    later = bench.publication()
    work(later)
    assert later.finished


def test_finals_do_not_wait_for_current_sets(bench: Bench) -> None:
    waiting: list[object] = []
    bench.start_tests = waiting.append
    work(bench.publication())
    finals = [window for window, kind in bench.kinds() if kind is Kind.FINAL]
    assert finals == list(range(WINDOWS))
    assert len(waiting) == 1
