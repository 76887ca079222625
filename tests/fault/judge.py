"""Compare everything that was published during a simulation with the input logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from calmstream.broker.transport import Record
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.estimators.wire.counts import counts_key, decode_counts
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.estimators.wire.snapshot import Kind
from tests.brokers.segments import Stored
from tests.support.service.admission_recount import Recount, Share


def judge(
    plan: Plan,
    logs: list[list[Record]],
    published: Iterable[list[Record]],
    letters: list[Record],
    *,
    letters_until: float = float("inf"),
) -> None:
    """Fail unless every set says what the logs say.

    Several readers found the snapshots topic as ``published``. Dead letters may be missing for
    records appended after ``letters_until``, in milliseconds since the epoch.
    """
    recounts = [recount(plan, log) for log in logs]
    truth = {window: cells(recounts, window) for window in range(plan.windows)}
    for window, found in truth.items():
        assert max(found.values(), default=0) <= 1, (window, found)
    for records in published:
        shown = _shown(plan, records)
        _check_closed(plan, shown, recounts, truth)
        _check_earlies(plan, shown, logs)
        _check_current(plan, shown, recounts, truth)
    stated = (DeadLetter.from_headers(r.headers, plan) for r in letters)
    kept = {(d.partition, d.offset) for d in stated}
    rejected = {(n, offset) for n, one in enumerate(recounts) for offset, _ in one.dead_letters}
    owed = {(n, offset) for n, log in enumerate(logs) for offset in _until(log, letters_until)}
    assert kept <= rejected
    assert rejected & owed <= kept


def recount(plan: Plan, log: list[Record], below: int | None = None) -> Recount:
    """Count a log, or its records below an offset, without the product's code."""
    stored = (
        Stored(r.offset, r.timestamp, r.append_time, r.key, r.value, damaged=r.damage is not None)
        for r in log
    )
    return Recount(plan, 0).read(stored, below)


def cells(recounts: Iterable[Recount], window: int) -> Counter[int]:
    return sum((one.windows.get(window, Share()).cells for one in recounts), Counter())


def _until(log: list[Record], end: float) -> Iterator[int]:
    """Yield the offsets of the records before the log's clock passes a time."""
    clock = 0
    for record in log:
        clock = max(clock, record.timestamp)
        if clock <= end:
            yield record.offset


def judge_counts(plan: Plan, logs: list[list[Record]], kept: Iterable[list[Record]]) -> None:
    """Fail unless every window has a record in the counts topic, and it says what the logs say."""
    recounts = [recount(plan, log) for log in logs]
    for everything in kept:
        found = {r.key: decode_counts(plan, r.value or b"") for r in everything}
        assert set(found) == {counts_key(window, 0) for window in range(plan.windows)}
        assert len({(r.key, r.value) for r in everything}) == plan.windows
        so_far = np.zeros(plan.mechanisms[0].width, np.int64)
        for window in range(plan.windows):
            one = found[counts_key(window, 0)]
            reported = list(cells(recounts, window).elements())
            expected = np.bincount(np.array(reported, np.int64), minlength=so_far.size)
            so_far = so_far + expected
            assert one.revision == tuple(r.closed_at[window] for r in recounts)
            assert np.array_equal(one.tally.counts[0], expected), f"counts of window {window}"
            assert one.tally.reports == len(reported)
            assert one.total is not None
            assert np.array_equal(one.total.counts[0], so_far), f"counts through window {window}"


def _check_closed(
    plan: Plan, shown: list[Snapshot], recounts: list[Recount], truth: dict[int, Counter[int]]
) -> None:
    finals = {s.window: s for s in shown if s.kind is Kind.FINAL}
    totals = {s.window: s for s in shown if s.kind is Kind.TOTAL}
    assert set(finals) == set(totals) == set(range(plan.windows))
    for window in range(plan.windows):
        assert counts(finals[window]) == truth[window], f"final of window {window}"
        so_far = sum((truth[w] for w in range(window + 1)), Counter())
        assert counts(totals[window]) == so_far, f"total through window {window}"
        assert finals[window].revision == tuple(r.closed_at[window] for r in recounts)


def _check_earlies(plan: Plan, shown: list[Snapshot], logs: list[list[Record]]) -> None:
    for early in shown:
        if early.kind is Kind.EARLY:
            below = zip(logs, early.revision, strict=True)
            counted = cells([recount(plan, log, at) for log, at in below], early.window)
            assert counts(early) == counted, f"early of window {early.window}"


def _check_current(
    plan: Plan, shown: list[Snapshot], recounts: list[Recount], truth: dict[int, Counter[int]]
) -> None:
    """Fail unless every window has one, tracked from the counts of the logs, in their order."""
    found, tracker = {s.window: s for s in shown if s.kind is Kind.CURRENT}, Tracker(plan)
    assert set(found) == set(range(plan.windows) if plan.windows > 1 else ())
    for window in sorted(found):
        counted = np.array([[truth[window][c] for c in range(plan.mechanisms[0].width)]])
        tracker.add(window, [Tally(counted.sum(axis=1), counted)])
        manifest = found[window].manifest
        assert manifest.tracking == tracker.current().to_json(), f"current of window {window}"
        assert manifest.revision == tuple(r.closed_at[window] for r in recounts)


def _shown(plan: Plan, records: list[Record]) -> list[Snapshot]:
    assembler = SnapshotAssembler(plan)
    snapshots = [assembler.read(r.key or b"", r.value) for r in records]
    return [snapshot for snapshot in snapshots if snapshot is not None]


def counts(snapshot: Snapshot) -> Counter[int]:
    """Return the reports per cell of a set without noise."""
    n = snapshot.manifest.reports
    if n == 0:
        assert not snapshot.marginals
        return Counter()
    (record,) = snapshot.marginals.values()
    table_counts = np.array(record.table) * n
    assert np.allclose(table_counts, np.rint(table_counts), atol=1e-6)
    return Counter({c: int(k) for c, k in enumerate(np.rint(table_counts)) if k})
