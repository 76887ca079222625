"""Whether two sets of windows hold the same devices, and what that does to their comparison.

With w-event windows t, t + w, ... are of the same devices; t modulo w is their slot.
"""

from __future__ import annotations

from collections import Counter

PAIRED = "paired"
REPEATED = "repeated"

Span = tuple[int, int]


def relation(period: int, one: Span, other: Span) -> tuple[tuple[str, ...], tuple[bool, bool]]:
    """Return the flags of two sets of windows apart, and where sampling counts once per device.

    `PAIRED` makes the test conservative; `REPEATED` says that sampling counted so on a side.
    """
    if period == 1:
        return (), (False, False)
    slots = [Counter(w % period for w in range(a, b + 1)) for a, b in (one, other)]
    paired = (PAIRED,) if set(slots[0]) & set(slots[1]) else ()
    even = all(len(own) == period and len(set(own.values())) == 1 for own in slots)
    # One side is a single window, and the other one all windows before it.
    single = any(a[0] == a[1] and b == (0, a[0] - 1) for a, b in ((one, other), (other, one)))
    if even or single:
        return paired, (False, False)
    often = max(slots[0].values()) > 1, max(slots[1].values()) > 1
    return (*paired, *([REPEATED] if any(often) else [])), often


def mean_repeats(period: int, reports: dict[int, int]) -> float:
    """Return the mean number of reports of the device behind a report, at least 1."""
    windows = Counter(window % period for window in reports)
    total = sum(reports.values())
    if total == 0:
        return 1.0
    return sum(n * windows[window % period] for window, n in reports.items()) / total
