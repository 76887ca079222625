"""Marks the tables of finals that changed, by the tests in the counts topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import repeat

from calmstream.common.errors import CalmstreamError
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.changes import ChangesRecord
from calmstream.estimators.wire.snapshot import Kind

CHANGED = {"previous": "changed", "before": "changed-before"}
"""Flag of a table that differs from the window before, and from all windows before."""


UNTESTED = "untested"
"""Flag of the tables of a final whose tests are not published yet."""

_PAUSE_SECONDS = 0.5
_PAUSES = 20


def with_marks(
    snapshots: Iterable[Snapshot],
    history: History,
    pause: Callable[[float], object] | None = None,
) -> Iterator[Snapshot]:
    """Yield snapshots; the tables of finals that changed have a flag that says so.

    Tests are published after their final. This waits for them for at most ten seconds, and only
    where the window before has tests; without them the tables have the flag ``untested``.
    """
    for snapshot in snapshots:
        if snapshot.kind is not Kind.FINAL or not snapshot.marginals:
            yield snapshot
            continue
        try:
            yield _marked(snapshot, *_tests(history, snapshot.window, pause))
        except CalmstreamError:
            # No counts topic or no permission: the snapshot alone is shown.
            yield snapshot


def _tests(
    history: History, window: int, pause: Callable[[float], object] | None
) -> tuple[ChangesRecord | None, bool]:
    """Return the tests of a window, and whether they are still to come."""
    newest = history.newest()
    if newest is None or newest < window:
        history.refresh()
    found = history.tests(window)
    expected = found is None and window > 0 and history.tests(window - 1) is not None
    for wait in repeat(pause, _PAUSES if expected else 0):
        if wait is not None:
            wait(_PAUSE_SECONDS)
        history.refresh()
        found = history.tests(window)
        if found is not None or wait is None:
            break
    return found, expected and found is None


def _marked(snapshot: Snapshot, found: ChangesRecord | None, expected: bool) -> Snapshot:
    marks: dict[tuple[str, ...], list[str]] = {}
    for family in () if found is None else found.families:
        for table in family.tables:
            names = tuple(table.get("attributes", ()))
            marks.setdefault(names, []).append(CHANGED.get(family.against, "changed"))
    marginals = {
        names: replace(record, flags=(*record.flags, *marks.get(names, [UNTESTED] * expected)))
        for names, record in snapshot.marginals.items()
    }
    return replace(snapshot, marginals=marginals)
