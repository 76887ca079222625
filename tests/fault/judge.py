"""Compare everything that was published during a simulation with the input logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from calmstream.broker.transport import Record
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.changes import changes_key, is_changes_key
from calmstream.estimators.wire.counts import counts_key, decode_counts
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.estimators.wire.snapshot import Kind
from tests.fault.oracle import Verdicts


def judge(
    plan: Plan,
    logs: list[list[Record]],
    published: Iterable[list[Record]],
    letters: list[Record],
    *,
    letters_until: float = float("inf"),
) -> None:
    """Fail unless every set says what the logs say.

    ``logs`` are the whole input partitions; ``published`` the snapshots topic as several readers
    found it; ``letters`` the dead letters, which may be missing for records that were appended
    after ``letters_until``, in milliseconds since the epoch.
    """
    verdicts = [Verdicts(plan).judge(log) for log in logs]
    truth = {
        window: Counter(c for v in verdicts for c in v.cells(window))
        for window in range(plan.windows)
    }
    for window, cells in truth.items():
        assert max(cells.values(), default=0) <= 1, (window, cells)
    for records in published:
        shown = _shown(plan, records)
        _check_closed(plan, shown, verdicts, truth)
        _check_earlies(shown, verdicts)
    found = (DeadLetter.from_headers(r.headers, plan) for r in letters)
    kept = {(d.partition, d.offset) for d in found}
    rejected = {(n, o) for n, v in enumerate(verdicts) for o in v.rejected}
    owed = {(n, offset) for n, log in enumerate(logs) for offset in _until(log, letters_until)}
    assert kept <= rejected
    assert rejected & owed <= kept


def _until(log: list[Record], end: float) -> Iterator[int]:
    """Yield the offsets of the records before the log's clock passes a time."""
    clock = 0
    for record in log:
        clock = max(clock, record.timestamp)
        if clock <= end:
            yield record.offset


def judge_counts(plan: Plan, logs: list[list[Record]], kept: Iterable[list[Record]]) -> None:
    """Fail unless every kept record says what the logs say, and every window has one.

    ``kept`` is the counts topic as several readers found it. All records of a key are the same. So
    are the tests of change, of which every window has one record, after the tests of the windows
    before and after the counts that they compare.
    """
    verdicts = [Verdicts(plan).judge(log) for log in logs]
    for everything in kept:
        order = list(dict.fromkeys(r.key for r in everything))
        for window in range(plan.windows):
            before = [changes_key(window - 1)] if window else []
            before += [counts_key(w, 0) for w in (window - 1, window) if w >= 0]
            assert max(map(order.index, before)) < order.index(changes_key(window))
        tests = {(r.key, r.value) for r in everything if is_changes_key(r.key or b"")}
        assert sorted(key for key, _ in tests if key) == sorted(
            map(changes_key, range(plan.windows))
        )
        records = [r for r in everything if not is_changes_key(r.key or b"")]
        found = {r.key: decode_counts(plan, r.value or b"") for r in records}
        assert set(found) == {counts_key(window, 0) for window in range(plan.windows)}
        assert len({(r.key, r.value) for r in records}) == plan.windows
        so_far = np.zeros(plan.mechanisms[0].width, np.int64)
        for window in range(plan.windows):
            one = found[counts_key(window, 0)]
            cells = [c for v in verdicts for c in v.cells(window)]
            expected = np.bincount(np.array(cells, np.int64), minlength=so_far.size)
            so_far = so_far + expected
            assert one.revision == tuple(v.closed_at[window] for v in verdicts)
            assert np.array_equal(one.tally.counts[0], expected), f"counts of window {window}"
            assert one.tally.reports == len(cells)
            assert one.total is not None
            assert np.array_equal(one.total.counts[0], so_far), f"counts through window {window}"


def _check_closed(
    plan: Plan, shown: list[Snapshot], verdicts: list[Verdicts], truth: dict[int, Counter[int]]
) -> None:
    finals = {s.window: s for s in shown if s.kind is Kind.FINAL}
    totals = {s.window: s for s in shown if s.kind is Kind.TOTAL}
    assert set(finals) == set(totals) == set(range(plan.windows))
    for window in range(plan.windows):
        assert counts(finals[window]) == truth[window], f"final of window {window}"
        so_far = sum((truth[w] for w in range(window + 1)), Counter())
        assert counts(totals[window]) == so_far, f"total through window {window}"
        assert finals[window].revision == tuple(v.closed_at[window] for v in verdicts)


def _check_earlies(shown: list[Snapshot], verdicts: list[Verdicts]) -> None:
    for early in shown:
        if early.kind is Kind.EARLY:
            below = zip(verdicts, early.revision, strict=True)
            cells = Counter(c for v, at in below for c in v.cells(early.window, at))
            assert counts(early) == cells, f"early of window {early.window}"


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
