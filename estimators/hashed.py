"""Attributes over an open vocabulary: devices report buckets of public hashes of a text.

A hashed attribute is one ordinary attribute for each of its hashes, ``crash#0``, ``crash#1`` and so
on, whose labels are the buckets (docs/perturbing.md). What the texts are is asked later.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import DomainError
from calmstream.estimators.randomness import Randomness, uniform_below

MAX_HASHES, MAX_BUCKETS = 64, 4096
MAX_TEXT = 1024  # bytes of UTF-8; a longer text counts as none
_WORDS = 8
_PURPOSE = b"calmstream/1/hashed/"


@dataclass(frozen=True, slots=True)
class Hashed:
    """An attribute is the bucket of a text under one of several hashes."""

    text: str  # name of the field of a record, which holds the text
    place: int  # the hash that the attribute is about, from 0
    hashes: int
    buckets: int
    lineage: str = field(default="", compare=False)  # that of the plan, which fills it in

    def code(self, value: object) -> int | None:
        """Return the bucket of a text; None if it is no text that counts."""
        raw = text_bytes(value)
        return None if raw is None else int(self._own([raw])[0])

    def codes(
        self,
        texts: Sequence[object],
        randomness: Randomness | None = None,
        places: NDArray[Any] | slice = slice(None),
    ) -> NDArray[np.int64]:
        """Return the buckets of a column of texts: shape (n,).

        What is no text becomes a random bucket, as on a device; without randomness a DomainError.
        ``places``: of the texts of the records, where texts are repeated.
        """
        raw = [text_bytes(text) for text in texts]
        codes = self._own([text or b"" for text in raw])[places]
        none = np.array([text is None for text in raw], bool)[places]
        if none.any():
            if randomness is None:
                row = int(none.argmax())
                raise DomainError(f"row {row + 1}: {self.text!r} has no text that counts")
            codes[none] = uniform_below(self.buckets, int(none.sum()), randomness)
        return codes

    def _own(self, texts: Sequence[bytes]) -> NDArray[np.int64]:
        return self._buckets(texts, [self.place])[:, 0]

    def all_buckets(self, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the buckets of texts under all hashes: shape (n, hashes)."""
        every = range(self.hashes)
        found = [self._buckets(texts, every[i : i + _WORDS]) for i in every[::_WORDS]]
        return np.concatenate(found, axis=1)

    def _buckets(self, texts: Sequence[bytes], places: Sequence[int]) -> NDArray[np.int64]:
        """Return the buckets under hashes that share a digest: shape (n, places)."""
        name = f"{self.text}#{places[0] // _WORDS}\0".encode()
        start = hashlib.sha256(_PURPOSE + bytes.fromhex(self.lineage) + name)
        digests = bytearray()
        for text in texts:
            own = start.copy()
            own.update(text)
            digests += own.digest()
        words = np.frombuffer(bytes(digests), ">u4").reshape(len(texts), _WORDS)
        chosen = words[:, [place % _WORDS for place in places]].astype(np.uint64)
        return (chosen * np.uint64(self.buckets) >> np.uint64(32)).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "hashed", "buckets": self.buckets, "hashes": self.hashes}


def text_bytes(value: object) -> bytes | None:
    """Return a text in NFC as UTF-8; None for what is no text, empty, too long or no Unicode."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        return None
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return None
    return unicodedata.normalize("NFC", value).encode() if size <= MAX_TEXT else None


def read_hashed(name: str, entry: dict[str, Any], where: str) -> list[Hashed]:
    """Read the entry of a hashed attribute in a domain: one kind for each hash."""
    for what, least, most in (("buckets", 2, MAX_BUCKETS), ("hashes", 1, MAX_HASHES)):
        number = entry.get(what)
        if type(number) is not int or not least <= number <= most:
            raise DomainError(f"{where}.{what}: expected a whole number from {least} to {most:,}")
    hashes, buckets = entry["hashes"], entry["buckets"]
    return [Hashed(name, place, hashes, buckets) for place in range(hashes)]
