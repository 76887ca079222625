"""The text of a file: decompressed, and in the encoding that is stated, marked or found."""

from __future__ import annotations

import codecs
import re

from calmstream.common.errors import InvalidInput

MAX_BYTES = 4 << 30  # of a table; a small compressed file may unfold into more than the memory

_COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bz2"))
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_START = 1 << 16


def unpacked(raw: bytes) -> bytes:
    """Return what a file holds, decompressed if it is gzip, zstd or bzip2."""
    kind = next((kind for start, kind in _COMPRESSED if raw.startswith(start)), None)
    if kind is None:
        return raw
    import pyarrow as pa

    try:
        found: bytes = pa.CompressedInputStream(pa.BufferReader(raw), kind).read(MAX_BYTES + 1)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(
            f"broken {kind}: {str(error).rstrip('.')}; copy or download the file again"
        ) from None
    if len(found) > MAX_BYTES:
        raise InvalidInput(
            f"it unfolds into more than {MAX_BYTES >> 30} GiB; split it, or take a sample"
        )
    return found


def decoded(raw: bytes, encoding: str | None) -> tuple[str, list[str]]:
    mark = next((mark for mark in _MARKS if raw.startswith(mark)), None)
    if encoding is None and mark is not None:
        said = [] if mark == codecs.BOM_UTF8 else ["encoding: UTF-16, by its mark"]
        return _text(raw, _MARKS[mark]), said
    if encoding is not None:
        return _text(raw, encoding), []
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        found, bad = _western(raw), error.start
    else:
        return _text(raw, "utf-8"), []
    text, place = _text(raw, found), len(raw[:bad].decode(found))
    word = re.split(r"[\s,;|\"]", text[max(0, place - 20) : place])[-1]
    word += re.split(r"[\s,;|\"]", text[place : place + 20])[0]
    line = raw[:bad].count(b"\n") + 1
    about = f"encoding: not UTF-8, read as {found}, so that line {line:,} has {word!r}"
    return text, [f"{about}; --encoding states another one"]


def _western(raw: bytes) -> str:
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"  # which has every byte
    return "cp1252"


def _text(raw: bytes, encoding: str) -> str:
    """Decode a text; a program, a picture or a database has zero characters."""
    try:
        text = raw.decode(encoding)
    except LookupError:
        raise InvalidInput(
            f"--encoding: there is no encoding {encoding!r}; usual ones are utf-8, utf-16, cp1252, "
            "cp1250, cp1251, shift_jis, gb18030"
        ) from None
    except ValueError as error:
        line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
        raise InvalidInput(
            f"line {line:,} is not {encoding} text; state another --encoding"
        ) from None
    if "\0" in text[:_START]:
        raise InvalidInput(
            "it has zero characters: this is no text; save it as CSV, Parquet, JSON lines or "
            "Excel, or state its --encoding, such as utf-16-le"
        )
    return text
