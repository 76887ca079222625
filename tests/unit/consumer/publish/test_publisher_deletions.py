"""Check what the publisher deletes from topics, and when."""

from __future__ import annotations

from calmstream.broker.transport import Partition
from calmstream.estimators.wire.snapshot import Kind, parse_key
from tests.support.publisher import Bench, published_plan, work

EARLY, FINAL, TOTAL = Kind.EARLY, Kind.FINAL, Kind.TOTAL


def test_a_publisher_down_beyond_retention_publishes_finals_and_then_deletes(bench: Bench) -> None:
    bench.close_all()
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
    bench.close_all(windows=1)
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
    bench.close_all(windows=2)
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
    bench.close_all(windows=1)
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


def test_early_records_go_once_the_final_is_found(bench: Bench) -> None:
    log, other = bench.logs
    log.report(0, 1, 2)
    bench.put(log, log.state())
    publisher = bench.publisher()
    work(publisher)
    assert len(bench.set_records(0, EARLY)) == 3
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
    bench.close_all(windows=30)
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    publication = bench.publication()
    work(publication, turns=150)
    bench.clock.advance(60)
    work(publication)
    merger, assembler = publication.follower.merger, publication.follower.assembler
    collections = (merger._closed, merger._closed_at, assembler._pending, assembler._returned)
    assert [len(x) for x in collections] == [0, 0, 0, 0]
    assert (
        publication.schedule._sent,
        publication.schedule._sent_early,
        publication.follower.early_keys,
    ) == ({}, {}, {})
