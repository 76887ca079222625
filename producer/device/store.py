"""Storage of a device's secret and ledger."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from broker.files import exclusive, read_if_there, real_path, write_durably
from estimators.errors import FatalError, RecoverableError
from producer.device.assignment import new_secret
from producer.device.ledger import DeviceState
from producer.device.state_json import from_bytes, to_bytes

Change = Callable[[DeviceState], DeviceState]


class DeviceStore(Protocol):
    """Keeps one device's state. Safe for use from several threads and processes.

    A store that holds nothing is a new device: it gets a secret, stored before it is used. A store
    whose content cannot be read is an error and never a new device, because a new secret would
    allow the device to report again.
    """

    def read(self) -> DeviceState:
        """Return the state.

        Raises:
            FatalError: it is damaged or cannot be read.
            RecoverableError: the state of a new device could not be written.
        """

    def update(self, change: Change) -> DeviceState:
        """Apply ``change`` under a lock; return the new state.

        On return the new state is durable. Where ``change`` returns its argument itself, nothing is
        written. Where it raises, nothing has changed.

        Raises:
            FatalError: the state is damaged or cannot be read.
            RecoverableError: it could not be written; the old state is unchanged.
        """


class MemoryStore:
    """Keeps the state for as long as the process lives: for tests and simulations.

    A real device that used it would report again after every restart.
    """

    def __init__(self, state: DeviceState | None = None) -> None:
        self._state = state or DeviceState(new_secret())
        self._lock = threading.Lock()

    def read(self) -> DeviceState:
        """See :class:`DeviceStore`."""
        return self._state

    def update(self, change: Change) -> DeviceState:
        """See :class:`DeviceStore`."""
        with self._lock:
            self._state = change(self._state)
            return self._state


class FileStore:
    """Keeps the state in one small JSON file, mode 0600, replaced whole and flushed to disk.

    A missing file is a new device. The lock file beside it holds the number of the last state that
    was written: a file that was deleted, or replaced by an older copy, is an error as long as the
    lock file is the latest. Who removes or replaces both makes the device report again: nothing on
    the device can prevent that, so keep both files out of backups and images.

    Args:
        path: the file, or a symbolic link to it; ``<file>.lock`` appears beside the file itself.
        create: whether a missing file makes a new device; False makes it an error, for devices
            that know that they have been set up.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self._path = Path(path)
        self._create = create

    def read(self) -> DeviceState:
        """See :class:`DeviceStore`."""
        return self.update(lambda state: state)

    def update(self, change: Change) -> DeviceState:
        """See :class:`DeviceStore`."""
        path = real_path(self._path)
        with exclusive(path, wait=True) as lock:
            state = self._load(path, lock)
            changed = change(state)
            return state if changed is state else _write(path, lock, changed, state.generation + 1)

    def _load(self, path: Path, lock: int) -> DeviceState:
        raw, written = read_if_there(path), _last_generation(lock)
        if raw is None:
            return self._new(path, lock, written)
        try:
            state = from_bytes(raw)
        except ValueError as error:
            raise FatalError(
                f"{path} is damaged ({error}); restore it. To delete it makes this a new "
                "device that reports again"
            ) from None
        if state.generation < written:
            raise FatalError(
                f"{path} is an older copy (state {state.generation}, the last was {written}): this "
                "device would report again; put the latest file back"
            )
        return state

    def _new(self, path: Path, lock: int, written: int) -> DeviceState:
        if not self._create:
            raise FatalError(f"{path} does not exist, and this device is not a new one")
        if written:
            raise FatalError(
                f"{path} is gone, and this device has used it: put it back. Without it and its "
                ".lock file this is a new device that reports again"
            )
        return _write(path, lock, DeviceState(new_secret()), 1)


def _write(path: Path, lock: int, state: DeviceState, generation: int) -> DeviceState:
    """Write the state, then its number: a crash in between leaves a file that is ahead."""
    state = replace(state, generation=generation)
    write_durably(path, to_bytes(state))
    try:
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, b"%020d\n" % generation)
        os.fsync(lock)
    except OSError as error:
        raise RecoverableError(f"cannot write {path}.lock: {error.strerror}") from error
    return state


def _last_generation(lock: int) -> int:
    """Return the number in the lock file; 0 where it holds none, as before numbers were kept."""
    os.lseek(lock, 0, os.SEEK_SET)
    match = re.fullmatch(rb"([0-9]{20})\n", os.read(lock, 64))
    return int(match[1]) if match else 0
