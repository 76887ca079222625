"""The plans that a gateway offers: the files of a directory, read again when they change."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from calmstream.common.watched_folder import Identity, WatchedFolder
from calmstream.estimators.plan import Plan
from calmstream.producer.device.acceptance import AcceptedPlan
from calmstream.producer.device.read_plan import read_any_plan
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A plan of the directory, and its envelope or, without one, its own bytes, which are fixed.

    ``over`` is when its last window ends, in milliseconds since the epoch; after ``until``, in
    seconds, devices refuse its signature; None for a plan without one.
    """

    plan: Plan
    document: bytes
    etag: bytes
    over: int
    fixed: bool
    until: int | None

    @classmethod
    def of(cls, accepted: AcceptedPlan, raw: bytes) -> Offered:
        """Return a plan, signed or not, that was read from these bytes."""
        plan, statement = accepted.plan, accepted.statement
        document = plan.to_bytes() if statement is None else raw
        etag = f'"{hashlib.sha256(document).hexdigest()[:32]}"'.encode()
        until = None if statement is None else statement.not_after
        over = plan.window_end(plan.windows - 1)
        return cls(plan, document, etag, over, statement is None, until)


class PlanDirectory:
    """Reads ``*.json`` of a directory. Only one thread calls :meth:`changes`.

    Plans of one name are offered side by side: devices report under the old one until it ends.

    Attributes:
        offered: by digest; replaced as a whole, so that any thread may read it.
    """

    def __init__(self, directory: Path, roots: Collection[str], *, allow_unsigned: bool) -> None:
        def read(document: bytes) -> Offered:
            found = read_any_plan(document, roots, allow_unsigned=allow_unsigned)
            return Offered.of(found, document)

        self._folder = WatchedFolder(
            directory,
            read,
            lambda found: Identity(found.plan.name, found.plan.digest),
            max_bytes=MAX_ENVELOPE_BYTES,
            unique_names=False,
        )
        self.offered: Mapping[str, Offered] = {}

    @property
    def refused(self) -> dict[str, str]:
        """Why files are not offered, by file name."""
        return dict(self._folder.refused)

    def changes(self) -> Iterator[Offered]:
        """Read files that are new or have changed; yield each plan that was not offered yet.

        The caller prepares for the plan and then calls :meth:`offer`, or :meth:`refuse`.
        """
        self._folder.refresh()
        for digest, found in self._folder.documents.items():
            if digest not in self.offered:
                yield found

    def refuse(self, plan: Plan, why: str) -> None:
        self._folder.refuse(plan.digest, why)

    def offer(self) -> None:
        """Offer exactly the plans that were read and not refused."""
        self.offered = self._folder.documents
