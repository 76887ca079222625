"""The spool of one plan: accepts reports, seals batches, and forgets windows that are over."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from calmstream.common.errors import FatalError, Reason, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, SystemRandomness
from calmstream.producer.gateway.durable.entries import RowCodec, SpoolEntry
from calmstream.producer.gateway.durable.files import Files
from calmstream.producer.gateway.durable.frames import FrameFile
from calmstream.producer.gateway.durable.period_log import Numbered, PeriodLog, SealedBatch
from calmstream.producer.gateway.encoding import EncodedBatch, most_reports
from calmstream.producer.gateway.open_batches import (
    Moment,
    OpenBatches,
    ReadyReports,
    Selection,
    check_least,
    waits_until,
)
from calmstream.producer.gateway.rows import batches_of_rows, in_parts
from calmstream.producer.gateway.totals import Failure, GatewayTotals, Observer

KEY_HEADER = "app-key"
"""Kafka header with the decimal number of the application key that a batch came with."""

_NAME = re.compile(r"(\d{1,20})\.spool")


class SpoolOutcome(StrEnum):
    """What became of a report beside the reasons of `Reason`."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    BAD_REPORT_ID = "bad_report_id"
    QUOTA = "quota"
    UNAVAILABLE = "unavailable"


Result = SpoolOutcome | Reason


@dataclass(frozen=True, slots=True)
class Batching:
    """How reports are merged.

    Attributes:
        size: reports in a full batch.
        linger: seconds that a batch that may leave waits for more.
        min_batch: least reports of one group, window and application key that leave together.
        drops_small: whether fewer are given up when the window closes.
        names_keys: whether a batch says in a Kafka header which application key it came with.
    """

    size: int = 1000
    linger: float = 1.0
    min_batch: int = 50
    drops_small: bool = False
    names_keys: bool = False


def closes_at(plan: Plan, period: int) -> int:
    """When the gateway takes no more reports of a window, milliseconds since the epoch.

    It is the moment at which the last reports of the window leave: a later one would stand alone.
    """
    return waits_until(plan, period)


def over_at(plan: Plan, period: int) -> int:
    """When a batch of the window is given up, milliseconds since the epoch.

    The skew is added because the log's clock may be behind the gateway's by as much.
    """
    return plan.window_end(period) + 1000 * (plan.grace + plan.skew)


