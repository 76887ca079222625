"""The spool of one plan: accepts reports, seals batches, and forgets windows that are over."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import structlog

from calmstream.common.errors import FatalError, Reason, RecoverableError
from calmstream.common.http.server import defect
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.producer.gateway.durable.entries import RowCodec, SpoolEntry
from calmstream.producer.gateway.durable.files import Files
from calmstream.producer.gateway.durable.frames import FrameFile
from calmstream.producer.gateway.durable.period_log import PeriodLog
from calmstream.producer.gateway.encoding import EncodedBatch, Row, batch_of_rows, most_reports
from calmstream.producer.gateway.metrics import Failure, GatewayTotals
from calmstream.producer.gateway.open_batches import (
    Moment,
    OpenBatch,
    OpenBatches,
    check_least,
    waits_until,
)
from calmstream.producer.gateway.settings import GatewaySettings

_LOG = structlog.get_logger("calmstream.gateway")

_NAME = re.compile(r"(\d{1,20})\.spool")


class SpoolOutcome(StrEnum):
    """What became of a report beside the reasons of `Reason`."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    BAD_REPORT_ID = "bad_report_id"
    QUOTA = "quota"
    UNAVAILABLE = "unavailable"


Result = SpoolOutcome | Reason

_TAKEN = (SpoolOutcome.ACCEPTED, SpoolOutcome.DUPLICATE)


def over_at(plan: Plan, period: int) -> int:
    """When a batch of the window is given up, in ms: the log's clock may be behind by the skew."""
    return plan.window_end(period) + 1000 * (plan.grace + plan.skew)


