"""The ends of the logs of owned partitions, requested from the broker on a thread of its own.

Fetches show the end of a log too, but not always. When the leader of a partition dies after the
partition was read to its end, fetches look as if nothing had been sent; a request that is not
answered shows the difference. And when a member loses an idle partition and gets it back, fetches
do not show its end again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from broker.clock import Clock
from broker.transport import Partition, Topics
from estimators.errors import CalmstreamError


class EndWatch:
    """Requests the ends of some partitions at intervals, on a thread of its own.

    Args:
        topics: safe for use from several threads; closing it is the caller's.
        clock: for the interval.
        every_seconds: between two requests. A dead leader is noticed after this time plus the
            time-out of a request.
    """

    def __init__(self, topics: Topics, clock: Clock, every_seconds: float) -> None:
        self._topics = topics
        self._clock = clock
        self._every = every_seconds
        self._next = clock.monotonic() + every_seconds
        self._asking: threading.Thread | None = None
        # Replaced whole under the lock, never changed in place, so that readers need no lock.
        self._lock = threading.Lock()
        self._ends: dict[Partition, int] = {}
        self._unreachable: frozenset[Partition] = frozenset()

    def turn(self, partitions: Collection[Partition]) -> None:
        """Begin a request if one is due. Called often, with the owned partitions; never blocks."""
        now = self._clock.monotonic()
        if now >= self._next and (self._asking is None or not self._asking.is_alive()):
            self._next = now + self._every
            asked = frozenset(partitions)
            self._asking = threading.Thread(
                target=self._ask, args=(asked,), name="ends", daemon=True
            )
            self._asking.start()

    def end(self, partition: Partition) -> int | None:
        """Return the offset after the last record, as last observed; None if it never was."""
        return self._ends.get(partition)

    def note(self, ends: Mapping[Partition, int]) -> None:
        """Note ends that were observed elsewhere, as by a restore."""
        with self._lock:
            self._ends = _furthest(self._ends, ends)

    def unreachable(self, partition: Partition) -> bool:
        """Return whether the last request about this partition was not answered."""
        return partition in self._unreachable

    def reachable(self, partition: Partition) -> bool:
        """Return whether its end is known and the last request about it was answered."""
        return partition in self._ends and partition not in self._unreachable

    def mark_unreachable(self, partitions: Collection[Partition]) -> None:
        """Mark partitions that did not answer elsewhere; forget their ends until they answer."""
        with self._lock:
            self._unreachable |= frozenset(partitions)
            self._ends = {p: end for p, end in self._ends.items() if p not in self._unreachable}

    def _ask(self, asked: frozenset[Partition]) -> None:
        ends = self._answers(asked)
        if ends is not None:
            with self._lock:
                self._ends, self._unreachable = _furthest(self._ends, ends), frozenset()
            return
        # Any of them can be the cause. Each is requested alone, so that a partition of a healthy
        # broker does not wait for one that does not answer; what is known stays until then.
        with self._lock:
            self._unreachable &= asked
        for partition in sorted(asked):
            found = self._answers(frozenset((partition,)))
            with self._lock:
                if found is None:
                    self._unreachable |= {partition}
                else:
                    self._ends = _furthest(self._ends, found)
                    self._unreachable -= {partition}

    def _answers(self, asked: frozenset[Partition]) -> dict[Partition, int] | None:
        try:
            return self._topics.log_ends(asked) if asked else {}
        except CalmstreamError:
            return None


def _furthest(one: Mapping[Partition, int], other: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the larger end of each: a log grows, and an answer can be older than what is known."""
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in one.keys() | other.keys()}
