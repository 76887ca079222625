"""What a recorder keeps of one lineage: some numbers for each day and event, and states.

A *book* is a JSON document: ``events`` has for each event the ``first`` day ever and ``days``, rows
``[day, number of events, sum, largest, last value]`` in ascending order; ``states`` has the latest
values; ``dropped`` counts what was not recorded, by reason. A *day* is a number of days since the
epoch, in UTC. The same rules stand in the edge in TypeScript.

Days never go back: ``latest`` is the latest day that was counted, and what happens while the clock
is behind it is dropped, so that no day is counted twice. A clock that is behind by more than
`MAX_DAYS` is believed after `TRUSTED_DAYS`, which begin with ``behind``, and the days ahead of it
are forgotten: a clock that ran ahead costs days, and never all that come. No record holds both a
forgotten or earlier day and its other name, as they are further apart than a record reaches back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from calmstream.estimators.recorded import MAX_DAYS, Recorded

if TYPE_CHECKING:
    from calmstream.estimators.domain import Attribute
    from calmstream.estimators.plan import Plan

DAY = 86_400
TRUSTED_DAYS = 2

MAX_BYTES = 64 << 10  # of a book; without room, the oldest days are forgotten
MAX_STATES_BYTES = MAX_BYTES // 2
MAX_VALUE_BYTES = 1024  # of one state's value
MAX_AMOUNT = 1e15  # sums stay finite
MAX_EXACT = 2**53
_NUMBER_BYTES = 24  # at most, of a number that is not an integer
Book = dict[str, Any]
Rows = list[list[Any]]


def new_book() -> Book:
    return {"latest": None, "behind": None, "events": {}, "states": {}, "dropped": {}}


def amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if abs(number) <= MAX_AMOUNT else None


def state_value(value: object) -> object:
    """Return a state's value as it is kept: a text, a number, or a list of texts; else None."""
    if isinstance(value, str):
        return value if _text_bytes(value) <= MAX_VALUE_BYTES else None
    if isinstance(value, list | tuple):
        texts = [each for each in value if isinstance(each, str)]
        short = sum(_text_bytes(each) + 3 for each in texts) <= MAX_VALUE_BYTES
        return texts if short and len(texts) == len(value) else None
    number = amount(value)
    return None if number is None else plain(number)


def plain(number: float) -> float:
    """Return an integer as such, so that it can be a label."""
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number


def drop(book: Book, reason: str, times: int = 1) -> None:
    book["dropped"][reason] = min(book["dropped"].get(reason, 0) + times, MAX_EXACT)


def counts_on(book: Book, day: int) -> bool:
    """Move the book to the clock's day; return whether what happens now is counted."""
    if book["latest"] is not None and day < book["latest"]:
        if day >= book["latest"] - MAX_DAYS:
            return False
        if book["behind"] is None or day < book["behind"]:
            book["behind"] = day
        if day < book["behind"] + TRUSTED_DAYS:
            return False
        book["events"] = {
            name: {**each, "days": [row for row in each["days"] if row[0] <= day]}
            for name, each in book["events"].items()
            if each["first"] <= day
        }
    book["latest"], book["behind"] = day, None
    return True


def add(book: Book, event: str, day: int, values: list[float]) -> None:
    """Add events to a day; ``values`` is number, sum, largest and last."""
    days = book["events"].setdefault(event, {"first": day, "days": []})["days"]
    if not days or days[-1][0] != day:
        days.append([day, *values])
        return
    row, (n, total, largest, last) = days[-1], values
    days[-1] = [day, min(row[1] + n, MAX_EXACT), row[2] + total, max(row[3], largest), last]


def put(book: Book, state: str, value: object) -> None:
    """Set a state; None, and what has no room, leaves it without a value."""
    states = {name: old for name, old in book["states"].items() if name != state}
    if value is not None:
        states[state] = value
        if sum(map(_state_bytes, states.items())) > MAX_STATES_BYTES:
            del states[state]
            drop(book, "room")
    book["states"] = states


def fit(book: Book, events: Iterable[str], states: Iterable[str], days: int) -> None:
    """Forget what the plan does not name, and the oldest days beyond ``days`` and the room."""
    for part, names in (("events", set(events)), ("states", set(states))):
        book[part] = {name: kept for name, kept in book[part].items() if name in names}
    sizes: dict[int, int] = {}
    for each in book["events"].values():
        for row in each["days"]:
            sizes[row[0]] = sizes.get(row[0], 0) + 10 + sum(map(_number_bytes, row))
    size = sum(sizes.values()) + sum(map(_state_bytes, book["states"].items()))
    size += sum(_text_bytes(name) + 40 for name in book["events"])
    old = set()
    for place, day in enumerate(sorted(sizes)):
        if len(sizes) - place <= days:
            if size <= MAX_BYTES:
                break
            drop(book, "room")
        size -= sizes[day]
        old.add(day)
    for each in book["events"].values():
        each["days"] = [row for row in each["days"] if row[0] not in old]
    if size > MAX_BYTES:
        book["events"] = {name: each for name, each in book["events"].items() if each["days"]}


def source_of(attribute: Attribute) -> Recorded:
    """Return the event or state of an attribute; without one the state of its own name."""
    return attribute.recorded or Recorded(attribute.field)


def record_of(book: Book, plan: Plan, window: int) -> dict[str, object]:
    """Return the record for a window, by field; what has no value is left out."""
    last_day = plan.window_start(window) // 1000 // DAY - 1
    record: dict[str, object] = {}
    for attribute in plan.domain.attributes:
        recorded = source_of(attribute)
        value = taken(book, recorded, last_day)
        if recorded.take == "any" and {"no", "yes"} <= set(attribute.labels):
            value = "yes" if value else "no"
        if value is not None:
            record[attribute.field] = value
    return record


def taken(book: Book, recorded: Recorded, last_day: int) -> Any:
    if not recorded.take:
        return book["states"].get(recorded.name)
    entry = book["events"].get(recorded.name, {"first": last_day + 1, "days": []})
    before = last_day - recorded.days
    rows = [row for row in entry["days"] if before < row[0] <= last_day]
    if recorded.take in _OF_DAYS:
        return _OF_DAYS[recorded.take](rows)
    if entry["first"] > last_day:
        return None
    first = recorded.take == "days_since_first"
    since = entry["first"] if first else rows[-1][0] if rows else before
    return min(last_day - since, recorded.days)


def _sum(rows: Rows) -> float:
    total = 0.0
    for row in rows:  # one after the other: `sum` of newer Pythons rounds otherwise
        total += row[2]
    return plain(total)


_OF_DAYS: dict[str, Callable[[Rows], Any]] = {
    "count": lambda rows: min(sum(row[1] for row in rows), MAX_EXACT),
    "days": len,
    "any": lambda rows: int(bool(rows)),
    "sum": _sum,
    "max": lambda rows: plain(max(row[3] for row in rows)) if rows else None,
    "last": lambda rows: plain(rows[-1][4]) if rows else None,
}


def _text_bytes(text: str) -> int:
    """Return the size of a text; of one that UTF-8 cannot represent more than any limit."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return MAX_BYTES


def _number_bytes(number: float) -> int:
    exact = plain(float(number))
    return len(str(exact)) if isinstance(exact, int) else _NUMBER_BYTES


def _state_bytes(item: tuple[str, Any]) -> int:
    name, value = item
    size = 8 + _text_bytes(name)
    if isinstance(value, str):
        return size + _text_bytes(value)
    if isinstance(value, list):
        return size + sum(_text_bytes(each) + 3 for each in value)
    return size + _number_bytes(value)
