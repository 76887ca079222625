"""Atomic and durable writes of files that only their owner may read, and lock files."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from calmstream.common.errors import FatalError, RecoverableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_SECONDS = 30.0
"""Maximum wait for a lock. Its holder may be stopped, or wait for a disk that does not answer."""

_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Errors that mean that somebody else holds the lock; with any other, waiting is of no use."""


def real_path(path: str | Path) -> Path:
    """Return the path with all symbolic links resolved.

    Replacing a link instead of its target would leave the old content under the other name, and the
    two names would take different locks.
    """
    return Path(os.path.realpath(path))


def write_durably(path: Path, data: bytes) -> None:
    """Replace the content of a file, which only its owner can then read and write.

    The path is a `real_path`. The new content survives a power failure once this has returned. A
    crash before that leaves the old content, and perhaps a ``.tmp`` file that is never read.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise RecoverableError(f"cannot write {path}: {error.strerror}") from error


def sync_directory(directory: Path) -> None:
    if sys.platform == "win32":
        return  # Windows has no handle on a directory to flush; the rename itself is journalled.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, None if there is none; FatalError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FatalError(f"cannot read {path}: {error.strerror}") from error


@contextlib.contextmanager
def exclusive(path: Path, *, wait: bool) -> Iterator[int]:
    """Hold the lock file ``<path>.lock`` alone; yield its descriptor. The path is a `real_path`.

    A lock that is held is waited for, for `LOCK_SECONDS`, or is an error at once.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RecoverableError(f"cannot make the lock {lock}: {error.strerror}") from error
    try:
        _lock(descriptor, path, LOCK_SECONDS if wait else 0)
        yield descriptor
    finally:
        os.close(descriptor)  # closing releases the lock


def _lock(descriptor: int, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if sys.platform == "win32":
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                raise RecoverableError(f"cannot lock {path}: {error.strerror}") from error
            if time.monotonic() >= deadline:
                raise RecoverableError(f"{path} is in use by another process") from error
            time.sleep(0.01)
        else:
            return
