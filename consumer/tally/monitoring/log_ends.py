"""Requests the ends of the logs of owned partitions from the broker, on a thread of its own.

Fetches report the end of a log too, but not always. If the leader of a partition fails after the
partition was read to its end, fetches look as if no records had been sent; a request without an
answer shows the failure. And if a member loses an idle partition and gets it back, fetches do not
report its end again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from calmstream.broker.transport import Partition, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError

_AGAIN_SECONDS = 10.0
"""Longest time until the next request after one that was not answered."""


class EndWatch:
    """Requests the ends of partitions regularly, on a thread of its own.

    Args:
        topics: an administrator that is safe for use from several threads; the caller closes it.
        clock: measures the interval.
        every_seconds: time between two requests. A failed leader is detected after at most this
            time and the time limit of a request.
    """

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

    def turn(self, partitions: Collection[Partition]) -> None:
        """Begin a request if one is due. Called often, with the owned partitions; never blocks."""
        now = self._clock.monotonic()
        if now >= self._next and (self._request is None or not self._request.is_alive()):
            self._next = now + self._every
            self._request = threading.Thread(
                target=self._update, args=(frozenset(partitions),), name="ends", daemon=True
            )
            self._request.start()

    def end(self, partition: Partition) -> int | None:
        """Return the end of a log that was observed last; None if it was never observed."""
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
        """Mark partitions whose broker did not answer a request of another object.

        Their ends are forgotten until the broker answers.
        """
        with self._lock:
            self._unreachable |= frozenset(partitions)
            self._ends = {p: end for p, end in self._ends.items() if p not in self._unreachable}

    def _update(self, partitions: frozenset[Partition]) -> None:
        """Request the ends of all partitions together and, if that fails, of each alone."""
        ends = self._fetch_ends(partitions)
        if ends is not None:
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
            with self._lock:
                if end is None:
                    self._unreachable |= {partition}
                else:
                    self._ends = _larger(self._ends, end)
                    self._unreachable -= {partition}

    def _fetch_ends(self, partitions: frozenset[Partition]) -> dict[Partition, int] | None:
        """Return the ends, or None if the broker does not answer."""
        try:
            return self._topics.log_ends(partitions) if partitions else {}
        except CalmstreamError:
            return None


def _larger(one: Mapping[Partition, int], other: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the larger end of each log: logs only grow, and an answer can come late."""
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in one.keys() | other.keys()}
