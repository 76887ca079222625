"""Subscribers receive correct sets when two publishers write at the same time.

The records of two publishers are written in every order, and read live, after the end, and after
compaction of the topic.
"""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler, above
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, encode
from tests.support.publisher import Bench, published_plan, shown, work

PLAN = published_plan(groups=1)
NAMES = PLAN.domain.names[:2]

Raw = tuple[bytes, bytes]
"""Key and value of a record."""

ORDER = {Kind.EARLY: 0, Kind.FINAL: 1, Kind.TOTAL: 2}  # numbers of the kinds, for `value_of`


def value_of(kind: Kind, revision: tuple[int, ...], marginal: int) -> float:
    return revision[0] * 1000 + revision[1] * 100 + ORDER[kind] * 10 + marginal


def a_set(kind: Kind, revision: tuple[int, int], author: str) -> list[Raw]:
    """Return the records of a set as a publisher sends them: two tables, then the manifest."""
    tables = [
        MarginalRecord(
            window=0,
            kind=kind,
            revision=revision,
            attributes=(name,),
            labels=(PLAN.domain.attributes[number].labels,),
            table=(value_of(kind, revision, number),) * 2,
            stderr=(0.1, 0.1),
            noise_floor=0.02,
            reports=1,
            flags=(),
        )
        for number, name in enumerate(NAMES)
    ]
    manifest = Manifest(
        window=0,
        kind=kind,
        revision=revision,
        start=PLAN.start,
        end=PLAN.start + PLAN.window,
        plan=PLAN.digest,
        name=PLAN.name,
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
    length = len(first) + len(second)
    merges = []
    for places in combinations(range(length), len(first)):
        one, two, of_first = iter(first), iter(second), set(places)
        merges.append([next(one) if i in of_first else next(two) for i in range(length)])
    return merges


def compacted(records: list[Raw]) -> list[Raw]:
    last = {key: place for place, (key, _) in enumerate(records)}
    return [record for place, record in enumerate(records) if last[record[0]] == place]


def check(snapshots: list[Snapshot]) -> None:
    """Every set has its own tables, revisions of a kind grow, nothing early follows a final."""
    latest: dict[Kind, tuple[int, ...]] = {}
    for snapshot in snapshots:
        for number, name in enumerate(NAMES):
            expected = value_of(snapshot.kind, snapshot.revision, number)
            assert snapshot.marginal(name).table[0] == expected
        assert above(snapshot.revision, latest.get(snapshot.kind))
        assert snapshot.kind is not Kind.EARLY or Kind.FINAL not in latest
        latest[snapshot.kind] = snapshot.revision
    once = [s for s in snapshots if s.kind is not Kind.EARLY]
    assert len(once) == len(set(latest) - {Kind.EARLY})


# Sets of the publishers "one" and "two". A revision is above another if no offset is smaller and
# one is larger. EARLY_SIDE is neither above EARLY_HIGH nor below it.
EARLY_LOW = a_set(Kind.EARLY, (1, 1), "one")
EARLY_HIGH = a_set(Kind.EARLY, (2, 1), "two")
EARLY_SIDE = a_set(Kind.EARLY, (1, 2), "two")
FINALS = [a_set(Kind.FINAL, (3, 3), author) for author in ("one", "two")]
TOTALS = [a_set(Kind.TOTAL, (3, 3), author) for author in ("one", "two")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(EARLY_HIGH, id="high", marks=pytest.mark.slow),
        pytest.param(EARLY_SIDE, id="side"),
    ],
)
def test_two_early_sets_then_finals_in_every_interleaving(other: list[Raw]) -> None:
    """Try all 20 orders of two early sets, and all 924 of an early and a final set of each."""
    for early in interleavings(EARLY_LOW, other):
        check(shown(PLAN, early))
    for merged in interleavings(EARLY_LOW + FINALS[0], other + FINALS[1]):
        check(shown(PLAN, merged))
        assert Kind.FINAL in {s.kind for s in shown(PLAN, merged)}


