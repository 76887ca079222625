"""The few file operations of the spool. Tests replace them by files that tear, fail and fill up."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from calmstream.common.files import read_if_there, sync_directory, write_durably


class LogFile:
    """A file that grows; its owner's only. Every call but ``close`` may raise OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """After an error a part may have been written."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def sync(self) -> None:
        # The length is part of what fdatasync makes durable; times are not needed.
        getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def read(self, offset: int, length: int) -> bytes:
        """Safe from any thread."""
        parts = []
        while length and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


class Files:
    """The file system. Every call may raise OSError."""

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in directory.iterdir())
        except FileNotFoundError:
            return []

    def make_directory(self, path: Path) -> None:
        if path.is_dir():
            return
        if path.parent != path:
            self.make_directory(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        self.sync_directory(path.parent)

    def open(self, path: Path) -> LogFile:
        return LogFile(path)

    def sync_directory(self, path: Path) -> None:
        sync_directory(path)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def read(self, path: Path) -> bytes | None:
        return read_if_there(path)

    def write(self, path: Path, data: bytes) -> None:
        """Replace a small file, durably and as a whole; raises RecoverableError, not OSError."""
        write_durably(path, data)
