"""Sets the metrics of the active publisher about the sets that it reads and writes."""

from __future__ import annotations

import math

from calmstream.consumer.metrics import publisher as m
from calmstream.consumer.publish.build import SnapshotSet
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.estimators.wire.snapshot import Kind, Manifest


class Measures:
    """Sets the metrics from the moment when a publisher becomes active until it is not any more."""

    def __init__(self, context: PublisherContext) -> None:
        self._plan = context.plan
        self._metrics = context.metrics
        self._clock = context.clock
        self._log = context.log
        self._shares_through = -1
        self._newest_final = -1

    def found(self, manifest: Manifest, assembler: SnapshotAssembler) -> None:
        """Set the metrics of a final or total that was read complete."""
        self._metrics.set(m.WINDOWS_FINAL, assembler.count(Kind.FINAL))
        if manifest.kind is Kind.TOTAL:
            self._show_shares(manifest)
        else:
            self._show_final(manifest)

    def written(self, snapshot: SnapshotSet, merged: MergedWindow, seconds: float) -> None:
        """Set the metrics of a set that was acknowledged ``seconds`` after the start of writing."""
        self._metrics.observe(m.PUBLISH_DURATION, seconds)
        if merged.kind is not Kind.TOTAL:
            self._metrics.inc(m.EARLY_PUBLISHED if merged.kind is Kind.EARLY else m.FINAL_PUBLISHED)
        self._metrics.set(m.LAST_SNAPSHOT, self._clock.now_ms() / 1000)
        if snapshot.marginals and merged.kind is Kind.FINAL:
            self._metrics.set(m.STANDARD_ERROR, snapshot.standard_error)

    def _show_final(self, final: Manifest) -> None:
        suspicious = bool(final.poisoning.get("suspicious"))
        if suspicious:
            self._log.warning(
                "a window looks poisoned", window=final.window, poisoning=dict(final.poisoning)
            )
        if final.window > self._newest_final:
            self._newest_final = final.window
            self._metrics.set(m.FINAL_REPORTS, final.reports)
            self._metrics.set(m.SUSPECTED, suspicious)

    def _show_shares(self, total: Manifest) -> None:
        if total.window <= self._shares_through or not total.reports:
            return
        self._shares_through = total.window
        for number, (group, reports) in enumerate(
            zip(self._plan.groups, total.groups, strict=True)
        ):
            share, planned = reports / total.reports, group.share / self._plan.total_share
            # Standard deviation of the share if devices draw their groups at random. With one group
            # it is 0, and the difference is 0 too.
            spread = math.sqrt(planned * (1 - planned) / total.reports) or 1.0
            self._metrics.set(m.SHARE_DEVIATION, (share - planned) / spread, group=str(number))