class PlanSpool:
    """All that a gateway holds of one plan. Not safe for use from several threads."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        files: Files,
        batching: Batching | None = None,
        *,
        observer: Observer | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.plan = plan
        self._observer = observer or GatewayTotals()
        self._batching = batching or Batching()
        check_least(plan, self._batching.size, self._batching.min_batch)
        self._directory = directory
        self._files = files
        self._randomness = randomness or SystemRandomness()
        self._codec = RowCodec(plan)
        self._sizes = [
            min(self._batching.size, most_reports(plan, g)) for g in range(len(plan.groups))
        ]
        self._logs: dict[int, PeriodLog] = {}
        self._open: dict[int, OpenBatches[Numbered]] = {}
        self._ready: deque[tuple[int, ReadyReports[Numbered]]] = deque()  # With their keys

    @property
    def size(self) -> int:
        """Length of all files."""
        return sum(log.size for log in self._logs.values())

    @property
    def waiting(self) -> int:
        """Reports that were accepted and are not settled. O(batches that are not settled)."""
        waiting = sum(batches.waiting for batches in self._open.values())
        waiting += sum(len(ready.rows) for _, ready in self._ready)
        return waiting + sum(b.n for log in self._logs.values() for b in log.unsettled.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the plan is kept."""
        return not self._logs

    def recover(self, now: Moment) -> list[SealedBatch]:
        """Read what an earlier process left; return the batches that are not settled."""
        self._files.make_directory(self._directory)
        for name in self._files.names(self._directory):
            if (match := _NAME.fullmatch(name)) is not None:
                self._recover(int(match[1]), now)
        return [batch for log in self._logs.values() for batch in log.unsettled.values()]

    def accept(
        self, entries: Sequence[SpoolEntry], now: Moment, quotas: Sequence[int | None]
    ) -> list[Result]:
        """Take reports; what is accepted is durable on return."""
        results: list[Result] = []
        new: dict[int, dict[bytes, int]] = {}
        used: Counter[tuple[int, int]] = Counter()
        for i, (entry, quota) in enumerate(zip(entries, quotas, strict=True)):
            result = self._check(entry, now, new.get(entry.period, {}))
            place = entry.period, entry.key
            if result is SpoolOutcome.ACCEPTED:
                if quota is not None and self._used(entry) + used[place] >= quota:
                    result = SpoolOutcome.QUOTA
                else:
                    used[place] += 1
                    new.setdefault(entry.period, {})[entry.report_id] = i
            results.append(result)
        for period, added in new.items():
            if added and not self._add(period, [entries[i] for i in added.values()], now):
                for i, entry in enumerate(entries):
                    if entry.period == period and results[i] in (
                        SpoolOutcome.ACCEPTED,
                        SpoolOutcome.DUPLICATE,
                    ):
                        results[i] = self._without(entry)
        return results

    def leaving(self, now: Moment, selection: Selection = Selection.DUE) -> Iterator[SealedBatch]:
        """Seal what leaves; every batch is durable when it is yielded."""
        for key, batches in self._open.items():
            self._ready.extend((key, ready) for ready in batches.take(selection, now))
        while self._ready:
            key, ready = self._ready[0]
            log = self._logs[ready.period]
            found = self._seal(key, ready, log)
            self._ready.popleft()
            yield from found

    def next_due(self, now: Moment) -> float | None:
        """Seconds until something leaves; None where nothing waits."""
        if self._ready:
            return 0.0
        waits = (batches.next_due(now) for batches in self._open.values())
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def settle(self, batch: SealedBatch, *, acknowledged: bool) -> None:
        """Note what became of a batch."""
        log = self._logs.get(batch.period)
        if log is not None:
            log.settle(batch.batch_id, acknowledged=acknowledged)

    def write_outcomes(self) -> None:
        """Make what was noted durable."""
        for log in self._logs.values():
            log.write_outcomes()

    def over(self, now: Moment) -> list[int]:
        """Return the windows that can be forgotten: over, and every batch settled."""
        return [
            period
            for period, log in self._logs.items()
            if now.wall >= over_at(self.plan, period)
            and not log.unsettled
            and not any(batches.waits(period) for batches in self._open.values())
        ]

    def forget(self, period: int) -> None:
        """Delete a window; the clock's mark must be durable beyond its end."""
        self._logs[period].remove()
        del self._logs[period]
        left = [(key, ready) for key, ready in self._ready if ready.period != period]
        for _, ready in self._ready:
            if ready.period == period:  # the disk refused them until now
                self._observer.failed(len(ready.rows), Failure.EXPIRED)
        self._ready = deque(left)

    def body(self, batch: SealedBatch) -> EncodedBatch:
        """Return a batch with its bytes; safe from any thread."""
        log = self._logs.get(batch.period)
        if log is None:
            raise RecoverableError("the window is over")
        named = self._batching.names_keys and batch.key
        headers = ((KEY_HEADER, str(batch.key).encode()),) if named else ()
        return EncodedBatch(batch.group, batch.n, batch.batch_id, log.body(batch), headers)

    def close(self) -> None:
        """Close all files."""
        for log in self._logs.values():
            log.close()

    def _recover(self, period: int, now: Moment) -> None:
        if period >= self.plan.windows:
            raise FatalError(f"{self._path(period)}: the plan has {self.plan.windows} windows")
        log = self._logs[period] = self._log(period)
        for key, group, report in log.recover():
            full = self._batches_of(key).add(group, period, report, lambda: now)
            if full is not None:
                self._ready.append((key, full))

    def _check(self, entry: SpoolEntry, now: Moment, new: dict[bytes, int]) -> Result:
        log = self._logs.get(entry.period)
        if entry.report_id in new or (log is not None and log.knows(entry.report_id)):
            return SpoolOutcome.DUPLICATE
        if now.wall >= closes_at(self.plan, entry.period):
            return Reason.LATE
        if now.wall < self.plan.window_start(entry.period) - 1000 * self.plan.skew:
            return Reason.EARLY
        return SpoolOutcome.ACCEPTED

    def _used(self, entry: SpoolEntry) -> int:
        log = self._logs.get(entry.period)
        return 0 if log is None else log.accepted(entry.key)

    def _add(self, period: int, accepted: Sequence[SpoolEntry], now: Moment) -> bool:
        """Write reports of one window; False where the disk refuses."""
        if period not in self._logs:
            self._logs[period] = self._log(period)
        try:
            numbered = self._logs[period].add(accepted)
        except RecoverableError:
            return False
        for entry, report in zip(accepted, numbered, strict=True):
            full = self._batches_of(entry.key).add(entry.group, period, report, lambda: now)
            if full is not None:
                self._ready.append((entry.key, full))
        return True

    def _without(self, entry: SpoolEntry) -> Result:
        """Return the result of a report whose frame could not be written."""
        log = self._logs.get(entry.period)
        known = log is not None and log.knows(entry.report_id)
        return SpoolOutcome.DUPLICATE if known else SpoolOutcome.UNAVAILABLE

    def _seal(self, key: int, ready: ReadyReports[Numbered], log: PeriodLog) -> list[SealedBatch]:
        group, n = ready.group, len(ready.rows)
        numbers = [one.number for one in ready.rows]
        if ready.small and self._batching.drops_small:
            log.seal(numbers, key, [])
            self._observer.failed(n, Failure.SMALL)
            return []
        lost: list[int] = []
        batches = [
            batch
            for part in in_parts([one.row for one in ready.rows], self._sizes[group])
            for batch in batches_of_rows(self.plan, group, ready.period, part, lost.append)
        ]
        found = log.seal(numbers, key, batches)
        if lost:
            self._observer.failed(sum(lost), Failure.UNENCODABLE)
        if ready.small:
            self._observer.small(n)
        return found

    def _batches_of(self, key: int) -> OpenBatches[Numbered]:
        if key not in self._open:
            self._open[key] = OpenBatches(
                self.plan,
                self._sizes,
                min_batch=self._batching.min_batch,
                linger=self._batching.linger,
                randomness=self._randomness,
            )
        return self._open[key]

    def _log(self, period: int) -> PeriodLog:
        file = FrameFile(self._files, self._path(period))
        return PeriodLog(self.plan, self._codec, period, file)

    def _path(self, period: int) -> Path:
        return self._directory / f"{period}.spool"
