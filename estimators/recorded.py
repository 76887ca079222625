"""What a device's recorder takes the value of an attribute from: a state, or events of days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from calmstream.common.errors import DomainError
from calmstream.common.text import unseen
from calmstream.estimators.hashed import Hashed
from calmstream.estimators.kinds import Choice, Kind, Number

TAKES = {
    "count": "number of events",
    "days": "days with an event",
    "any": "whether there was an event",
    "sum": "sum of the events' values",
    "max": "largest value of an event",
    "last": "value of the last event",
    "days_since_first": "days since the first event ever, at most these",
    "days_since_last": "days since the last event, at most these",
}
"""What can be taken from events, in words."""

MAX_DAYS = 90  # that a device counts
MAX_NAME = 128  # characters of the name of an event or a state
_OVER = re.compile(r"([1-9][0-9]?)d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The field ``from`` of an attribute: a state, or what is taken of an event.

    ``days``: so many last complete ones (UTC) before the window of the report; 0 for a state.
    """

    name: str
    take: str = ""
    days: int = 0

    def to_json(self) -> dict[str, str]:
        if not self.take:
            return {"state": self.name}
        return {"event": self.name, "take": self.take, "over": f"{self.days}d"}

    def __str__(self) -> str:
        if not self.take:
            return f"state {self.name!r}"
        return f"event {self.name!r}, {TAKES[self.take]}, over {self.days} complete days"


def read_recorded(entry: object, where: str) -> Recorded:
    if not isinstance(entry, dict) or set(entry) not in ({"state"}, {"event", "take", "over"}):
        raise DomainError(f'{where}: expected {{"state"}} or {{"event", "take", "over"}}')
    name: Any = entry.get("state", entry.get("event"))
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or unseen(name):
        raise DomainError(f"{where}: a state or event has a name of 1 to {MAX_NAME} characters")
    if "state" in entry:
        return Recorded(name)
    take, over = entry["take"], entry["over"]
    if not isinstance(take, str) or take not in TAKES:
        raise DomainError(f"{where}.take: expected one of {', '.join(TAKES)}")
    found = _OVER.fullmatch(over) if isinstance(over, str) else None
    if found is None or int(found[1]) > MAX_DAYS:
        raise DomainError(f'{where}.over: expected "1d" to "{MAX_DAYS}d"')
    return Recorded(name, take, int(found[1]))


def check_recorded(
    recorded: Recorded, kind: Kind | None, labels: tuple[str, ...], where: str
) -> None:
    """Check that what is recorded can be a value of an attribute of this kind."""
    if isinstance(kind, Choice | Hashed) and recorded.take:
        raise DomainError(f"{where}.from: a choice or a text is recorded from a state")
    if recorded.take != "any" or isinstance(kind, Number):
        return
    if not any(pair <= set(labels) for pair in ({"no", "yes"}, {"0", "1"})):
        raise DomainError(f"{where}.labels: any gives yes or no, or 1 or 0")
