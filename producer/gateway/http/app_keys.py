"""Application keys: who may send, and how many reports per window (format: ``docs/gateway.md``).

``number`` stands for the key in the spool, because reports of one key leave together.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput

VERSION = "app-keys-1"
MOST_KEYS = 65_535
_FIELDS = {"number", "sha256", "per_window"}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BEARER = b"bearer "


@dataclass(frozen=True, slots=True)
class AppKey:
    """One key; ``number`` is 0 where everybody may send, ``per_window`` its quota for each plan."""

    number: int
    per_window: int | None


EVERYBODY = AppKey(0, None)


class AppKeys:
    """The keys of a file; while it cannot be read (``refused``), the former stay in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._present_stamp()
        self._keys = read_app_keys(path)
        self.refused = ""

    def find(self, authorization: bytes) -> AppKey | None:
        """Return the key of a header, looked up by SHA-256: the time says nothing of keys."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return None
        return self._keys.get(hashlib.sha256(authorization[len(_BEARER) :].strip()).digest())

    def refresh(self) -> bool:
        """Read the file where it has changed; return whether it can no longer be read."""
        stamp = self._present_stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._keys, self.refused = read_app_keys(self._path), ""
        except InvalidInput as error:
            self.refused = str(error)
        return bool(self.refused)

    def _present_stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino


def read_app_keys(path: Path) -> dict[bytes, AppKey]:
    try:
        return _keys(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise InvalidInput(f"app keys {path}: {error.strerror}") from None
    except ValueError as error:  # also what is not JSON
        raise InvalidInput(f"app keys {path}: {error}") from None


def _keys(document: Any) -> dict[bytes, AppKey]:
    if not isinstance(document, dict) or document.get("v") != VERSION:
        raise ValueError(f'expected an object with "v": "{VERSION}"')
    entries = document.get("keys")
    if not isinstance(entries, list) or not entries:
        raise ValueError("expected a list of at least one key under keys")
    found: dict[bytes, AppKey] = {}
    numbers: set[int] = set()
    for place, entry in enumerate(entries):
        digest, key = _key(entry, f"key {place}")
        if digest in found or key.number in numbers:
            raise ValueError(f"key {place}: its number or its digest stands there twice")
        found[digest] = key
        numbers.add(key.number)
    return found


def _key(entry: Any, where: str) -> tuple[bytes, AppKey]:
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise ValueError(f"{where}: expected the fields {', '.join(sorted(_FIELDS))}")
    number, digest, quota = entry["number"], entry["sha256"], entry["per_window"]
    if type(number) is not int or not 1 <= number <= MOST_KEYS:
        raise ValueError(f"{where}: number must be 1 to {MOST_KEYS:,}")
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise ValueError(f"{where}: sha256 must be 64 lower-case hexadecimal digits")
    if quota is not None and (type(quota) is not int or quota < 1):
        raise ValueError(f"{where}: per_window must be null or a whole number of at least 1")
    return bytes.fromhex(digest), AppKey(number, quota)
