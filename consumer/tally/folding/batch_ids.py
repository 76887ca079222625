"""A compact set of batch ids: 16 bytes for each, and 5 to 7.5 for its index.

Senders choose the ids, so the hash is keyed: simple tabulation with random tables. With it linear
probing has constant expected cost for every set of ids that is chosen without knowledge of the
tables (Patrascu and Thorup, The Power of Simple Tabulation Hashing, J. ACM 2012). Ids are compared
in full.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

ID_BYTES = 16

Ids = NDArray[np.uint64]
"""Ids as two words each: shape (n, 2)."""

# The index grows when it is fuller than _FULL; after that it is fuller than 0.53.
_FULL = 0.75
_GROWTH = 1.4
_MIN_SLOTS = 64
# At most so many ids are hashed at once, which bounds the memory of a growing set.
_BLOCK = 1 << 16

_TABLES = np.frombuffer(os.urandom(ID_BYTES * 256 * 8), np.uint64).reshape(ID_BYTES, 256)


def as_ids(keys: bytes | bytearray) -> Ids:
    """Return ids that stand one after another in ``keys`` as words; copies nothing."""
    return np.frombuffer(keys, np.uint64).reshape(-1, 2)


def hashes(ids: Ids) -> NDArray[np.uint64]:
    """Return the keyed hash of each id, the same for the lifetime of the process: shape (n,)."""
    octets = np.ascontiguousarray(ids).view(np.uint8)
    mixed: NDArray[np.uint64] = _TABLES[0][octets[:, 0]]
    for i in range(1, ID_BYTES):
        mixed ^= _TABLES[i][octets[:, i]]
    return mixed


class BatchIds:
    """A set of ids of 16 bytes, for arrays of them.

    The ids stand in the order in which they were added. A hash table with open addressing and
    linear probing has one entry of 32 bits for each id: its position plus 1 in the low bits, and in
    the bits that positions do not need a tag from the hash, which distinguishes most other ids
    without a look at them. 0 is an empty slot. Maximum: 2^32 - 2 ids.
    """

    def __init__(self) -> None:
        self._ids = bytearray()
        self._set_slots(_MIN_SLOTS)

    def __len__(self) -> int:
        return len(self._ids) // ID_BYTES

    def contains(self, ids: Ids, mixed: NDArray[np.uint64] | None = None) -> NDArray[np.bool_]:
        """Return whether each id is in the set: shape (n,). Expected cost: O(n)."""
        found = np.zeros(len(ids), np.bool_)
        if not self._ids:
            return found
        mixed = hashes(ids) if mixed is None else mixed
        active, slot, tag = np.arange(len(ids)), self._starts(mixed), self._tags(mixed)
        while active.size:
            entry = self._table[slot]
            more = entry > 0
            alike = np.flatnonzero(more & (entry & self._tag_mask == tag))
            equal = alike[self._are(entry[alike], ids[active[alike]])]
            found[active[equal]] = True
            more[equal] = False
            active, slot, tag = active[more], slot[more] + 1, tag[more]
            slot[slot == self._size] = 0
        return found

    def _are(self, entries: NDArray[np.uint32], ids: Ids) -> NDArray[np.bool_]:
        """Return whether each entry is that of the id beside it."""
        kept = as_ids(self._ids)[(entries & self._position_mask).astype(np.int64) - 1]
        equal: NDArray[np.bool_] = (kept[:, 0] == ids[:, 0]) & (kept[:, 1] == ids[:, 1])
        return equal

    def add_all(self, ids: Ids, mixed: NDArray[np.uint64] | None = None) -> None:
        """Add different ids that are not in the set. Amortised expected cost: O(n)."""
        first = len(self)
        self._ids += ids.tobytes()
        if not self._grown():
            self._index(first, len(self), mixed)

    def _grown(self) -> bool:
        """Make a larger index of all ids if the present one is too full; return whether it was."""
        if len(self) <= _FULL * self._size:
            return False
        size = self._size
        while len(self) > _FULL * size:
            size = int(size * _GROWTH)
        self._set_slots(size)
        for first in range(0, len(self), _BLOCK):
            self._index(first, min(first + _BLOCK, len(self)))
        return True

    def _set_slots(self, size: int) -> None:
        self._size = size
        self._position_mask = np.uint32((1 << size.bit_length()) - 1)
        self._tag_mask = ~self._position_mask
        self._table = np.zeros(0, np.uint32)  # frees the old index before the new one is made
        self._table = np.zeros(size, np.uint32)

    def _index(self, first: int, last: int, mixed: NDArray[np.uint64] | None = None) -> None:
        """Enter the ids at the positions from ``first`` up to, not including, ``last``."""
        table = self._table
        mixed = hashes(as_ids(self._ids)[first:last]) if mixed is None else mixed
        slot = self._starts(mixed)
        entry = self._tags(mixed) | np.arange(first + 1, last + 1, dtype=np.uint32)
        while entry.size:
            free = table[slot] == 0
            # Of several ids that want one free slot, the last one written gets it.
            table[slot[free]] = entry[free]
            left = table[slot] != entry
            entry, slot = entry[left], slot[left] + 1
            slot[slot == self._size] = 0

    # The high half of a hash gives the first slot, the low half the tag.

    def _starts(self, mixed: NDArray[np.uint64]) -> NDArray[np.int64]:
        return ((mixed >> np.uint64(32)) * np.uint64(self._size) >> np.uint64(32)).astype(np.int64)

    def _tags(self, mixed: NDArray[np.uint64]) -> NDArray[np.uint32]:
        return mixed.astype(np.uint32) & self._tag_mask
