"""Records of the releases topic as they are read: which claims count, and which releases are whole.

A pure fold over records in the order of the log. It never raises: what it cannot read, what names
another plan and what its window's claim does not cover is counted and passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from estimators.central.wire import VERSION

_MAX_WINDOW = 1 << 40
_MAX_SECONDS = 253_402_300_799
"""The year 9999."""

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
    """One window's noisy counts, as documents; see :mod:`.release_wire`.

    Attributes:
        manifest: about the release.
        levels: by tuple size.
    """

    manifest: dict[str, Any]
    levels: dict[int, dict[str, Any]]


@dataclass(slots=True)
class ReleaseOwners:
    """Whose release of each window counts, by the records read so far.

    The first record about a window decides: a claim, for the one who wrote it; a release without a
    claim, as earlier versions wrote them, for releases of that kind; anything else, for nobody.

    Attributes:
        plan: its digest.
        owners: by window, the nonce of the claim that holds it, None for a release without one, ""
            for nobody.
        ignored: records that were passed over.
    """

    plan: str
    owners: dict[int, str | None] = field(default_factory=dict)
    ignored: int = 0

    def read(self, value: bytes | None) -> dict[str, Any] | None:
        """Take the next record's value; the level or manifest in it if its release counts."""
        body = _document(value, self.plan)
        if body is None:
            self.ignored += 1
            return None
        window, nonce = body["window"], body.get("claim")
        if "k" not in body and "levels" not in body:
            self.owners.setdefault(window, nonce)
            return None
        if self.owners.setdefault(window, None if nonce is None else _NOBODY) != nonce:
            self.ignored += 1
            return None
        return body


@dataclass(slots=True)
class ReleaseFold:
    """Whole releases of one plan, as they become complete.

    Attributes:
        owners: of the windows.
        malformed: records of releases that count and cannot be used.
    """

    owners: ReleaseOwners
    malformed: int = 0
    _levels: dict[int, dict[int, dict[str, Any]]] = field(default_factory=dict)
    _whole: set[int] = field(default_factory=set)

    @property
    def ignored(self) -> int:
        """Records that were passed over."""
        return self.owners.ignored + self.malformed

    def read(self, value: bytes | None) -> CentralRelease | None:
        """Take the next record's value; the release that it completes, if it completes one.

        A release is returned once, however often its records come again.
        """
        body = self.owners.read(value)
        if body is None or body["window"] in self._whole:
            return None
        if not _well_formed(body):
            self.malformed += 1
            return None
        window = body["window"]
        levels = self._levels.setdefault(window, {})
        if "k" in body:
            levels[body["k"]] = body
            return None
        if not set(body["levels"]) <= set(levels):
            return None
        self._whole.add(window)
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
    if type(window) is not int or not 0 <= window <= _MAX_WINDOW:
        return None
    if nonce is None and "k" not in body and "levels" not in body:
        return None
    return body if nonce is None or (isinstance(nonce, str) and nonce) else None


def _well_formed(body: dict[str, Any]) -> bool:
    """Return whether a level or a manifest has what readers rely on."""
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
