"""Reading releases: a release is shown once its manifest and every level are there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from broker.names import CentralNames
from broker.transport import Broker, Partition
from estimators.central.release_reading import CentralRelease, ReleaseFold, ReleaseOwners

__all__ = ["CentralRelease", "subscribe_releases"]


def subscribe_releases(
    broker: Broker,
    names: CentralNames,
    *,
    follow: bool = True,
    stop: threading.Event | None = None,
    poll_seconds: float = 0.5,
) -> Iterator[CentralRelease]:
    """Releases from the oldest kept on. Blocks between them; ends at the end without ``follow``.

    Only releases of the plan in ``names`` count, and of each window only the one whose claim holds
    the window. Anything else in the topic is passed over; the first such record is logged, and at
    the end how many there were.

    Raises:
        RecoverableError, FatalError: as the broker's.
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
