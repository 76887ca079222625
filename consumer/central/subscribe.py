"""Reads the releases of a central plan: complete ones, each window's by its first claim."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import structlog

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import SystemClock
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.runtime.read_topics import TopicReader, followed
from calmstream.estimators.central.release_reading import CentralRelease, ReleaseFold

RETRY_SECONDS = 60.0


def subscribe_releases(
    broker: Broker,
    names: CentralNames,
    *,
    follow: bool = True,
    poll_seconds: float = 0.5,
) -> Iterator[CentralRelease]:
    """Yield the releases of a plan, from the oldest one that is kept; other records are skipped."""
    clock, releases = SystemClock(), [Partition(names.releases, 0)]
    source = TopicReader(broker, releases, clock, missing="create it: calmstream central topics")
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.releases").warning)
    fold = ReleaseFold(names.digest)
    records = followed(
        source,
        clock,
        threading.Event(),
        follow=follow,
        poll_seconds=poll_seconds,
        retry_seconds=RETRY_SECONDS,
    )
    with closing(source):
        for record in filter(None, records):
            release = None
            with foreign.reading(record):
                release = fold.read(record.value)
            if release is not None:
                yield release
