"""Reading snapshots: whole sets, in an order that never goes back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Literal

from broker.clock import SystemClock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Reader, Record, Topics
from consumer.runtime.foreign_records import ForeignRecords, key_of
from consumer.runtime.retry import RetryBudget
from consumer.subscribe.assembler import Snapshot, SnapshotAssembler, Table
from consumer.subscribe.delivery_order import DeliveryOrder
from estimators.errors import ForeignRecord, MissingTopic, RecoverableError
from estimators.plan import Plan
from estimators.wire.snapshot import Kind

DEFAULT_NAMESPACE = "calmstream"
_BACKOFF_SECONDS = 0.5
_LOG = logging.getLogger("calmstream.subscribe")

__all__ = ["Snapshot", "SnapshotAssembler", "Table", "plan_names", "subscribe"]


def plan_names(
    plan: Plan, namespace: str = DEFAULT_NAMESPACE, output_namespace: str = ""
) -> TopicNames:
    """Return the names of a plan's topics in a namespace."""
    return TopicNames(
        namespace, plan.name, plan.digest, len(plan.groups), plan.partitions, output_namespace
    )


def subscribe(
    plan: Plan,
    broker: Broker | str,
    *,
    kinds: Collection[Kind] = tuple(Kind),
    from_window: int | Literal["latest"] | None = None,
    follow: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
    output_namespace: str = "",
    stop: threading.Event | None = None,
    poll_seconds: float = 0.5,
    retry_seconds: float = 60.0,
) -> Iterator[Snapshot]:
    """Yield the snapshots of a plan as they become complete, from the oldest one. Blocks between.

    Per window and kind a later one is always at least as far in every input partition as the one
    before; after a window's final there is no early one of it. Every final and total comes once,
    and in the order of windows, also to a subscriber that was away. So one that stops after the
    final of window W and resumes with ``from_window=W + 1`` sees every final exactly once. Reading
    starts when the first one is asked for.

    Args:
        plan: whose snapshots.
        broker: a transport, which stays open, or ``HOST:PORT[,HOST:PORT]`` of Kafka without TLS
            (for TLS and SASL pass ``broker.kafka.connect(bootstrap, security)``).
        kinds: the kinds to yield: any of early, final, total.
        from_window: first window to yield; None for all that are kept; "latest" for the newest
            set of each kind among those there when reading starts, and all that come later.
        follow: whether to wait for more at the end; otherwise the iterator ends there.
        namespace: of the plan's topics.
        output_namespace: of its snapshots, where a log was counted again into another one.
        stop: ends the iterator within ``poll_seconds`` when set.
        poll_seconds: longest single wait.
        retry_seconds: how long failing calls to the broker are repeated.

    Yields:
        Complete sets of this plan only; see :class:`consumer.subscribe.assembler.Snapshot`.
        Sets of another plan in the same topic are skipped, and the first one is logged.

    Raises:
        InvalidInput: a snapshot of a newer version, which says so.
        RecoverableError: the broker did not answer for ``retry_seconds``.
        FatalError: no such topic.
    """
    names = plan_names(plan, namespace, output_namespace)
    wanted = frozenset(map(Kind, kinds))
    stop = threading.Event() if stop is None else stop
    with ExitStack() as stack:
        transport = _connect(broker, stack)
        topics = transport.topics()
        stack.callback(topics.close)
        reader = transport.reader()
        stack.callback(reader.close)
        assembler, foreign = SnapshotAssembler(plan.digest), ForeignRecords(_LOG.warning)
        source = _Source(reader, topics, names.snapshots)
        latest = from_window == "latest"
        order = DeliveryOrder(0 if latest or from_window is None else int(from_window), latest)
        for record in source.records(order.holds, follow, stop, poll_seconds, retry_seconds):
            if record is None:
                yield from order.at_end()
                continue
            try:
                found = assembler.read(key_of(record), record.value)
            except ForeignRecord as error:
                foreign.skip(record, error)
                continue
            if found is not None and found.kind in wanted:
                yield from order.take(found)


def _connect(broker: Broker | str, stack: ExitStack) -> Broker:
    if not isinstance(broker, str):
        return broker
    from broker.kafka import connect

    made = connect(broker)
    stack.callback(made.close)
    return made


class _Source:
    """Reads the snapshots topic from its start, through failures of the broker."""

    def __init__(self, reader: Reader, topics: Topics, topic: str) -> None:
        self._reader = reader
        self._topics = topics
        self._partition = Partition(topic, 0)
        self._started = False

    def records(
        self,
        wants_end: Callable[[], bool],
        follow: bool,
        stop: threading.Event,
        poll_seconds: float,
        retry_seconds: float,
    ) -> Iterator[Record | None]:
        """Yield all records, and None at an end that was fetched after all before it were read.

        The end is checked while ``wants_end`` returns True, and without ``follow``, where None is
        the last item.
        """
        retries = RetryBudget(SystemClock(), retry_seconds)
        while not stop.is_set():
            records: list[Record] = []
            ended = False
            try:
                if not self._started:
                    self._start()
                hasty = wants_end() or not follow
                records = self._reader.poll(min(poll_seconds, 0.1) if hasty else poll_seconds)
                ended = hasty and not records and self._at_end()
                retries.succeeded()
            except RecoverableError:
                if retries.failed():
                    raise
                stop.wait(_BACKOFF_SECONDS)
            yield from records
            if ended:
                yield None
                if not follow:
                    return

    def _start(self) -> None:
        # Requests offsets only, so that a subscriber needs no permission but to read.
        try:
            start = self._topics.log_starts([self._partition])[self._partition]
        except MissingTopic as error:
            raise MissingTopic(
                f"topic {self._partition.topic} does not exist; create it: calmstream topics"
            ) from error
        self._reader.assign([self._partition])
        self._reader.seek(self._partition, start)
        self._started = True

    def _at_end(self) -> bool:
        position = self._reader.position(self._partition)
        return position >= self._topics.log_ends([self._partition])[self._partition]
