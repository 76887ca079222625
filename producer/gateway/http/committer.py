"""The thread that owns the spool: group commit, sealing, and what became of batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue

from calmstream.common.clock import Clock
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.entries import SealedBatch, SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.durable.spool import Spool
from calmstream.producer.gateway.encoding import BatchHead
from calmstream.producer.gateway.http.metrics import GatewayMetrics

SEAL_SECONDS = 0.02  # least time between two looks for what leaves
TIDY_SECONDS = 1.0
_WAIT_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class Work:
    """Reports of one request that wait for the next group; ``done`` belongs to its loop."""

    digest: str
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

    Requests :meth:`submit`, in their loop's thread; the other methods but :meth:`run` are safe from
    any thread. None blocks. ``sealed`` has the batches to send, ``turned`` is when the committer
    last turned, on the monotonic clock.
    """

    def __init__(
        self,
        spool: Spool,
        loop: asyncio.AbstractEventLoop,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        self._spool = spool
        self.sealed = SimpleQueue[SealedBatch]()
        self._loop = loop
        self._metrics = metrics
        self._clock = clock
        self._changed = threading.Condition()
        self._works: list[Work] = []
        self._added: list[tuple[Plan, Future[None]]] = []
        self._settled: list[tuple[str, BatchHead, bool]] = []
        self._stopping = False
        self._over = False
        self._looked = self._tidied = -TIDY_SECONDS
        self.turned = clock.monotonic()

    def submit(
        self, digest: str, entries: Sequence[SpoolEntry], quota: int | None
    ) -> asyncio.Future[list[Result]]:
        """Make reports durable with the next group; raises the defect that they meet."""
        work = Work(digest, entries, quota, self._loop.create_future())
        with self._changed:
            if self._over:
                work.finish()
            else:
                self._works.append(work)
                self._changed.notify()
        return work.done

    def settle(self, digest: str, batch: BatchHead, acknowledged: bool) -> None:
        with self._changed:
            self._settled.append((digest, batch, acknowledged))
            self._changed.notify()

    def add(self, plan: Plan) -> Future[None]:
        """Open a plan's spool before the next group; cancelled after the end."""
        done: Future[None] = Future()
        with self._changed:
            if self._over:
                done.cancel()
            else:
                self._added.append((plan, done))
                self._changed.notify()
        return done

    def stop(self) -> None:
        """End :meth:`run` once all that has arrived is written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            with self._changed:
                self._over = True
            self._answer(self._works)
            for _, done in self._added:
                done.cancel()

    def _turn(self) -> bool:
        self.turned = self._clock.monotonic()
        with self._changed:
            if not (self._works or self._added or self._settled or self._stopping):
                self._changed.wait(self._wait_seconds())
            works, self._works = self._works, []
            added, self._added = self._added, []
            settled, self._settled = self._settled, []
            ends = self._stopping and not (works or added or settled)
        for plan, done in added:
            try:
                self._put(self._spool.add(plan))
                done.set_result(None)
            except Exception as error:  # noqa: BLE001 - handed to whoever asked
                done.set_exception(error)
        for digest, batch, acknowledged in settled:
            self._spool.settle(digest, batch, acknowledged=acknowledged)
        self._commit(works)
        self._seal()
        if self._clock.monotonic() - self._tidied >= TIDY_SECONDS or ends:
            self._spool.tidy()
            self._metrics.tidied(self._spool)
            self._tidied = self._clock.monotonic()
        return not ends

    def _wait_seconds(self) -> float:
        waits = self._spool.next_due()
        return _WAIT_SECONDS if waits is None else min(max(waits, SEAL_SECONDS), _WAIT_SECONDS)

    def _commit(self, works: Sequence[Work]) -> None:
        if not works:
            return
        began = self._clock.monotonic()
        by_plan: dict[str, list[Work]] = {}
        for work in works:
            by_plan.setdefault(work.digest, []).append(work)
        for digest, group in by_plan.items():
            self._accept(digest, group)
        self._metrics.committed(self._clock.monotonic() - began)
        self._answer(works)

    def _accept(self, digest: str, group: Sequence[Work]) -> None:
        """Spool reports of one plan; a request that meets a defect fails alone."""
        entries = [entry for work in group for entry in work.entries]
        quotas = [work.quota for work in group for _ in work.entries]
        try:
            results = iter(self._spool.accept(digest, entries, quotas))
        except Exception as error:  # noqa: BLE001 - its request gets it
            if len(group) == 1:
                group[0].outcome = error
                return
            # What was written before the defect is a duplicate now, which is as good.
            for work in group:
                self._accept(digest, [work])
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
        self._put(self._spool.leaving())
        self._looked = self._clock.monotonic()

    def _put(self, batches: Iterable[SealedBatch]) -> None:
        for each in batches:
            self.sealed.put(each)
