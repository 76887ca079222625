"""The record of the tests of change of a final window, in the counts topic.

Its key is ``<window>/changes``, which is no key of counts. A final is complete without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from calmstream.common.errors import ForeignRecord
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import fields
from calmstream.estimators.wire.snapshot import Revision

VERSION = "1.0"
_SUFFIX = b"/changes"


@dataclass(frozen=True, slots=True)
class Family:
    """The tests of all tables of a window against the same other windows.

    Attributes:
        against: ``previous`` (the window before) or ``before`` (all windows before).
        windows: first and last of them; None where there are none.
        smallest: smallest adjusted p-value; 1 without a test.
        flags: ``paired``, ``suspicious``.
        reason: why there are no tests; empty where there are.
        p: p-value of every table, in the plan's order, three digits; None without a test.
        tables: the tables that are called changed, as ``calmstream changes --json`` gives them.
    """

    against: str
    windows: tuple[int, int] | None
    reports: tuple[int, int]
    tested: int
    changed: int
    smallest: float
    flags: tuple[str, ...]
    reason: str
    p: tuple[float | None, ...]
    tables: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ChangesRecord:
    """The tests of one final window."""

    window: int
    revision: Revision
    families: tuple[Family, ...]


def changes_key(window: int) -> bytes:
    return str(window).encode() + _SUFFIX


def is_changes_key(key: bytes) -> bool:
    """Return whether a key of the counts topic is one of a record of tests."""
    return key.endswith(_SUFFIX)


def encode_changes(plan: Plan, record: ChangesRecord) -> bytes:
    families = [family.to_json() for family in record.families]
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "window": record.window,
            "revision": record.revision,
            "families": families,
        }
    )


def decode_changes(plan: Plan, key: bytes, raw: bytes | None) -> ChangesRecord:
    """Read what :func:`encode_changes` wrote.

    Raises:
        ForeignRecord: not a record of tests of this plan under its own key.
        InvalidInput: one of a newer version.
    """
    if raw is None:
        raise ForeignRecord("the counts topic holds a deletion; who else writes to it?")
    body = fields.read_object(raw, "record of tests", plan=plan.digest, version=VERSION)
    window = fields.integer(0, plan.windows - 1)
    slots = len(plan.groups) * plan.partitions
    fields.check_fields(
        body,
        "a record of tests",
        {
            "window": window,
            "revision": fields.each(fields.offset_of(plan), slots),
            "families": fields.each(fields.fields(_family_fields(window))),
        },
    )
    found = ChangesRecord(
        body["window"], tuple(body["revision"]), tuple(map(_family, body["families"]))
    )
    if changes_key(found.window) != key:
        raise ForeignRecord(f"tests of window {found.window} under another key")
    return found


def _family_fields(window: fields.Check) -> dict[str, fields.Check]:
    return {
        "against": fields.text,
        "windows": fields.either(fields.null, fields.each(window, 2)),
        "reports": fields.each(fields.count, 2),
        "tested": fields.count,
        "changed": fields.count,
        "smallest": fields.number,
        "flags": fields.texts,
        "reason": fields.text,
        "p": fields.each(fields.either(fields.null, fields.number)),
        "tables": fields.each(fields.fields({"attributes": fields.texts})),
    }


def _family(entry: dict[str, Any]) -> Family:
    known: dict[str, Any] = {
        name: tuple(entry[name]) if isinstance(entry[name], list) else entry[name]
        for name in Family.__slots__
    }
    return Family(**known)
