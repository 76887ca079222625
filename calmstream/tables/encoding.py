"""The text of a file: decompressed, and in the encoding that is stated, marked or found."""

from __future__ import annotations

import codecs
import re

from calmstream.common.errors import InvalidInput

MAX_BYTES = 4 << 30
"""Most bytes of a table; a small compressed file may unfold into more than the memory."""

_COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bz2"))
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = ("cp1252", "latin-1")
_START = 1 << 16
_BINARY = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


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
    """Return the text of a file, and what is to be said about its encoding."""
    if encoding is not None:
        return _stated(raw, encoding), []
    for mark, name in _MARKS:
        if raw.startswith(mark):
            said = [] if name == "utf-8-sig" else [f"encoding: {name.upper()}, by its mark"]
            return _stated(raw, name), said
    if wide := _wide(raw):
        return _stated(raw, wide), [f"encoding: {wide.upper()}, found by its zero bytes"]
    try:
        return _text(raw.decode()), []
    except UnicodeDecodeError as error:
        bad = error.start
    for name in _WESTERN:
        try:
            text = raw.decode(name)
        except UnicodeDecodeError:
            continue
        place = len(raw[:bad].decode(name))
        word = re.split(r"[\s,;|\"]", text[max(0, place - 20) : place])[-1]
        word += re.split(r"[\s,;|\"]", text[place : place + 20])[0]
        line = raw[:bad].count(b"\n") + 1
        found = f"encoding: not UTF-8, read as {name}, so that line {line:,} has {word!r}"
        return _text(text), [f"{found}; --encoding states another one"]
    raise AssertionError("latin-1 decodes everything")


def _wide(raw: bytes) -> str | None:
    """Return UTF-16 without a mark: every second byte of western text is zero."""
    start = raw[:4096]
    zeros = [start[i::2].count(0) / max(1, len(start) // 2) for i in (0, 1)]
    if len(raw) % 2 == 0 and max(zeros) > 0.4 and min(zeros) < 0.1:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _stated(raw: bytes, encoding: str) -> str:
    try:
        return _text(raw.decode(encoding))
    except LookupError:
        raise InvalidInput(
            f"--encoding: there is no encoding {encoding!r}; usual ones are utf-8, utf-16, cp1252, "
            "cp1250, cp1251, shift_jis, gb18030"
        ) from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"line {line:,} is not {encoding} text (byte {error.start:,}); state another --encoding"
        ) from None
    except (UnicodeError, ValueError) as error:
        raise InvalidInput(f"not {encoding} text: {error}; state another --encoding") from None


def _text(text: str) -> str:
    """Refuse what is no text: a program, a picture or a database has many control characters."""
    found = _BINARY.search(text)
    start = text[:_START]
    if found and ("\0" in start or 50 * len(_BINARY.findall(start)) > len(start)):
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidInput(
            f"line {line:,} has the control character U+{ord(found[0]):04X}: this is no text; "
            "save it as CSV, Parquet, JSON lines or Excel"
        )
    return text
