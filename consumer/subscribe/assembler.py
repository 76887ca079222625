"""Puts single snapshot records together into complete sets, by the rule of all readers.

A *set* is all tables of one window and kind, complete when its manifest and all tables that this
names were read with one revision. A set is returned if its revision is higher than that of the one
before, and no early set after its final: two publishers at once cannot mix their sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import ForeignRecord, InvalidInput
from calmstream.consumer.subscribe.frame import Frame, FrameColumns, free_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import (
    Kind,
    Manifest,
    MarginalRecord,
    Revision,
    decode,
    manifest_key,
    parse_key,
)


class SetId(NamedTuple):
    """What identifies a set within one plan and output namespace."""

    window: int
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Table(Frame):
    """One marginal as arrays, with one axis for each attribute.

    Attributes:
        attributes: names, in the order of the axes.
        labels: the labels of each attribute.
        table: share of the population in each cell, float64, one axis for each attribute.
        stderr: standard error of each cell, of the same shape. It applies to the estimate before
            negative cells were corrected.
        flags: see `Marginal`.
        reports: number of reports with information about these attributes.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    table: NDArray[np.float64]
    stderr: NDArray[np.float64]
    flags: tuple[str, ...]
    reports: int

    def columns(self) -> FrameColumns:
        """Return a column of labels for each attribute, ``value``, ``stderr`` and ``flags``."""
        names = free_names(self.attributes, ("value", "stderr", "flags"))
        labels = zip(*product(*self.labels), strict=True)
        data: dict[str, Sequence[Any]] = dict(zip(names, labels, strict=True))
        data["value"] = self.table.ravel().tolist()
        data["stderr"] = self.stderr.ravel().tolist()
        data["flags"] = [list(self.flags)] * self.table.size
        about = (f"{self.reports:,} reports", ", ".join(self.flags))
        return FrameColumns(data, names, about, "difference" in self.flags)


def table_of(record: MarginalRecord, names: tuple[str, ...]) -> Table:
    """Return a published table, with its axes in the order of the names."""
    axes = [record.attributes.index(name) for name in names]
    shape = [len(labels) for labels in record.labels]
    return Table(
        names,
        tuple(record.labels[axis] for axis in axes),
        np.array(record.table).reshape(shape).transpose(axes),
        np.array(record.stderr).reshape(shape).transpose(axes),
        record.flags,
        record.reports,
    )


@dataclass(frozen=True, slots=True)
class Snapshot(Frame):
    """A complete set.

    Attributes:
        manifest: the plan, the window, and the counts and offsets on which the set is based.
        marginals: the tables, by their attribute names in the order of the axes; empty if there
            were no reports.
    """

    manifest: Manifest
    marginals: Mapping[tuple[str, ...], MarginalRecord]

    @property
    def window(self) -> int:
        """The number of the window."""
        return self.manifest.window

    @property
    def kind(self) -> Kind:
        """The kind of the set: early, final, total or current."""
        return self.manifest.kind

    @property
    def set_id(self) -> SetId:
        return SetId(self.window, self.kind)

    @property
    def revision(self) -> Revision:
        """By partition of the reports topics, the offset below which all reports are counted."""
        return self.manifest.revision

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return sum(len(record.table) for record in self.marginals.values())

    def record(self, *names: str) -> MarginalRecord:
        """Return the published record of these attributes, which may be named in any order.

        Raises:
            InvalidInput: the set has no such table; the message lists its tables.
        """
        for attributes, record in self.marginals.items():
            if sorted(attributes) == sorted(names):
                return record
        present = "; ".join(",".join(attributes) for attributes in self.marginals)
        raise InvalidInput(
            f"no marginal of {','.join(names)} in window {self.window}; "
            + (f"there are {present}" if present else "it received no reports")
        )

    def marginal(self, *names: str) -> Table:
        """Return the table of these attributes, with its axes in the order of the names.

        Raises:
            InvalidInput: the set has no such table; the message lists its tables.
        """
        return table_of(self.record(*names), names)

    def columns(self) -> FrameColumns:
        """Return one row for each cell of all tables, as ``calmstream export`` writes them."""
        from calmstream.consumer.subscribe.arrow_rows import results_table

        manifest, rows = self.manifest, results_table("", [self]).drop_columns("output_namespace")
        data = {name: rows[name].to_pylist() for name in rows.column_names}
        times = (datetime.fromtimestamp(second, UTC) for second in (manifest.start, manifest.end))
        about = (
            f"{manifest.name}: window {manifest.window}, {manifest.kind}",
            " to ".join(f"{time:%Y-%m-%d %H:%M}" for time in times) + " UTC",
            f"{manifest.reports:,} reports",
            "" if len(rows) else "it received no reports",
        )
        return FrameColumns(data, ("attributes", "labels"), about)


