"""Which finals and totals are complete, with their counts.

A final that names counts is complete when they were read back too, of all groups and at its own
revision. Only then may anything be deleted that they can be computed from again.
"""

from __future__ import annotations

from calmstream.consumer.subscribe.assembler import SetId
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.counts import CountsHeader, read_record
from calmstream.estimators.wire.snapshot import Kind, Manifest, Revision


class Completeness:
    """Follows what was read of both topics, in any order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kept: dict[int, dict[int, Revision]] = {}
        self._waiting: dict[int, Revision] = {}
        self._complete: dict[Kind, set[int]] = {Kind.FINAL: set(), Kind.TOTAL: set()}

    def read_counts(self, key: bytes, value: bytes | None) -> tuple[CountsHeader, SetId | None]:
        """Read a record of the counts topic; return its header and the final that it completes."""
        header = read_record(self._plan, key, value)
        window = header.window
        if window in self._complete[Kind.FINAL]:
            return header, None
        self._kept.setdefault(window, {})[header.group] = header.revision
        return header, self._settle(window) if window in self._waiting else None

    def found(self, manifest: Manifest) -> SetId | None:
        """Note a final or total that was assembled; return it if it is complete now."""
        if manifest.kind is Kind.TOTAL or not manifest.counts:
            return self._done(SetId(manifest.window, manifest.kind))
        self._waiting[manifest.window] = manifest.revision
        return self._settle(manifest.window)

    def complete(self, window: int, kind: Kind) -> bool:
        return window in self._complete[kind]

    def both(self, window: int) -> bool:
        """Return whether final and total are complete, and all counts that they name were read."""
        return all(window in windows for windows in self._complete.values())

    def count(self, kind: Kind) -> int:
        return len(self._complete[kind])

    def _settle(self, window: int) -> SetId | None:
        kept = self._kept.get(window, {})
        groups = range(len(self._plan.groups))
        found = tuple(offset for group in groups for offset in kept.get(group, ()))
        if found != self._waiting[window]:
            return None
        return self._done(SetId(window, Kind.FINAL))

    def _done(self, closed: SetId) -> SetId:
        self._complete[closed.kind].add(closed.window)
        if closed.kind is Kind.FINAL:
            self._kept.pop(closed.window, None)
            self._waiting.pop(closed.window, None)
        return closed
