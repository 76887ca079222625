"""Where the logs of owned partitions end, asked of the broker beside the loop.

Fetches show the end of a log too, but not always. A partition whose leader died while it was read
to its end looks as if nothing had been sent; a question that is not answered tells the two apart.
And to a member that lost a partition and got it back, fetches show the end of a silent log no more.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from broker.clock import Clock
from broker.transport import Partition, Topics
from estimators.errors import CalmstreamError


class EndWatch:
    """Asks now and then for the ends of some partitions, on a thread of its own.

    Args:
        topics: safe for use from several threads; closing it is the caller's.
        clock: for the interval.
        every_seconds: between two questions; a leader that is gone shows within that and the
            time-out of a request.
    """

    def __init__(self, topics: Topics, clock: Clock, every_seconds: float) -> None:
        self._topics = topics
        self._clock = clock
        self._every = every_seconds
        self._next = clock.monotonic() + every_seconds
        self._asking: threading.Thread | None = None
        # Replaced whole under the lock, never changed in place: reading needs none.
        self._lock = threading.Lock()
        self._ends: dict[Partition, int] = {}
        self._unreachable: frozenset[Partition] = frozenset()

    def turn(self, partitions: Collection[Partition]) -> None:
        """Called often, with the partitions owned now; never blocks."""
        now = self._clock.monotonic()
        if now >= self._next and (self._asking is None or not self._asking.is_alive()):
            self._next = now + self._every
            asked = frozenset(partitions)
            self._asking = threading.Thread(
                target=self._ask, args=(asked,), name="ends", daemon=True
            )
            self._asking.start()

    def end(self, partition: Partition) -> int | None:
        """Offset after the last record when it was asked for last; None if it never was."""
        return self._ends.get(partition)

    def note(self, ends: Mapping[Partition, int]) -> None:
        """Somebody else has asked, as a restore does: so far these logs go at least."""
        with self._lock:
            self._ends = _furthest(self._ends, ends)

    def unreachable(self, partition: Partition) -> bool:
        """Whether the last question about this partition was not answered."""
        return partition in self._unreachable

    def reachable(self, partition: Partition) -> bool:
        """Whether its end was told, and the last question about it was answered."""
        return partition in self._ends and partition not in self._unreachable

    def mark_unreachable(self, partitions: Collection[Partition]) -> None:
        """These are silent, as somebody else has found; forget their ends until they answer."""
        with self._lock:
            self._unreachable |= frozenset(partitions)
            self._ends = {p: end for p, end in self._ends.items() if p not in self._unreachable}

    def _ask(self, asked: frozenset[Partition]) -> None:
        ends = self._answers(asked)
        if ends is not None:
            with self._lock:
                self._ends, self._unreachable = _furthest(self._ends, ends), frozenset()
            return
        # It may be any: each is asked alone, and what was known of it stands until then. One whose
        # broker is well must not be held up by a question that went to one that is not.
        with self._lock:
            self._unreachable &= asked
        for partition in sorted(asked):
            told = self._answers(frozenset((partition,)))
            with self._lock:
                if told is None:
                    self._unreachable |= {partition}
                else:
                    self._ends = _furthest(self._ends, told)
                    self._unreachable -= {partition}

    def _answers(self, asked: frozenset[Partition]) -> dict[Partition, int] | None:
        try:
            return self._topics.log_ends(asked) if asked else {}
        except CalmstreamError:
            return None


def _furthest(one: Mapping[Partition, int], other: Mapping[Partition, int]) -> dict[Partition, int]:
    """The larger end of each: a log grows, and an answer can be older than what is known."""
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in one.keys() | other.keys()}
