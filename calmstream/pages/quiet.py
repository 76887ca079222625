"""Runs of windows that say nothing new, told in one line each where nothing can be redrawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from consumer.subscribe.assembler import Snapshot
from estimators.wire.snapshot import Kind, Manifest


def folded(snapshots: Iterable[Snapshot], *, live: bool) -> Iterator[Snapshot | str]:
    """Snapshots with tables as they are; runs of windows without reports as lines of text.

    A total that has no more reports than the last one is part of a run: it repeats its tables.

    Args:
        snapshots: in the order they come.
        live: whether somebody waits for them. Then the first window of a run gets a line of its own
            at once, so that silence does not look like standstill, and the rest one when they end;
            otherwise a run is one line.
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
    """Windows in a row without reports."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._told = -1
        self._manifests: dict[int, Manifest] = {}

    def add(self, manifest: Manifest) -> Iterator[str]:
        """Take one more; a line if it is the first and somebody waits."""
        window = manifest.window
        if self._live and self._told < 0:
            self._told = window
            yield _line([manifest])
        elif window != self._told:
            known = self._manifests.get(window)
            # A total's rejects are those of all windows so far.
            if known is None or known.kind is Kind.TOTAL or manifest.kind is not Kind.TOTAL:
                self._manifests[window] = manifest

    def end(self) -> Iterator[str]:
        """The line that is still owed."""
        if self._manifests:
            yield _line([self._manifests[window] for window in sorted(self._manifests)])


def _line(manifests: list[Manifest]) -> str:
    """``name · windows 3 to 17 · 2027-01-01 00:00:30 to 00:03:00 UTC · no reports``."""
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
    """Of its last window, seconds since the epoch: a total's own start is the plan's."""
    windows = manifest.window + 1 if manifest.kind is Kind.TOTAL else 1
    return manifest.end - (manifest.end - manifest.start) // windows
