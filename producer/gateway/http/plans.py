"""The plans that a gateway offers: the files of a directory, read again when they change."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from calmstream.common.watched_folder import WatchedFolder
from calmstream.estimators.plan import Plan
from calmstream.producer.device.read_plan import read_any_plan
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A plan, and its envelope or, without one, its own bytes, which are ``fixed``.

    ``over``: its last window's end, ms since the epoch; ``until``: its certificate's end, seconds.
    """

    plan: Plan
    document: bytes
    etag: bytes
    over: int
    fixed: bool
    until: int | None

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def digest(self) -> str:
        return self.plan.digest


def plan_folder(
    directory: Path, roots: Collection[str], *, allow_unsigned: bool
) -> WatchedFolder[Offered]:
    """Plans of one name stand side by side: devices report under the old one until it ends."""

    def read(raw: bytes) -> Offered:
        accepted = read_any_plan(raw, roots, allow_unsigned=allow_unsigned)
        plan, statement = accepted.plan, accepted.statement
        document = plan.to_bytes() if statement is None else raw
        etag = f'"{hashlib.sha256(document).hexdigest()[:32]}"'.encode()
        until = None if statement is None else statement.not_after
        over = plan.window_end(plan.windows - 1)
        return Offered(plan, document, etag, over, statement is None, until)

    return WatchedFolder(directory, read, max_bytes=MAX_ENVELOPE_BYTES, unique_names=False)
