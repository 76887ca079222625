"""Names of windows in questions: ``current``, ``total``, ``latest``, ``I``, ``I..J``, dates, spans.

``DATE``, ``DATE..DATE``; ``last 7 days`` or ``last:7d``; a zone may follow dates: `Europe/Berlin`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from calmstream.common.errors import InvalidInput
from calmstream.estimators.plan import Plan

CURRENT = "current"
TOTAL = "total"
LATEST = "latest"
PREVIOUS = "previous"
BEFORE = "before"
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_LAST = re.compile(r"last (?:(\d{1,6}) )?(minute|hour|day|week|window)s?", re.ASCII)
_SHORT = re.compile(r"last:(\d{1,6})([mhdw]?)", re.ASCII)
_UNITS = {"": "window", "m": "minute", "h": "hour", "d": "day", "w": "week"}
_MILLISECONDS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}


class NoAnswer(InvalidInput):
    """Windows about which nothing can be said, and why."""

    def __init__(self, why: Literal["not_final", "not_kept", "no_reports"], message: str) -> None:
        super().__init__(message)
        self.why: Literal["not_final", "not_kept", "no_reports"] = why


@dataclass(frozen=True, slots=True)
class Windows:
    """Consecutive windows, both ends included."""

    first: int
    last: int
    # `total` has the counts of earlier plans too, which a plan may carry. `current` is the last
    # window, with what earlier ones say about it.
    total: bool = False
    current: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        if self.total:
            return f"all windows through {self.last}"
        if self.current:
            return f"now, in window {self.last}"
        return f"window {self.first}" if len(self) == 1 else f"windows {self.first} to {self.last}"

    def overlaps(self, other: Windows) -> bool:
        return self.first <= other.last and other.first <= self.last

    def to_json(self, plan: Plan) -> dict[str, Any]:
        """Return the windows with their times, in seconds since the epoch."""
        return {
            "first": self.first,
            "last": self.last,
            "total": self.total,
            "current": self.current,
            "start": plan.window_start(self.first) // 1000,
            "end": plan.window_end(self.last) // 1000,
        }


def read_windows(text: str, plan: Plan, newest: int, after: Windows | None = None) -> Windows:
    """Return the windows that a text names.

    Dates are ISO 8601, UTC unless they say otherwise; one without a time is the whole day. A window
    belongs to the range in which it begins. ``last 7 days`` end with the newest final window.
    ``previous`` (as many windows, or fewer at the start) and ``before`` (all) end before ``after``.
    """
    text = text.strip()
    if after is not None and text in (PREVIOUS, BEFORE):
        if after.first == 0:
            raise NoAnswer("not_final", f"no window is before {after}")
        first = 0 if text == BEFORE else max(0, after.first - len(after))
        return Windows(first, after.first - 1)
    if text == TOTAL:
        return Windows(0, newest, total=True)
    if text in (LATEST, CURRENT):
        return Windows(newest, newest, current=text == CURRENT)
    low, dots, high = text.partition("..")
    if _NUMBER.fullmatch(low) and (not dots or _NUMBER.fullmatch(high)):
        found = Windows(int(low), int(high or low))
    elif span := _LAST.fullmatch(text):
        found = _last(int(span[1] or 1), span[2], plan, newest)
    elif span := _SHORT.fullmatch(text):
        found = _last(int(span[1]), _UNITS[span[2]], plan, newest)
    else:
        found = _of_dates(text, plan, newest)
    if found.first > found.last:
        raise InvalidInput(
            f"windows {text!r}: no final window is in this range; {_known(plan, newest)}"
        )
    if found.last > newest:
        raise NoAnswer("not_final", f"windows {text!r}: the newest final window is {newest}")
    return found


def _last(count: int, unit: str, plan: Plan, newest: int) -> Windows:
    if unit == "window":
        return Windows(max(0, newest + 1 - count), newest)
    start = plan.window_end(newest) - count * _MILLISECONDS[unit]
    return Windows(max(plan.window_at(start - 1) + 1, 0), newest)


def _unknown(text: str) -> InvalidInput:
    return InvalidInput(
        f"windows {text!r}: expected current, total, latest, a number, I..J, last 7 days, DATE or "
        "DATE..DATE, such as 2026-01-01..2026-01-31"
    )


def _known(plan: Plan, newest: int) -> str:
    starts = [datetime.fromtimestamp(plan.window_start(w) / 1000, UTC) for w in (0, newest)]
    first, last = (f"{start:%Y-%m-%dT%H:%M}" for start in starts)
    return f"windows 0 to {newest} are final and begin from {first} to {last} UTC"


def _of_dates(text: str, plan: Plan, newest: int) -> Windows:
    dates, _, name = text.partition(" ")
    first, dots, last = dates.partition("..")
    try:
        zone = ZoneInfo(name.strip()) if name else UTC
        start, end = _span_ms(first, zone)[0], _span_ms(last if dots else first, zone)[1]
    except (ValueError, OverflowError, ZoneInfoNotFoundError, OSError):
        raise _unknown(text) from None
    # Windows that begin at or after the start, and before the end.
    low = max(plan.window_at(start - 1) + 1, 0)
    high = min(plan.window_at(end - 1), plan.windows - 1, newest)
    return Windows(low, high)


def _span_ms(text: str, zone: tzinfo) -> tuple[int, int]:
    if len(text) == len("2026-01-31"):
        day = date.fromisoformat(text)
        start, end = (
            round(datetime.combine(one, datetime.min.time(), zone).timestamp() * 1000)
            for one in (day, day + timedelta(days=1))
        )
        return start, end
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    start = round(moment.timestamp() * 1000)
    return start, start + 1
