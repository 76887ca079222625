"""The aggregator's loop: read raw records, close windows, pay, release, publish.

Raw records live in the log and in memory only. After a restart the log is read again from its
start; windows that the budget account knows are skipped, whether or not their release is known to
have left. So a crash can lose a release but never makes one twice.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from consumer.central.windows import KEY_BYTES, RawWindows
from consumer.health import RoleHealth
from estimators.central.coding import code_records, most_raw_bytes
from estimators.central.dp_marginals import release
from estimators.central.ledger import BudgetSpent
from estimators.central.wire import (
    TICK,
    encode_level,
    encode_manifest,
)
from estimators.errors import FatalError, RecoverableError

if TYPE_CHECKING:
    from broker.central_names import CentralNames
    from broker.transport import Broker, Partition
    from consumer.budget_account import BudgetAccount
    from consumer.central.metrics import CentralMetrics
    from consumer.clock import Clock
    from estimators.central.plan import CentralPlan
    from estimators.randomness import Randomness

POLL_SECONDS = 0.5
SEND_SECONDS = 30.0
RETRY_SECONDS = 60.0
TICK_SECONDS = 1.0


class Aggregator:
    """One per plan; a second one is harmless, because only one can pay for a window.

    Args:
        plan: what is collected.
        broker: stays open.
        names: topics.
        account: the budget; nothing is computed on records before it is paid.
        clock: for ticks and health only; the log's time decides what belongs to a window.
        randomness: the operating system's CSPRNG but in tests.
        metrics: nothing in them depends on records.
        software: version for the manifests.
        raw_memory_bytes: memory set aside for raw records, see `AggregatorConfig`.

    Raises:
        FatalError: the plan's users may need more memory than is set aside, or no usable account.
    """

    name = "aggregator"

    def __init__(
        self,
        plan: CentralPlan,
        broker: Broker,
        names: CentralNames,
        *,
        account: BudgetAccount,
        clock: Clock,
        randomness: Randomness,
        metrics: CentralMetrics,
        software: str,
        raw_memory_bytes: int,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        _check_memory(plan, raw_memory_bytes)
        self._plan = plan
        self._names = names
        self._account = account
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._software = software
        self._poll_seconds = poll_seconds
        self._topics = broker.topics()
        self._reader = broker.reader()
        self._sink = broker.sink()
        self._log = structlog.get_logger("calmstream.aggregator")
        self._known = {e.release for e in account.read().entries}
        self._windows = RawWindows(
            plan, lambda window: str(window) not in self._known, randomness.bytes(KEY_BYTES)
        )
        self._next = 0
        self._ticked = -TICK_SECONDS
        self._started = False
        self.health = RoleHealth(self.name, clock)

    @property
    def finished(self) -> bool:
        """Whether every window of the plan has been dealt with."""
        return self._next >= self._plan.releases

    @property
    def held_bytes(self) -> int:
        """Memory of the raw records that wait for their window's release; never exported."""
        return self._windows.held_bytes

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop or until the plan's last release.

        Raises:
            BudgetSpent: the budget is spent: publishing ends here.
            FatalError: an unusable account, topic or log.
            RecoverableError: the broker did not answer for a minute.
        """
        failing = 0.0
        try:
            while not stop.is_set() and not self.finished:
                try:
                    self.turn()
                    failing = 0.0
                except RecoverableError:
                    now = self._clock.monotonic()
                    failing = failing or now
                    if now - failing > RETRY_SECONDS:
                        raise
                    stop.wait(POLL_SECONDS)
        finally:
            self.health.not_ready("stopped")
            self._reader.close()
            self._sink.close(SEND_SECONDS)
            self._topics.close()

    def turn(self) -> None:
        """One round: read what is there, tick idle partitions, release what has closed."""
        if not self._started:
            self._start()
        records = self._reader.poll(self._poll_seconds)
        for record in records:
            self._windows.read(record)
        if not records:
            self._tick()
        while self._next <= min(self._windows.closed_through(), self._plan.releases - 1):
            self._release(self._next)
            self._next += 1
        self.health.turned()

    def _start(self) -> None:
        partitions = self._names.raw_partitions
        self._names.verify(self._topics.describe([self._names.raw, self._names.releases]))
        starts = self._topics.log_starts(partitions)
        self._reader.assign(partitions)
        for partition, start in starts.items():
            self._reader.seek(partition, start)
        self._check_kept(starts)
        self._metrics.spent(self._account.read())
        self._started = True
        self.health.ready()

    def _check_kept(self, starts: dict[Partition, int]) -> None:
        """Records that retention has deleted must belong to windows that are paid for."""
        trimmed = [partition for partition, start in starts.items() if start > 0]
        if not trimmed:
            return
        oldest = self._plan.window_at(
            self._clock.now_ms() - 2 * self._plan.window * 1000 - 86_400_000
        )
        for window in range(min(oldest + 1, self._plan.releases)):
            if str(window) not in self._known:
                raise FatalError(
                    f"{trimmed[0]} starts above 0 and window {window} was never released: raw "
                    "records were deleted unread; plan anew, or release with a longer retention"
                )

    def _tick(self) -> None:
        """Make the log's time pass where nobody sends: one tick per idle partition and second."""
        end, now = self._plan.window_end(self._next), self._clock.now_ms()
        if now < end or self._clock.monotonic() - self._ticked < TICK_SECONDS:
            return
        self._ticked = self._clock.monotonic()
        sent = [
            self._sink.send(self._names.raw, None, TICK, partition=number)
            for number in self._windows.behind(end)
        ]
        for delivery in sent:
            delivery.wait(SEND_SECONDS)

    def _release(self, window: int) -> None:
        rows = self._windows.take(window)
        if str(window) in self._known:
            self._log.info("window was paid for before", window=window)
            return
        try:
            ledger = self._account.pay(str(window), self._plan.allocation.cost)
        except BudgetSpent:
            self._metrics.refused()
            raise
        self._known.add(str(window))
        self._metrics.spent(ledger)
        records, labels = code_records(rows, len(self._plan.columns))
        released = release(records, self._plan.allocation, self._plan.settings, self._randomness)
        for level in released.levels:
            body = encode_level(self._plan, window, level, released, labels)
            self._publish(f"{window}/{level.k}", body)
        manifest = encode_manifest(self._plan, window, released, ledger, self._software)
        self._publish(f"{window}", manifest)
        self._account.finish(str(window))
        self._metrics.released()
        self._log.info("released", window=window, budget=ledger.summary())

    def _publish(self, key: str, body: bytes) -> None:
        """Send until acknowledged; the same bytes again are the same release."""
        began = self._clock.monotonic()
        while True:
            try:
                self._sink.send(self._names.releases, key.encode(), body, partition=0).wait(
                    SEND_SECONDS
                )
            except RecoverableError:
                if self._clock.monotonic() - began > RETRY_SECONDS:
                    raise
                self._clock.sleep(POLL_SECONDS)
            else:
                return


def _check_memory(plan: CentralPlan, raw_memory_bytes: int) -> None:
    """Whether the plan's users fit, by the plan and the settings alone.

    Raises:
        FatalError: the plan's users may need more memory than is set aside.
    """
    needed = most_raw_bytes(plan)
    if needed > raw_memory_bytes:
        raise FatalError(
            f"raw records of the plan's {plan.users:,} users, of which {plan.sample} count, take "
            f"up to {needed:,} bytes of memory, and {raw_memory_bytes:,} are set aside: raise "
            "CALMSTREAM_RAW_MEMORY_BYTES (about twice as much must be free), or plan a smaller "
            "--sample"
        )
