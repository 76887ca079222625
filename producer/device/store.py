"""Storage of a device's state: its secret, ledger, policy and history."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.files import exclusive, read_if_there, real_path, write_durably
from calmstream.producer.device.assignment import new_secret
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.state_json import from_bytes, sealed, to_bytes, unsealed

Change = Callable[[DeviceState], DeviceState]  # its argument if nothing changes
Document = dict[str, Any]  # what recorders keep (`device.events`), as JSON


class DeviceStore(Protocol):
    """Keeps one device's state. Safe for use from several threads and processes.

    An empty store means a new device. It gets a secret, which is stored before it is used. A store
    whose content cannot be read is an error, never a new device, which would report again.
    """

    def read(self) -> DeviceState:
        """Return the state.

        Raises:
            FatalError: the state is damaged or cannot be read.
            RecoverableError: the state of a new device cannot be written.
        """

    def update(self, change: Change) -> DeviceState:
        """Apply ``change`` under a lock; return the new state.

        On return the new state is durable. If ``change`` returns its argument itself, nothing is
        written. If it raises an error, nothing has changed.

        Raises:
            FatalError: the state is damaged or cannot be read.
            RecoverableError: the state cannot be written; the old state is unchanged.
        """

    def read_events(self) -> Document:
        """Return what recorders keep; empty where they keep nothing. Errors as for `read`."""

    def update_events(self, change: Callable[[Document], Document]) -> Document:
        """Replace what recorders keep, under a lock; return it. Errors as for `update`.

        It is durable on return. ``change`` may change its argument. Nothing is kept of an empty
        document.
        """

    def erase_events(self) -> None:
        """Erase what recorders keep, also where it cannot be read; durable on return.

        Raises:
            RecoverableError: it cannot be erased.
        """


class MemoryStore:
    """Keeps the state in memory, for tests and simulations.

    A real device must not use it: after a restart it would be a new device and report again.
    """

    def __init__(self, state: DeviceState | None = None) -> None:
        self._state = state or DeviceState(new_secret())
        self._events = b"{}"
        self._lock = threading.Lock()

    def read(self) -> DeviceState:
        return self._state

    def update(self, change: Change) -> DeviceState:
        with self._lock:
            self._state = change(self._state)
            return self._state

    def read_events(self) -> Document:
        found: Document = orjson.loads(self._events)
        return found

    def update_events(self, change: Callable[[Document], Document]) -> Document:
        with self._lock:
            self._events = orjson.dumps(change(self.read_events()))
            return self.read_events()

    def erase_events(self) -> None:
        with self._lock:
            self._events = b"{}"


class FileStore:
    """Keeps the state in one JSON file, which only its owner can read; mostly 10 to 300 kB.

    Each change replaces the whole file and is flushed to disk. A missing file means a new device.
    The lock file ``<file>.lock`` contains the number of the last state that was written. So a state
    file that was deleted, or replaced by an older copy, is an error as long as the lock file is
    unchanged. If both files are deleted or replaced, the device reports again. Nothing on the
    device can prevent that, so keep both files out of backups and system images.

    A later change of the working directory or of a symbolic link leads to no other ledger. What
    recorders keep is in ``<file>.events``, with a lock of its own.

    Args:
        path: the file, or a symbolic link to it; the lock file is created beside the file itself.
        create: whether a missing file means a new device. False makes it an error, for a device
            that has been set up already.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        try:
            self._path = real_path(path)
        except OSError as error:  # the working directory is gone
            raise FatalError(f"{path}: {error.strerror}; give an absolute path") from None
        self._create = create
        self._secret: bytes | None = None  # of the device that this store has met

    def read(self) -> DeviceState:
        return self.update(lambda state: state)

    def update(self, change: Change) -> DeviceState:
        with exclusive(self._path, wait=True) as lock:
            state = self._load(lock)
            if self._secret not in (None, state.secret):
                raise FatalError(
                    f"{self._path} belongs to another device than before; put its file back"
                )
            self._secret = state.secret
            changed = change(state)
            return state if changed is state else self._write(lock, changed, state.generation + 1)

    def read_events(self) -> Document:
        path = self._events_path
        raw = read_if_there(path)
        try:
            return {} if raw is None else unsealed(raw)
        except ValueError as error:
            raise FatalError(
                f"{path} cannot be read ({error}); without it the device begins to count anew"
            ) from None

    def update_events(self, change: Callable[[Document], Document]) -> Document:
        path = self._events_path
        with exclusive(path, wait=True):
            stored = self.read_events()
            changed = change(stored)
            if changed or path.exists():
                write_durably(path, sealed(changed))
            return changed

    def erase_events(self) -> None:
        path = self._events_path
        with exclusive(path, wait=True):
            if path.exists():
                write_durably(path, sealed({}))

    @property
    def _events_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.events")

    def _load(self, lock: int) -> DeviceState:
        path = self._path
        raw, written = read_if_there(path), _last_generation(lock)
        if raw is None and not self._create:
            raise FatalError(f"{path} does not exist, and this device is not a new one")
        if raw is None and (written or self._secret is not None):
            raise FatalError(
                f"{path} is gone, and this device has used it: put it back. Without it and its "
                ".lock file this is a new device that reports again"
            )
        if raw is None:
            return self._write(lock, DeviceState(new_secret()), 1)
        try:
            state = from_bytes(raw)
        except ValueError as error:
            raise FatalError(
                f"{path} is damaged ({error}); restore it. Without the file this is a new device, "
                "which reports again"
            ) from None
        if state.generation < written:
            raise FatalError(
                f"{path} is an older copy (state {state.generation}, the last was {written}): this "
                "device would report again; put the latest file back"
            )
        return state

    def _write(self, lock: int, state: DeviceState, generation: int) -> DeviceState:
        """Write the state, then its number: a crash between leaves the state a larger one."""
        state = replace(state, generation=generation)
        write_durably(self._path, to_bytes(state))
        try:
            os.lseek(lock, 0, os.SEEK_SET)
            os.write(lock, b"%020d\n" % generation)
            os.fsync(lock)
        except OSError as error:
            raise RecoverableError(f"cannot write {self._path}.lock: {error.strerror}") from error
        return state


def _last_generation(lock: int) -> int:
    os.lseek(lock, 0, os.SEEK_SET)
    match = re.fullmatch(rb"([0-9]{20})\n", os.read(lock, 64))
    return int(match[1]) if match else 0
