"""The plans that a gateway offers: the files of a directory, read again when they change."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from estimators.errors import CalmstreamError, InvalidInput
from estimators.plan import Plan
from producer.device.acceptance import read_any_plan
from producer.signed.envelope import MAX_ENVELOPE_BYTES

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A plan of the directory.

    Attributes:
        plan: as read.
        document: the bytes of its file: an envelope, or an unsigned plan.
        etag: of these bytes, as HTTP writes it.
        over: when its last window ends, milliseconds since the epoch.
    """

    plan: Plan
    document: bytes
    etag: bytes
    over: int

    @classmethod
    def of(cls, plan: Plan, document: bytes) -> Offered:
        """Return a plan with what follows from its file."""
        etag = f'"{hashlib.sha256(document).hexdigest()[:32]}"'.encode()
        return cls(plan, document, etag, plan.window_end(plan.windows - 1))


class PlanDirectory:
    """Reads ``*.json`` of a directory. Only one thread calls :meth:`refresh`.

    Args:
        directory: holds the files.
        roots: trusted root keys.
        allow_unsigned: whether plans without signature are offered.

    Attributes:
        offered: by digest; replaced as a whole, so that any thread may read it.
        refused: by file name, why it is not offered.
    """

    def __init__(self, directory: Path, roots: Collection[str], *, allow_unsigned: bool) -> None:
        self._directory = directory
        self._roots = roots
        self._allow_unsigned = allow_unsigned
        self._read: dict[str, tuple[Stamp, Offered]] = {}
        self._failed: dict[str, tuple[Stamp, str]] = {}
        self.offered: Mapping[str, Offered] = {}

    @property
    def refused(self) -> dict[str, str]:
        """Why files are not offered."""
        return {name: why for name, (_, why) in self._failed.items()}

    def changes(self) -> Iterator[Offered]:
        """Read files that are new or have changed; yield each plan that was not offered yet.

        The caller prepares for the plan and then calls :meth:`offer`, or :meth:`refuse`.

        Raises:
            InvalidInput: the directory cannot be read.
        """
        present = self._stamps()
        self._failed = {n: kept for n, kept in self._failed.items() if present.get(n) == kept[0]}
        self._read = {n: kept for n, kept in self._read.items() if present.get(n) == kept[0]}
        for name, stamp in present.items():
            if name in self._read or name in self._failed:
                continue
            try:
                found = self._load(self._directory / name)
            except (CalmstreamError, OSError) as error:
                self._failed[name] = stamp, str(error)
                continue
            self._read[name] = stamp, found
            if found.plan.digest not in self.offered:
                yield found

    def refuse(self, plan: Plan, why: str) -> None:
        """Note that a plan cannot be offered."""
        for name, (stamp, found) in list(self._read.items()):
            if found.plan.digest == plan.digest:
                del self._read[name]
                self._failed[name] = stamp, why

    def offer(self) -> None:
        """Offer exactly the plans that were read and not refused."""
        self.offered = {found.plan.digest: found for _, found in self._read.values()}

    def _stamps(self) -> dict[str, Stamp]:
        try:
            paths = sorted(self._directory.glob("*.json"))
            if not paths and not self._directory.is_dir():
                raise InvalidInput(f"--plans {self._directory}: no such directory")
            stats = {path.name: path.stat() for path in paths}
        except OSError as error:
            raise InvalidInput(f"--plans {self._directory}: {error.strerror}") from None
        return {name: (s.st_mtime_ns, s.st_size, s.st_ino) for name, s in stats.items()}

    def _load(self, path: Path) -> Offered:
        if path.stat().st_size > MAX_ENVELOPE_BYTES:
            raise InvalidInput(f"more than {MAX_ENVELOPE_BYTES:,} bytes")
        document = path.read_bytes()
        accepted = read_any_plan(document, self._roots, allow_unsigned=self._allow_unsigned)
        return Offered.of(accepted.plan, document)
