"""From single snapshot records to whole sets: the rule that every reader of the topic follows.

A set is shown when its manifest and every marginal that the manifest names carry the same revision,
in any order. A set that is not above the one shown of the same window and kind is ignored, and so
is an early set once the window's final was shown. Two publishers that write at once can therefore
neither mix their sets nor show a reader an older set after a newer one. A manifest that names
another plan than the reader's makes no set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from estimators.errors import ForeignRecord, InvalidInput
from estimators.wire.snapshot import (
    Kind,
    Manifest,
    MarginalRecord,
    Revision,
    decode,
    manifest_key,
    parse_key,
)


class Table(NamedTuple):
    """One marginal as arrays: one axis per attribute, in the order asked for.

    ``table`` and ``stderr`` are float64 of the shape of ``labels``; ``stderr`` holds before
    non-negativity was enforced.
    """

    table: NDArray[np.float64]
    stderr: NDArray[np.float64]
    labels: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete set.

    Attributes:
        manifest: plan, window, counts and offsets on which the set is based.
        marginals: its tables by attribute names in axis order; none where there was no report.
    """

    manifest: Manifest
    marginals: Mapping[tuple[str, ...], MarginalRecord]

    @property
    def window(self) -> int:
        """Number of the window."""
        return self.manifest.window

    @property
    def kind(self) -> Kind:
        """Early, final or total."""
        return self.manifest.kind

    @property
    def revision(self) -> Revision:
        """One input offset per partition of the plan."""
        return self.manifest.revision

    def why_empty(self) -> str:
        """Why there are no tables; only where there are none."""
        if self.manifest.withheld:
            return "its tables are withheld: the raw counts look forged"
        return "it received no reports"

    def record(self, *names: str) -> MarginalRecord:
        """The published record over these attributes, in whatever order they are named.

        Raises:
            InvalidInput: it is not in the set; the message lists what is.
        """
        for attributes, record in self.marginals.items():
            if sorted(attributes) == sorted(names):
                return record
        there = "; ".join(",".join(attributes) for attributes in self.marginals)
        raise InvalidInput(
            f"no marginal of {','.join(names)} in window {self.window}; "
            + (f"there are {there}" if there else self.why_empty())
        )

    def marginal(self, *names: str) -> Table:
        """The table over these attributes, axes in the order named; raises as :meth:`record`."""
        record = self.record(*names)
        axes = [record.attributes.index(name) for name in names]
        shape = [len(labels) for labels in record.labels]
        return Table(
            np.array(record.table).reshape(shape).transpose(axes),
            np.array(record.stderr).reshape(shape).transpose(axes),
            tuple(record.labels[axis] for axis in axes),
        )


def above(revision: Revision, other: Revision | None) -> bool:
    """Return whether a revision is at least the other in every component, and not equal to it."""
    if other is None:
        return True
    return revision != other and at_least(revision, other)


def at_least(revision: Revision, other: Revision) -> bool:
    """Return whether a revision is at least the other in every component."""
    return len(revision) == len(other) and all(a >= b for a, b in zip(revision, other, strict=True))


_Set = tuple[int, Kind]
_Record = MarginalRecord | Manifest


class SnapshotAssembler:
    """Collects records until sets are complete. Not safe for use from several threads.

    It keeps the records of incomplete sets, the vector of the last early set of each window without
    a final, and the window number of each complete final and total. Their vectors are functions of
    the log, so no higher one can follow.

    Args:
        plan: digest of the plan whose sets are wanted; None takes those of any plan.
    """

    def __init__(self, plan: str | None = None) -> None:
        self._plan = plan
        self._pending: dict[_Set, dict[bytes, _Record]] = {}
        self._shown: dict[_Set, Revision] = {}
        self._sealed: dict[Kind, set[int]] = {Kind.FINAL: set(), Kind.TOTAL: set()}

    def read(self, key: bytes, value: bytes | None) -> Snapshot | None:
        """Read one record of the snapshots topic; return the set that it completes, if any.

        Raises:
            InvalidInput: written by a newer version.
            ForeignRecord: not a record of a snapshots topic, or a manifest of another plan.
        """
        window, kind, _ = parse_key(key)
        if value is None:
            self._forget((window, kind), key)
            return None
        return self.add(decode(value))

    def add(self, record: MarginalRecord | Manifest) -> Snapshot | None:
        """Take a decoded record; see :meth:`read`."""
        if self._plan is not None and isinstance(record, Manifest) and record.plan != self._plan:
            raise ForeignRecord(f"a set of another plan, {record.plan[:8]}")
        place = (record.window, record.kind)
        if not self._wanted(place, record.revision):
            return None
        pending = self._pending.setdefault(place, {})
        held = pending.get(record.key)
        # Of two records of one key the higher stays; of two that cannot be compared, the newer.
        if held is None or not above(held.revision, record.revision):
            pending[record.key] = record
        return self._complete(place, pending)

    def complete(self, window: int, kind: Kind) -> bool:
        """Return whether a complete final or total of this window was found."""
        return window in self._sealed[kind]

    def revision(self, window: int) -> Revision | None:
        """Return the vector of the last complete early set; None before it and after the final."""
        return self._shown.get((window, Kind.EARLY))

    def count(self, kind: Kind) -> int:
        """Return the number of windows whose final or total was found complete."""
        return len(self._sealed[kind])

    def _wanted(self, place: _Set, revision: Revision) -> bool:
        window, kind = place
        if kind is Kind.EARLY:
            final = window in self._sealed[Kind.FINAL]
            return not final and above(revision, self._shown.get(place))
        return window not in self._sealed[kind]

    def _complete(self, place: _Set, pending: dict[bytes, _Record]) -> Snapshot | None:
        window, kind = place
        manifest = pending.get(manifest_key(window, kind))
        if not isinstance(manifest, Manifest):
            return None
        members = [pending.get(key.encode()) for key in manifest.marginals]
        tables = [
            member
            for member in members
            if isinstance(member, MarginalRecord) and member.revision == manifest.revision
        ]
        if len(tables) < len(members):
            return None
        self._show(place, manifest.revision)
        return Snapshot(manifest, {table.attributes: table for table in tables})

    def _show(self, place: _Set, revision: Revision) -> None:
        window, kind = place
        if kind is Kind.EARLY:
            self._shown[place] = revision
            pending = self._pending.pop(place)
            left = {key: r for key, r in pending.items() if above(r.revision, revision)}
            if left:
                self._pending[place] = left
        else:
            self._sealed[kind].add(window)
            self._pending.pop(place)
        if kind is Kind.FINAL:
            # Final beats early: nothing more is expected of the early set.
            self._shown.pop((window, Kind.EARLY), None)
            self._pending.pop((window, Kind.EARLY), None)

    def _forget(self, place: _Set, key: bytes) -> None:
        pending = self._pending.get(place, {})
        pending.pop(key, None)
        if not pending:
            self._pending.pop(place, None)
