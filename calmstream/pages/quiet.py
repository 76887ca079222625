"""One line for several consecutive windows without reports, for output that cannot be redrawn.

`watch` uses it for logs and files, so that a plan without reports does not fill them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind, Manifest


def folded(snapshots: Iterable[Snapshot], *, live: bool) -> Iterator[Snapshot | str]:
    """Yield snapshots with tables unchanged, and runs of windows without reports as lines.

    A total that has no more reports than the last one is part of a run: it repeats its tables.
    """
    run, counted = _Run(live=live), 0
    for snapshot in snapshots:
        manifest = snapshot.manifest
        total = manifest.kind is Kind.TOTAL
        if snapshot.marginals and not (total and manifest.reports <= counted):
            yield from run.end()
            run = _Run(live=live)
            counted = manifest.reports if total else counted
            yield snapshot
        else:
            yield from run.add(manifest)
    yield from run.end()


class _Run:
    """A run of windows without reports."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._shown = -1
        self._manifests: dict[int, Manifest] = {}

    def add(self, manifest: Manifest) -> Iterator[str]:
        """Add a window; yield a line if it is the first of a live run."""
        window = manifest.window
        if self._live and self._shown < 0:
            self._shown = window
            yield _line([manifest])
        elif window != self._shown:
            earlier = self._manifests.get(window)
            # A total's rejects are those of all windows so far.
            if earlier is None or earlier.kind is Kind.TOTAL or manifest.kind is not Kind.TOTAL:
                self._manifests[window] = manifest

    def end(self) -> Iterator[str]:
        """Yield the line of the windows that have not been shown."""
        if self._manifests:
            yield _line([self._manifests[window] for window in sorted(self._manifests)])


def _line(manifests: list[Manifest]) -> str:
    """Return ``name · windows 3 to 17 · 2027-01-01 00:00:30 to 00:03:00 UTC · no reports``."""
    first, last = manifests[0], manifests[-1]
    windows = f"window {first.window}"
    if last is not first:
        windows = f"windows {first.window} to {last.window}"
    start, end = (datetime.fromtimestamp(t, UTC) for t in (_start(first), last.end))
    until = f"{end:%H:%M:%S}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
    rejected = sum(sum(m.rejected.values()) for m in manifests if m.kind is not Kind.TOTAL)
    refused = f", {rejected:,} records rejected" if rejected else ""
    times = f"{start:%Y-%m-%d %H:%M:%S} to {until} UTC"
    return f"{first.name} · {windows} · {times} · no reports{refused}"


def _start(manifest: Manifest) -> int:
    """Return the start of the last window in seconds; a total itself starts with the plan."""
    windows = manifest.window + 1 if manifest.kind is Kind.TOTAL else 1
    return manifest.end - (manifest.end - manifest.start) // windows
