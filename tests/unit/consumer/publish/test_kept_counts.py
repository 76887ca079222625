"""Counts of final windows: what is kept, in which order, and what waits for them."""

from __future__ import annotations

import pytest

from calmstream.broker.transport import Partition, TopicSpec
from calmstream.common.errors import FatalError
from calmstream.estimators.wire.counts import GroupCounts, decode_counts, parse_key
from calmstream.estimators.wire.snapshot import Kind, Manifest, decode
from tests.support.publisher import Bench, count_of, dying, published_plan, work

WRITES = 2 + 3 + 3  # of one closed window of two groups: counts, a final of two tables, a total


def kept(bench: Bench) -> dict[tuple[int, int], GroupCounts]:
    records = bench.broker.records(Partition(bench.names.counts, 0))
    return {parse_key(r.key or b""): decode_counts(bench.plan, r.value or b"") for r in records}


def raw(bench: Bench) -> list[tuple[bytes | None, bytes | None]]:
    return [(r.key, r.value) for r in bench.broker.records(Partition(bench.names.counts, 0))]


def filled(windows: int = 1, groups: int = 2, *, trimmed: bool = True) -> Bench:
    """Return a bench whose windows are closed and, by default, whose input is gone."""
    bench = Bench(published_plan(windows=windows, groups=groups))
    bench.close_all(windows)
    bench.fill_inputs()
    bench.put_all()
    if trimmed:
        bench.trim_inputs()
    return bench


def test_counts_of_every_window_and_the_total_through_it_are_kept() -> None:
    bench = filled(windows=3)
    work(bench.publication())
    found = kept(bench)
    assert set(found) == {(window, group) for window in range(3) for group in range(2)}
    for (window, group), one in found.items():
        logs = [log for log in bench.logs if log.group == group]
        cells = [c for log in logs for c in log.cells(len(log.events), window)]
        through = [c for log in logs for c in log.through(len(log.events), window)]
        assert one.tally == count_of(cells).tally
        assert one.total == count_of(through).tally
        assert one.revision == tuple(log.closed_at(window) for log in logs)


def test_the_manifest_of_a_final_names_its_counts_and_no_other_does() -> None:
    bench = filled()
    work(bench.publication())
    manifests = [decode(value or b"", bench.plan) for _, value in bench.snapshot_records()]
    found = {m.kind: m.counts for m in manifests if isinstance(m, Manifest)}
    assert found == {Kind.FINAL: True, Kind.TOTAL: False}


def check_never_without_counts(bench: Bench) -> None:
    finals = [s for s in bench.shown() if s.kind is Kind.FINAL and s.manifest.counts]
    assert all({(s.window, 0), (s.window, 1)} <= set(kept(bench)) for s in finals)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("at", range(WRITES))
def test_a_death_at_any_write_leaves_the_bytes_of_an_undisturbed_run(at: int, before: bool) -> None:
    undisturbed = filled()
    work(undisturbed.publication())
    bench = filled()
    with pytest.raises(SystemExit):
        work(dying(bench, at, before=before))
    check_never_without_counts(bench)
    assert len(bench.state_keys()) == 4 + 4
    successor = bench.publication()
    work(successor)
    bench.clock.advance(60)
    work(successor)
    assert set(raw(bench)) == set(raw(undisturbed))
    assert set(bench.snapshot_records()) == set(undisturbed.snapshot_records())
    assert len(bench.state_keys()) == 4, "closed records are deleted"


def counts_spec(bench: Bench) -> list[TopicSpec]:
    return [spec for spec in bench.names.specs(0) if spec.name == bench.names.counts]


def test_lost_counts_are_written_again_before_anything_is_deleted() -> None:
    """Delete the counts topic and create it again, after the final and the total."""
    bench = filled(trimmed=False)
    work(bench.publication())
    before = raw(bench)
    bench.topics.delete([bench.names.counts])
    bench.topics.create(counts_spec(bench))
    bench.trim_inputs()
    successor = bench.publication()
    for _ in range(60):
        successor.step(0.0)
        bench.clock.advance(60)
        assert len(bench.state_keys()) == 4 + 4 or raw(bench) == before
    assert successor.finished
    assert raw(bench) == before
    assert len(bench.state_keys()) == 4


@pytest.mark.parametrize("again", [False, True])
def test_a_running_publisher_deletes_nothing_after_its_counts_topic_is_lost(again: bool) -> None:
    """Lose the topic between the last read and the first deletion, as Kafka's client hides it."""
    bench = filled(trimmed=False)
    session = bench.publication()
    work(session)
    session._reader.poll = lambda _timeout: []  # type: ignore[method-assign,assignment]
    before = raw(bench)
    bench.trim_inputs()
    bench.topics.delete([bench.names.counts])
    if again:
        bench.topics.create(counts_spec(bench))
    bench.clock.advance(60)
    with pytest.raises(FatalError, match=r"deleted while it was in use; closed records stay"):
        work(session)
    assert len(bench.state_keys()) == 4 + 4
    if not again:
        bench.topics.create(counts_spec(bench))
    work(bench.publication())
    assert raw(bench) == before
