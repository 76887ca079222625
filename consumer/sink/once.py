"""Stores what is published now of a plan."""

from __future__ import annotations

from itertools import chain

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.consumer.sink.stored import StoredSet, stored_set
from calmstream.consumer.sink.target import Stored, Target
from calmstream.consumer.sink.worker import BATCH_ROWS
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.plan import Plan

BATCH_SETS = 500
"""Number of sets that are stored together at most; windows without reports have no cells."""


def store_once(plan: Plan, broker: Broker, names: TopicNames, target: Target) -> tuple[int, Stored]:
    """Return the number of sets that were read, and what was stored of them in an open target."""
    target.check_plan(plan)
    waiting: list[StoredSet] = []
    read = sets = rows = cells = 0
    namespace = names.output_namespace or names.namespace
    published = subscribe(
        plan,
        broker,
        follow=False,
        namespace=names.namespace,
        output_namespace=names.output_namespace,
    )
    for snapshot in chain(published, [None]):
        if snapshot is not None:
            waiting.append(stored_set(namespace, snapshot))
            read, cells = read + 1, cells + waiting[-1].rows
        much = cells >= BATCH_ROWS or len(waiting) >= BATCH_SETS
        if waiting and (snapshot is None or much):
            done = target.store(waiting)
            sets, rows, waiting, cells = sets + done.sets, rows + done.rows, [], 0
    return read, Stored(sets, rows)
