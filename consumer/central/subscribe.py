"""Reading releases: a release is shown once its manifest and every level are there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.central_names import CentralNames
from broker.transport import Broker, Partition
from estimators.central.wire import read_release


@dataclass(frozen=True, slots=True)
class CentralRelease:
    """One window's noisy counts, as documents; see :mod:`estimators.central.wire`.

    Attributes:
        manifest: about the release.
        levels: by tuple size.
    """

    manifest: dict[str, Any]
    levels: dict[int, dict[str, Any]]


def subscribe_releases(
    broker: Broker,
    names: CentralNames,
    *,
    follow: bool = True,
    stop: threading.Event | None = None,
    poll_seconds: float = 0.5,
) -> Iterator[CentralRelease]:
    """Releases from the oldest kept on. Blocks between them; ends at the end without ``follow``.

    Raises:
        InvalidInput: something else is written to the topic.
        RecoverableError, FatalError: as the broker's.
    """
    stop = threading.Event() if stop is None else stop
    partition = Partition(names.releases, 0)
    topics, reader = broker.topics(), broker.reader()
    levels: dict[int, dict[int, dict[str, Any]]] = {}
    try:
        end = topics.log_ends([partition])[partition]
        reader.assign([partition])
        reader.seek(partition, topics.log_starts([partition])[partition])
        while not stop.is_set() and (follow or reader.position(partition) < end):
            for record in reader.poll(poll_seconds):
                body = read_release(record.value or b"")
                window = int(body["window"])
                if "k" in body:
                    levels.setdefault(window, {})[int(body["k"])] = body
                elif set(body["levels"]) <= set(levels.get(window, {})):
                    yield CentralRelease(body, levels.pop(window, {}))
    finally:
        reader.close()
        topics.close()
