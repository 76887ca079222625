"""Watches the facts about a plan's topics, and whether a broker answers at all.

The Kafka client shows neither: it repeats requests for a deleted topic silently, and reads on
from a topic whose settings are wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import SETTINGS, TopicFault, faults
from calmstream.broker.transport import TopicInfo, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import BrokerUnreachable, CalmstreamError, FatalError
from calmstream.estimators.plan import Plan

EVERY_SECONDS = 10.0  # between two checks, unless a role states another time
_LOG = logging.getLogger("calmstream.topics")


class TopicWatch:
    """Checks topics regularly, on a thread of its own.

    ``topics`` must be safe for several threads. ``create`` says what to do where a topic is gone
    and the plan was not retired. Without ``retry_seconds`` the caller looks at `silent_seconds`.
    ``fault`` is what is wrong and does not stop the counting.
    """

    def __init__(
        self,
        find_faults: Callable[[Mapping[str, TopicInfo]], Iterable[TopicFault]],
        topics: Topics,
        found: Mapping[str, TopicInfo],
        clock: Clock,
        *,
        every_seconds: float = EVERY_SECONDS,
        retry_seconds: float | None = None,
        create: str = "create it again (calmstream topics); what a new reports topic has is counted"
        " into a new output namespace",
    ) -> None:
        self.fault = ""
        self._create = create
        self._find_faults = find_faults
        self._topics = topics
        self._ids = {name: info.id for name, info in found.items()}
        self._clock = clock
        self._every = every_seconds
        self._retry_seconds = retry_seconds
        self._answered = clock.monotonic()
        self._failing_since: float | None = None
        self._next = self._answered + every_seconds
        self._thread: threading.Thread | None = None
        self._error = self._failure = ""
        self._note_faults(found)

    def turn(self) -> None:
        """Begin a check if one is due; raise what an earlier one found. Never blocks."""
        if self._error:
            raise FatalError(self._error)
        now = self._clock.monotonic()
        failing = 0.0 if self._failing_since is None else now - self._failing_since
        if self._retry_seconds is not None and failing >= self._retry_seconds:
            raise BrokerUnreachable(self.silence())
        if now >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = now + self._every
            self._thread = threading.Thread(target=self._check, name="topics", daemon=True)
            self._thread.start()

    def silent_seconds(self) -> float:
        """The last answer's age if checks fail; else 0, also after the process was suspended."""
        failing = self._failing_since is not None
        return self._clock.monotonic() - self._answered if failing else 0.0

    def silence(self) -> str:
        silent = f"no broker has answered for {self.silent_seconds():.0f} s; start again"
        return f"{silent} (the last error: {self._failure})"

    def _check(self) -> None:
        try:
            self._note_faults(described(self._topics, self._ids))
        except Exception as error:  # noqa: BLE001 - repeated, and shown when it lasts
            self._failure = str(error) if isinstance(error, CalmstreamError) else repr(error)
            if self._failing_since is None:
                _LOG.warning("the topics cannot be checked: %s", self._failure)
                self._failing_since = self._clock.monotonic()
        else:
            self._answered, self._failing_since = self._clock.monotonic(), None

    def _note_faults(self, found: Mapping[str, TopicInfo]) -> None:
        changed = self._changed(found)
        wrong = [] if changed else list(self._find_faults(found))
        self._error = changed or next((fault.text for fault in wrong if fault.stops), "")
        self.fault = next((fault.text for fault in wrong if not fault.stops), "")

    def _changed(self, found: Mapping[str, TopicInfo]) -> str:
        for name, known in self._ids.items():
            if name not in found:
                return (
                    f"topic {name} was deleted while it was in use; if the plan was retired, stop "
                    f"this service; else {self._create}"
                )
            if found[name].id != known:
                return (
                    f"topic {name} was deleted and created again (id {found[name].id}, was "
                    f"{known}); start again; if that is refused, {self._create}"
                )
        return ""


def watch_plan(
    plan: Plan,
    names: TopicNames,
    topics: Topics,
    found: Mapping[str, TopicInfo],
    clock: Clock,
    *,
    every_seconds: float = EVERY_SECONDS,
    retry_seconds: float | None = None,
) -> TopicWatch:
    return TopicWatch(
        lambda now: faults(plan, names, now, used=found),
        topics,
        found,
        clock,
        every_seconds=every_seconds,
        retry_seconds=retry_seconds,
    )


def described(topics: Topics, names: Collection[str]) -> dict[str, TopicInfo]:
    """Describe topics with the settings that are checked, or without where these are forbidden."""
    wanted = sorted(names)
    try:
        return topics.describe(wanted, SETTINGS)
    except FatalError:  # a reader of results may not read settings
        return topics.describe(wanted, ())
