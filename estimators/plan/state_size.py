"""How large a partition's state record can become: an upper bound in bytes of its JSON."""

from __future__ import annotations

from collections.abc import Collection

from estimators.errors import Reason

HEADROOM = 100
"""A window may receive this many times the reports that its plan expects."""

_LARGEST = (1 << 63) - 1
_INTEGER = len(str(_LARGEST))
_HEADER = 1024
"""Everything but counts: version, digest, topic id, offsets, clocks, and their names."""

_NAMES = 128
"""One window's names and brackets."""


def window_bytes(
    views: int, width: int, reports: int, largest_count: int, reasons: Collection[Reason]
) -> int:
    """Upper bound of one group's counts, written as ``Tally.to_json`` does, and of its rejects.

    Args:
        views: of the group.
        width: counters per view.
        reports: most that are counted.
        largest_count: most that one report adds to a counter.
        reasons: why a record can be rejected under the plan.
    """
    n = len(str(min(reports, _LARGEST))) + 1
    counter = len(str(min(reports * largest_count, _LARGEST))) + 1
    rejects = sum(len(reason.value) + _INTEGER + 4 for reason in reasons)
    return _NAMES + rejects + views * (n + width * counter + 2)


def record_bytes(
    views: int,
    width: int,
    largest_count: int,
    *,
    users: int,
    windows: int,
    open_windows: int,
    reasons: Collection[Reason],
) -> int:
    """Upper bound of a partition record of one group.

    It holds while no window receives more than :data:`HEADROOM` times the expected reports.

    Args:
        views: of the group.
        width: counters per view.
        largest_count: most that one report adds to a counter.
        users: reports expected per window.
        windows: of the plan.
        open_windows: most that are open at a time.
        reasons: why a record can be rejected under the plan.
    """
    one, every = HEADROOM * users, HEADROOM * users * windows
    total = window_bytes(views, width, every, largest_count, reasons)
    still_open = window_bytes(views, width, one, largest_count, reasons)
    return _HEADER + total + open_windows * still_open
