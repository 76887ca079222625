"""From merged counts to the records of the counts topic: a pure function of plan and counts."""

from __future__ import annotations

from collections.abc import Iterator

from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.counts import GroupCounts, counts_key, encode_counts


def count_records(
    plan: Plan, final: MergedWindow, total: MergedWindow | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield a record per group, to be acknowledged before the final is written."""
    suspicious = final.reports > 0 and examine(plan, final.tallies).suspicious
    for group, tally in enumerate(final.tallies):
        first = group * plan.partitions
        kept = GroupCounts(
            window=final.window,
            group=group,
            revision=final.revision[first : first + plan.partitions],
            tally=tally,
            total=None if total is None else total.tallies[group],
            suspicious=suspicious,
        )
        yield counts_key(final.window, group), encode_counts(plan, kept)
