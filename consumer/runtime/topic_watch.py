"""Noticing that a topic in use was deleted, which reading from it does not show.

The Kafka client silently repeats requests for a deleted topic, and a consumer group assigns the
remaining partitions; a worker would continue without error and count nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from broker.clock import Clock
from broker.transport import TopicInfo, Topics
from estimators.errors import FatalError


class TopicWatch:
    """Checks at intervals, on a thread of its own, that topics are still the same ones.

    Args:
        topics: safe for use from several threads; the caller closes it.
        known: the topics as they were found at the start.
        clock: for the interval.
        every_seconds: between two checks. A deletion is noticed after this time plus a request.
    """

    def __init__(
        self, topics: Topics, known: Mapping[str, TopicInfo], clock: Clock, every_seconds: float
    ) -> None:
        self._topics = topics
        self._ids = {name: info.id for name, info in known.items()}
        self._clock = clock
        self._every = every_seconds
        self._next = clock.monotonic() + every_seconds
        self._asking: threading.Thread | None = None
        self._trouble = ""

    def turn(self) -> None:
        """Begin a check if one is due. Called often; never blocks.

        Raises:
            FatalError: a topic is gone, or another topic has its name; with the remedy.
        """
        if self._trouble:
            raise FatalError(self._trouble)
        now = self._clock.monotonic()
        if now >= self._next and (self._asking is None or not self._asking.is_alive()):
            self._next = now + self._every
            self._asking = threading.Thread(target=self._ask, name="topics", daemon=True)
            self._asking.start()

    def _ask(self) -> None:
        try:
            found = self._topics.describe(sorted(self._ids))
        except Exception:  # noqa: BLE001 - a broker that has failed is noticed where it is used
            return
        for name, known in self._ids.items():
            if name not in found:
                self._trouble = (
                    f"topic {name} was deleted while it was in use; if the plan was retired, stop "
                    "this service; else create it again (calmstream topics) and count what is left "
                    "into a new output namespace"
                )
            elif found[name].id != known:
                self._trouble = (
                    f"topic {name} was deleted and created again (id {found[name].id}, "
                    f"was {known}); "
                    "start again; if that is refused, count into a new output namespace"
                )
