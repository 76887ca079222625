"""Requests the ends of the logs of owned partitions from the broker, on a thread of its own.

Fetches report ends too, but look idle when a leader fails or was replaced by one without the newest
records, and say nothing of an idle partition that a member lost and got back.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from calmstream.broker.transport import Partition, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError

_AGAIN_SECONDS = 10.0
"""Longest time until the next request after one that was not answered."""


_TIMES = 2
"""Answers that show an end below what was counted, until records count as lost."""


def lost_records(partition: Partition, end: int, counted: int) -> FatalError:
    return FatalError(
        f"{partition}: the log ends at {end}, but it was counted up to {counted}: the broker lost "
        "records; restore its log, or count what is left into a new output namespace"
    )


class EndWatch:
    """Knows the largest observed end of each owned log, and which brokers do not answer."""

    def __init__(self, topics: Topics, clock: Clock, every_seconds: float) -> None:
        self._topics = topics
        self._clock = clock
        self._every = every_seconds
        self._next = clock.monotonic() + every_seconds
        self._request: threading.Thread | None = None
        # These two are replaced under the lock and never changed in place, so that readers need no
        # lock.
        self._lock = threading.Lock()
        self._ends: dict[Partition, int] = {}
        self._unreachable: frozenset[Partition] = frozenset()
        # How often in a row a log was too short, with its end and what was counted then.
        self._short: dict[Partition, tuple[int, int, int]] = {}

    def turn(self, counted: Mapping[Partition, int]) -> None:
        """Begin a request if one is due. Called often; never blocks."""
        for partition, (times, end, offset) in list(self._short.items()):
            if times >= _TIMES and partition in counted:
                raise lost_records(partition, end, offset)
        now = self._clock.monotonic()
        if now >= self._next and (self._request is None or not self._request.is_alive()):
            self._next = now + self._every
            self._request = threading.Thread(
                target=self._update, args=(dict(counted),), name="ends", daemon=True
            )
            self._request.start()

    def end(self, partition: Partition) -> int | None:
        return self._ends.get(partition)

    def note(self, ends: Mapping[Partition, int]) -> None:
        """Note ends that were observed elsewhere, for example during a restore."""
        with self._lock:
            self._ends = _larger(self._ends, ends)

    def unreachable(self, partition: Partition) -> bool:
        """Return whether the last request about this partition was not answered."""
        return partition in self._unreachable

    def reachable(self, partition: Partition) -> bool:
        """Return whether a partition's end is known and the last request for it was answered."""
        return partition in self._ends and partition not in self._unreachable

    def mark_unreachable(self, partitions: Collection[Partition]) -> None:
        """Mark partitions whose broker does not answer; forget their ends until it does."""
        with self._lock:
            self._unreachable |= frozenset(partitions)
            self._ends = {p: end for p, end in self._ends.items() if p not in self._unreachable}

    def _update(self, counted: dict[Partition, int]) -> None:
        """Request the ends of all partitions together and, if that fails, of each alone."""
        partitions = frozenset(counted)
        ends = self._fetch_ends(partitions)
        if ends is not None:
            self._judge(ends, counted)
            with self._lock:
                self._ends, self._unreachable = _larger(self._ends, ends), frozenset()
            return
        # With a long interval, a short trouble would otherwise look like a long one.
        self._next = min(self._next, self._clock.monotonic() + _AGAIN_SECONDS)
        # Any of the partitions can be the cause. They are requested one by one, so that those of
        # a healthy broker do not wait. Until its own request ends, each keeps its present state.
        with self._lock:
            self._unreachable &= partitions
        for partition in sorted(partitions):
            end = self._fetch_ends(frozenset((partition,)))
            self._judge(end or {}, counted)
            with self._lock:
                if end is None:
                    self._unreachable |= {partition}
                else:
                    self._ends = _larger(self._ends, end)
                    self._unreachable -= {partition}

    def _judge(self, ends: Mapping[Partition, int], counted: Mapping[Partition, int]) -> None:
        """Note which logs end below what was counted when the request began."""
        for partition, end in ends.items():
            times = self._short.pop(partition, (0, 0, 0))[0]
            if end < counted[partition]:
                self._short[partition] = times + 1, end, counted[partition]

    def _fetch_ends(self, partitions: frozenset[Partition]) -> dict[Partition, int] | None:
        try:
            return self._topics.log_ends(partitions) if partitions else {}
        except CalmstreamError:
            return None


def _larger(one: Mapping[Partition, int], other: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the larger end of each log: logs only grow, and an answer can come late."""
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in one.keys() | other.keys()}
