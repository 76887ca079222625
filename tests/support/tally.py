"""Help for the tests of tallying: small plans, records, and a slow reference for the fold.

The fold is the object that counts the records of one partition, one after another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calmstream.broker.names import TopicNames
from calmstream.broker.records import in_chunks
from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import Reason
from calmstream.consumer.tally.folding.fold import PartitionFold, RecordOutcome
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import TICK, Batch, encode_batch
from calmstream.estimators.wire.state import PartitionState
from tests.support.plans import pair_plan

START = 1_700_000_000
TOPIC_ID = "topic-1"


def small_plan(
    *,
    windows: int = 4,
    window: int = 10,
    grace: int = 3,
    skew: int = 2,
    partitions: int = 1,
    groups: int = 1,
    packed: bool = False,
    start: int = START,
    limits: PlanLimits | None = None,
) -> Plan:
    """Return a plan over four binary attributes whose groups report pairs of them by GRR.

    With the default times window w lasts from 10w to 10w + 10 seconds after the plan's start. It
    closes at 10w + 13 seconds, because ``grace`` adds 3 seconds for late records. Reports of window
    w are accepted from 10w - 2 seconds on, because ``skew`` allows clocks to be 2 seconds ahead.
    A packed group has two views instead of one.
    """
    first = (View((0, 1)), View((2, 3))) if packed else (View((0, 1)),)
    group = Group({"name": "grr", "cells": 4}, first, (1,) * len(first))
    times = {"grace": grace, "skew": skew}
    more = {"groups": (group,) * groups, "partitions": partitions, "limits": limits}
    return pair_plan("tally-test", start, window, windows, **times, **more)


def names_of(plan: Plan, namespace: str = "test") -> TopicNames:
    """Return the plan's topic names in a namespace."""
    return TopicNames(namespace, plan.name, plan.digest, len(plan.groups), plan.partitions)


def batch_id(number: int) -> bytes:
    """Return the batch id, 16 bytes, that tests use for a number."""
    return hashlib.sha256(number.to_bytes(8, "big")).digest()[:16]


def body(plan: Plan, period: int, cells: list[int], group: int = 0) -> bytes:
    """Encode a batch of GRR reports; in a packed group the views alternate."""
    values = np.array(cells)
    views = len(plan.groups[group].views)
    view = np.arange(len(cells)) % views if views > 1 else None
    return encode_batch(plan, group, Batch(period, len(cells), view, {"v": values}))


def at(seconds: float) -> int:
    """Return the time ``seconds`` after the plan's start, in milliseconds since the epoch."""
    return START * 1000 + round(seconds * 1000)


