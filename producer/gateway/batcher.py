"""Merges the reports of many devices into batches: by group and window, by size and time.

Whoever runs the batcher sees which device handed in which perturbed report; everybody after it sees
shuffled batches that name no device. Devices that do not trust it are protected by their own
perturbation, as always.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Literal, Self

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Sink
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, SystemRandomness
from calmstream.producer.device.report import Report
from calmstream.producer.gateway.encoding import most_reports
from calmstream.producer.gateway.open_batches import Moment, OpenBatches, ReadyReports, Selection
from calmstream.producer.gateway.rows import Row, RowReader, batches_of_rows, in_parts
from calmstream.producer.gateway.sender import POLL_SECONDS, BatchSender, Budget
from calmstream.producer.gateway.spool import Spool
from calmstream.producer.gateway.totals import Accounts, Failure, Observer, Totals

DEFAULT_SIZE = 1000
DEFAULT_LINGER = 1.0
DEFAULT_MIN_BATCH = 50

CHECK_SECONDS = 1.0
"""Longest wait before the clock is read again while batches are open."""

Small = Literal["send", "drop"]
"""What happens to fewer than ``min_batch`` reports when their window closes."""


class Batcher:
    """Accepts reports from any thread; a thread of its own encodes, sends and retries.

    Args:
        plan: the plan that the reports follow.
        names: its topics.
        sink: appends; stays the caller's to close, after the batcher.
        size: reports in a full batch; fewer where a record could not hold so many.
        linger: seconds that a batch that may leave waits for more reports.
        min_batch: least reports of one group and window that leave together; at most half of
            ``size`` and of the plan's ``limits.batch_reports``. 1 lets every report leave alone.
            `gateway.open_batches` says how long fewer wait.
        small: what happens to fewer when their window closes, and at :meth:`close`.
        budget: limits of the attempts to send, and of the batches in flight; as many full batches
            may wait to be sent before :meth:`add` blocks.
        spool: keeps batches on disk until they are acknowledged; what it holds is sent first.
        observer: receives what happens to batches.
        randomness: shuffles; set it in tests only.
        clock: gives the time by which windows end.

    Raises:
        InvalidInput: ``min_batch`` does not fit.
        FatalError: the spool holds something else than batches of the plan.
    """

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        sink: Sink,
        *,
        size: int = DEFAULT_SIZE,
        linger: float = DEFAULT_LINGER,
        min_batch: int = DEFAULT_MIN_BATCH,
        small: Small = "send",
        budget: Budget | None = None,
        spool: Spool | None = None,
        observer: Observer | None = None,
        randomness: Randomness | None = None,
        clock: Clock | None = None,
    ) -> None:
        if size < 1 or linger < 0 or min_batch < 1:
            raise ValueError("size and min_batch are at least 1, linger at least 0")
        check_least(plan, size, min_batch)
        self._plan = plan
        self._clock = clock or SystemClock()
        self._drops = small == "drop"
        self._sizes = [min(size, most_reports(plan, g)) for g in range(len(plan.groups))]
        self._open: OpenBatches[Row] = OpenBatches(
            plan,
            self._sizes,
            min_batch=min_batch,
            linger=linger,
            randomness=randomness or SystemRandomness(),
        )
        self._most_full = (budget or Budget()).in_flight
        self._reader = RowReader(plan)
        self._accounts = Accounts(observer)
        self._sender = BatchSender(names, sink, budget, spool=spool, observer=self._accounts)
        self._left_behind = deque(spool.pending() if spool is not None else ())
        for batch in self._left_behind:
            self._accounts.taken(batch.group, batch.n)
        self._full: deque[ReadyReports[Row]] = deque()
        self._changed = threading.Condition()
        self._flushes_wanted = self._flushes_done = 0
        self._closing = False
        self._last_seconds: float | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="calmstream-batcher", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def totals(self) -> Totals:
        """Counts at one moment; nothing waits after :meth:`close`."""
        return self._accounts.totals()

    def add(self, report: Report, timeout: float | None = None) -> None:
        """Accept a report. May block while too many full batches wait to be sent.

        The report is checked and copied first. A malformed report has no effect on other reports.

        Args:
            report: as a `Reporter` of the same plan made it, or
                `Report.decode` read it.
            timeout: seconds to block at most; None for as long as it takes.

        Raises:
            Rejection: the report does not follow the plan; it was not taken.
            RecoverableError: still no room after ``timeout``; the report was not taken.
            FatalError: the batcher is closed or can never send again; the report was not taken.
        """
        group, period, row = self._reader.read(report)
        with self._changed:
            if not (self._has_room() or self._changed.wait_for(self._has_room, timeout)):
                raise RecoverableError(f"{len(self._full)} full batches wait to be sent")
            self._refuse_if_stopped()
            self._accounts.taken(group, 1)
            full = self._open.add(group, period, row, self._now)
            if full is not None:
                self._full.append(full)
            if full is not None or self._open.may_be_due_sooner(group, period):
                self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        """Send everything that may leave, and wait until it is acknowledged or given up.

        Open batches below ``min_batch`` do not leave, see `gateway.open_batches`.

        Raises:
            RecoverableError: not within ``timeout`` seconds.
            FatalError: something was refused for good.
        """
        with self._changed:
            self._flushes_wanted += 1
            wanted = self._flushes_wanted
            self._changed.notify_all()
            done = self._changed.wait_for(
                lambda: self._flushes_done >= wanted or self._error is not None, timeout
            )
            self._refuse_if_stopped()
        if not done:
            raise RecoverableError(f"not everything was acknowledged within {timeout:g} s")

    def close(self, timeout: float | None = None) -> Totals:
        """Send or drop what is left, await every delivery, stop; idempotent, never raises.

        Open batches below ``min_batch`` leave too, or are dropped where ``small`` says so; both are
        counted.

        Args:
            timeout: seconds after which deliveries that are still open count as failed (and stay in
                the spool); None leaves that to the budget.
        """
        with self._changed:
            if not self._closing:
                self._last_seconds = timeout
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        return self.totals

    def _has_room(self) -> bool:
        return len(self._full) < self._most_full or self._closing or self._error is not None

    def _refuse_if_stopped(self) -> None:
        if self._error is not None:
            raise FatalError(f"the batcher has stopped: {self._error}") from self._error
        if self._closing:
            raise FatalError("the batcher is closed")

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            with self._changed:
                self._error = error  # callers must not wait for a thread that has ended
                self._changed.notify_all()
            raise
        finally:
            self._give_up_the_rest()

    def _give_up_the_rest(self) -> None:
        """Count reports that are left after a defect as failed: no thread sends them any more."""
        for group, reports in self._accounts.unsettled().items():
            self._accounts.failed(group, reports, Failure.ABANDONED)

    def _turn(self) -> bool:
        """One round of the thread; whether there is another."""
        with self._changed:
            if not self._has_work():
                # Every change ends the wait, also one that only shortens it.
                self._changed.wait(self._patience())
            wanted, closing = self._flushes_wanted, self._closing
            ready = self._take(self._selection())
        while self._left_behind:
            self._sender.submit(self._left_behind.popleft())
        for reports in ready:
            self._send(reports)
        if closing or wanted > self._flushes_done:
            self._sender.drain(self._last_seconds if closing else None)
        self._sender.step()
        with self._changed:
            self._flushes_done = wanted
            self._error = self._sender.fatal
            self._changed.notify_all()
        return not closing

    def _has_work(self) -> bool:
        return bool(self._full) or self._closing or self._flushes_wanted > self._flushes_done

    def _selection(self) -> Selection:
        if self._closing:
            return Selection.ALL
        return (
            Selection.LARGE_ENOUGH if self._flushes_wanted > self._flushes_done else Selection.DUE
        )

    def _patience(self) -> float | None:
        """Seconds until an open batch is due, or deliveries or the clock must be checked."""
        if self._left_behind:
            return 0.0
        if self._sender.in_flight:
            return POLL_SECONDS
        patience = self._open.patience(self._now())
        # The clock may be set forward meanwhile; then batches of a window are due at once.
        return None if patience is None else min(max(patience, 0.0), CHECK_SECONDS)

    def _now(self) -> Moment:
        return Moment(self._clock.monotonic(), self._clock.now_ms())

    def _take(self, selection: Selection) -> list[ReadyReports[Row]]:
        ready = [*self._full, *self._open.take(selection, self._now())]
        self._full.clear()
        self._changed.notify_all()
        return ready

    def _send(self, ready: ReadyReports[Row]) -> None:
        """Hand over reports that leave together, in as few batches as can hold them."""
        group, n = ready.group, len(ready.rows)
        if ready.small and self._drops:
            self._accounts.failed(group, n, Failure.SMALL)
            return
        if ready.small:
            self._accounts.small(group, n)

        def dropped(reports: int) -> None:
            self._accounts.failed(group, reports, Failure.UNENCODABLE)

        for rows in in_parts(ready.rows, self._sizes[group]):
            for batch in batches_of_rows(self._plan, group, ready.period, rows, dropped):
                self._sender.submit(batch)


def check_least(plan: Plan, size: int, min_batch: int) -> None:
    """Check that any set of at least ``min_batch`` reports can leave in parts of at least as many.

    Raises:
        InvalidInput: it cannot; with the largest value that is allowed.
    """
    if min_batch > 1 and 2 * min_batch > size:
        raise InvalidInput(
            f"min_batch: expected at most {max(size // 2, 1)}, half of the batch size, "
            f"got {min_batch}"
        )
    if min_batch > 1 and plan.limits is not None and 2 * min_batch > plan.limits.batch_reports:
        raise InvalidInput(
            f"min_batch: expected at most {max(plan.limits.batch_reports // 2, 1)}, half of the "
            f"limits.batch_reports of plan {plan.name}, got {min_batch}"
        )
