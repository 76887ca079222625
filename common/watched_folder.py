"""Watches a folder of documents: which can be used, which are refused, and why.

The command line and the gateway watch folders of plans. The reader decides what a document is.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from calmstream.common.errors import CalmstreamError, InvalidInput

MAX_FILES = 1000
"""Files beyond this number, in the order of their names, are not read."""

_READ_SECONDS = 10.0
"""A refresh reads new files for this long; the next one continues."""

T = TypeVar("T")

Stamp = tuple[int, int, int]
"""Time of the last change, size and inode of a file: equal stamps mean an unchanged file."""


class Identity(NamedTuple):
    """What identifies a document.

    Attributes:
        name: a name for people, which a folder may allow only once.
        digest: the identity; equal digests mean the same document.
    """

    name: str
    digest: str


class _Read(NamedTuple, Generic[T]):
    stamp: Stamp
    identity: Identity
    document: T


class _Failed(NamedTuple):
    """Why a file is not used.

    Attributes:
        stamp: its stamp; the file is read again when that changes. None: at the next refresh.
        why: the reason.
        clash: whether another file has the name; the file is read again when a file goes.
    """

    stamp: Stamp | None
    why: str
    clash: bool = False


class _Clash(InvalidInput):
    """Another document has the name."""


class WatchedFolder(Generic[T]):
    """Reads ``*.json`` of a folder, again when they change. One thread calls :meth:`refresh`.

    A file counts as changed when its stamp differs, also behind a symbolic link. A document whose
    file is missing or broken stays in use until the next refresh finds the same, so that a file
    that is being written takes nothing away.

    Args:
        unique_names: whether a second document with a name in use is refused. The document that is
            in use stays; among new ones the first file by name wins.

    Attributes:
        documents: by digest; replaced as a whole, so that any thread may read it.
        refused: why files are not used, by file name; replaced as a whole too.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[bytes], T],
        identify: Callable[[T], Identity],
        *,
        max_bytes: int,
        unique_names: bool = True,
    ) -> None:
        self._folder = folder.absolute()  # not where the process is later
        self._read_bytes = read
        self._identify = identify
        self._max_bytes = max_bytes
        self._unique_names = unique_names
        self._read: dict[str, _Read[T]] = {}
        self._failed: dict[str, _Failed] = {}
        self._missing: set[str] = set()
        self.documents: Mapping[str, T] = {}
        self.refused: Mapping[str, str] = {}

    def refresh(self) -> None:
        """Read files that are new or have changed, and replace :attr:`documents`.

        Cost: one ``stat`` for each file, and the reading of those that have changed.
        """
        present = self._stamps()
        self._forget_changed(present)
        deadline = time.monotonic() + _READ_SECONDS
        for name in sorted(present):
            if name not in self._read and name not in self._failed:
                self._load(name, present[name])
                if time.monotonic() > deadline:
                    break
        self._replace()

    def refuse(self, digest: str, why: str) -> None:
        """Refuse a document that was read; its files are read again when they change."""
        for name, kept in list(self._read.items()):
            if kept.identity.digest == digest:
                del self._read[name]
                self._failed[name] = _Failed(kept.stamp, why)
        self.documents = {d: kept for d, kept in self.documents.items() if d != digest}
        self._show_refused()

    def _stamps(self) -> dict[str, Stamp]:
        try:
            with os.scandir(self._folder) as entries:
                names = sorted(
                    e.name for e in entries if e.name.endswith(".json") and e.name[0] != "."
                )
        except FileNotFoundError:
            raise InvalidInput(f"--plans {self._folder}: no such directory") from None
        except OSError as error:
            raise InvalidInput(f"--plans {self._folder}: {error.strerror}") from None
        self._failed = {n: kept for n, kept in self._failed.items() if kept.stamp is not None}
        if len(names) > MAX_FILES:
            beyond = f"{len(names) - MAX_FILES:,} files after {names[MAX_FILES - 1]}"
            self._failed[beyond] = _Failed(None, f"at most {MAX_FILES:,} files are read")
        stamps: dict[str, Stamp] = {}
        for name in names[:MAX_FILES]:
            try:
                found = (self._folder / name).stat()
            except OSError as error:  # a dangling link concerns this file only
                self._failed[name] = _Failed(None, error.strerror or "cannot be read")
                continue
            if stat.S_ISREG(found.st_mode):
                stamps[name] = (found.st_mtime_ns, found.st_size, found.st_ino)
            else:
                self._failed[name] = _Failed(None, "not a file")
        return stamps

    def _forget_changed(self, present: Mapping[str, Stamp]) -> None:
        kept = {n: read for n, read in self._read.items() if present.get(n) == read.stamp}
        goes = len(kept) < len(self._read)
        self._read = kept
        self._failed = {
            name: failed
            for name, failed in self._failed.items()
            if failed.stamp is None
            or (present.get(name) == failed.stamp and not (failed.clash and goes))
        }

    def _load(self, name: str, stamp: Stamp) -> None:
        try:
            with (self._folder / name).open("rb") as file:
                raw = file.read(self._max_bytes + 1)
            if len(raw) > self._max_bytes:
                raise InvalidInput(f"more than {self._max_bytes:,} bytes")
            document = self._read_bytes(raw)
            identity = self._identify(document)
            self._check_name(identity)
        except CalmstreamError as error:
            self._failed[name] = _Failed(stamp, str(error), isinstance(error, _Clash))
        except OSError as error:
            self._failed[name] = _Failed(None, error.strerror or "cannot be read")
        else:
            self._read[name] = _Read(stamp, identity, document)

    def _check_name(self, identity: Identity) -> None:
        for file, kept in self._read.items() if self._unique_names else ():
            if kept.identity.name == identity.name and kept.identity.digest != identity.digest:
                raise _Clash(f"the name {identity.name!r} is in use by another plan, in {file}")

    def _replace(self) -> None:
        """Set what others see, from what was read; keep what is missing for the first time."""
        found = {kept.identity.digest: kept.document for kept in self._read.values()}
        gone = self.documents.keys() - found.keys()
        again = {d: self.documents[d] for d in gone - self._missing}
        self._missing = set(gone)
        self.documents = found | again
        self._show_refused()

    def _show_refused(self) -> None:
        self.refused = {name: failed.why for name, failed in sorted(self._failed.items())}
