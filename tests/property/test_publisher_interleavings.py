"""Two publishers at once, in every order of their writes, before live and late readers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.transport import Partition
from consumer.subscribe.assembler import Snapshot, SnapshotAssembler, above
from estimators.wire.snapshot import Kind, Manifest, MarginalRecord, encode
from tests.support.publisher import Bench, published_plan, shown, work

Raw = tuple[bytes, bytes]
ORDER = {Kind.EARLY: 0, Kind.FINAL: 1, Kind.TOTAL: 2}


def value_of(kind: Kind, revision: tuple[int, ...], marginal: int) -> float:
    """A number that tells vector, kind and marginal, so that a mixed set shows."""
    return revision[0] * 1000 + revision[1] * 100 + ORDER[kind] * 10 + marginal


def a_set(kind: Kind, revision: tuple[int, int], author: str) -> list[Raw]:
    """Two marginals, then the manifest, as a publisher sends them."""
    tables = [
        MarginalRecord(
            window=0,
            kind=kind,
            revision=revision,
            attributes=(name,),
            labels=(("0", "1"),),
            table=(value_of(kind, revision, number),) * 2,
            stderr=(0.1, 0.1),
            noise_floor=0.02,
            reports=1,
            flags=(),
        )
        for number, name in enumerate(("a", "b"))
    ]
    manifest = Manifest(
        window=0,
        kind=kind,
        revision=revision,
        start=0,
        end=1,
        plan="0" * 64,
        name="n",
        method="calm",
        epsilon="1",
        guarantee={"kind": "once", "windows": 1},
        loss_window="1",
        loss_plan="1",
        reports=1,
        groups=(1,),
        rejected={},
        marginals=tuple(table.key.decode() for table in tables),
        processing=(),
        software=author,
    )
    return [(record.key, encode(record)) for record in [*tables, manifest]]


def interleavings(first: list[Raw], second: list[Raw]) -> list[list[Raw]]:
    """Every merge of two sequences that keeps the order of each."""
    length = len(first) + len(second)
    merges = []
    for places in combinations(range(length), len(first)):
        one, two, mine = iter(first), iter(second), set(places)
        merges.append([next(one) if i in mine else next(two) for i in range(length)])
    return merges


def compacted(records: list[Raw]) -> list[Raw]:
    """The last record of every key, in offset order."""
    last = {key: place for place, (key, _) in enumerate(records)}
    return [record for place, record in enumerate(records) if last[record[0]] == place]


def check(found: list[Snapshot]) -> None:
    """Check: no mixed set, no older revision, no early after the final, finals and totals once."""
    latest: dict[Kind, tuple[int, ...]] = {}
    for snapshot in found:
        for number, name in enumerate(("a", "b")):
            expected = value_of(snapshot.kind, snapshot.revision, number)
            assert snapshot.marginal(name).table[0] == expected
        assert above(snapshot.revision, latest.get(snapshot.kind))
        assert snapshot.kind is not Kind.EARLY or Kind.FINAL not in latest
        latest[snapshot.kind] = snapshot.revision
    assert len([s for s in found if s.kind is not Kind.EARLY]) == len(set(latest) - {Kind.EARLY})


EARLY_LOW = a_set(Kind.EARLY, (1, 1), "one")
EARLY_HIGH = a_set(Kind.EARLY, (2, 1), "two")
EARLY_SIDE = a_set(Kind.EARLY, (1, 2), "two")
FINALS = [a_set(Kind.FINAL, (3, 3), author) for author in ("one", "two")]
TOTALS = [a_set(Kind.TOTAL, (3, 3), author) for author in ("one", "two")]


@pytest.mark.parametrize("other", [EARLY_HIGH, EARLY_SIDE], ids=["above", "incomparable"])
def test_two_early_sets_then_finals_in_every_interleaving(other: list[Raw]) -> None:
    """20 × 20 orders of (a, b, manifest) twice over, with a reader stopping at every record."""
    for early in interleavings(EARLY_LOW, other):
        check(shown(early))
    for merged in interleavings(EARLY_LOW + FINALS[0], other + FINALS[1]):
        check(shown(merged))
        assert Kind.FINAL in {s.kind for s in shown(merged)}


def test_a_late_reader_of_the_compacted_topic_gets_every_final() -> None:
    """Compaction at any point, with anything appended after it."""
    for merged in interleavings(EARLY_LOW + FINALS[0], EARLY_HIGH + FINALS[1]):
        live = SnapshotAssembler()
        for place, record in enumerate(merged, start=1):
            found = live.read(*record)
            if found is None or found.kind is not Kind.FINAL:
                continue
            # From the moment that a reader has seen the final, every late reader sees it too.
            for upto in range(place, len(merged) + 1):
                late = shown(compacted(merged[:upto]))
                check(late)
                assert Kind.FINAL in {s.kind for s in late}
            for cut in range(place):
                check(shown(compacted(merged[:cut]) + merged[cut:]))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_publishers_that_die_anywhere_leave_no_harm(data: st.DataObject) -> None:
    """Three publishers, each cut short at any point; the last one finishes."""
    runs = [
        EARLY_LOW + FINALS[0] + TOTALS[0],
        EARLY_HIGH + FINALS[1] + TOTALS[1],
        EARLY_SIDE + FINALS[0],
    ]
    cut = [run[: data.draw(st.integers(0, len(run)))] for run in runs]
    merged: list[Raw] = []
    while any(cut):
        turn = data.draw(st.sampled_from([i for i, run in enumerate(cut) if run]))
        merged.append(cut[turn].pop(0))
    check(shown(merged))
    place = data.draw(st.integers(0, len(merged)))
    head = compacted(merged[:place]) + merged[place:]
    check(shown(head))
    # The next publisher reads to the end and writes what is not complete.
    assembler = SnapshotAssembler()
    for record in head:
        assembler.read(*record)
    for kind, made in ((Kind.FINAL, FINALS[0]), (Kind.TOTAL, TOTALS[0])):
        if not assembler.complete(0, kind):
            head += made
    late = shown(compacted(head))
    check(late)
    assert {Kind.FINAL, Kind.TOTAL} <= {s.kind for s in late}


@pytest.mark.parametrize("at", range(12))
def test_one_publisher_works_between_any_two_writes_of_another(at: int) -> None:
    """Run real publishers: the other one reads and writes before write number ``at``."""
    bench = Bench(published_plan(groups=1))
    first, second = bench.logs
    first.report(0, 1, 2)
    bench.put(first, first.state())
    slow, rival = bench.publication(), bench.publication()
    writes = 0

    def after(change: Callable[[], None]) -> None:
        work(slow, 20)
        change()
        bench.clock.advance(5)
        work(slow, 20)

    def finish() -> None:
        first.report(0, 3).close(0)
        second.report(0, 0, 0).close(0)
        for log in bench.logs:
            bench.put(log, log.closed(0))

    send = slow._sink.send

    def sending(topic: str, *args: object, **more: object) -> object:
        nonlocal writes
        if writes == at:
            if len(bench.snapshot_records()) < 3:
                first.report(0, 2, 2)
                bench.put(first, first.state())
            work(rival, 20)
            bench.clock.advance(5)
            work(rival, 20)
        writes += 1
        return send(topic, *args, **more)  # type: ignore[arg-type]

    slow._sink.send = sending  # type: ignore[method-assign,assignment]
    after(finish)
    work(rival, 20)
    found = bench.shown()
    finals = [s for s in found if s.kind is Kind.FINAL]
    assert [s.revision for s in finals] == [(len(first.events) - 1, 2)]
    assert len([s for s in found if s.kind is Kind.TOTAL]) == 1
    seen: tuple[int, ...] | None = None
    for snapshot in found:
        assert {r.revision for r in snapshot.marginals.values()} == {snapshot.revision}
        if snapshot.kind is Kind.EARLY:
            assert above(snapshot.revision, seen)
            seen = snapshot.revision
    bench.broker.compact(bench.names.snapshots, active=0, tombstones=True)
    assert {Kind.FINAL, Kind.TOTAL} <= {kind for _, kind in bench.kinds()}
    assert bench.broker.records(Partition(bench.names.snapshots, 0))
