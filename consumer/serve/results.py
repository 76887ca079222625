"""What was published of one plan so far, as far as the HTTP interface shows it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, Revision

MAX_ATTRIBUTES = 2  # published tables of more attributes are not kept for series
_NUMBER_BYTES = 32  # of a number in a tuple
TABLE_BYTES = 128 << 20  # of tables of single windows that are kept for series

Tables = Mapping[frozenset[str], MarginalRecord]  # of a window, by their attributes


class Results:
    """Finals, early counts, tables of the newest finals and current sets. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finals: dict[int, Manifest] = {}
        # The counts of the newest window with early ones, always after the newest final window.
        self.early: Manifest | None = None
        self.newest: int | None = None
        self._tables: dict[tuple[int, Kind], Tables] = {}
        self._room = TABLE_BYTES

    def final(self, window: int) -> Manifest | None:
        """Return the manifest of a final window, without its long parts."""
        return self._finals.get(window)

    def revision(self, window: int) -> Revision:
        final = self.final(window)
        return () if final is None else final.revision

    def last(self, most: int) -> list[Manifest]:
        with self._lock:
            return [self._finals[window] for window in sorted(self._finals)[-most:]]

    def tables(self, window: int, kind: Kind = Kind.FINAL) -> Tables | None:
        return self._tables.get((window, kind))

    def take(self, snapshot: Snapshot) -> None:
        with self._lock:
            if snapshot.kind is Kind.EARLY:
                first_open = 0 if self.newest is None else self.newest + 1
                if snapshot.window >= (first_open if self.early is None else self.early.window):
                    self.early = snapshot.manifest
            elif snapshot.kind is Kind.FINAL:
                self._take_final(snapshot)
            elif snapshot.kind is Kind.CURRENT:
                self._take_tables(snapshot)

    def clear(self) -> None:
        with self._lock:
            self._finals.clear()
            self._room += sum(map(_size, self._tables.values()))
            self._tables.clear()
            self.early = self.newest = None

    def _take_final(self, snapshot: Snapshot) -> None:
        manifest = snapshot.manifest
        self._finals[snapshot.window] = replace(
            manifest,
            marginals=manifest.marginals[:1],  # whether there are tables
            processing=(),
            analysis={},
        )
        if self.newest is None or snapshot.window > self.newest:
            self.newest = snapshot.window
        if self.early is not None and self.early.window <= self.newest:
            self.early = None
        self._take_tables(snapshot)

    def _take_tables(self, snapshot: Snapshot) -> None:
        place = snapshot.window, snapshot.kind
        if place not in self._tables:
            self._tables[place] = tables = _tables(snapshot)
            self._room -= _size(tables)
        while self._room < 0 and self._tables:
            self._room += _size(self._tables.pop(min(self._tables)))


def suspicious(manifest: Manifest) -> bool:
    return bool(manifest.poisoning.get("suspicious"))


def _tables(snapshot: Snapshot) -> Tables:
    records = snapshot.marginals.items()
    return {frozenset(names): r for names, r in records if len(names) <= MAX_ATTRIBUTES}


def _size(tables: Tables) -> int:
    return sum(2 * _NUMBER_BYTES * len(record.table) for record in tables.values())
