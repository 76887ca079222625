"""Watches a folder of plans, each a document: which can be used, which are refused, and why."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from calmstream.common.errors import CalmstreamError, InvalidInput

MAX_FILES = 1000  # files beyond this number, in the order of their names, are not read
_READ_SECONDS = 10.0


class Named(Protocol):
    """A plan as it was read: equal digests mean the same one, a name may be allowed only once."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str: ...


T = TypeVar("T", bound=Named)

Stamp = tuple[int, int, int]  # time of change, size and inode; equal ones mean an unchanged file


class _File(NamedTuple, Generic[T]):
    """A file as it was read: its document, or why it has none."""

    stamp: Stamp
    document: T | None
    why: str = ""


class WatchedFolder(Generic[T]):
    """Reads ``*.json`` of a folder, again when they change. One thread calls its methods.

    A file counts as changed when its stamp differs, also behind a symbolic link. A document that
    no file has any more stays in use, and its name taken, until the next refresh finds the same, so
    that a file that is being written takes nothing away. Of two documents with one name the one in
    use stays; among new ones the first file by name wins.

    ``documents`` (by digest) and ``refused`` (reasons by file name) are replaced as a whole, so
    that any thread may read them.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[bytes], T],
        *,
        max_bytes: int,
        unique_names: bool = True,
    ) -> None:
        self._folder = folder.absolute()  # not where the process is later
        self._read = read
        self._max_bytes = max_bytes
        self._unique_names = unique_names
        self._files: dict[str, _File[T]] = {}
        self._missing: set[str] = set()
        self.documents: Mapping[str, T] = {}
        self.refused: Mapping[str, str] = {}
        self._said: Mapping[str, str] = {}
        self._trouble = ""

    def watch(self, log: FilteringBoundLogger) -> str:
        """Refresh, and log what is new; return why the folder cannot be read, empty if it can."""
        trouble = ""
        try:
            self.refresh()
        except InvalidInput as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            log.error("cannot read the plans; they stay as they were", error=trouble)
        elif self._trouble and not trouble:
            log.info("the plans can be read again")
        for name, why in self.refused.items():
            if self._said.get(name) != why:
                log.warning("plan refused", file=name, reason=why)
        self._said, self._trouble = self.refused, trouble
        return trouble

    def refresh(self, seconds: float = _READ_SECONDS) -> None:
        """Read new and changed files for ``seconds``; until the rest are read, their plans stay."""
        stamps, troubles = self._stamps()
        self._files = {name: file for name, file in self._files.items() if name in stamps}
        deadline = time.monotonic() + seconds
        for name, stamp in stamps.items():
            if name in self._files and self._files[name].stamp == stamp:
                continue
            try:
                self._files[name] = _File(stamp, self._load(name))
            except CalmstreamError as error:
                self._files[name] = _File(stamp, None, str(error))
            except OSError as error:
                self._files.pop(name, None)
                troubles[name] = error.strerror or "cannot be read"
            if time.monotonic() > deadline:
                break
        found = self._usable(troubles)
        gone = self.documents.keys() - found.keys()
        again = {d: self.documents[d] for d in gone - self._missing}
        self._missing = set(gone)
        taken = {one.name for one in again.values()} if self._unique_names else ()
        self.documents = {d: one for d, one in found.items() if one.name not in taken} | again
        why = {name: file.why for name, file in self._files.items() if file.why}
        self.refused = dict(sorted({**troubles, **why}.items()))

    def _stamps(self) -> tuple[dict[str, Stamp], dict[str, str]]:
        try:
            with os.scandir(self._folder) as entries:
                names = sorted(
                    e.name for e in entries if e.name.endswith(".json") and e.name[0] != "."
                )
        except FileNotFoundError:
            raise InvalidInput(f"{self._folder}: no such directory") from None
        except OSError as error:
            raise InvalidInput(f"{self._folder}: {error.strerror}") from None
        stamps: dict[str, Stamp] = {}
        troubles: dict[str, str] = {}
        if len(names) > MAX_FILES:
            beyond = f"{len(names) - MAX_FILES:,} files after {names[MAX_FILES - 1]}"
            troubles[beyond] = f"at most {MAX_FILES:,} files are read"
        for name in names[:MAX_FILES]:
            try:
                found = (self._folder / name).stat()
            except OSError as error:  # a dangling link concerns this file only
                troubles[name] = error.strerror or "cannot be read"
                continue
            if stat.S_ISREG(found.st_mode):
                stamps[name] = (found.st_mtime_ns, found.st_size, found.st_ino)
            else:
                troubles[name] = "not a file"
        return stamps, troubles

    def _load(self, name: str) -> T:
        with (self._folder / name).open("rb") as file:
            raw = file.read(self._max_bytes + 1)
        if len(raw) > self._max_bytes:
            raise InvalidInput(f"more than {self._max_bytes:,} bytes")
        return self._read(raw)

    def _usable(self, troubles: dict[str, str]) -> dict[str, T]:
        """Return the documents that were read, without those whose name another one has."""
        found: dict[str, T] = {}
        users: dict[str, tuple[str, str]] = {}
        read = [(n, f.document) for n, f in sorted(self._files.items()) if f.document is not None]
        for name, one in sorted(read, key=lambda each: each[1].digest not in self.documents):
            digest, first = users.setdefault(one.name, (one.digest, name))
            if self._unique_names and digest != one.digest:
                troubles[name] = f"the name {one.name!r} is in use by another plan, in {first}"
            else:
                found[one.digest] = one
        return found
