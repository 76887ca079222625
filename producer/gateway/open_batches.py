"""Reports that wait until ``min_batch`` of a group and window can leave together.

The append time of a batch of one would show when its device reported. Which reports stay behind
for those that still come is random: the time of arrival does not show a report's batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calmstream.common.errors import InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness
from calmstream.producer.gateway.encoding import Row, permutation

SHORT_GRACE = 20  # seconds; a quarter of less is too little for reports of the window's end
DELIVERY_MS = 2000  # before the end of a short grace: one send and its first resends


@dataclass(frozen=True, slots=True)
class Moment:
    """One time on two clocks: seconds, to linger, and milliseconds since the epoch, for windows."""

    monotonic: float
    wall: int


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """Reports of one application key, group and window that wait for others, or leave together.

    Those that leave are in random order, and ``small`` where they are fewer than ``min_batch``.
    """

    key: int
    group: int
    period: int
    opened: Moment
    rows: list[tuple[int, Row]]  # with their numbers in the window's file
    small: bool = False


def waits_until(plan: Plan, period: int) -> int:
    """When small sets of a window leave at the latest, milliseconds since the epoch.

    With a grace of 20 s or more, a quarter of it after the window's end: three quarters remain for
    the delivery. Else 2 s, or a quarter of window and grace, before the end of the grace.
    """
    end, grace = plan.window_end(period), 1000 * plan.grace
    if plan.grace >= SHORT_GRACE:
        return end + grace // 4
    return end + grace - min(DELIVERY_MS, (1000 * plan.window + grace) // 4)


class OpenBatches:
    """The open batches of one plan, for one thread.

    Memory: ``most`` + ``min_batch`` rows for every application key, group and open window.
    """

    def __init__(
        self,
        plan: Plan,
        most: Sequence[int],  # reports of a full batch, by group
        *,
        min_batch: int,
        linger: float,  # seconds for which a batch that could leave waits for more
        randomness: Randomness,
    ) -> None:
        self._plan = plan
        self._least = min_batch
        self._kept = min_batch if min_batch > 1 else 0
        self._most = [max(own, min_batch) for own in most]
        self._linger = linger
        self._randomness = randomness
        self._open: dict[tuple[int, int, int], OpenBatch] = {}

    @property
    def waiting(self) -> int:
        return sum(len(batch.rows) for batch in self._open.values())

    def waits(self, period: int) -> bool:
        return any(batch.period == period for batch in self._open.values())

    def add(
        self, group: int, period: int, row: tuple[int, Row], now: Moment, *, key: int = 0
    ) -> OpenBatch | None:
        """Add a report; returns what leaves because its batch is full."""
        batch = self._open.get((key, group, period))
        if batch is None:
            batch = self._open[key, group, period] = OpenBatch(key, group, period, now, [])
        batch.rows.append(row)
        if len(batch.rows) < self._most[group] + self._kept:
            return None
        return self._leave(batch, now)

    def take(self, now: Moment) -> list[OpenBatch]:
        due = [batch for batch in self._open.values() if self._seconds(batch, now) <= 0]
        return [self._leave(batch, now) for batch in due]

    def next_due(self, now: Moment) -> float | None:
        return min((self._seconds(batch, now) for batch in self._open.values()), default=None)

    def _seconds(self, batch: OpenBatch, now: Moment) -> float:
        """Until the batch, or all of it but what it keeps, is due; not above 0 if it is due now."""
        lingers = batch.opened.monotonic + self._linger - now.monotonic
        until = waits_until(self._plan, batch.period)
        if self._is_open(batch, now):
            ends = (until - now.wall) / 1000
            return min(lingers, ends) if len(batch.rows) >= self._least + self._kept else ends
        # Late reports still share a batch for the linger; one from before the end waits no more.
        waited = self._is_open(batch, batch.opened) and now.wall >= until
        return min(lingers, 0.0) if waited else lingers

    def _is_open(self, batch: OpenBatch, now: Moment) -> bool:
        """Whether more reports of its window are expected; otherwise waiting brings nothing."""
        first = self._plan.window_start(batch.period) - 1000 * self._plan.skew
        return first <= now.wall < waits_until(self._plan, batch.period)

    def _leave(self, batch: OpenBatch, now: Moment) -> OpenBatch:
        # Where no more reports are expected, nothing is kept for them.
        reports = len(batch.rows) - (self._kept if self._is_open(batch, now) else 0)
        order = permutation(len(batch.rows), self._randomness).tolist()
        rows = [batch.rows[i] for i in order[:reports]]
        kept = [batch.rows[i] for i in order[reports:]]
        place = batch.key, batch.group, batch.period
        if kept:
            self._open[place] = replace(batch, opened=now, rows=kept)
        else:
            del self._open[place]
        return replace(batch, rows=rows, small=len(rows) < self._least)


def check_least(plan: Plan, size: int, min_batch: int) -> None:
    """Check that at least ``min_batch`` reports can always leave in parts of at least as many."""
    limit = f"the limits.batch_reports of plan {plan.name}"
    for most, what in ((size, "the batch size"), (plan.limits.batch_reports, limit)):
        if min_batch > 1 and 2 * min_batch > most:
            raise InvalidInput(
                f"min_batch: expected at most {max(most // 2, 1)}, half of {what}, got {min_batch}"
            )
