"""Read the records of a batch one by one: the slow reference for the decoder."""

from __future__ import annotations

from typing import NamedTuple


class Read(NamedTuple):
    """One record of a batch; ``rest`` is its header section, not decoded."""

    offset_delta: int
    time_delta: int
    key: bytes | None
    value: bytes | None
    rest: bytes


class Unreadable(Exception):  # noqa: N818 - a verdict on the bytes
    """The bytes are not the records that they claim to be."""


class Place:
    """A reading position within a range of bytes that reads must not leave."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def take(self, size: int) -> bytes:
        if self.at + size > self.end:
            raise Unreadable
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, most: int) -> int:
        """Read a zigzag varint of at most ``most`` bytes; five bytes hold at most 32 bits."""
        value = 0
        for i in range(most):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                break
        else:
            raise Unreadable
        if most == 5 and value >= 1 << 32:
            raise Unreadable
        value &= (1 << 64) - 1
        return (value >> 1) ^ -(value & 1)

    def content(self) -> bytes | None:
        size = self.number(5)
        return None if size < 0 else self.take(size)


def slow_reading(data: bytes, count: int, offsets: int | None = None) -> list[Read] | None:
    """Return the ``count`` records of an uncompressed batch; None for damage.

    The batch covers ``count`` offsets, or ``offsets``, which are more after compaction.
    """
    reach = count if offsets is None else offsets
    place = Place(data, 0, len(data))
    records: list[Read] = []
    try:
        for _ in range(count):
            records.append(_record(place, reach, records))
    except Unreadable:
        return None
    return records if place.at == place.end else None


def header_section(rest: bytes) -> dict[str, str]:
    """Decode a header section; the sender is trusted to write it well."""
    place = Place(rest, 0, len(rest))
    pairs = [(place.content(), place.content()) for _ in range(place.number(5))]
    return {(name or b"").decode(): (content or b"").decode() for name, content in pairs}


def _record(place: Place, reach: int, before: list[Read]) -> Read:
    size = place.number(5)
    if size < 0 or place.at + size > place.end:
        raise Unreadable
    own = Place(place.data, place.at, place.at + size)
    place.at += size
    own.take(1)
    time = own.number(10)
    offset = own.number(5)
    key, value = own.content(), own.content()
    read = Read(offset, time, key, value, own.data[own.at : own.end])
    if not 0 <= offset < reach or (before and offset <= before[-1].offset_delta):
        raise Unreadable
    return read
