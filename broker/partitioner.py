"""The partition of a key, computed as Kafka's own clients compute it."""

from __future__ import annotations

import struct

# The constants of MurmurHash2 and the seed that Kafka's clients use.
_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 with Kafka's seed: an unsigned 32-bit integer.

    Source: org.apache.kafka.common.utils.Utils.murmur2. Cost: O(len(data)).
    """
    length = len(data)
    whole = length - length % 4
    h = (_SEED ^ length) & _MASK
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = (word * _MULTIPLIER) & _MASK
        k ^= k >> 24
        h = ((h * _MULTIPLIER) & _MASK) ^ ((k * _MULTIPLIER) & _MASK)
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition, in [0, partitions), that Kafka's default partitioner chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