def record(offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> Record:
    """Return a record of the reports partition 0; the timestamp is in milliseconds."""
    return Record(Partition("reports", 0), offset, timestamp, True, key, value)


def tick(offset: int, timestamp: int) -> Record:
    """Return a tick, a record without reports that only moves the time of a partition on."""
    return record(offset, timestamp, None, TICK)


def fold_one(fold: PartitionFold, one: Record) -> RecordOutcome:
    """Fold a single record."""
    (chunk,) = in_chunks([one])
    result = fold.fold_chunk(chunk)
    assert result.stop == 1
    return result.special.get(0, RecordOutcome())


@dataclass
class Reference:
    """A slow fold by the documented rules: over a whole prefix, from lists, nothing incremental.

    ``events`` are (offset, time, period, id, cells, reason): a batch has a period, an id and cells
    (reason None), a bad record has a reason of its own, a tick neither.
    """

    plan: Plan
    events: list[tuple[int, int, int | None, bytes | None, list[int], Reason | None]]
    accepted: list[tuple[int, int, bytes, list[int], int]] = field(default_factory=list)
    attributed: list[tuple[int | None, Reason]] = field(default_factory=list)
    closed_at: dict[int, int] = field(default_factory=dict)
    clock: int = 0

    def __post_init__(self) -> None:
        for index, event in enumerate(self.events):
            self._read(index, event)

    def close_time(self, window: int) -> int:
        return (self.plan.start + (window + 1) * self.plan.window + self.plan.grace) * 1000

    def start_time(self, window: int) -> int:
        return (self.plan.start + window * self.plan.window) * 1000

    def _read(self, index: int, event: Any) -> None:
        offset, _, period, key, cells, reason = event
        before = max([0] + [e[1] for e in self.events[:index]])
        self.clock = clock = max([0] + [e[1] for e in self.events[: index + 1]])
        for window in range(self.plan.windows):
            if window not in self.closed_at and clock > self.close_time(window):
                self.closed_at[window] = offset
        if period is None and reason is None:
            return
        if reason is None:
            reason = self._time(period, clock) or self._again(period, key)
            reason = reason or self._limited(period, cells)
        if reason is None:
            self.accepted.append((offset, period, key, cells, before))
            return
        still_open = [w for w in range(self.plan.windows) if w not in self.closed_at]
        inside = [w for w in still_open if self.start_time(w) <= clock < self.start_time(w + 1)]
        if inside:
            self.attributed.append((inside[0], reason))
        elif not still_open:
            self.attributed.append((None, reason))
        elif clock < self.start_time(still_open[0]):
            self.attributed.append((still_open[0], reason))
        else:
            self.attributed.append((still_open[-1], reason))

    def _time(self, period: int, clock: int) -> Reason | None:
        if period >= self.plan.windows:
            return Reason.AFTER_END
        if period < 0 or clock > self.close_time(period):
            return Reason.LATE
        if self.start_time(period) > clock + self.plan.skew * 1000:
            return Reason.EARLY
        return None

    def _again(self, period: int, key: bytes) -> Reason | None:
        accepted_ids = [(p, k) for _, p, k, _, _ in self.accepted]
        return Reason.DUPLICATE if (period, key) in accepted_ids else None

    def _limited(self, period: int, cells: list[int]) -> Reason | None:
        limits = self.plan.limits
        assert limits is not None
        batches = sum(p == period for _, p, _, _, _ in self.accepted)
        over = len(cells) > limits.batch_reports or batches >= limits.batches
        return Reason.OVER_LIMIT if over else None

    # What a partition record says, each field from the lists.

    @property
    def next_offset(self) -> int:
        return self.events[-1][0] + 1 if self.events else 0

    @property
    def closed_through(self) -> int:
        return max(self.closed_at, default=-1)

    @property
    def resume(self) -> tuple[int, int]:
        still_open = [
            (o, before) for o, p, _, _, before in self.accepted if p not in self.closed_at
        ]
        return min(still_open, default=(self.next_offset, self.clock))

    @property
    def ids(self) -> dict[int, frozenset[bytes]]:
        periods = {p for _, p, _, _, _ in self.accepted} - set(self.closed_at)
        return {w: frozenset(k for _, p, k, _, _ in self.accepted if p == w) for w in periods}

    def count(self, windows: Any) -> tuple[int, list[int], dict[Reason, int]]:
        """Return (n, histogram of cells, rejects) of some windows; None is after the end."""
        cells = [c for _, p, _, cs, _ in self.accepted if p in windows for c in cs]
        rejects = [r for w, r in self.attributed if w in windows]
        return (
            len(cells),
            [cells.count(c) for c in range(4)],
            {r: rejects.count(r) for r in set(rejects)},
        )

    @property
    def open(self) -> set[int]:
        touched = {p for _, p, _, _, _ in self.accepted} | {
            w for w, _ in self.attributed if w is not None
        }
        return touched - set(self.closed_at)


def plain(count: Any) -> tuple[int, list[int], dict[Reason, int]]:
    """Convert a WindowCount of one unpacked GRR group to the form of `Reference.count`."""
    return int(count.tally.n[0]), count.tally.counts[0].tolist(), dict(count.rejects)


def state_of(reference: Reference) -> dict[str, object]:
    """Return every field of the partition record, by the reference."""
    closed = set(range(reference.closed_through + 1))
    return {
        "topic_id": TOPIC_ID,
        "next_offset": reference.next_offset,
        "clock": reference.clock,
        "closed_through": reference.closed_through,
        "resume_from": reference.resume[0],
        "resume_clock": reference.resume[1],
        "total": reference.count(closed | {None}),
        "open": {w: reference.count({w}) for w in reference.open},
    }


def fields_of(state: PartitionState) -> dict[str, object]:
    """Return every field of a partition record of one unpacked GRR group."""
    return {
        "topic_id": state.topic_id,
        "next_offset": state.next_offset,
        "clock": state.clock,
        "closed_through": state.closed_through,
        "resume_from": state.resume_from,
        "resume_clock": state.resume_clock,
        "total": plain(state.total),
        "open": {w: plain(c) for w, c in state.open.items()},
    }
