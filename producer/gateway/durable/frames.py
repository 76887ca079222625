"""Files of frames: what is written together is read back together or not at all.

A file begins with ``calmspl1`` and 8 random bytes. A frame is ``magic (4 bytes) | length of the
payload (u32) | checksum (u32) | payload | end mark (4 bytes)``, integers little-endian; the
checksum is the CRC-32 of the random bytes, the length and the payload. A crash can leave a part of
the last frame, or all of it with sectors that read as zeros; it was never acknowledged and is cut
off. A damaged frame that has its end mark, or an intact frame behind it, is not the trace of a
crash but of a fault of the disk, and nothing is cut. The random bytes keep a sender of reports
from placing an intact frame inside one.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.producer.gateway.durable.files import Files, LogFile

MAGIC = b"\xc5cS\x01"
_BEGIN = b"calmspl1"
_BEGIN_BYTES = 16
_HEAD = struct.Struct("<4sII")
HEAD_BYTES = _HEAD.size
MAX_PAYLOAD = 1 << 28
_END = b"\xa5end"
_SECTOR = 512


class FrameFile:
    """One file of frames, of ``size`` durable bytes. Only :meth:`read` is safe from any thread."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path
        self._file: LogFile | None = None
        self._salt = b""
        self.size = 0
        self._sound = True
        self._named = False

    def recover(self) -> Iterator[tuple[int, bytes]]:
        """Open an existing file; yield offset and payload of every frame, then cut a torn tail."""
        try:
            self._file = file = self._files.open(self.path)
            self._named = True
            end = file.size()
            begin = file.read(0, _BEGIN_BYTES)
            if len(begin) == _BEGIN_BYTES and begin.startswith(_BEGIN):
                self._salt = begin[len(_BEGIN) :]
                self.size = _BEGIN_BYTES
                yield from self._frames(file, end)
                if self.size == _BEGIN_BYTES:
                    self.size = 0  # no frame is intact: the next one writes a new beginning
            elif not _is_torn(file.read(0, end)):
                raise FatalError(f"{self.path} is no spool file; move it away")
            if self.size < end:
                file.truncate(self.size)
                file.sync()
        except OSError as error:
            raise FatalError(f"cannot read {self.path}: {error.strerror}") from error

    def append(self, payload: bytes) -> int:
        """Write a frame; durable on return. Returns the offset of the payload."""
        if len(payload) > MAX_PAYLOAD:
            raise RecoverableError(f"cannot write {self.path}: {len(payload):,} bytes at once")
        try:
            return self._append(payload)
        except OSError as error:
            self._sound = False
            with contextlib.suppress(OSError):
                self._cut()  # if it fails, the next call tries again before it writes
            raise RecoverableError(f"cannot write {self.path}: {error.strerror}") from error

    def read(self, offset: int, length: int) -> bytes:
        if self._file is None:
            raise RecoverableError(f"{self.path} is closed")
        try:
            found = self._file.read(offset, length)
        except OSError as error:
            raise RecoverableError(f"cannot read {self.path}: {error.strerror}") from error
        if len(found) != length:
            raise RecoverableError(f"cannot read {self.path}: it is shorter than it was")
        return found

    def remove(self) -> None:
        self.close()
        self._files.remove(self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, payload: bytes) -> int:
        file = self._file = self._files.open(self.path) if self._file is None else self._file
        if not self._sound:
            self._cut()
        begin = b""
        if self.size == 0:
            self._salt = os.urandom(_BEGIN_BYTES - len(_BEGIN))
            begin = _BEGIN + self._salt
        head = _HEAD.pack(MAGIC, len(payload), self._check(payload))
        file.append(begin + head + payload + _END)
        file.sync()
        if not self._named:
            self._files.sync_directory(self.path.parent)
            self._named = True
        at = self.size + len(begin) + HEAD_BYTES
        self.size = at + len(payload) + len(_END)
        return at

    def _cut(self) -> None:
        """Cut what a failed write left; while the file is closed it stays unsound."""
        if self._file is not None:
            self._file.truncate(self.size)
            self._file.sync()
            self._sound = True

    def _check(self, payload: bytes) -> int:
        return zlib.crc32(payload, zlib.crc32(self._salt + len(payload).to_bytes(4, "little")))

    def _frames(self, file: LogFile, end: int) -> Iterator[tuple[int, bytes]]:
        while (payload := self._payload(file, self.size, end)) is not None:
            yield self.size + HEAD_BYTES, payload
            self.size += HEAD_BYTES + len(payload) + len(_END)
        rest = file.read(self.size, max(end - self.size, 0))
        whole = rest.endswith(_END) and bytes(_SECTOR) not in rest
        if whole or self._has_frame(file, rest, end):
            raise FatalError(
                f"{self.path} is damaged at byte {self.size:,} although it was written as a "
                "whole: the disk has changed it; restore the file or move it away to continue "
                "without it"
            )

    def _payload(self, file: LogFile, offset: int, end: int) -> bytes | None:
        head = file.read(offset, HEAD_BYTES)
        if len(head) < HEAD_BYTES:
            return None
        magic, size, check = _HEAD.unpack(head)
        if magic != MAGIC or size > min(MAX_PAYLOAD, end - offset - HEAD_BYTES - len(_END)):
            return None
        payload = file.read(offset + HEAD_BYTES, size)
        return payload if len(payload) == size and self._check(payload) == check else None

    def _has_frame(self, file: LogFile, rest: bytes, end: int) -> bool:
        """Whether an intact frame begins anywhere behind the first byte. O(bytes)."""
        at = rest.find(MAGIC, 1)
        while at >= 0:
            if self._payload(file, self.size + at, end) is not None:
                return True
            at = rest.find(MAGIC, at + 1)
        return False


def _is_torn(content: bytes) -> bool:
    """Whether a crash can have left this of the first frame: unwritten blocks read as zeros."""
    written = content.rstrip(b"\0")
    if len(written) > len(_BEGIN):
        return len(content) < _BEGIN_BYTES and written.startswith(_BEGIN)
    return _BEGIN.startswith(written)
