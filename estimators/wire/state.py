"""State records: the counts of a tally worker, together with how far it has read.

Two kinds live in the compacted state topic of a plan. The *partition record* of an input partition,
key ``<group>/<partition>``, is rewritten at every checkpoint. The *closed record* of one of its
windows, key ``<group>/<partition>/<window>``, is written once the log's clock has closed it. Every
field of both is a pure function of the plan and the input log below the stated offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from calmstream.common.errors import FatalError, ForeignRecord, Reason
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally

VERSION = "1.0"
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class WindowCount:
    """The counts of one input partition for one window, or for all windows up to one.

    Attributes:
        tally: the group's counters.
        rejects: records rejected, by reason; reasons with none are absent.
    """

    tally: Tally
    rejects: Mapping[Reason, int] = field(default_factory=dict)

    def __add__(self, other: WindowCount) -> WindowCount:
        rejects = dict(self.rejects)
        for reason, count in other.rejects.items():
            rejects[reason] = rejects.get(reason, 0) + count
        return WindowCount(self.tally + other.tally, rejects)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object; inverse of :meth:`from_json`."""
        rejects = {reason.value: count for reason, count in sorted(self.rejects.items())}
        return {**self.tally.to_json(), "rejects": rejects}

    @classmethod
    def from_json(cls, document: Any, views: int, width: int) -> WindowCount:
        """Read what :meth:`to_json` wrote; ValueError otherwise."""
        tally = Tally.from_json(document, views, width)
        return cls(tally, {Reason(name): int(c) for name, c in document["rejects"].items()})


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition record. Clocks are milliseconds since the epoch, 0 before the first record.

    Attributes:
        topic_id: id of the input topic, which a new topic of the same name does not have.
        next_offset: first input offset that is not counted yet.
        clock: maximum of the append times before next_offset.
        closed_through: number of the last closed window, -1 if there is none.
        resume_from: offset of the first accepted batch of an open window, or next_offset if there
            is none.
        resume_clock: clock just before the record at resume_from.
        total: counts of all windows up to closed_through, and rejections after the last window.
        open: counts of every open window that received anything.
    """

    topic_id: str
    next_offset: int
    clock: int
    closed_through: int
    resume_from: int
    resume_clock: int
    total: WindowCount
    open: Mapping[int, WindowCount]


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A closed record.

    Attributes:
        window: number of the window.
        closed_at: offset of the input record that closed it.
        count: counts of this window.
        total: counts of all windows up to this one.
    """

    window: int
    closed_at: int
    count: WindowCount
    total: WindowCount


def partition_key(group: int, partition: int) -> bytes:
    """Return the key of the partition record."""
    return f"{group:04d}/{partition}".encode()


def closed_key(group: int, partition: int, window: int) -> bytes:
    """Return the key of a closed record."""
    return f"{group:04d}/{partition}/{window}".encode()


def parse_key(key: bytes) -> tuple[int, int, int | None]:
    """Return group, partition and window of a key; the window is None for a partition record.

    Raises:
        ForeignRecord: it is not a key of a state topic.
    """
    try:
        parts = [int(part) for part in key.decode("ascii").split("/")]
    except ValueError:
        parts = []
    if len(parts) == 2:
        return parts[0], parts[1], None
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    raise ForeignRecord("the state topic holds a record with a foreign key; who else writes to it?")


def encode_state(plan: Plan, state: PartitionState) -> bytes:
    """Return the value of a partition record."""
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "topic_id": state.topic_id,
            "next_offset": state.next_offset,
            "clock": state.clock,
            "closed_through": state.closed_through,
            "resume_from": state.resume_from,
            "resume_clock": state.resume_clock,
            "total": state.total.to_json(),
            "open": {str(w): count.to_json() for w, count in sorted(state.open.items())},
        }
    )


def decode_state(plan: Plan, group: int, raw: bytes) -> PartitionState:
    """Read what :func:`encode_state` wrote.

    Raises:
        ForeignRecord: not a state record of this plan.
        FatalError: a newer version.
    """
    body, views, width = _body(plan, group, raw)
    try:
        return PartitionState(
            topic_id=str(body["topic_id"]),
            next_offset=int(body["next_offset"]),
            clock=int(body["clock"]),
            closed_through=int(body["closed_through"]),
            resume_from=int(body["resume_from"]),
            resume_clock=int(body["resume_clock"]),
            total=WindowCount.from_json(body["total"], views, width),
            open={
                int(w): WindowCount.from_json(count, views, width)
                for w, count in body["open"].items()
            },
        )
    except _UNREADABLE as error:
        raise ForeignRecord(f"a state record of group {group} is damaged: {error}") from None


def encode_closed(plan: Plan, closed: ClosedWindow) -> bytes:
    """Return the value of a closed record."""
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "window": closed.window,
            "closed_at": closed.closed_at,
            "count": closed.count.to_json(),
            "total": closed.total.to_json(),
        }
    )


def decode_closed(plan: Plan, group: int, raw: bytes) -> ClosedWindow:
    """Read what :func:`encode_closed` wrote; raises as :func:`decode_state`."""
    body, views, width = _body(plan, group, raw)
    try:
        return ClosedWindow(
            window=int(body["window"]),
            closed_at=int(body["closed_at"]),
            count=WindowCount.from_json(body["count"], views, width),
            total=WindowCount.from_json(body["total"], views, width),
        )
    except _UNREADABLE as error:
        raise ForeignRecord(f"a closed record of group {group} is damaged: {error}") from None


def _body(plan: Plan, group: int, raw: bytes) -> tuple[dict[str, Any], int, int]:
    try:
        body = orjson.loads(raw)
        version = tuple(int(part) for part in body["v"].split("."))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        raise ForeignRecord("the state topic holds a value that is no state record") from None
    if version > tuple(int(part) for part in VERSION.split(".")):
        raise FatalError(
            f"state version {body['v']} is newer than {VERSION}: run the newer release again, "
            "or count into a new namespace"
        )
    if body.get("plan") != plan.digest:
        raise ForeignRecord("the state topic holds records of another plan")
    if not 0 <= group < len(plan.groups):
        raise ForeignRecord(f"the state topic names group {group}, which the plan does not have")
    return body, len(plan.groups[group].views), plan.mechanisms[group].width
