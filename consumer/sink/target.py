"""What a sink expects of a target, and the rule which set replaces which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from calmstream.common.errors import InvalidInput
from calmstream.consumer.subscribe.assembler import SetId, Snapshot, above
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Revision


@dataclass(frozen=True, slots=True)
class Stored:
    """How many sets were written, and how many cells they have."""

    sets: int
    rows: int


class Target(Protocol):
    """A place where sets are kept; several threads and processes may store in it."""

    @property
    def name(self) -> str:
        """The target in a few words, without any password."""

    def check_plan(self, plan: Plan) -> None:
        """Check that the target can hold the names and labels of a plan; needs no connection."""

    def open(self) -> None:
        """Connect, and create the tables where there are none."""

    def store(self, namespace: str, sets: Sequence[Snapshot]) -> Stored:
        """Store, under a lock of the target, those sets of one plan that are newer; all or none.

        After a failure the next call connects again.
        """

    def abort(self) -> None:
        """Let a call fail that waits for an answer; may be called from another thread."""

    def close(self) -> None:
        """Release everything."""


def replaced(new: Snapshot) -> tuple[SetId, ...]:
    if new.kind is Kind.FINAL:
        return (new.set_id, SetId(new.window, Kind.EARLY))
    return (new.set_id,)


def newest(sets: Iterable[Snapshot], stored: Mapping[SetId, Revision]) -> list[Snapshot]:
    """Return the sets to store: those with a higher revision, and no early set after its final."""
    now, chosen = dict(stored), dict[SetId, Snapshot]()
    for new in sets:
        late = new.kind is Kind.EARLY and SetId(new.window, Kind.FINAL) in now
        if late or not above(new.revision, now.get(new.set_id)):
            continue
        for old in replaced(new):
            now.pop(old, None)
            chosen.pop(old, None)
        now[new.set_id] = new.revision
        chosen[new.set_id] = new
    return list(chosen.values())


def target_of(address: str) -> Target:
    """Return the target of an address; nothing is opened or created."""
    scheme, _, rest = address.partition(":")
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        from calmstream.consumer.sink.postgres import PostgresTarget

        return PostgresTarget(address)
    if scheme == "parquet" and rest:
        from calmstream.consumer.sink.parquet_files import ParquetTarget

        return ParquetTarget(Path(rest))
    raise InvalidInput("--to: expected postgresql://... or parquet:DIR (DuckDB reads these files)")
