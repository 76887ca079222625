"""Reads the releases of a central plan: the noisy tables of each window.

A release is returned when its manifest and all its levels were read. A level is the tables over a
given number of columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker, Partition
from calmstream.estimators.central.release_reading import CentralRelease, ReleaseFold, ReleaseOwners

__all__ = ["CentralRelease", "subscribe_releases"]


def subscribe_releases(
    broker: Broker,
    names: CentralNames,
    *,
    follow: bool = True,
    stop: threading.Event | None = None,
    poll_seconds: float = 0.5,
) -> Iterator[CentralRelease]:
    """Yield the releases of a plan, from the oldest one that the topic keeps.

    For each window, only the release with the valid claim counts (the first claim of the window).
    Other records in the topic are skipped; the first of them is logged, and at the end their
    number.

    Args:
        broker: the connection to the broker; it stays open.
        names: names of the plan's topics.
        follow: whether to wait for new releases at the end of the topic; otherwise the iterator
            ends there.
        stop: an event that ends the iterator.
        poll_seconds: maximum time of one wait.

    Raises:
        RecoverableError: the broker does not answer.
        FatalError: the topic does not exist or cannot be read.
    """
    stop = threading.Event() if stop is None else stop
    partition = Partition(names.releases, 0)
    topics, reader = broker.topics(), broker.reader()
    log = structlog.get_logger("calmstream.releases")
    fold = ReleaseFold(ReleaseOwners(names.digest))
    try:
        end = topics.log_ends([partition])[partition]
        reader.assign([partition])
        reader.seek(partition, topics.log_starts([partition])[partition])
        while not stop.is_set() and (follow or reader.position(partition) < end):
            for record in reader.poll(poll_seconds):
                before = fold.ignored
                release = fold.read(record.value)
                if fold.ignored == 1 > before:
                    log.warning("a record is no release of this plan", offset=record.offset)
                if release is not None:
                    yield release
    finally:
        if fold.ignored > 1:
            log.warning("records are no releases of this plan", records=fold.ignored)
        reader.close()
        topics.close()
