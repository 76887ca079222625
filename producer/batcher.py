"""Merges the reports of many devices into batches: by group and window, by size and linger.

Whoever runs the batcher sees which device handed in which perturbed report; everybody after it sees
shuffled batches that name no device. Devices that do not trust it are protected by their own
perturbation, as always.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from broker.names import TopicNames
from broker.transport import Sink
from estimators.errors import FatalError, RecoverableError
from estimators.plan import Plan
from estimators.randomness import Randomness, SystemRandomness
from producer.courier import POLL_SECONDS, Budget, Courier
from producer.reporter import Report
from producer.rows import Row, RowReader, seal_apart
from producer.sealing import Sealed, most_reports, permutation
from producer.spool import Spool
from producer.totals import Accounts, Failure, Observer, Totals

DEFAULT_SIZE = 1000
DEFAULT_LINGER = 1.0


@dataclass(slots=True)
class _Pile:
    """Reports of one group and window that wait for company."""

    group: int
    period: int
    opened: float
    rows: list[Row] = field(default_factory=list)


class Batcher:
    """Accepts reports from any thread; a thread of its own seals, sends and retries.

    Args:
        plan: the plan that the reports follow.
        names: its topics.
        sink: appends; stays the caller's to close, after the batcher.
        size: reports in a full batch; fewer where a record could not hold so many.
        linger: seconds that an incomplete batch waits for more reports.
        budget: how hard a batch is tried, and how many are in flight; as many full batches again
            may wait to be sent before :meth:`add` blocks.
        spool: keeps batches on disk until they are acknowledged; what it holds is sent first.
        observer: is told what happens to batches.
        randomness: shuffles; leave it alone outside tests.
    """

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        sink: Sink,
        *,
        size: int = DEFAULT_SIZE,
        linger: float = DEFAULT_LINGER,
        budget: Budget | None = None,
        spool: Spool | None = None,
        observer: Observer | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        if size < 1 or linger < 0:
            raise ValueError("size is at least 1 and linger at least 0")
        self._plan = plan
        self._linger = linger
        self._randomness = randomness or SystemRandomness()
        self._sizes = [min(size, most_reports(plan, g)) for g in range(len(plan.groups))]
        self._most_full = (budget or Budget()).in_flight
        self._reader = RowReader(plan)
        self._accounts = Accounts(observer)
        self._courier = Courier(names, sink, budget, spool=spool, observer=self._accounts)
        self._left_behind = deque(spool.pending() if spool is not None else ())
        for sealed in self._left_behind:
            self._accounts.taken(sealed.group, sealed.n)
        self._piles: dict[tuple[int, int], _Pile] = {}
        self._full: deque[_Pile] = deque()
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
        """Counts as of one moment; nothing waits after :meth:`close`."""
        return self._accounts.totals()

    def add(self, report: Report, timeout: float | None = None) -> None:
        """Take charge of a report. May block while too many full batches wait to be sent.

        The report is checked and copied before anything else happens, so that what is wrong with it
        concerns nobody but the caller. About 2 µs a report.

        Args:
            report: as a :class:`producer.reporter.Reporter` of the same plan made it, or
                :meth:`producer.reporter.Report.decode` read it.
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
            pile = self._piles.get((group, period))
            if pile is None:
                pile = _Pile(group, period, time.monotonic())
                self._piles[group, period] = pile
            pile.rows.append(row)
            if len(pile.rows) >= self._sizes[group]:
                self._full.append(self._piles.pop((group, period)))
            if len(pile.rows) in (1, self._sizes[group]):
                self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        """Send everything taken so far without lingering, and await its fate.

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
        """Send what is left, await every delivery, stop; idempotent, never raises.

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
                self._error = error  # nobody may wait for a thread that is gone
                self._changed.notify_all()
            raise
        finally:
            self._give_up_the_rest()

    def _give_up_the_rest(self) -> None:
        """Nothing may wait for a thread that is gone: what is left, after a defect only, failed."""
        for group, reports in self._accounts.unsettled().items():
            self._accounts.failed(group, reports, Failure.ABANDONED)

    def _turn(self) -> bool:
        """One round of the thread; whether there is another."""
        with self._changed:
            if not self._has_work():
                # Any change wakes it, also one that only shortens the patience.
                self._changed.wait(self._patience())
            wanted, closing = self._flushes_wanted, self._closing
            ready = self._take(everything=closing or wanted > self._flushes_done)
        while self._left_behind:
            self._courier.submit(self._left_behind.popleft())
        for pile in ready:
            for sealed in self._seal(pile):
                self._courier.submit(sealed)
        if closing or wanted > self._flushes_done:
            self._courier.drain(self._last_seconds if closing else None)
        self._courier.turn()
        with self._changed:
            self._flushes_done = wanted
            self._error = self._courier.fatal
            self._changed.notify_all()
        return not closing

    def _has_work(self) -> bool:
        return bool(self._full) or self._closing or self._flushes_wanted > self._flushes_done

    def _patience(self) -> float | None:
        """Seconds until a pile has lingered long enough, or deliveries want to be looked at."""
        if self._left_behind:
            return 0.0
        if self._courier.in_flight:
            return POLL_SECONDS
        if not self._piles:
            return None
        oldest = min(pile.opened for pile in self._piles.values())
        return max(oldest + self._linger - time.monotonic(), 0.0)

    def _take(self, *, everything: bool) -> list[_Pile]:
        now = time.monotonic()
        ripe = [
            key
            for key, pile in self._piles.items()
            if everything or now - pile.opened >= self._linger
        ]
        ready = [*self._full, *(self._piles.pop(key) for key in ripe)]
        self._full.clear()
        self._changed.notify_all()
        return ready

    def _seal(self, pile: _Pile) -> list[Sealed]:
        """The pile as a batch, without the reports that cannot be written into one."""
        order = permutation(len(pile.rows), self._randomness)
        rows = [pile.rows[i] for i in order.tolist()]

        def dropped(reports: int) -> None:
            self._accounts.failed(pile.group, reports, Failure.UNENCODABLE)

        return seal_apart(self._plan, pile.group, pile.period, rows, dropped)
