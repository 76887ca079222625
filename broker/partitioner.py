"""The partition of a batch, chosen by its sender from its id."""

from __future__ import annotations

import zlib


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, in [0, partitions)."""
    return zlib.crc32(key) % partitions
