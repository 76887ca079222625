"""The record of the tests of change of a final window, in the counts topic.

Its key is ``<window>/changes``. Readers of earlier releases skip it, because it is no key of
counts; a final is complete without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from calmstream.common.errors import ForeignRecord, InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Revision

VERSION = "1.0"
_SUFFIX = b"/changes"
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Family:
    """The tests of all tables of a window against the same other windows.

    Attributes:
        against: ``previous`` (the window before) or ``before`` (all windows before).
        windows: first and last of them; None where there are none.
        reports: number of reports of this window and of those.
        tested: number of tables with a test.
        changed: number of tables that are called changed.
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
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ChangesRecord:
    """The tests of one final window.

    Attributes:
        window: number of the window.
        revision: that of the final.
        families: against the previous window, and against all windows before.
    """

    window: int
    revision: Revision
    families: tuple[Family, ...]


def changes_key(window: int) -> bytes:
    """Return the key of a record."""
    return str(window).encode() + _SUFFIX


def is_changes_key(key: bytes) -> bool:
    """Return whether a key of the counts topic is one of a record of tests."""
    return key.endswith(_SUFFIX)


def encode_changes(plan: Plan, record: ChangesRecord) -> bytes:
    """Return the value of a record."""
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
    """Read what :func:`encode_changes` wrote; fields of later minor versions are ignored.

    Raises:
        ForeignRecord: not a record of tests of this plan under its own key.
        InvalidInput: a newer major version.
    """
    if raw is None:
        raise ForeignRecord("the counts topic holds a deletion; who else writes to it?")
    try:
        body = orjson.loads(raw)
        major = int(body["v"].split(".")[0])
    except (orjson.JSONDecodeError, *_UNREADABLE):
        raise ForeignRecord("the counts topic holds a value that is no record of tests") from None
    if major != 1:
        raise InvalidInput(
            f"tests of change of version {body['v']} are newer than {VERSION}: upgrade to read them"
        )
    if body.get("plan") != plan.digest:
        raise ForeignRecord("the counts topic holds records of another plan")
    try:
        families = tuple(_family(entry) for entry in body["families"])
        found = ChangesRecord(int(body["window"]), tuple(body["revision"]), families)
    except _UNREADABLE as error:
        raise ForeignRecord(f"a record of tests is damaged: {error}") from None
    if changes_key(found.window) != key:
        raise ForeignRecord(f"tests of window {found.window} under another key")
    return found


def _family(entry: dict[str, Any]) -> Family:
    windows = entry["windows"]
    return Family(
        against=str(entry["against"]),
        windows=None if windows is None else (int(windows[0]), int(windows[1])),
        reports=(int(entry["reports"][0]), int(entry["reports"][1])),
        tested=int(entry["tested"]),
        changed=int(entry["changed"]),
        smallest=float(entry["smallest"]),
        flags=tuple(entry["flags"]),
        reason=str(entry["reason"]),
        p=tuple(entry["p"]),
        tables=tuple(entry["tables"]),
    )
