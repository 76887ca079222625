"""The aggregator's loop. Raw records are only in the log and in memory: a restart reads it again.

A crash can lose a release, never make a second one: windows in account or topic are skipped.
"""

from __future__ import annotations

import threading

import structlog

from calmstream.broker.topic_facts import central_faults
from calmstream.broker.topic_watch import TopicWatch
from calmstream.broker.transport import TopicInfo
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.central import metrics as m
from calmstream.consumer.central.claims import Claims
from calmstream.consumer.central.config import SEND_SECONDS, AggregatorConfig, AggregatorContext
from calmstream.consumer.central.publication import Publication, hide_error_texts
from calmstream.consumer.central.windows import KEY_BYTES, RawWindows
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.estimators.central.coding import most_raw_bytes
from calmstream.estimators.central.ledger import BudgetSpent
from calmstream.estimators.central.wire import TICK

PAUSE_SECONDS = 0.5  # after a call that failed
RETRY_SECONDS = 60.0  # time for which failing calls are repeated before the aggregator exits
TICK_SECONDS = 1.0  # minimum time between two records without content that advance an idle log
_RETENTION_MARGIN_MS = 600_000  # maximum difference between the broker's clock and this machine's


class Aggregator:
    """Releases the windows of one plan, a `PlanWorker`. Several do no harm: claims decide."""

    name = "aggregator"

    def __init__(self, context: AggregatorContext, config: AggregatorConfig) -> None:
        plan, needed = context.plan, most_raw_bytes(context.plan)
        if needed > config.raw_memory_bytes:
            raise FatalError(
                f"raw records of the plan's {plan.users:,} users, of which {plan.sample} count, "
                f"take up to {needed:,} bytes of memory, and {config.raw_memory_bytes:,} are set "
                "aside: raise CALMSTREAM_RAW_MEMORY_BYTES (about twice as much must be free), or "
                "plan a smaller --sample"
            )
        self._context = context
        self._plan = plan
        self._names = context.names
        self._clock = context.clock
        self.health = context.health
        self._poll_seconds = config.poll_seconds
        self._topics = context.broker.topics()
        self._reader = context.broker.reader()
        self._sink = context.broker.sink()
        self._log = structlog.get_logger("calmstream.aggregator")
        self._claims = Claims(context, self._sink)
        self._publication = Publication(context, self._claims, self._sink)
        self._windows = RawWindows(plan, self._wanted, context.randomness.bytes(KEY_BYTES))
        self._next = 0
        self._positions: dict[int, int] = {}  # by partition the offset to read next
        self._listening: list[int] = []  # the partitions that are polled now
        self._ticked = -TICK_SECONDS
        self._retries = RetryBudget(context.clock, RETRY_SECONDS)
        self._watch: TopicWatch | None = None

    def start(self, stop: threading.Event) -> None:
        """Do nothing: the first turn verifies the topics, so that failures are repeated."""

    def over(self) -> bool:
        return self._next >= self._plan.releases and not self._publication.has_unsent_release

    def turn(self) -> bool:
        """Do one round; failures are repeated, without limit while a paid release was not sent."""
        try:
            self._round()
        except BudgetSpent:
            self._context.metrics.inc(m.REFUSED)
            raise
        except RecoverableError:
            spent = self._retries.failed()
            if spent and not self._publication.has_unsent_release:
                raise
            if self._publication.has_unsent_release:
                # A restart would lose the paid release, so the process must stay alive.
                self.health.turned()
            self._clock.sleep(PAUSE_SECONDS)
        else:
            self._retries.succeeded()
        return False

    def finish(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self.health.not_ready("stopped")
        self._claims.close()
        self._reader.close()
        self._sink.close(SEND_SECONDS)

    def _round(self) -> None:
        watch = self._watch or self._verify_topics()
        self._send()
        self._look_after_topics(watch)
        behind = self._windows.behind(self._plan.window_end(self._next))
        if behind and not self.over():
            self._read(behind)
        while self._next <= min(self._windows.closed_through(), self._plan.releases - 1):
            for _ in self._publication.steps(self._next, self._windows.take):
                self.health.turned()
            self._next += 1
            self._send()
        self.health.turned()

    def _look_after_topics(self, watch: TopicWatch) -> None:
        """Stop where facts have changed, or no broker answers; but not before a paid release."""
        watch.turn()
        self.health.watched(watch.silent_seconds, watch.fault)
        silent = watch.silent_seconds() > RETRY_SECONDS
        if silent and not self._publication.has_unsent_release:
            raise FatalError(watch.silence())

    def _send(self) -> None:
        for _ in self._publication.send():
            self.health.turned()

    def _verify_topics(self) -> TopicWatch:
        found = self._claims.bind(strict=True)
        watch = TopicWatch(
            lambda now: central_faults(self._names, now),
            self._topics,
            found,
            self._clock,
            create="create it again (calmstream central topics); its records are lost",
        )
        self._claims.follow()
        starts = self._topics.log_starts(self._names.raw_partitions)
        self._positions = {partition.number: start for partition, start in starts.items()}
        self._leave_out_expired(found[self._names.raw])
        self._context.metrics.set(m.SPENT, self._context.account.read().spent_share)
        self._watch = watch
        self.health.ready()
        return watch

    def _leave_out_expired(self, raw: TopicInfo) -> None:
        """Begin after the windows from which the broker may have deleted records already."""
        # By clock and setting alone: what is really deleted would reveal the amount of data.
        kept = int(raw.settings.get("retention.ms", "-1"))
        if kept < 0:
            return
        oldest = self._clock.now_ms() - kept + _RETENTION_MARGIN_MS
        first = min(max(0, self._plan.window_at(oldest - 1) + 1), self._plan.releases)
        missed = [window for window in range(first) if self._publication.wants(window)]
        if missed:
            self._context.metrics.inc(m.SKIPPED, len(missed))
            self._log.warning(
                "windows are older than raw records are kept, and are not released",
                windows=len(missed),
                last=missed[-1],
            )
        self._next = first

    def _wanted(self, window: int) -> bool:
        return window >= self._next and self._publication.wants(window)

    def _read(self, behind: list[int]) -> None:
        """Poll the partitions before the next window's end, so that memory holds one window."""
        everything = self._names.raw_partitions
        if behind != self._listening:
            self._reader.assign([everything[number] for number in behind])
            for number in behind:
                self._reader.seek(everything[number], self._positions[number])
            self._listening = behind
        records = self._reader.poll(self._poll_seconds)
        self._positions |= {number: self._reader.position(everything[number]) for number in behind}
        with hide_error_texts("reading raw records"):
            for record in records:
                self._windows.read(record)
        if not records:
            self._tick(behind)

    def _tick(self, behind: list[int]) -> None:
        """Advance the clock of idle partitions, by at most one tick for each in a second."""
        end, now = self._plan.window_end(self._next), self._clock.now_ms()
        if now < end or self._clock.monotonic() - self._ticked < TICK_SECONDS:
            return
        self._ticked = self._clock.monotonic()
        sent = [self._sink.send(self._names.raw, None, TICK, partition=n) for n in behind]
        for delivery in sent:
            delivery.wait(SEND_SECONDS)
