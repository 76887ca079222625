"""Proportions of the newest snapshots with errors from kept counts.

A snapshot has the standard errors of cells, but not their covariances, which the error of a
proportion needs. Where the counts are kept, the model is fitted again and gives them. A fit can
take seconds, so only the newest final and total get them; the proportions of others take cells as
independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from calmstream.common.errors import CalmstreamError
from calmstream.consumer.read.answer import Answer
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord


@dataclass(frozen=True, slots=True)
class SnapshotWithProportions(Snapshot):
    """A snapshot with the proportions of one table.

    Attributes:
        proportions: the conditional table.
    """

    proportions: MarginalRecord


def with_proportions(
    snapshots: Iterable[Snapshot], history: History, marginal: Sequence[str], given: Sequence[str]
) -> Iterator[Snapshot]:
    """Yield snapshots; the newest finals and totals with proportions, where counts are kept."""
    for snapshot in snapshots:
        answer = _asked(history, snapshot, marginal, given)
        yield snapshot if answer is None else _with(snapshot, answer, marginal)


def _asked(
    history: History, snapshot: Snapshot, marginal: Sequence[str], given: Sequence[str]
) -> Answer | None:
    """Return the proportions; None of an early or older snapshot, and where they fail."""
    if snapshot.kind is Kind.EARLY or not snapshot.marginals:
        return None
    window = snapshot.window
    try:
        newest = history.newest()
        if newest is None or newest < window:
            history.refresh()
        if history.newest() != window:
            return None
        total = snapshot.kind is Kind.TOTAL
        windows = Windows(0, window, total=True) if total else Windows(window, window)
        return history.ask(marginal, windows, given=given)
    except CalmstreamError:
        # No counts topic, no permission, no answer: the snapshot alone is shown.
        return None


def _with(snapshot: Snapshot, answer: Answer, marginal: Sequence[str]) -> Snapshot:
    published = snapshot.record(*marginal)
    proportions = replace(
        published,
        attributes=answer.attributes,
        labels=answer.labels,
        table=tuple(answer.table.ravel().tolist()),
        stderr=tuple(answer.stderr.ravel().tolist()),
        noise_floor=float((answer.stderr**2).sum()),
        flags=(*published.flags, "conditional"),
    )
    own = {field.name: getattr(snapshot, field.name) for field in fields(Snapshot)}
    return SnapshotWithProportions(**own, proportions=proportions)
