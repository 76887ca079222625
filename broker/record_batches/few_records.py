"""Decodes the fields of few records one by one, which then costs less than array operations.

It recognises usual records only, and nothing else: whether an unusual one is damaged is decided by
`read_fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calmstream.broker.record_batches.batch_header import BatchHeader

MAX_RECORDS = 32
"""Up to this number of records, a loop is faster than array operations."""

_LAST_SHIFT = 28
_LARGEST = (1 << 63) - 1


class Row(NamedTuple):
    """A record: its offset and append time, and start and end of its parts, as ``Columns`` does."""

    offset: int
    timestamp: int
    spans: tuple[int, int, int, int, int, int]


class _Unusual(Exception):  # noqa: N818 - no error: other code decides
    """A field is not a short varint, or does not fit into its record."""


def read_few(
    data: bytes,
    batches: Sequence[BatchHeader],
    sizes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> list[Row] | None:
    """Return the records of some batches."""
    rows: list[Row] = []
    position = iter(zip(starts, ends, strict=True))
    try:
        for batch, size in zip(batches, sizes, strict=True):
            if size and not (batch.append_time and batch.last_offset <= _LARGEST):
                return None
            first, last = batch.first_offset, batch.last_offset
            before = first - 1
            for _ in range(size):
                delta, spans = _fields(data, *next(position))
                offset = first + delta
                if not before < offset <= last:
                    return None
                rows.append(Row(offset, batch.max_timestamp, spans))
                before = offset
    except _Unusual:
        return None
    return rows


def _fields(data: bytes, at: int, end: int) -> tuple[int, tuple[int, int, int, int, int, int]]:
    """Return the offset delta of a record, and the positions of key, value and headers."""
    _time_delta, at = _varint(data, at + 1, end)  # the attributes of a record have no meaning yet
    delta, at = _varint(data, at, end)
    length, at = _varint(data, at, end)
    key = value = (-1, -1)
    if length >= 0:
        key = (at, at + length)
        at += length
    length, at = _varint(data, at, end)
    if length >= 0:
        value = (at, at + length)
        at += length
    if at > end:
        raise _Unusual
    return delta, (*key, *value, at, end)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint of at most 32 bits, and the position after it."""
    value = shift = 0
    while at < end and shift <= _LAST_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return value >> 1 ^ -(value & 1), at
        shift += 7
    raise _Unusual
