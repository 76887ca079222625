"""What a target stores of a set, and the rule which set replaces which.

A *set* consists of all tables of one window and kind (early, final or total). Its *revision* states
for each input partition the offset below which all reports are counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from calmstream.common.errors import ForeignRecord
from calmstream.consumer.subscribe.assembler import Snapshot, above
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, Revision
from calmstream.estimators.wire.table_summary import TableSummary

_LARGEST = (1 << 63) - 1


class SetId(NamedTuple):
    """What identifies a set within one plan and output namespace."""

    window: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class StoredSet:
    """One complete set in the form in which it is stored.

    Attributes:
        output_namespace: namespace of the snapshots topic.
        manifest: the set's manifest.
        tables: its tables; empty if there were no reports or the tables are withheld.
    """

    output_namespace: str
    manifest: Manifest
    tables: tuple[MarginalRecord, ...]

    @property
    def id(self) -> SetId:
        """The set's identity within its plan and output namespace."""
        return SetId(self.manifest.window, self.manifest.kind)

    @property
    def revision(self) -> int:
        """The sum of the offsets: one number that grows with every revision of the set."""
        return sum(self.manifest.revision)

    @property
    def rows(self) -> int:
        """The number of cells of all tables."""
        return sum(len(table.table) for table in self.tables)

    @property
    def rejected(self) -> int:
        """The number of rejected records, over all reasons."""
        return sum(self.manifest.rejected.values())


def stored_set(plan: Plan, output_namespace: str, snapshot: Snapshot) -> StoredSet:
    """Return the form of a set that targets store.

    Everything that a target relies on is checked, so that no record of another program can make a
    database refuse a set.

    Raises:
        ForeignRecord: the set does not fit the plan, or has numbers that no set can have.
    """
    manifest, tables = snapshot.manifest, tuple(snapshot.marginals.values())
    try:
        fits = _fits(plan, manifest) and all(_table_fits(plan, table) for table in tables)
    except (TypeError, AttributeError):
        fits = False
    if not fits:
        raise ForeignRecord(f"the set {manifest.window}/{manifest.kind} does not fit the plan")
    return StoredSet(output_namespace, manifest, tables)


def _fits(plan: Plan, manifest: Manifest) -> bool:
    if not 0 <= manifest.window < plan.windows:
        return False
    total = manifest.kind is Kind.TOTAL
    start = plan.start if total else plan.window_start(manifest.window) // 1000
    counts = (*manifest.revision, sum(manifest.revision), manifest.reports)
    counts += tuple(manifest.rejected.values())
    texts = (manifest.name, manifest.method, manifest.epsilon)
    return (
        (manifest.start, manifest.end) == (start, plan.window_end(manifest.window) // 1000)
        and all(map(_is_count, counts))
        and manifest.name == plan.name
        and all(map(_is_text, texts))
    )


def _table_fits(plan: Plan, table: MarginalRecord) -> bool:
    known = {attribute.name: attribute.labels for attribute in plan.domain.attributes}
    return (
        tuple(known.get(name) for name in table.attributes) == table.labels
        and all(type(x) in (float, int) and math.isfinite(x) for x in table.table)
        and all(type(x) in (float, int) and math.isfinite(x) for x in table.stderr)
        and all(map(_is_text, table.flags))
        and _is_count(table.reports)
        and all(_summary_fits(plan, summary) for summary in table.summaries)
    )


def _summary_fits(plan: Plan, summary: TableSummary) -> bool:
    known = {attribute.name: attribute for attribute in plan.domain.attributes}
    units = {"", *(known[name].unit for name in summary.attributes if name in known)}
    numbers = [
        number
        for row in summary.rows
        for one in row.statistics
        for number in (one.value, one.stderr, one.low, one.high)
    ]
    return (
        known.keys() >= {*summary.attributes, *summary.given}
        and summary.unit in units
        and all(
            len(row.labels) == len(summary.given)
            and all(
                label in known[name].labels
                for name, label in zip(summary.given, row.labels, strict=True)
            )
            and all(_is_text(one.statistic) for one in row.statistics)
            for row in summary.rows
        )
        and all(number is None or math.isfinite(number) for number in numbers)
        and all(map(_is_text, summary.flags))
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def replaces(new: StoredSet, stored: Mapping[SetId, Revision]) -> bool:
    """Return whether a set replaces what is stored.

    A set replaces one of the same window and kind with a lower revision. An early set never comes
    after the final of its window.

    Args:
        new: the set.
        stored: revisions of the stored sets of the same plan and output namespace.
    """
    window, kind = new.id
    if kind is Kind.EARLY and SetId(window, Kind.FINAL) in stored:
        return False
    return above(new.manifest.revision, stored.get(new.id))


def replaced(new: StoredSet) -> tuple[SetId, ...]:
    """Return the sets that are removed when a set is stored: itself, and a final's early set."""
    window, kind = new.id
    if kind is Kind.FINAL:
        return (new.id, SetId(window, Kind.EARLY))
    return (new.id,)


def newest(sets: Iterable[StoredSet], stored: Mapping[SetId, Revision]) -> list[StoredSet]:
    """Return the sets to store, of which none replaces another.

    Args:
        sets: complete sets of one plan and output namespace, in the order of arrival.
        stored: revisions of the stored sets.
    """
    now, chosen = dict(stored), dict[SetId, StoredSet]()
    for new in sets:
        if replaces(new, now):
            for old in replaced(new):
                now.pop(old, None)
                chosen.pop(old, None)
            now[new.id] = new.manifest.revision
            chosen[new.id] = new
    return list(chosen.values())
