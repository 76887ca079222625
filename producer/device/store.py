"""Storage of a device's secret and ledger."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import orjson

from broker.files import exclusive, read_if_there, real_path, write_durably
from estimators.errors import FatalError, PlanError
from estimators.randomness import parse_epsilon
from producer.device.assignment import SECRET_BYTES, new_secret
from producer.device.ledger import DeviceState, Spent

STORE_VERSION = 2
"""Version that is written. Version 1 can be read too; its entries have no ``bound``."""

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

    A missing file is a new device. Deleting the file, or restoring an old copy, makes the device
    report again. Nothing on the device can prevent that: keep the file out of backups and images.

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
        with exclusive(path, wait=True):
            state = self._load(path)
            changed = change(state)
            if changed is not state:
                write_durably(path, to_bytes(changed))
            return changed

    def _load(self, path: Path) -> DeviceState:
        raw = read_if_there(path)
        if raw is not None:
            try:
                return from_bytes(raw)
            except ValueError as error:
                raise FatalError(
                    f"{path} is damaged ({error}); restore it. To delete it makes this a new "
                    "device that reports again"
                ) from None
        if not self._create:
            raise FatalError(f"{path} does not exist, and this device is not a new one")
        state = DeviceState(new_secret())
        write_durably(path, to_bytes(state))
        return state


def to_bytes(state: DeviceState) -> bytes:
    """Return the state as JSON, with a SHA-256 over everything else."""
    lineages = {
        lineage: {digest: asdict(spent) for digest, spent in entries.items()}
        for lineage, entries in state.lineages.items()
    }
    document = {"version": STORE_VERSION, "secret": state.secret.hex(), "lineages": lineages}
    return orjson.dumps(document | {"sha256": _checksum(document)}, option=orjson.OPT_SORT_KEYS)


def from_bytes(raw: bytes) -> DeviceState:
    """Decode the output of :func:`to_bytes`.

    Raises:
        ValueError: the bytes are anything else; the message contains no content.
    """
    document = _document(raw)
    if document.pop("sha256", None) != _checksum(document):
        raise ValueError("its checksum does not match")
    read = _spent_1 if document["version"] == 1 else _spent
    try:
        secret = bytes.fromhex(document["secret"])
        lineages = {
            lineage: {digest: read(entry) for digest, entry in entries.items()}
            for lineage, entries in document["lineages"].items()
        }
    except (KeyError, TypeError, AttributeError, PlanError):
        raise ValueError("a field is missing or malformed") from None
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"its secret does not have {SECRET_BYTES} bytes")
    return DeviceState(secret, lineages)


def _document(raw: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one kind of error, see above
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= STORE_VERSION:
        raise ValueError(f"its version is not 1 to {STORE_VERSION}")
    return document


def _spent_1(entry: Mapping[str, Any]) -> Spent:
    """Decode an entry of version 1, which has no bound."""
    if "bound" in entry:
        raise TypeError("version 1 has no bounds")
    return _spent({**entry, "bound": ""})


def _spent(entry: Mapping[str, Any]) -> Spent:
    bound = entry["bound"]
    spent = Spent(**entry)
    numbers = (spent.window, spent.ends, spent.reports, spent.horizon)
    if any(type(number) is not int for number in numbers):
        raise TypeError("numbers are integers")
    parse_epsilon(spent.epsilon)
    if bound != "":
        parse_epsilon(bound)
    return spent


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
