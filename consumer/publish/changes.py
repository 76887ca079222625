"""From the counts of windows to the record of tests of change: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.set_writer import KeyedRecord
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.changes import compare, source
from calmstream.estimators.changes.compare import FALSE_SHARE
from calmstream.estimators.changes.document import table_document
from calmstream.estimators.changes.windows import Span, relation
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.changes import ChangesRecord, Family, changes_key, encode_changes
from calmstream.estimators.wire.counts import GroupCounts, decode_counts
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount

SUSPICIOUS = "suspicious"

Tallies = Sequence[Tally]


def changes_of(
    plan: Plan, own: Mapping[int, bytes], previous: Mapping[int, bytes] | None
) -> KeyedRecord:
    """Return the record of tests of a final, from the kept counts of its groups alone.

    With the same records of counts the result has the same bytes. Cost: two comparisons of all
    published tables.
    """
    counts = _decoded(plan, own)
    revision = tuple(chain.from_iterable(one.revision for one in counts))
    windows = tuple(WindowCount(one.tally) for one in counts)
    final = MergedWindow(counts[0].window, Kind.FINAL, revision, windows)
    last = None if previous is None else [one.tally for one in _decoded(plan, previous)]
    before = [Tally(c.total.n - c.tally.n, c.total.counts - c.tally.counts) for c in counts]
    window = final.window
    families = (
        _family(plan, final, "previous", (window - 1, window - 1), last),
        _family(plan, final, "before", (0, window - 1), before),
    )
    record = ChangesRecord(window, revision, families)
    return changes_key(window), encode_changes(plan, record)


def _decoded(plan: Plan, records: Mapping[int, bytes]) -> list[GroupCounts]:
    return [decode_counts(plan, records[group]) for group in sorted(records)]


def _family(
    plan: Plan, final: MergedWindow, against: str, windows: Span, tallies: Tallies | None
) -> Family:
    reports = (final.reports, 0 if tallies is None else sum(t.reports for t in tallies))
    flags = relation(plan.guarantee.windows, (final.window, final.window), windows).flags
    reason = _why_not(final, windows, tallies)
    if tallies is None or reason:
        place = None if windows[1] < 0 else windows
        nothing: tuple[float | None, ...] = (None,) * len(plan.marginals)
        return Family(against, place, reports, 0, 0, 1.0, flags, reason, nothing, ())
    if _forged(plan, final, windows, tallies):
        flags = (*flags, SUSPICIOUS)
    found = compare(
        source(plan, tallies), source(plan, final.tallies), plan.marginals, details=FALSE_SHARE
    )
    return Family(
        against=against,
        windows=windows,
        reports=reports,
        tested=found.tested,
        changed=found.changed,
        smallest=float(f"{found.smallest:.6g}"),
        flags=flags,
        reason="",
        p=tuple(None if t.p is None else float(f"{t.p:.3g}") for t in found.tables),
        tables=tuple(table_document(t, plan.domain, flags) for t in found.tables if t.changed),
    )


def _why_not(final: MergedWindow, windows: Span, tallies: Tallies | None) -> str:
    """Return why there are no tests; empty where there are."""
    if windows[1] < 0:
        return "no window was before"
    if tallies is None:
        return "the counts of the windows before are not kept"
    if not final.reports:
        return "the window received no reports"
    if not any(t.reports for t in tallies):
        return "the windows before received no reports"
    return ""


def _forged(plan: Plan, final: MergedWindow, windows: Span, tallies: Tallies) -> bool:
    """Return whether the counts of the final or those of the windows before look forged."""
    sides = ((final.tallies, 1), (tallies, windows[1] - windows[0] + 1))
    return any(examine(plan, side, number).suspicious for side, number in sides)
