"""The headers of one record. Senders of reports need none, so damage here is no damage."""

from __future__ import annotations

Headers = tuple[tuple[str, bytes], ...]

MAX_HEADERS = 64
"""A record with more headers is read as one without any."""

_LAST_SHIFT = 28


def read_headers(data: bytes) -> Headers:
    """The headers in a record's header section, its number included.

    Names that are not UTF-8 are read with replacement characters, and a null value as empty.

    Returns:
        Nothing where there are more than ``MAX_HEADERS`` headers or the section is damaged.
    """
    found = []
    try:
        count, at = _varint(data, 0)
        if not 0 <= count <= MAX_HEADERS:
            return ()
        for _ in range(count):
            name, at = _bytes(data, at)
            content, at = _bytes(data, at)
            if name is None:
                return ()
            found.append((name.decode("utf-8", "replace"), content or b""))
    except ValueError:
        return ()
    return tuple(found)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the position behind it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > _LAST_SHIFT:
            raise ValueError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
