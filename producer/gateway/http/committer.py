"""The thread that owns the spool: group commit, sealing, and what became of batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue

from calmstream.common.clock import Clock
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.durable.spool import Spool
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.http.metrics import GatewayMetrics

SEAL_SECONDS = 0.02  # least time between two looks for what leaves
TIDY_SECONDS = 1.0
_WAIT_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class Work:
    """Reports of one request that wait for the next group; ``done`` belongs to its loop."""

    plan: Plan
    entries: Sequence[SpoolEntry]
    quota: int | None
    done: asyncio.Future[list[Result]]
    outcome: list[Result] | Exception | None = None  # None: nothing was written

    def finish(self) -> None:
        """Let the request go on, in its loop."""
        if self.done.done():  # the client has gone
            return
        if isinstance(self.outcome, Exception):
            self.done.set_exception(self.outcome)
        else:
            self.done.set_result(self.outcome or [SpoolOutcome.UNAVAILABLE] * len(self.entries))


class Committer:
    """Writes whatever has arrived while the last group was written, as one group.

    Requests :meth:`submit`, in their loop's thread; :meth:`stop` is safe from any thread. Neither
    blocks. ``sealed`` has the batches to send, and ``settled`` gets each of them once, with whether
    it was acknowledged. ``turned`` is when the committer last turned, on the monotonic clock.
    """

    def __init__(
        self,
        spool: Spool,
        loop: asyncio.AbstractEventLoop,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        self._spool = spool
        self.sealed = SimpleQueue[EncodedBatch]()
        self.settled = SimpleQueue[tuple[EncodedBatch, bool]]()
        self._loop = loop
        self._metrics = metrics
        self._clock = clock
        self._changed = threading.Condition()
        self._works: list[Work] = []
        self._stopping = False
        self._over = False
        self._looked = self._tidied = -TIDY_SECONDS
        self.turned = clock.monotonic()

    def submit(
        self, plan: Plan, entries: Sequence[SpoolEntry], quota: int | None
    ) -> asyncio.Future[list[Result]]:
        """Make reports durable with the next group; raises the defect that they meet."""
        work = Work(plan, entries, quota, self._loop.create_future())
        with self._changed:
            if self._over:
                work.finish()
            else:
                self._works.append(work)
                self._changed.notify()
        return work.done

    def stop(self) -> None:
        """End :meth:`run` once all that has arrived is written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        try:
            stops = False
            while not stops:
                stops = self._stopping  # read first: a whole turn follows, which takes what waits
                self._turn(last=stops)
        finally:
            with self._changed:
                self._over = True
            self._answer(self._works)

    def _turn(self, *, last: bool) -> None:
        self.turned = self._clock.monotonic()
        # Before reports are taken: a defect here must leave no request without an answer.
        while not self.settled.empty():
            batch, acknowledged = self.settled.get()
            self._spool.settle(batch, acknowledged=acknowledged)
        with self._changed:
            if not (self._works or self._stopping):
                self._changed.wait(self._wait_seconds())
            works, self._works = self._works, []
        self._commit(works)
        self._seal()
        if last or self._clock.monotonic() - self._tidied >= TIDY_SECONDS:
            self._spool.tidy()
            self._metrics.tidied(self._spool)
            self._tidied = self._clock.monotonic()

    def _wait_seconds(self) -> float:
        waits = self._spool.next_due()
        return _WAIT_SECONDS if waits is None else min(max(waits, SEAL_SECONDS), _WAIT_SECONDS)

    def _commit(self, works: Sequence[Work]) -> None:
        if not works:
            return
        began = self._clock.monotonic()
        by_plan: dict[str, list[Work]] = {}
        for work in works:
            by_plan.setdefault(work.plan.digest, []).append(work)
        for group in by_plan.values():
            self._accept(group)
        self._metrics.committed(self._clock.monotonic() - began)
        self._answer(works)

    def _accept(self, group: Sequence[Work]) -> None:
        """Spool reports of one plan; a request that meets a defect fails alone."""
        entries = [entry for work in group for entry in work.entries]
        quotas = [work.quota for work in group for _ in work.entries]
        try:
            results = iter(self._spool.accept(group[0].plan, entries, quotas))
        except Exception as error:  # noqa: BLE001 - its request gets it
            if len(group) == 1:
                group[0].outcome = error
                return
            # What was written before the defect is a duplicate now, which is as good.
            for work in group:
                self._accept([work])
            return
        for work in group:
            work.outcome = list(islice(results, len(work.entries)))

    def _answer(self, works: Sequence[Work]) -> None:
        def deliver() -> None:
            for work in works:
                work.finish()

        self._loop.call_soon_threadsafe(deliver)

    def _seal(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked < SEAL_SECONDS:
            return
        for batch in self._spool.leaving():
            self.sealed.put(batch)
        self._looked = self._clock.monotonic()
