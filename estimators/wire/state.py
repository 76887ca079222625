"""State records: the counts of a tally worker, with how far it has read, in the state topic.

A *partition record* is rewritten at every checkpoint; a *closed record* is written once the log's
clock has closed its window. Every field is a pure function of the plan and the log below an offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from calmstream.common.errors import FatalError, ForeignRecord, Reason
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire import fields

VERSION = "1.0"
_PLAIN = ("topic_id", "next_offset", "clock", "closed_through", "resume_from", "resume_clock")
_REASONS = frozenset(map(str, Reason))
_WINDOW = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)
_KEY = re.compile(rb"(\d{4,6})/(\d{1,6})(?:/(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class WindowCount:
    """The counts of one input partition for one window, or for all windows up to one."""

    tally: Tally
    rejects: Mapping[Reason, int] = field(default_factory=dict)

    def __add__(self, other: WindowCount) -> WindowCount:
        rejects = dict(self.rejects)
        for reason, count in other.rejects.items():
            rejects[reason] = rejects.get(reason, 0) + count
        return WindowCount(self.tally + other.tally, rejects)

    def to_json(self) -> dict[str, Any]:
        rejects = {reason.value: count for reason, count in sorted(self.rejects.items())}
        return {**self.tally.to_json(), "rejects": rejects}

    @classmethod
    def from_json(cls, document: Any, views: int, width: int) -> WindowCount:
        tally = Tally.from_json(document, views, width)
        rejects = document.get("rejects")
        if type(rejects) is not dict or not (
            rejects.keys() <= _REASONS and all(map(fields.count, rejects.values()))
        ):
            raise ValueError("not numbers of rejected records by reason")
        return cls(tally, {Reason(name): number for name, number in rejects.items()})


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition record. Clocks are milliseconds since the epoch, 0 before the first record.

    ``closed_through``: the last closed window, or -1. ``resume_from``: offset of the first accepted
    batch of an open window, else ``next_offset``.
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
    """A closed record."""

    window: int
    closed_at: int
    count: WindowCount
    total: WindowCount


def partition_key(group: int, partition: int) -> bytes:
    return f"{group:04d}/{partition}".encode()


def closed_key(group: int, partition: int, window: int) -> bytes:
    return f"{group:04d}/{partition}/{window}".encode()


def parse_key(key: bytes) -> tuple[int, int, int | None]:
    """Return group, partition and window of a key; the window is None for a partition record."""
    found = fields.match_key(_KEY, key, "state")
    return int(found[1]), int(found[2]), None if found[3] is None else int(found[3])


def encode_state(plan: Plan, state: PartitionState) -> bytes:
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            **{name: getattr(state, name) for name in _PLAIN},
            "total": state.total.to_json(),
            "open": {str(w): count.to_json() for w, count in sorted(state.open.items())},
        }
    )


def decode_state(plan: Plan, group: int, raw: bytes) -> PartitionState:
    """Read what `encode_state` wrote; a newer version is a FatalError."""
    body = _body(plan, group, raw)
    offset = fields.offset_of(plan)
    fields.check_fields(
        body,
        "a state record",
        {
            "topic_id": fields.text,
            "next_offset": offset,
            "clock": fields.milliseconds,
            "closed_through": fields.integer(-1, plan.windows - 1),
            "resume_from": lambda value: offset(value) and value <= body["next_offset"],
            "resume_clock": fields.milliseconds,
            "open": lambda value: (
                type(value) is dict
                and all(_WINDOW.fullmatch(name) and int(name) < plan.windows for name in value)
            ),
        },
    )
    return PartitionState(
        **{name: body[name] for name in _PLAIN},
        total=_count(plan, group, body.get("total")),
        open={int(w): _count(plan, group, count) for w, count in body["open"].items()},
    )


def encode_closed(plan: Plan, closed: ClosedWindow) -> bytes:
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
    body = _body(plan, group, raw)
    window, offset = fields.integer(0, plan.windows - 1), fields.offset_of(plan)
    fields.check_fields(body, "a closed record", {"window": window, "closed_at": offset})
    count, total = (_count(plan, group, body.get(name)) for name in ("count", "total"))
    return ClosedWindow(body["window"], body["closed_at"], count, total)


def _count(plan: Plan, group: int, document: Any) -> WindowCount:
    views, width = len(plan.groups[group].views), plan.mechanisms[group].width
    try:
        return WindowCount.from_json(document, views, width)
    except ValueError as error:
        raise ForeignRecord(f"a state record of group {group} is damaged: {error}") from None


def _body(plan: Plan, group: int, raw: bytes) -> dict[str, Any]:
    if not 0 <= group < len(plan.groups):
        raise ForeignRecord(f"the state topic names group {group}, which the plan does not have")
    return fields.read_object(
        raw, "state record", plan=plan.digest, version=VERSION, newer=FatalError
    )
