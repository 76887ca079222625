"""Reads the releases of a central plan: complete ones, each window's by its first claim."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import SystemClock
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
    log = structlog.get_logger("calmstream.releases")
    fold = ReleaseFold(names.digest)
    try:
        for record in followed(
            source,
            clock,
            threading.Event(),
            follow=follow,
            poll_seconds=poll_seconds,
            retry_seconds=RETRY_SECONDS,
        ):
            if record is None:
                continue
            before = fold.ignored
            release = fold.read(record.value)
            if fold.ignored == 1 > before:
                log.warning("a record is no release of this plan", offset=record.offset)
            if release is not None:
                yield release
    finally:
        if fold.ignored > 1:
            log.warning("records are no releases of this plan", records=fold.ignored)
        source.close()
