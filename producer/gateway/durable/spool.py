"""The spools of all plans of one gateway, in one directory that one process uses.

``<directory>/clock.json`` is the latest time seen, ``reserve`` is room that is freed when the disk
is full, so that what was accepted can still be sealed and sent. ``<plan digest>/plan.json`` is the
plan, so that its reports can be sent also when it is no longer offered, and
``<plan digest>/<window>.spool`` a file per window.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson

from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError, Reason, RecoverableError
from calmstream.common.files import exclusive, real_path
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.files import Files
from calmstream.producer.gateway.durable.period_log import PeriodLog
from calmstream.producer.gateway.durable.plan_spool import (
    PlanSpool,
    Result,
    SpoolOutcome,
    over_at,
)
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.metrics import GatewayTotals
from calmstream.producer.gateway.open_batches import Moment
from calmstream.producer.gateway.settings import GatewaySettings

RESERVE_BYTES = 16 << 20
MARK_SECONDS = 60.0
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RESERVE = "reserve"
_PROBE = "probe"
PROBE_BYTES = 1 << 20  # a disk that refused reports has room again when it takes so many
_PLAN = "plan.json"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive(real_path(directory / "spool"), wait=False))
        except RecoverableError as error:
            raise FatalError(
                f"{error}: every gateway needs a spool of its own, because two of them would send "
                "the same reports"
            ) from None
        yield


class Spool:
    """The spools of all plans, by digest, of a caller that holds :func:`locked`. For one thread."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        settings: GatewaySettings,
        *,
        files: Files | None = None,
        totals: Callable[[Plan], GatewayTotals] = lambda _: GatewayTotals(),
    ) -> None:
        self._directory = directory
        self._files = files or Files()
        self._clock = clock
        self._settings = settings
        self._totals = totals
        self.plans: dict[str, PlanSpool] = {}
        self._has_reserve = False
        self._refused = False
        self._kept = self._tried = -MARK_SECONDS
        try:
            self._files.make_directory(directory)
        except OSError as error:
            raise FatalError(f"cannot make the spool {directory}: {error.strerror}") from error
        self.mark = ClockMark(self._files, directory, clock)

    @property
    def size(self) -> int:
        return sum(log.size for log in self._logs())

    @property
    def has_room(self) -> bool:
        """Whether reports are taken: the reserve is there, and the last ones were written."""
        return self._has_reserve and not self._refused

    def now(self) -> Moment:
        return Moment(self._clock.monotonic(), self.mark.present())

    def recover(self) -> list[EncodedBatch]:
        """Read what an earlier process left; return the batches that are not settled."""
        found = []
        for name in self._files.names(self._directory):
            if _DIGEST.fullmatch(name):
                raw = self._files.read(self._directory / name / _PLAN)
                if raw is None:
                    continue  # a crash came before the plan was written, hence before any report
                try:
                    found += self._open(self._kept_plan(name, raw))
                except (OSError, RecoverableError) as error:
                    path = self._directory / name
                    raise FatalError(f"cannot read the spool {path}: {error}") from error
        self._make_reserve()
        return found

    def _kept_plan(self, digest: str, raw: bytes) -> Plan:
        try:
            plan = read_plan(raw)
        except CalmstreamError:
            plan = None
        if plan is None or plan.digest != digest:
            raise FatalError(
                f"{self._directory / digest / _PLAN} is not the plan of its directory: "
                "the disk has changed it; restore the file"
            )
        return plan

    def _open(self, plan: Plan) -> list[EncodedBatch]:
        """Make or read the spool of a plan; return its batches that are not settled."""
        directory = self._directory / plan.digest
        spool = PlanSpool(plan, directory, self._files, self._settings, self._totals(plan))
        unsettled = spool.recover(self.now())
        if self._files.read(directory / _PLAN) is None:
            self._files.write(directory / _PLAN, plan.to_bytes())
        self.plans[plan.digest] = spool
        return unsettled

    def accept(
        self, plan: Plan, entries: Sequence[SpoolEntry], quotas: Sequence[int | None]
    ) -> list[Result]:
        """Take reports; see :meth:`PlanSpool.accept`. The first ones make their plan's spool."""
        now = self.now()
        if plan.digest not in self.plans and now.wall >= _over_at(plan):
            return [Reason.AFTER_END] * len(entries)  # its spool was forgotten
        if not self._has_reserve and not self._make_reserve():
            return [SpoolOutcome.UNAVAILABLE] * len(entries)
        try:
            if plan.digest not in self.plans:
                self._open(plan)
            results = self.plans[plan.digest].accept(entries, now, quotas)
        except (OSError, CalmstreamError):
            results = [SpoolOutcome.UNAVAILABLE] * len(entries)
        self._refused = SpoolOutcome.UNAVAILABLE in results
        return results

    def leaving(self) -> Iterator[EncodedBatch]:
        """Seal what leaves; every batch is durable when it is yielded. Never raises."""
        for spool in self.plans.values():
            try:
                yield from spool.leaving(self.now())
            except RecoverableError:
                if self._free_reserve():
                    with contextlib.suppress(RecoverableError):
                        yield from spool.leaving(self.now())

    def next_due(self) -> float | None:
        waits = (spool.next_due(self.now()) for spool in self.plans.values())
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def settle(self, batch: EncodedBatch, *, acknowledged: bool) -> None:
        spool = self.plans.get(batch.plan.digest)
        if spool is not None and batch.period in spool.logs:
            spool.logs[batch.period].settle(batch.batch_id, acknowledged=acknowledged)

    def tidy(self) -> None:
        """Write outcomes and forget windows that are over; what the disk refuses, later."""
        with contextlib.suppress(RecoverableError, OSError):
            for log in self._logs():
                log.write_outcomes()
            now = self.now()
            over = [(s, period) for s in self.plans.values() for period in s.over(now)]
            if over or now.monotonic - self._kept >= MARK_SECONDS:
                # First the mark, so that no clock lets in a report whose id is forgotten.
                self.mark.keep()
                self._kept = now.monotonic
            for spool, period in over:
                spool.forget(period)
            self._forget_plans(now)
        if not self.has_room:
            self._try_again()

    def close(self) -> None:
        """Make the time durable and close all files. Never raises."""
        with contextlib.suppress(RecoverableError):
            self.mark.keep()
        for log in self._logs():
            log.file.close()

    def _logs(self) -> Iterator[PeriodLog]:
        return (log for spool in self.plans.values() for log in spool.logs.values())

    def _forget_plans(self, now: Moment) -> None:
        for digest, spool in list(self.plans.items()):
            if not spool.logs and now.wall >= _over_at(spool.plan):
                self._files.remove(self._directory / digest / _PLAN)
                del self.plans[digest]

    def _make_reserve(self) -> bool:
        """Make the reserve where it is missing; at most one attempt a second."""
        path, now = self._directory / _RESERVE, self._clock.monotonic()
        if now - self._tried < 1.0 and self._tried >= 0:
            return False
        self._tried = now
        try:
            raw = self._files.read(path)
            if raw is None or len(raw) < RESERVE_BYTES:
                self._files.write(path, bytes(RESERVE_BYTES))
        except (RecoverableError, FatalError):
            return False
        self._has_reserve = True
        return True

    def _try_again(self) -> None:
        """Find out whether the disk has room again; a gateway that is not ready gets no reports."""
        if not self._has_reserve and not self._make_reserve():
            return
        path = self._directory / _PROBE
        with contextlib.suppress(RecoverableError, OSError):
            self._files.write(path, bytes(PROBE_BYTES))
            self._files.remove(path)
            self._refused = False

    def _free_reserve(self) -> bool:
        had, self._has_reserve = self._has_reserve, False
        self._tried = self._clock.monotonic()
        with contextlib.suppress(OSError):
            self._files.remove(self._directory / _RESERVE)
        return had


def _over_at(plan: Plan) -> int:
    return over_at(plan, plan.windows - 1)


NAME = "clock.json"


class ClockMark:
    """The latest time that the gateway has seen; durable where :meth:`keep` returned."""

    def __init__(self, files: Files, directory: Path, clock: Clock) -> None:
        self._files = files
        self._path = directory / NAME
        self._clock = clock
        self._lock = threading.Lock()
        self._stored = self._latest = self._read()

    def present(self) -> int:
        """The clock's milliseconds, or the mark where that is later; safe from any thread."""
        with self._lock:
            self._latest = max(self._latest, self._clock.now_ms())
            return self._latest

    def behind(self) -> float:
        return max(self._latest - self._clock.now_ms(), 0) / 1000

    def keep(self) -> None:
        present = self.present()
        if present > self._stored:
            self._files.write(self._path, orjson.dumps({"v": 1, "milliseconds": present}))
            self._stored = present

    def _read(self) -> int:
        raw = self._files.read(self._path)
        if raw is None:
            return 0
        try:
            found = orjson.loads(raw)["milliseconds"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            found = None
        if type(found) is not int:
            raise FatalError(f"{self._path} is not the clock of a spool; restore it")
        return found
