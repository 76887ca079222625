"""Reads and writes the headers of one record.

Calmstream's own records need no headers. A record whose headers are damaged is therefore read
without headers, and is not damaged itself.
"""

from __future__ import annotations

Headers = tuple[tuple[str, bytes], ...]
"""Names and contents of a record's headers. Unknown senders can use any names."""

MAX_HEADERS = 64
"""Maximum number of headers; a record with more is read as if it had none."""

# Shift of the fifth byte: a varint of 32 bits has at most five bytes of 7 bits.
_LAST_SHIFT = 28


def read_headers(data: bytes) -> Headers:
    """Read the header section of a record.

    In names that are not UTF-8, bad bytes become replacement characters. A null value becomes an
    empty one.

    Returns:
        The headers; none if there are more than ``MAX_HEADERS`` or the section is damaged.
    """
    headers = []
    try:
        count, at = _varint(data, 0)
        if not 0 <= count <= MAX_HEADERS:
            return ()
        for _ in range(count):
            name, at = _bytes(data, at)
            content, at = _bytes(data, at)
            if name is None:
                return ()
            headers.append((name.decode("utf-8", "replace"), content or b""))
    except ValueError:
        return ()
    return tuple(headers)


def write_headers(headers: Headers) -> bytes:
    """Return the header section of a record, which :func:`read_headers` reads."""
    out = bytearray(_number(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        out += _number(len(encoded)) + encoded + _number(len(content)) + content
    return bytes(out)


def _number(number: int) -> bytes:
    """Return a non-negative number as a zigzag varint."""
    rest, out = 2 * number, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes after their length, None for a negative length, and the position after them."""
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it; ``record_fields`` explains the format."""
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
