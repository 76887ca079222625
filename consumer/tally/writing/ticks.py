"""Writes ticks: records without reports that advance the clock of an idle log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from calmstream.broker.transport import Delivery, Partition, Sink
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics.tally import TICKS
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.wire.batch import TICK

_EVERY_SECONDS = 1.0
"""Minimum time between two ticks of a partition."""


class Ticker:
    """Appends ticks to partitions that were read to their end and whose next window should close.

    Only the broker's append time of a tick counts, so one too early or too many changes no counts.
    """

    def __init__(self, context: TallyContext, sink: Sink, guard: Callable[[], None]) -> None:
        self._sink = sink
        self._clock = context.clock
        self._metrics = context.metrics
        self._guard = guard  # raises when another worker may own the partitions
        self._stall_seconds = context.config.stall_seconds
        self._last: dict[Partition, float] = {}
        self._sent: dict[Partition, tuple[float, Delivery]] = {}
        # Since when ticks fail.
        self._failing: dict[Partition, float] = {}

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget lost partitions, but not the times of their last ticks: they may come back."""
        for partition in partitions:
            self._sent.pop(partition, None)
            self._failing.pop(partition, None)

    def turn(
        self, folds: Mapping[Partition, PartitionFold], at_end: Callable[[Partition], bool]
    ) -> None:
        """Append the ticks that are due. May block for the sink's buffer."""
        wall, now = self._clock.now_ms(), self._clock.monotonic()
        self._process_results(now)
        overdue = {p for p, fold in folds.items() if wall > fold.admission.next_close}
        for partition in self._failing.keys() - overdue:
            del self._failing[partition]  # the window is closed, so the failed tick is not needed
        due = [
            partition
            for partition in folds
            if partition in overdue
            and partition not in self._sent
            and now - self._last.get(partition, now - _EVERY_SECONDS) >= _EVERY_SECONDS
            and at_end(partition)
        ]
        for partition in due:
            self._append(partition, now)
        self._metrics.inc(TICKS, len(due))

    def _append(self, partition: Partition, now: float) -> None:
        self._guard()
        self._last[partition] = now
        try:
            delivery = self._sink.send(partition.topic, None, TICK, partition=partition.number)
        except RecoverableError as error:
            self._failed(partition, now, error)
        else:
            self._sent[partition] = (now, delivery)

    def _process_results(self, now: float) -> None:
        for partition, (sent, delivery) in list(self._sent.items()):
            if delivery.done():
                del self._sent[partition]
                try:
                    delivery.wait(0)
                except RecoverableError as error:
                    self._failed(partition, sent, error)
                else:
                    self._failing.pop(partition, None)
            elif now - sent > self._stall_seconds:
                raise FatalError(
                    f"{partition}: a tick was not acknowledged for {self._stall_seconds:g} s"
                )

    def _failed(self, partition: Partition, since: float, error: RecoverableError) -> None:
        began = self._failing.setdefault(partition, since)
        if self._clock.monotonic() - began >= self._stall_seconds:
            raise FatalError(
                f"{partition}: ticks fail for {self._stall_seconds:g} s: {error}"
            ) from error
