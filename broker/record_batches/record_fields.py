"""Decodes the fields of many records at once, in array operations.

A record is its length, followed by attributes (one byte), time delta, offset delta, key length,
key, value length, value, and headers. Lengths and deltas are zigzag varints: integers of variable
length, 7 bits in each byte, with the sign in the lowest bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.records import Integers, read_varint

Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

# Maximum number of bytes of a varint of 32 and of 64 bits.
_SHORT = 5
_LONG = 10


class Fields(NamedTuple):
    """The fields of n records, each of shape (n,) or, start and end in the buffer, (n, 2).

    Time (ms) and offset are relative to the batch's first. A key or value that is absent has the
    position -1. ``bad`` means that a field does not fit into its record.
    """

    time_delta: Integers
    offset_delta: Integers
    key: Integers
    value: Integers
    headers: Integers
    bad: Flags


def record_spans(
    data: bytes, start: int, end: int, count: int
) -> tuple[list[int], list[int]] | None:
    """Return start and end of each record; None unless the records fill the batch."""
    starts, ends = [], []
    at = start
    try:
        for _ in range(count):
            length, at = read_varint(data, at)
            starts.append(at)
            at += length
            if length < 0 or at > end:
                return None
            ends.append(at)
    except ValueError:
        return None
    return (starts, ends) if at == end else None


def read_fields(data: bytes, starts: Sequence[int], ends: Sequence[int]) -> Fields:
    raw = np.frombuffer(data, np.uint8)
    end = np.array(ends, np.int64)
    at = np.array(starts, np.int64) + 1  # the attributes of a record have no meaning yet
    bad = at > end
    time_delta, at, wrong = _varints(raw, at, end, _LONG)
    bad |= wrong
    offset_delta, at, wrong = _varints(raw, at, end, _SHORT)
    bad |= wrong
    key, at, wrong = _spans(raw, at, end)
    bad |= wrong
    value, at, wrong = _spans(raw, at, end)
    bad |= wrong
    return Fields(time_delta, offset_delta, key, value, np.stack([at, end], axis=1), bad)


def _spans(raw: Bytes, at: Integers, end: Integers) -> tuple[Integers, Integers, Flags]:
    """Read a length and the bytes that follow it; a negative length means no value."""
    length, at, bad = _varints(raw, at, end, _SHORT)
    after = at + np.maximum(length, 0)
    bad |= after > end
    spans = np.where(length[:, np.newaxis] < 0, -1, np.stack([at, after], axis=1))
    return spans, np.minimum(after, end), bad


def _varints(
    raw: Bytes, at: Integers, end: Integers, max_bytes: int
) -> tuple[Integers, Integers, Flags]:
    last = raw.size - 1
    byte = raw[np.minimum(at, last)]
    value = (byte & 0x7F).astype(np.uint64)
    bad = at >= end
    at = at + 1
    more = np.flatnonzero((byte >= 0x80) & ~bad)
    for i in range(1, max_bytes):
        if not more.size:
            break
        position = at[more]
        inside = position < end[more]
        bad[more[~inside]] = True
        more, position = more[inside], position[inside]
        byte = raw[position]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * i)
        at[more] += 1
        more = more[byte >= 0x80]
    bad[more] = True
    if max_bytes == _SHORT:
        bad |= value >= np.uint64(1 << 32)
    half = (value >> np.uint64(1)).astype(np.int64)
    sign = -(value & np.uint64(1)).astype(np.int64)
    return half ^ sign, at, bad
