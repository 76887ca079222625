"""Detects that a topic in use was deleted.

Reading from a deleted topic does not show it: the Kafka client silently repeats its requests, and a
consumer group assigns only the remaining partitions. A worker would continue without an error and
count nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from calmstream.broker.transport import TopicInfo, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError


class TopicWatch:
    """Checks regularly, on a thread of its own, that topics still exist with the same ids.

    Args:
        topics: an administrator that is safe for use from several threads; the caller closes it.
        known: the descriptions of the topics when the service started, by name.
        clock: measures the interval.
        every_seconds: time between two checks. A deletion is detected after at most this time and
            the duration of one request.
    """

    def __init__(
        self, topics: Topics, known: Mapping[str, TopicInfo], clock: Clock, every_seconds: float
    ) -> None:
        self._topics = topics
        self._ids = {name: info.id for name, info in known.items()}
        self._clock = clock
        self._every = every_seconds
        self._next = clock.monotonic() + every_seconds
        self._check: threading.Thread | None = None
        self._error = ""

    def turn(self) -> None:
        """Begin a check if one is due. Called often; never blocks.

        Raises:
            FatalError: an earlier check found that a topic was deleted; the message says what to
                do.
        """
        if self._error:
            raise FatalError(self._error)
        now = self._clock.monotonic()
        if now >= self._next and (self._check is None or not self._check.is_alive()):
            self._next = now + self._every
            self._check = threading.Thread(target=self._compare_ids, name="topics", daemon=True)
            self._check.start()

    def _compare_ids(self) -> None:
        try:
            found = self._topics.ids(sorted(self._ids))
        except Exception:  # noqa: BLE001 - the worker itself notices that the broker has failed
            return
        for name, known_id in self._ids.items():
            if name not in found:
                self._error = (
                    f"topic {name} was deleted while it was in use; if the plan was retired, stop "
                    "this service; else create it again (calmstream topics) and count what is left "
                    "into a new output namespace"
                )
            elif found[name] != known_id:
                self._error = (
                    f"topic {name} was deleted and created again (id {found[name]}, "
                    f"was {known_id}); "
                    "start again; if that is refused, count into a new output namespace"
                )