class PlanSpool:
    """All that a gateway holds of one plan: its windows' ``logs``, and the reports that wait."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        files: Files,
        settings: GatewaySettings,
        totals: GatewayTotals,
    ) -> None:
        self.plan = plan
        self.totals = totals
        check_least(plan, settings.batch_size, settings.min_batch)
        self._directory = directory
        self._files = files
        self._codec = RowCodec(plan)
        size = settings.batch_size
        self._sizes = [min(size, most_reports(plan, g)) for g in range(len(plan.groups))]
        self.logs: dict[int, PeriodLog] = {}
        self._open = OpenBatches(
            plan,
            self._sizes,
            min_batch=settings.min_batch,
            linger=settings.linger,
            randomness=SystemRandomness(),
        )
        self._ready: deque[OpenBatch] = deque()

    @property
    def waiting(self) -> int:
        """Reports that were accepted and are not settled."""
        waiting = self._open.waiting + sum(len(ready.rows) for ready in self._ready)
        return waiting + sum(b.n for log in self.logs.values() for b in log.unsettled.values())

    def recover(self, now: Moment) -> list[EncodedBatch]:
        self._files.make_directory(self._directory)
        for name in self._files.names(self._directory):
            if (match := _NAME.fullmatch(name)) is not None:
                self._recover(int(match[1]), now)
        return [batch for log in self.logs.values() for batch in log.unsettled.values()]

    def accept(
        self, entries: Sequence[SpoolEntry], now: Moment, quotas: Sequence[int | None]
    ) -> list[Result]:
        """Take reports; what is accepted is durable on return."""
        results: list[Result] = []
        new: dict[int, dict[bytes, SpoolEntry]] = {}  # what is accepted, by window and report
        used: Counter[tuple[int, int]] = Counter()
        for entry, quota in zip(entries, quotas, strict=True):
            added, place = new.setdefault(entry.period, {}), (entry.period, entry.key)
            result = self._check(entry, now, added)
            if result is SpoolOutcome.ACCEPTED:
                if quota is not None and self._held(*place) + used[place] >= quota:
                    result = SpoolOutcome.QUOTA
                else:
                    used[place] += 1
                    added[entry.report_id] = entry
            results.append(result)
        refused = {
            period
            for period, added in new.items()
            if added and not self._add(period, list(added.values()), now)
        }
        return [
            self._without(entry) if entry.period in refused and result in _TAKEN else result
            for entry, result in zip(entries, results, strict=True)
        ]

    def leaving(self, now: Moment) -> Iterator[EncodedBatch]:
        """Seal what leaves; every batch is durable when it is yielded."""
        self._ready.extend(self._open.take(now))
        while self._ready:
            found = self._seal(self._ready[0])
            self._ready.popleft()
            yield from found

    def next_due(self, now: Moment) -> float | None:
        return 0.0 if self._ready else self._open.next_due(now)

    def over(self, now: Moment) -> list[int]:
        """Return the windows that can be forgotten: over, and every batch settled."""
        return [
            period
            for period, log in self.logs.items()
            if now.wall >= over_at(self.plan, period)
            and not log.unsettled
            and not self._open.waits(period)
        ]

    def forget(self, period: int) -> None:
        """Delete a window; the clock's mark must be durable beyond its end."""
        self.logs[period].file.remove()  # where the disk refuses, a later call tries again
        del self.logs[period]
        for ready in self._ready:
            if ready.period == period:  # the disk refused them until now
                self.totals.failed(len(ready.rows), Failure.EXPIRED)
        self._ready = deque(ready for ready in self._ready if ready.period != period)

    def body(self, batch: EncodedBatch) -> EncodedBatch:
        """Return a batch with its bytes; safe from any thread."""
        log = self.logs.get(batch.period)
        if log is None:
            raise RecoverableError("the window is over")
        return replace(batch, value=log.body(batch))

    def _recover(self, period: int, now: Moment) -> None:
        if period >= self.plan.windows:
            raise FatalError(f"{self._path(period)}: the plan has {self.plan.windows} windows")
        log = self.logs[period] = self._log(period)
        for number, entry in log.recover():
            self._wait(number, entry, now)

    def _held(self, period: int, key: int) -> int:
        log = self.logs.get(period)
        return 0 if log is None else log.by_key[key]

    def _check(self, entry: SpoolEntry, now: Moment, new: dict[bytes, SpoolEntry]) -> Result:
        log = self.logs.get(entry.period)
        if entry.report_id in new or (log is not None and entry.report_id in log.ids):
            return SpoolOutcome.DUPLICATE
        # The last reports of a window leave then: a later one would stand alone.
        if now.wall >= waits_until(self.plan, entry.period):
            return Reason.LATE
        if now.wall < self.plan.window_start(entry.period) - 1000 * self.plan.skew:
            return Reason.EARLY
        return SpoolOutcome.ACCEPTED

    def _add(self, period: int, accepted: Sequence[SpoolEntry], now: Moment) -> bool:
        if period not in self.logs:
            self.logs[period] = self._log(period)
        try:
            first = self.logs[period].add(accepted)
        except RecoverableError:
            return False
        for number, entry in enumerate(accepted, first):
            self._wait(number, entry, now)
        return True

    def _wait(self, number: int, entry: SpoolEntry, now: Moment) -> None:
        row = number, entry.row
        full = self._open.add(entry.group, entry.period, row, now, key=entry.key)
        if full is not None:
            self._ready.append(full)

    def _without(self, entry: SpoolEntry) -> Result:
        log = self.logs.get(entry.period)
        known = log is not None and entry.report_id in log.ids
        return SpoolOutcome.DUPLICATE if known else SpoolOutcome.UNAVAILABLE

    def _seal(self, ready: OpenBatch) -> list[EncodedBatch]:
        batches = self._encoded(ready)
        found = self.logs[ready.period].seal([number for number, _ in ready.rows], batches)
        if ready.small:
            self.totals.small(len(ready.rows))
        return found

    def _encoded(self, ready: OpenBatch) -> list[EncodedBatch]:
        """Return reports as batches; one that cannot be encoded is lost, and no other."""
        rows = [row for _, row in ready.rows]
        try:
            return self._batches(ready, rows)
        except Exception as error:  # noqa: BLE001 - a defect: these reports pay, and no other plan
            kept = [row for row in rows if self._encodes(ready, row)]
            self.totals.failed(len(rows) - len(kept), Failure.DEFECT)
            lost = {"plan": self.plan.digest[:8], "reports": len(rows) - len(kept)}
            _LOG.error("reports lost: they cannot be encoded", **lost, **defect(error))
            return self._batches(ready, kept)

    def _batches(self, ready: OpenBatch, rows: Sequence[Row]) -> list[EncodedBatch]:
        n = len(rows)
        parts = -(-n // self._sizes[ready.group])  # of nearly equal size
        return [
            batch_of_rows(
                self.plan, ready.group, ready.period, rows[n * i // parts : n * (i + 1) // parts]
            )
            for i in range(parts)
        ]

    def _encodes(self, ready: OpenBatch, row: Row) -> bool:
        try:
            return bool(self._batches(ready, [row]))
        except Exception:  # noqa: BLE001 - see above
            return False

    def _log(self, period: int) -> PeriodLog:
        file = FrameFile(self._files, self._path(period))
        return PeriodLog(self._codec, period, file)

    def _path(self, period: int) -> Path:
        return self._directory / f"{period}.spool"
