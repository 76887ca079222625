"""Reads the records of the releases topic: claims, and levels and manifest of each release.

A window's first claim, a random nonce, decides whose release is valid (docs/central-privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calmstream.common.errors import ForeignRecord
from calmstream.estimators.central.wire import VERSION
from calmstream.estimators.tally import MOST_COUNT
from calmstream.estimators.wire.fields import (
    Check,
    Format,
    check_fields,
    count,
    each,
    fields,
    integer,
    number,
    read_object,
    seconds,
)

_NOBODY = ""
_whole = integer(-MOST_COUNT, MOST_COUNT)


def _string(value: Any) -> bool:
    return type(value) is str


def _nonce(value: Any) -> bool:
    return type(value) is str and value != ""


_RECORD: Format = {"window": integer(0, 1 << 40), "claim": _nonce}
_MANIFEST: Format = {
    "name": _string,
    "start": seconds,
    "end": seconds,
    "levels": each(_whole),
    "epsilon": _string,
    "delta": _string,
    "releases": count,
    "spent": _string,
}
_LEVEL: Format = {
    "k": count,
    "limit": count,
    "stderr": number,
    "threshold": _whole,
    "spurious_bound": number,
}


@dataclass(frozen=True, slots=True)
class CentralRelease:
    """The noisy counts of one window, as JSON objects (`central.release_wire`)."""

    manifest: dict[str, Any]
    levels: dict[int, dict[str, Any]]


@dataclass(slots=True)
class ReleaseOwners:
    """By window the nonce of its first claim; nobody's if a level or manifest was before it."""

    plan: str
    owners: dict[int, str] = field(default_factory=dict)

    def read(self, value: bytes | None) -> dict[str, Any] | None:
        """Take the next record's value; return its level or manifest, None if it is a claim.

        Raises:
            ForeignRecord: it is about no release of the plan, or not by the window's owner.
        """
        body = read_object(value or b"", "release", plan=self.plan, version=VERSION)
        check_fields(body, "a release", _RECORD)
        claimed = "k" not in body and "levels" not in body
        owner = self.owners.setdefault(body["window"], body["claim"] if claimed else _NOBODY)
        if claimed:
            return None
        if owner != body["claim"]:
            raise ForeignRecord(f"a release of window {body['window']} without its first claim")
        return body


class ReleaseFold:
    """Collects the records of each release of one plan, and returns it once."""

    def __init__(self, plan: str) -> None:
        self._owners = ReleaseOwners(plan)
        # The levels of incomplete releases by window and k, and the windows already returned.
        self._levels: dict[int, dict[int, dict[str, Any]]] = {}
        self._returned: set[int] = set()

    def read(self, value: bytes | None) -> CentralRelease | None:
        """Take the value of the next record; return the release that it completes, else None."""
        body = self._owners.read(value)
        if body is None or body["window"] in self._returned:
            return None
        levels = self._levels.setdefault(body["window"], {})
        if "k" in body:
            check_fields(body, "a level", _LEVEL)
            check_fields(body, "a level", {"tables": each(_is_table_of(body["k"]))})
            levels[body["k"]] = body
            return None
        check_fields(body, "a manifest", _MANIFEST)
        if not set(body["levels"]) <= set(levels):
            # The manifest is written last, so a level of this attempt is missing.
            return None
        self._returned.add(body["window"])
        return CentralRelease(body, self._levels.pop(body["window"]))


def _is_table_of(k: int) -> Check:
    columns = fields(
        {
            "attributes": each(_string, k),
            "values": each(each(_string), k),
            "counts": each(_whole),
        }
    )
    return lambda table: (
        columns(table) and {len(column) for column in table["values"]} <= {len(table["counts"])}
    )
