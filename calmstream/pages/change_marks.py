"""Marks the tables of finals that changed, by the tests in the counts topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from consumer.read.history import History
from consumer.subscribe.assembler import Snapshot
from estimators.errors import CalmstreamError
from estimators.wire.changes import ChangesRecord
from estimators.wire.snapshot import Kind

CHANGED = {"previous": "changed", "before": "changed-before"}
"""Flag of a table that differs from the window before, and from all windows before."""


def with_marks(snapshots: Iterable[Snapshot], history: History) -> Iterator[Snapshot]:
    """Yield snapshots; the tables of finals that changed have a flag that says so.

    Args:
        snapshots: in the order of windows.
        history: of the same plan and namespace.
    """
    for snapshot in snapshots:
        found = _tests(history, snapshot)
        yield snapshot if found is None else _marked(snapshot, found)


def _tests(history: History, snapshot: Snapshot) -> ChangesRecord | None:
    if snapshot.kind is not Kind.FINAL or not snapshot.marginals:
        return None
    try:
        newest = history.newest()
        if newest is None or newest < snapshot.window:
            history.refresh()
        return history.tests(snapshot.window)
    except CalmstreamError:
        # No counts topic or no permission: the snapshot alone is shown.
        return None


def _marked(snapshot: Snapshot, found: ChangesRecord) -> Snapshot:
    marks: dict[tuple[str, ...], list[str]] = {}
    for family in found.families:
        for table in family.tables:
            names = tuple(table.get("attributes", ()))
            marks.setdefault(names, []).append(CHANGED.get(family.against, "changed"))
    marginals = {
        names: replace(record, flags=(*record.flags, *marks.get(names, ())))
        for names, record in snapshot.marginals.items()
    }
    return replace(snapshot, marginals=marginals)
