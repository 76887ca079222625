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

from calmstream.broker.records import Integers

Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

Spans = tuple[list[int], list[int]]

# Maximum number of bytes of a varint of 32 and of 64 bits.
_SHORT = 5
_LONG = 10
_LAST_SHIFT = 7 * (_SHORT - 1)
_MIN_EQUAL = 32
"""With at least this many records, it is worth testing first whether all have the same length."""


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


def record_spans(data: bytes, start: int, end: int, count: int) -> Spans | None:
    """Find the position of each record of a batch. Cost: O(count)."""
    if count >= _MIN_EQUAL:
        same = _equal_spans(data, start, end, count)
        if same is not None:
            return same
    starts, ends = [], []
    at = start
    for _ in range(count):
        length = shift = 0
        while True:
            if at >= end or shift > _LAST_SHIFT:
                return None
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        starts.append(at)
        at += length >> 1
        if length & 1 or at > end:
            return None  # an odd zigzag number is negative
        ends.append(at)
    return (starts, ends) if at == end else None


def _equal_spans(data: bytes, start: int, end: int, count: int) -> Spans | None:
    """Return the positions if all records have the same length, else None. One array comparison."""
    stride, rest = divmod(end - start, count)
    if rest or stride < 2:
        return None
    size = next((i + 1 for i in range(min(_SHORT, stride)) if data[start + i] < 0x80), 0)
    prefix = data[start : start + size]
    stated = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(prefix))
    if not size or stated != 2 * (stride - size):
        return None
    rows = np.frombuffer(data, np.uint8, end - start, start).reshape(count, stride)
    if not (rows[:, :size] == np.frombuffer(prefix, np.uint8)).all():
        return None
    return list(range(start + size, end, stride)), list(range(start + stride, end + 1, stride))


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
