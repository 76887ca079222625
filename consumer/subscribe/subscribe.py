"""Reads the snapshots of a plan: complete sets, never an older one after a newer one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from typing import Literal

from calmstream.broker.names import DEFAULT_NAMESPACE, TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.consumer.runtime.read_topics import followed
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind

_LOG = logging.getLogger("calmstream.subscribe")


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
    """Yield the snapshots of a plan, from the oldest one on, and wait for new ones.

    Of two sets of the same window and kind, the later one contains all reports of the earlier one;
    after the final of a window there is no early set of it. Every final and every total comes
    exactly once, in the order of windows, also if it was written while nobody read: a subscriber
    that stops after the final of window W, and resumes with ``from_window=W + 1``, gets every final
    exactly once. Sets of another plan are skipped, and the first one is logged.

    Args:
        plan: the plan whose snapshots are read, from the first set that the caller requests on.
        broker: a connection, which stays open; or the address ``HOST:PORT[,HOST:PORT]`` of Kafka
            without TLS (for TLS and SASL pass ``broker.kafka.connect(bootstrap, security)``).
        kinds: the kinds to yield: any of early, final, total, current.
        from_window: number of the first window to yield; None means all that the topic keeps;
            "latest" means the newest set of each kind at the beginning, and all later sets.
        follow: whether to wait for more sets at the end of the topic; otherwise the iterator ends.
        namespace: namespace of the plan's topics.
        output_namespace: of its snapshots, if the log was counted again into another one.
        stop: an event that ends the iterator within ``poll_seconds``.
        poll_seconds: maximum time of one wait.
        retry_seconds: maximum time for which failing calls to the broker are repeated.

    Raises:
        InvalidInput: a newer version of calmstream has written a snapshot.
        RecoverableError: the broker did not answer for ``retry_seconds``.
        FatalError: the topic does not exist.
    """
    names = TopicNames.of(plan, namespace, output_namespace)
    wanted = frozenset(map(Kind, kinds))
    stop = threading.Event() if stop is None else stop
    with ExitStack() as stack:
        clock, connection = SystemClock(), connected(broker, stack)
        topic = SnapshotTopic(plan, connection, names, clock, _LOG.warning)
        stack.callback(topic.close)
        latest = from_window == "latest"
        order = DeliveryOrder(0 if latest or from_window is None else int(from_window), latest)
        for record in followed(
            topic,
            clock,
            stop,
            follow=follow,
            poll_seconds=poll_seconds,
            retry_seconds=retry_seconds,
            wants_end=order.holds,
        ):
            if record is None:
                yield from order.at_end()
                continue
            snapshot = topic.read(record)
            if snapshot is not None and snapshot.kind in wanted:
                yield from order.take(snapshot)


def together(sets: Iterable[Snapshot], cells: int, most: int) -> Iterator[list[Snapshot]]:
    """Yield sets in lists, each complete with at least so many cells, or so many sets."""
    waiting, rows = list[Snapshot](), 0
    for one in sets:
        waiting.append(one)
        rows += one.cells
        if rows >= cells or len(waiting) >= most:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def connected(broker: Broker | str, stack: ExitStack) -> Broker:
    if not isinstance(broker, str):
        return broker
    from calmstream.broker.kafka import connect

    connection = connect(broker)
    stack.callback(connection.close)
    return connection


class DeliveryOrder:
    """Delays a final or total until those of all earlier windows were delivered.

    If two publishers write a record, compaction keeps the newer copy, so that window W can be read
    after W + 1. A window that is missing at the end of the topic will not come later.
    """

    def __init__(self, first: int = 0, latest: bool = False) -> None:
        self._first = first
        self._skipping = latest
        self._held: dict[tuple[Kind, int], Snapshot] = {}
        self._next = {kind: first for kind in Kind if kind is not Kind.EARLY}

    def holds(self) -> bool:
        """Return whether a set waits until the end of the topic is reached."""
        return self._skipping or bool(self._held)

    def take(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        kind, window = snapshot.kind, snapshot.window
        if window < self._first:
            return
        if self._skipping:
            self._held[kind, window] = snapshot
            if kind is Kind.FINAL:
                self._held.pop((Kind.EARLY, window), None)
        elif kind is Kind.EARLY:
            yield snapshot
        else:
            self._held[kind, window] = snapshot
            while (held := self._held.pop((kind, self._next[kind]), None)) is not None:
                self._next[kind] += 1
                yield held

    def at_end(self) -> Iterator[Snapshot]:
        held = sorted(self._held.values(), key=lambda s: (s.window, list(Kind).index(s.kind)))
        self._held.clear()
        if self._skipping:
            self._skipping = False
            newest = {snapshot.kind: snapshot for snapshot in held}
            held = [snapshot for snapshot in held if newest[snapshot.kind] is snapshot]
        for snapshot in held:
            if snapshot.kind is not Kind.EARLY:
                self._next[snapshot.kind] = snapshot.window + 1
            yield snapshot