@pytest.mark.slow
def test_a_late_reader_of_the_compacted_topic_gets_every_final() -> None:
    """Compact the topic at any point; any records follow."""
    for merged in interleavings(EARLY_LOW + FINALS[0], EARLY_HIGH + FINALS[1]):
        live = SnapshotAssembler(PLAN)
        for place, record in enumerate(merged, start=1):
            snapshot = live.read(*record)
            if snapshot is None or snapshot.kind is not Kind.FINAL:
                continue
            # Once a live reader has received the final, every later reader receives it, too.
            for end in range(place, len(merged) + 1):
                late = shown(PLAN, compacted(merged[:end]))
                check(late)
                assert Kind.FINAL in {s.kind for s in late}
            for cut in range(place):
                check(shown(PLAN, compacted(merged[:cut]) + merged[cut:]))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_publishers_that_die_at_any_point_leave_correct_sets(data: st.DataObject) -> None:
    """Let three publishers die after any of their writes; then a fourth one completes the sets."""
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
    check(shown(PLAN, merged))
    place = data.draw(st.integers(0, len(merged)))
    head = compacted(merged[:place]) + merged[place:]
    check(shown(PLAN, head))
    # The fourth publisher reads to the end and writes the sets that are not complete.
    assembler = SnapshotAssembler(PLAN)
    for record in head:
        assembler.read(*record)
    for kind, records in ((Kind.FINAL, FINALS[0]), (Kind.TOTAL, TOTALS[0])):
        if not assembler.complete(0, kind):
            head += records
    late = shown(PLAN, compacted(head))
    check(late)
    assert {Kind.FINAL, Kind.TOTAL} <= {s.kind for s in late}


def publish_all(bench: Bench, publisher: PublishingSession) -> None:
    """Let a publisher write all that it can write now and, at the next refresh, early sets."""
    work(publisher, 20)
    bench.clock.advance(5)
    work(publisher, 20)


@pytest.mark.parametrize("interrupted", range(12))
def test_one_publisher_works_between_any_two_writes_of_another(interrupted: int) -> None:
    """The first makes at most nine writes, so there is also the case without an interruption."""
    bench = Bench(published_plan(groups=1))
    first, second = bench.logs
    first.report(0, 1, 2)
    bench.put(first, first.state())
    slow, rival = bench.publication(), bench.publication()
    writes = 0
    send = slow._sink.send

    def send_interrupted(topic: str, *args: object, **more: object) -> object:
        nonlocal writes
        if writes == interrupted:
            # An early set has three records. Before it is complete, give the rival newer counts.
            if len(bench.snapshot_records()) < 3:
                first.report(0, 2, 2)
                bench.put(first, first.state())
            publish_all(bench, rival)
        writes += 1
        return send(topic, *args, **more)  # type: ignore[arg-type]

    slow._sink.send = send_interrupted  # type: ignore[method-assign,assignment]
    work(slow, 20)  # an early set
    first.report(0, 3).close(0)
    second.report(0, 0, 0).close(0)
    for log in bench.logs:
        bench.put(log, log.closed(0))
    bench.clock.advance(5)
    work(slow, 20)  # the final and the total
    work(rival, 20)
    snapshots = bench.shown()
    # The revision of the final is the offsets of the records that close the window.
    (final,) = [s for s in snapshots if s.kind is Kind.FINAL]
    assert final.revision == (first.closed_at(0), second.closed_at(0))
    assert len([s for s in snapshots if s.kind is Kind.TOTAL]) == 1
    last: tuple[int, ...] | None = None
    for snapshot in snapshots:
        assert {r.revision for r in snapshot.marginals.values()} == {snapshot.revision}
        if snapshot.kind is Kind.EARLY:
            assert above(snapshot.revision, last)
            last = snapshot.revision
    bench.broker.compact(bench.names.snapshots, active=0, tombstones=True)
    assert {Kind.FINAL, Kind.TOTAL} <= {kind for _, kind in bench.kinds()}
