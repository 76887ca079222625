"""Admission: from a record to an accepted batch or a rejection, by plan, bytes and log alone.

The decisions on one partition form one sequence: each depends on the clock and on the ids of the
batches accepted before. :class:`AdmissionControl` is that sequence. Live counting and the reading
back of ids after a restart use the same class, so that they cannot differ.
"""

from __future__ import annotations

from broker.transport import Record
from consumer.tally.folding.windows import NEVER, check_period, closed_through, closes_after
from estimators.errors import FatalError, Reason, Rejection
from estimators.plan import Plan
from estimators.wire.batch import TICK, Batch, decode_batch

MAX_AHEAD_MS = 3_600_000


def check_append_time(record: Record, now_ms: int) -> None:
    """Check that the record's time may advance the log's clock. Called before it is folded.

    Args:
        record: as read.
        now_ms: the worker's own wall clock.

    Raises:
        FatalError: the sender set the time, or it is more than an hour ahead of the worker's.
    """
    if not record.append_time:
        raise FatalError(
            f"{record.partition} offset {record.offset}: the sender set the time; set "
            "message.timestamp.type=LogAppendTime on the topic and count into a new namespace"
        )
    if record.timestamp > now_ms + MAX_AHEAD_MS:
        raise FatalError(
            f"{record.partition} offset {record.offset}: appended at {record.timestamp} ms, over "
            f"an hour ahead of this machine ({now_ms} ms); set the clock that is wrong, here or "
            "at the broker, before any worker counts this record"
        )


class AcceptedBatches:
    """Ids of the accepted batches of open windows, and the place of each window's first one.

    Memory: one 16-byte id per accepted batch of a window still open.
    """

    def __init__(self) -> None:
        self._ids: dict[int, set[bytes]] = {}
        self._first: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ids.values()))

    def seen(self, period: int, batch_id: bytes) -> bool:
        """Return whether a batch with this id was accepted into this window."""
        return batch_id in self._ids.get(period, ())

    def add(self, period: int, batch_id: bytes, offset: int, clock_before: int) -> None:
        """Note an accepted batch; ``clock_before`` is the clock before its record advanced it."""
        if period not in self._ids:
            self._ids[period] = set()
            self._first[period] = (offset, clock_before)
        self._ids[period].add(batch_id)

    def forget(self, period: int) -> None:
        """Forget the ids of a closed window: a resend is late from now on."""
        self._ids.pop(period, None)
        self._first.pop(period, None)

    def accepted(self, period: int) -> int:
        """Return how many batches were accepted into this window."""
        return len(self._ids.get(period, ()))

    def resume_point(self) -> tuple[int, int] | None:
        """Return (offset, clock before it) of the first accepted batch of an open window."""
        return min(self._first.values(), default=None)

    def snapshot(self) -> dict[int, frozenset[bytes]]:
        """Return a copy of the ids per window, for comparisons."""
        return {period: frozenset(ids) for period, ids in self._ids.items()}


class AdmissionControl:
    """The sequence of decisions on one input partition.

    Args:
        plan: the plan.
        group: group whose topic it is.
        clock: the log's clock before the first record that is decided here.

    Attributes:
        clock: the log's clock, milliseconds.
        closed_through: last closed window, -1 for none.
        batches: the accepted batches of open windows.
    """

    def __init__(self, plan: Plan, group: int, clock: int = 0) -> None:
        self.clock = clock
        self.closed_through = closed_through(plan, clock)
        self.batches = AcceptedBatches()
        self._plan = plan
        self._group = group
        self._before = clock
        self._closes_after = closes_after(plan, self.closed_through + 1)

    def advance(self, timestamp: int) -> range:
        """Advance the clock to a record's time, and return the windows that this closes.

        Called first for every record, a rejected one and a tick too.
        """
        self._before = self.clock
        self.clock = max(self.clock, timestamp)
        first = self.closed_through + 1
        if self.clock <= self._closes_after:
            return range(first, first)
        self.closed_through = closed_through(self._plan, self.clock)
        self._closes_after = closes_after(self._plan, self.closed_through + 1)
        for window in range(first, self.closed_through + 1):
            self.batches.forget(window)
        return range(first, self.closed_through + 1)

    def admit(self, record: Record) -> Batch | None:
        """Return the accepted batch of a record that has advanced the clock; None for a tick.

        Raises:
            Rejection: the record is not counted, and its id is not kept.
        """
        if record.damage is not None:
            raise Rejection(
                Reason.UNDECODABLE,
                f"{record.damage.records} records from offset {record.damage.first_offset} cannot "
                f"be decoded: {record.damage.why}",
            )
        key, value = record.key, record.value
        if key is None and value == TICK:
            return None
        batch = decode_batch(self._plan, self._group, key, value)
        assert key is not None, "a decoded batch has an id"
        check_period(self._plan, batch.period, self.clock, self.closed_through)
        if self.batches.seen(batch.period, key):
            raise Rejection(Reason.DUPLICATE, "this batch id was accepted before in this window")
        self._check_limits(batch)
        self.batches.add(batch.period, key, record.offset, self._before)
        return batch

    def _check_limits(self, batch: Batch) -> None:
        """Check the plan's limits, last: a resend of an accepted batch stays a duplicate.

        Raises:
            Rejection: over_limit; the batch's id is not kept.
        """
        limits = self._plan.limits
        if limits is None:
            return
        if batch.n > limits.batch_reports:
            raise Rejection(
                Reason.OVER_LIMIT,
                f"{batch.n} reports; the plan allows {limits.batch_reports} in a batch",
            )
        if self.batches.accepted(batch.period) >= limits.batches:
            raise Rejection(
                Reason.OVER_LIMIT,
                f"the partition has accepted {limits.batches} batches of this window, the most "
                "that the plan allows",
            )

    def replay(self, record: Record) -> Batch | None:
        """Decide again on a record that was folded before, for its id alone.

        Used to find the ids of accepted batches of open windows again. Read from ``resume_from``
        with ``resume_clock``, every decision on those windows is the same as before.

        Returns:
            The accepted batch; None for a tick or a rejected record.
        """
        self.advance(record.timestamp)
        try:
            return self.admit(record)
        except Rejection:
            return None

    @property
    def next_close(self) -> int | None:
        """Clock above which window ``closed_through + 1`` closes; None after the last window."""
        return None if self._closes_after == NEVER else self._closes_after
