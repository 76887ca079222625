"""Reads the records of the releases topic: which writer's release of a window is valid.

A window's first claim, a random nonce, decides. A release is one record for each *level* (the noisy
tables of k columns) and a manifest. Records that cannot be read or are not valid are counted and
skipped, never an error (docs/wire-formats.md, docs/central-privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from calmstream.estimators.central.wire import VERSION

_MAX_WINDOW = 1 << 40
_MAX_SECONDS = 253_402_300_799
_NOBODY = ""
_MANIFEST: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "start": int,
    "end": int,
    "levels": list,
    "epsilon": str,
    "delta": str,
    "releases": int,
    "spent": str,
}
"""Types of the fields of a manifest; `release_wire` writes them."""

_LEVEL: dict[str, type | tuple[type, ...]] = {
    "k": int,
    "limit": int,
    "stderr": (int, float),
    "threshold": int,
    "spurious_bound": (int, float),
    "tables": list,
}


@dataclass(frozen=True, slots=True)
class CentralRelease:
    """The noisy counts of one window, as JSON objects (`central.release_wire`)."""

    manifest: dict[str, Any]
    levels: dict[int, dict[str, Any]]


@dataclass(slots=True)
class ReleaseOwners:
    """Decides which records of each window are valid, from the records read so far.

    After a claim, only records with its nonce; after a level or manifest without one, none.
    """

    plan: str
    owners: dict[int, str] = field(default_factory=dict)
    ignored: int = 0

    def read(self, value: bytes | None) -> dict[str, Any] | None:
        """Take the next record's value; return its level or manifest if it is valid, else None."""
        body = _document(value, self.plan)
        if body is None:
            self.ignored += 1
            return None
        claimed = "k" not in body and "levels" not in body
        owner = self.owners.setdefault(body["window"], body["claim"] if claimed else _NOBODY)
        if claimed:
            return None
        if owner != body["claim"]:
            self.ignored += 1
            return None
        return body


class ReleaseFold:
    """Collects the records of each release of one plan until it is complete; returns it once."""

    def __init__(self, plan: str) -> None:
        self._owners = ReleaseOwners(plan)
        self._malformed = 0
        # The levels of incomplete releases by window and k, and the windows already returned.
        self._levels: dict[int, dict[int, dict[str, Any]]] = {}
        self._returned: set[int] = set()

    @property
    def ignored(self) -> int:
        return self._owners.ignored + self._malformed

    def read(self, value: bytes | None) -> CentralRelease | None:
        """Take the value of the next record; return the release that it completes, else None."""
        body = self._owners.read(value)
        if body is None or body["window"] in self._returned:
            return None
        if not _well_formed(body):
            self._malformed += 1
            return None
        window = body["window"]
        levels = self._levels.setdefault(window, {})
        if "k" in body:
            levels[body["k"]] = body
            return None
        if not set(body["levels"]) <= set(levels):
            # The manifest is written last, so a level of this attempt is missing.
            return None
        self._returned.add(window)
        return CentralRelease(body, self._levels.pop(window))


def _document(value: bytes | None, plan: str) -> dict[str, Any] | None:
    """Return a record about a window of the plan, None for anything else."""
    try:
        body = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(body, dict) or body.get("v") != VERSION or body.get("plan") != plan:
        return None
    window, nonce = body.get("window"), body.get("claim")
    known = type(window) is int and 0 <= window <= _MAX_WINDOW and isinstance(nonce, str)
    return body if known and nonce else None


def _well_formed(body: dict[str, Any]) -> bool:
    fields = _LEVEL if "k" in body else _MANIFEST
    for name, kind in fields.items():
        if not isinstance(body.get(name), kind) or isinstance(body[name], bool):
            return False
    if "k" in body:
        return all(_is_table(table, body["k"]) for table in body["tables"])
    times = (body["start"], body["end"])
    return all(0 <= t <= _MAX_SECONDS for t in times) and _all(body["levels"], int)


def _is_table(table: Any, k: int) -> bool:
    if not isinstance(table, dict):
        return False
    names, values, counts = (table.get(name, []) for name in ("attributes", "values", "counts"))
    return (
        _all(names, str)
        and _all(counts, int)
        and isinstance(values, list)
        and len(values) == len(names) == k
        and all(_all(column, str) and len(column) == len(counts) for column in values)
    )


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)
