"""Application keys: who may send, and how many reports per window.

The file is ``{"v": "app-keys-1", "keys": [{"number": 1, "sha256": "<64 hex>", "per_window": 10000},
...]}``: the SHA-256 of each key, so that the file does not let anybody send. ``number`` (1 to
65,535) stands for the key in the spool, because reports of one key leave together, and is never
given to another key. ``per_window`` is the quota, null for none.
"""

from __future__ import annotations

import hashlib
import hmac
import os
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
    """One key: its number, 0 where everybody may send, and its quota of each window and plan."""

    number: int
    per_window: int | None


EVERYBODY = AppKey(0, None)


class AppKeys:
    """The keys of one file. A key is found in a time that depends on no key.

    The table is indexed by a MAC under a key of this process, so that the time of a look-up says
    nothing about the digests in it.
    """

    def __init__(self, keys: dict[bytes, AppKey]) -> None:
        self._secret = os.urandom(32)
        self._keys = {self._mac(digest): (digest, key) for digest, key in keys.items()}

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, authorization: bytes) -> AppKey | None:
        """Return the key in an ``Authorization`` header, or None."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return None
        digest = hashlib.sha256(authorization[len(_BEARER) :].strip()).digest()
        expected, key = self._keys.get(self._mac(digest), (b"", None))
        return key if hmac.compare_digest(expected, digest) else None

    def _mac(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, "sha256")


def read_app_keys(path: Path) -> AppKeys:
    """Read a file of keys."""
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"app keys {path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"app keys {path}: not JSON: {error}") from None
    try:
        return AppKeys(_keys(document))
    except ValueError as error:
        raise InvalidInput(f"app keys {path}: {error}") from None


def _keys(document: Any) -> dict[bytes, AppKey]:
    if not isinstance(document, dict) or document.get("v") != VERSION:
        raise ValueError(f'expected an object with "v": "{VERSION}"')
    entries = document.get("keys")
    if not isinstance(entries, list) or not entries:
        raise ValueError("expected a list of at least one key under keys")
    found: dict[bytes, AppKey] = {}
    for place, entry in enumerate(entries):
        digest, key = _key(entry, f"key {place}")
        if digest in found or any(key.number == other.number for other in found.values()):
            raise ValueError(f"key {place}: its number or its digest stands there twice")
        found[digest] = key
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


class WatchedKeys:
    """The keys of a file. Only one thread calls :meth:`refresh`.

    Attributes:
        keys: in force; replaced as a whole, so that any thread may read it.
        stale: whether the file has changed to something that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._present_stamp()
        self.keys: AppKeys = read_app_keys(path)
        self.stale = False

    def refresh(self) -> str:
        """Read the file where it has changed; return why it cannot be read, or nothing."""
        stamp = self._present_stamp()
        if stamp == self._stamp:
            return ""
        self._stamp = stamp
        try:
            self.keys = read_app_keys(self._path)
        except InvalidInput as error:
            self.stale = True
            return str(error)
        self.stale = False
        return ""

    def _present_stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino
