"""Reports that wait for company: who leaves when, and how many leave together.

A report that leaves alone is linked to the moment at which its device sent it. So reports of one
group and window leave ``min_batch`` or more at a time, and the last ``min_batch`` of a pile stay
behind for those that still come: what is left in the end is small only where the whole group was.
Which reports stay is drawn at random, so that the time of a report's arrival does not say which
batch it is in. What is below ``min_batch`` waits until its window is nearly out of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from estimators.plan import Plan
from estimators.randomness import Randomness
from producer.rows import Row
from producer.sealing import permutation

SHORT_GRACE = 20
"""Seconds of grace below which a quarter is too short for the last devices to be heard."""

DELIVERY_MS = 2000
"""Left before the end of a short grace: enough for a batch and two or three resends of it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time by two clocks.

    Attributes:
        monotonic: seconds, for lingering.
        wall: milliseconds since the epoch, for windows.
    """

    monotonic: float
    wall: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Reports of one group and window that leave together.

    Attributes:
        group: index of the group.
        period: number of the window.
        rows: in random order.
        small: whether they are fewer than ``min_batch``.
    """

    group: int
    period: int
    rows: list[Row]
    small: bool


class Wanted(Enum):
    """Which piles leave."""

    DUE = "those whose time has come"
    ALLOWED = "all that are large enough, lingering or not"
    ALL = "all"


@dataclass(slots=True)
class _Pile:
    group: int
    period: int
    opened: Moment
    rows: list[Row] = field(default_factory=list)


def waits_until(plan: Plan, period: int) -> int:
    """When a window's small piles leave at the latest, milliseconds since the epoch.

    A quarter of the grace after the window's end: devices that report at the very end are heard,
    and three quarters are left to deliver. A grace below 20 s is used up to ``DELIVERY_MS`` before
    its end, or up to a quarter of window and grace where these are shorter still.
    """
    end, grace = plan.window_end(period), 1000 * plan.grace
    if plan.grace >= SHORT_GRACE:
        return end + grace // 4
    return end + grace - min(DELIVERY_MS, (1000 * plan.window + grace) // 4)


class Piles:
    """The piles of one plan. Not safe for use from several threads.

    Memory: ``most`` and ``min_batch`` rows for every group and window that is open.

    Args:
        plan: whose groups and windows.
        most: of every group, most reports that leave together from a full pile.
        min_batch: least reports that leave together, 1 for any number.
        linger: seconds that a pile waits for more although it may leave.
        randomness: draws who leaves and in which order.
    """

    def __init__(
        self,
        plan: Plan,
        most: Sequence[int],
        *,
        min_batch: int,
        linger: float,
        randomness: Randomness,
    ) -> None:
        self._plan = plan
        self._least = min_batch
        self._kept = min_batch if min_batch > 1 else 0
        self._most = [max(own, min_batch) for own in most]
        self._linger = linger
        self._randomness = randomness
        self._piles: dict[tuple[int, int], _Pile] = {}

    @property
    def waiting(self) -> int:
        """Reports in all piles. O(piles)."""
        return sum(len(pile.rows) for pile in self._piles.values())

    def add(self, group: int, period: int, row: Row, clock: Callable[[], Moment]) -> Leaving | None:
        """Put a report on its pile; what leaves because that became full.

        ``clock`` is asked only where a pile opens or leaves.
        """
        pile = self._piles.get((group, period))
        if pile is None:
            pile = self._piles[group, period] = _Pile(group, period, clock())
        pile.rows.append(row)
        if len(pile.rows) < self._most[group] + self._kept:
            return None
        return self._leave(pile, self._most[group], clock())

    def shortened(self, group: int, period: int) -> bool:
        """Whether the last report on this pile can have made :meth:`patience` shorter."""
        pile = self._piles.get((group, period))
        return pile is not None and len(pile.rows) in (1, self._least + self._kept)

    def take(self, wanted: Wanted, now: Moment) -> list[Leaving]:
        """What leaves now. O(piles), and O(n log n) for those that leave."""
        found = list(self._leaving(wanted, now))
        return [self._leave(pile, reports, now) for pile, reports in found]

    def patience(self, now: Moment) -> float | None:
        """Seconds until :meth:`take` has something that is due; None if never. O(piles)."""
        return min((self._seconds(pile, now) for pile in self._piles.values()), default=None)

    def _leaving(self, wanted: Wanted, now: Moment) -> Iterator[tuple[_Pile, int]]:
        for pile in self._piles.values():
            reports = len(pile.rows)
            if wanted is Wanted.ALL or (wanted is Wanted.ALLOWED and reports >= self._least):
                yield pile, reports
            elif self._seconds(pile, now) <= 0:
                yield pile, reports - (self._kept if self._is_open(pile, now) else 0)

    def _seconds(self, pile: _Pile, now: Moment) -> float:
        """Until the pile, or all of it but what is kept, is due; not above 0 if it is."""
        lingers = pile.opened.monotonic + self._linger - now.monotonic
        until = waits_until(self._plan, pile.period)
        if self._is_open(pile, now):
            ends = (until - now.wall) / 1000
            return min(lingers, ends) if len(pile.rows) >= self._least + self._kept else ends
        waited = self._is_open(pile, pile.opened) and now.wall >= until
        return min(lingers, 0.0) if waited else lingers

    def _is_open(self, pile: _Pile, now: Moment) -> bool:
        """Whether more reports of its window are expected; else there is no company to wait for."""
        first = self._plan.window_start(pile.period) - 1000 * self._plan.skew
        return first <= now.wall < waits_until(self._plan, pile.period)

    def _leave(self, pile: _Pile, reports: int, now: Moment) -> Leaving:
        order = permutation(len(pile.rows), self._randomness).tolist()
        rows = [pile.rows[i] for i in order[:reports]]
        pile.rows = [pile.rows[i] for i in order[reports:]]
        pile.opened = now
        if not pile.rows:
            del self._piles[pile.group, pile.period]
        return Leaving(pile.group, pile.period, rows, len(rows) < self._least)
