"""What a target stores of a set, and the rule which set replaces which.

A *set* consists of all tables of one window and kind (early, final or total). Its *revision* states
for each input partition the offset below which all reports are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from calmstream.consumer.subscribe.assembler import Snapshot, above
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, Revision


class SetId(NamedTuple):
    """What identifies a set within one plan and output namespace."""

    window: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class StoredSet:
    """One complete set; without tables if there were no reports."""

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
        return sum(len(table.table) for table in self.tables)

    @property
    def rejected(self) -> int:
        """The number of rejected records, over all reasons."""
        return sum(self.manifest.rejected.values())


def stored_set(output_namespace: str, snapshot: Snapshot) -> StoredSet:
    return StoredSet(output_namespace, snapshot.manifest, tuple(snapshot.marginals.values()))


def replaces(new: StoredSet, stored: Mapping[SetId, Revision]) -> bool:
    """Return whether a set replaces what is stored.

    A set replaces one of the same window and kind with a lower revision. An early set never comes
    after the final of its window.
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
    """Return the sets to store, of which none replaces another."""
    now, chosen = dict(stored), dict[SetId, StoredSet]()
    for new in sets:
        if replaces(new, now):
            for old in replaced(new):
                now.pop(old, None)
                chosen.pop(old, None)
            now[new.id] = new.manifest.revision
            chosen[new.id] = new
    return list(chosen.values())