def above(revision: Revision, other: Revision | None) -> bool:
    """Return whether a revision is higher: at least the other in every partition, and not equal."""
    if other is None:
        return True
    if revision == other or len(revision) != len(other):
        return False
    return all(a >= b for a, b in zip(revision, other, strict=True))


_Record = MarginalRecord | Manifest


class SnapshotAssembler:
    """Collects records until sets are complete. Not safe for use from several threads.

    The log itself determines the revision of a final or total, so no higher one can follow.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._pending: dict[SetId, dict[bytes, _Record]] = {}
        self._returned: dict[SetId, Revision] = {}
        self._complete_windows: dict[Kind, set[int]] = {
            kind: set() for kind in Kind if kind is not Kind.EARLY
        }

    def read(self, key: bytes, value: bytes | None) -> Snapshot | None:
        """Read one record of the snapshots topic; return the set that it completes, if any."""
        window, kind, _ = parse_key(key)
        if value is None:
            self._forget(SetId(window, kind), key)
            return None
        record = decode(value, self._plan)
        if record.key != key:
            raise ForeignRecord("a snapshot record under another key")
        return self.add(record)

    def add(self, record: MarginalRecord | Manifest) -> Snapshot | None:
        set_id = SetId(record.window, record.kind)
        if not self._wanted(set_id, record.revision):
            return None
        pending = self._pending.setdefault(set_id, {})
        earlier = pending.get(record.key)
        # Of two records with the same key, the one with the higher revision stays. If neither
        # revision is higher in all partitions, the newer record stays.
        if earlier is None or not above(earlier.revision, record.revision):
            pending[record.key] = record
        return self._complete(set_id, pending)

    def complete(self, window: int, kind: Kind) -> bool:
        return window in self._complete_windows[kind]

    def revision(self, window: int) -> Revision | None:
        """Return the revision of the last complete early set; None after the window's final."""
        return self._returned.get(SetId(window, Kind.EARLY))

    def count(self, kind: Kind) -> int:
        return len(self._complete_windows[kind])

    def _wanted(self, set_id: SetId, revision: Revision) -> bool:
        window, kind = set_id
        if kind is Kind.EARLY:
            final = window in self._complete_windows[Kind.FINAL]
            return not final and above(revision, self._returned.get(set_id))
        return window not in self._complete_windows[kind]

    def _complete(self, set_id: SetId, pending: dict[bytes, _Record]) -> Snapshot | None:
        window, kind = set_id
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
        self._note_complete(set_id, manifest.revision)
        return Snapshot(manifest, {table.attributes: table for table in tables})

    def _note_complete(self, set_id: SetId, revision: Revision) -> None:
        """Note that a set is returned, and forget records that no later set can need."""
        window, kind = set_id
        if kind is Kind.EARLY:
            self._returned[set_id] = revision
            pending = self._pending.pop(set_id)
            higher = {key: r for key, r in pending.items() if above(r.revision, revision)}
            if higher:
                self._pending[set_id] = higher
        else:
            self._complete_windows[kind].add(window)
            self._pending.pop(set_id)
        if kind is Kind.FINAL:
            # A final replaces the early sets of its window; their records are not needed any more.
            self._returned.pop(SetId(window, Kind.EARLY), None)
            self._pending.pop(SetId(window, Kind.EARLY), None)

    def _forget(self, set_id: SetId, key: bytes) -> None:
        pending = self._pending.get(set_id, {})
        pending.pop(key, None)
        if not pending:
            self._pending.pop(set_id, None)
