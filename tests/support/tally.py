"""Help for the tests of tallying: small plans and records.

The fold is the object that counts the records of one partition, one after another.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from calmstream.broker.names import TopicNames
from calmstream.broker.records import in_chunks
from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import Reason, Rejection
from calmstream.consumer.tally.folding.batch_ids import ID_BYTES, BatchIds
from calmstream.consumer.tally.folding.decode import ChunkOutcome
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import TICK, Batch, encode_batch
from calmstream.estimators.wire.state import ClosedWindow, PartitionState
from tests.support.plans import pair_plan

START = 1_700_000_000
TOPIC_ID = "topic-1"


def small_plan(
    *,
    start: int = START,
    window: int = 10,
    windows: int = 4,
    groups: int = 1,
    packed: bool = False,
    **changes: Any,
) -> Plan:
    """Return a plan over four binary attributes whose groups report pairs of them by GRR.

    With the default times window w lasts from 10w to 10w + 10 seconds after the plan's start. It
    closes at 10w + 13 seconds, because ``grace`` adds 3 seconds for late records. Reports of window
    w are accepted from 10w - 2 seconds on, because ``skew`` allows clocks to be 2 seconds ahead.
    A packed group has two views instead of one.
    """
    first = (View((0, 1)), View((2, 3))) if packed else (View((0, 1)),)
    group = Group(standard("grr", "1", 4), first, (1,) * len(first))
    own = {"groups": (group,) * groups, "grace": 3, "skew": 2}
    return pair_plan("tally-test", start, window, windows, **(own | changes))


def names_of(plan: Plan, namespace: str = "test") -> TopicNames:
    return TopicNames.of(plan, namespace)


def batch_id(number: int) -> bytes:
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


class RecordOutcome(NamedTuple):
    """The effect of one record; ``rejects`` is its number among those rejected alike."""

    rejection: Rejection | None
    closed: tuple[ClosedWindow, ...]
    rejects: int
    reports: int


def outcome_of(result: ChunkOutcome, index: int) -> RecordOutcome:
    closed = () if index else tuple(result.closed)
    rejects = result.rejects.get(index, 0)
    reports = int(result.reports[index])
    return RecordOutcome(result.rejections.get(index), closed, rejects, reports)


def fold_one(fold: PartitionFold, one: Record) -> RecordOutcome:
    (chunk,) = in_chunks([one])
    (result,) = fold.fold(chunk)
    return outcome_of(result, 0)


def ids_in(ids: BatchIds) -> set[bytes]:
    raw = bytes(ids._ids)
    return {raw[at : at + ID_BYTES] for at in range(0, len(raw), ID_BYTES)}


def accepted_ids(fold: PartitionFold) -> dict[int, set[bytes]]:
    return {period: ids_in(ids) for period, ids in fold.admission._ids.items() if len(ids)}


def plain(count: Any) -> tuple[int, list[int], dict[Reason, int]]:
    return int(count.tally.n[0]), count.tally.counts[0].tolist(), dict(count.rejects)


def fields_of(state: PartitionState) -> dict[str, object]:
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
