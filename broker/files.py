"""Files that survive a crash: whole or not at all, private to their owner, locked while changed."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

from estimators.errors import FatalError, RecoverableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def real_path(path: str | Path) -> Path:
    """The path of the file itself, all symbolic links followed.

    Replacing a link instead of its target would leave the old content under the other name, and the
    two names would take different locks.
    """
    return Path(os.path.realpath(path))


def write_durably(path: Path, data: bytes) -> None:
    """Replace ``path``, as :func:`real_path` gives it, readable and writable by its owner only.

    When this returns the new content survives a power failure; until then the old one does. A
    crash can leave a file ``.<name>.<random>.tmp`` behind, which nobody reads.

    Raises:
        RecoverableError: the operating system refused (no space, no permission).
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
        _sync_directory(path.parent)
    except OSError as error:
        raise RecoverableError(f"cannot write {path}: {error.strerror}") from error


def _sync_directory(directory: Path) -> None:
    if sys.platform == "win32":
        return  # Windows has no handle on a directory to flush; the rename itself is journalled.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_if_there(path: Path) -> bytes | None:
    """The content, or None where no such file exists.

    Raises:
        FatalError: it exists and cannot be read. That is never taken for an absent file.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FatalError(f"cannot read {path}: {error.strerror}") from error


@contextlib.contextmanager
def exclusive(path: Path, *, wait: bool) -> Iterator[int]:
    """Hold the lock file ``<path>.lock`` against other threads and processes.

    Args:
        path: what is protected, as :func:`real_path` gives it; its directory is made where it does
            not exist.
        wait: block until the lock is free, or refuse at once.

    Yields:
        The open descriptor of the lock file.

    Raises:
        RecoverableError: the lock is held elsewhere and ``wait`` is false, or cannot be made.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RecoverableError(f"cannot make the lock {lock}: {error.strerror}") from error
    try:
        try:
            _lock(descriptor, wait=wait)
        except OSError as error:
            raise RecoverableError(f"{path} is in use by another process") from error
        yield descriptor
    finally:
        os.close(descriptor)  # closing releases the lock


def _lock(descriptor: int, *, wait: bool) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
