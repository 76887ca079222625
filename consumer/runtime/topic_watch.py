"""Noticing that a topic in use was deleted, which reading from it does not tell.

The Kafka client keeps asking quietly for a topic that is gone, and a consumer group simply hands
out what is left; a worker would live on and count nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from broker.clock import Clock
from broker.transport import TopicInfo, Topics
from estimators.errors import FatalError


class TopicWatch:
    """Asks now and then, beside the caller's loop, whether topics are still the same ones.

    Args:
        topics: safe for use from several threads; closing it is the caller's.
        known: the topics as they were found at the start.
        clock: for the interval.
        every_seconds: between two questions; a deletion shows within that and a request.
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
        """Called often; never blocks.

        Raises:
            FatalError: a topic is gone or another one of its name is there, with the remedy.
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
        except Exception:  # noqa: BLE001 - whatever ails the broker is seen where it is needed
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
                    f"topic {name} was deleted and made anew (id {found[name].id}, was {known}); "
                    "start again, and count into a new output namespace if told to"
                )
