"""Decodes the records of a chunk: batches of equal length are joined, which costs much less.

This only recognises valid batches; whatever it does not goes to `decode_batch`, which rejects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Chunk
from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import MAX_BATCH_REPORTS
from calmstream.estimators.wire.batch import (
    BATCH_ID_BYTES,
    HEAD_BYTES,
    MARK,
    MAX_BATCH_BYTES,
    TICK,
    Batch,
    Form,
    decode_batch,
    form_of,
    read_heads,
    split,
)
from calmstream.estimators.wire.state import ClosedWindow

JOINED_REPORTS = 1 << 16  # reports that are joined at most, unless a single batch has more
_SHORT = 64  # up to this size, to gather bytes costs less than to slice and join
_MIN_JOINED = 4  # so many batches of one length are needed before it is worth joining them

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The reports of b batches of one group, one batch after another.

    ``record``: index of each batch's record, ascending; it, ``period`` and ``n``: shape (b,).
    ``view``: of each report, (sum of n,); None where the group has one.
    """

    record: Integers
    period: Integers
    n: Integers
    view: NDArray[np.int64] | None
    columns: Reports

    @classmethod
    def of(cls, record: int, batch: Batch) -> Joined:
        one = (np.array([record]), np.array([batch.period]), np.array([batch.n]))
        return cls(*one, batch.view, batch.columns)

    def only(self, chosen: NDArray[np.bool_]) -> Joined:
        """Return the chosen batches, ``chosen`` of shape (b,)."""
        if chosen.all():
            return self
        rows = np.repeat(chosen, self.n)
        return Joined(
            self.record[chosen],
            self.period[chosen],
            self.n[chosen],
            None if self.view is None else self.view[rows],
            {name: values[rows] for name, values in self.columns.items()},
        )


@dataclass(slots=True, eq=False)
class ChunkOutcome:
    """What becomes of n consecutive records, of which only the first closes windows.

    Each is a batch, a tick, or rejected. `AdmissionControl` sets ``clock`` and rejects more
    batches; `PartitionFold` sets ``closed`` and ``rejects``.
    """

    records: Chunk
    period: Integers  # (n,): of each batch, 0 for all else
    reports: Integers  # (n,): number of reports that count; 0 for all but accepted batches
    rejections: dict[int, Rejection] = field(default_factory=dict)  # by index
    joined: list[Joined] = field(default_factory=list)  # all batches, also rejected ones
    clock: Integers = field(init=False)  # (n,): the log's clock after each record
    closed: Sequence[ClosedWindow] = ()  # in order, also empty ones
    # By index, ascending: the number of each rejection among those of its reason and window.
    rejects: dict[int, int] = field(default_factory=dict)


def decode(plan: Plan, group: int, chunk: Chunk) -> ChunkOutcome:
    """Decode records of the topic of a group; depends on the plan and each record alone."""
    found = ChunkOutcome(chunk, np.zeros(len(chunk), np.int64), np.zeros(len(chunk), np.int64))
    if chunk.damage is not None:
        lost, first, why = chunk.damage.records, chunk.damage.first_offset, chunk.damage.why
        detail = f"{lost} records from offset {first} cannot be decoded: {why}"
        found.rejections[0] = Rejection(Reason.UNDECODABLE, detail)
        return found
    rest = ~_ticks(chunk)
    for joined in _alike(plan, group, chunk, rest):
        _note(found, joined)
    for index in np.flatnonzero(rest).tolist():
        key, value = (_content(chunk, spans, index) for spans in (chunk.key, chunk.value))
        try:
            batch = decode_batch(plan, group, key, value)
        except Rejection as rejection:
            found.rejections[index] = rejection
        else:
            _note(found, Joined.of(index, batch))
    return found


def rows_at(chunk: Chunk, spans: Integers, size: int) -> NDArray[np.uint8]:
    """Return the bytes at spans of equal size as rows: shape (spans, size)."""
    if size <= _SHORT:
        places = spans[:, :1] + np.arange(size)
        return np.asarray(np.frombuffer(chunk.data, np.uint8)[places])
    joined = b"".join([chunk.data[start:end] for start, end in spans.tolist()])
    return np.frombuffer(joined, np.uint8).reshape(len(spans), size)


def _content(chunk: Chunk, spans: Integers, index: int) -> bytes | None:
    start, end = spans[index].tolist()
    return None if start < 0 else chunk.data[start:end]


def _note(found: ChunkOutcome, joined: Joined) -> None:
    found.period[joined.record] = joined.period
    found.reports[joined.record] = joined.n
    found.joined.append(joined)


def _ticks(chunk: Chunk) -> NDArray[np.bool_]:
    lengths = chunk.value[:, 1] - chunk.value[:, 0]
    ticks: NDArray[np.bool_] = (chunk.key[:, 0] < 0) & (lengths == len(TICK))
    for index in np.flatnonzero(ticks).tolist():
        ticks[index] = _content(chunk, chunk.value, index) == TICK
    return ticks


def _alike(plan: Plan, group: int, chunk: Chunk, rest: NDArray[np.bool_]) -> Iterator[Joined]:
    """Yield batches of equal length together; remove them from ``rest``, which is changed."""
    form = form_of(plan, group)
    size = chunk.value[:, 1] - chunk.value[:, 0]
    raw = np.frombuffer(chunk.data, np.uint8)
    n, over = np.divmod(size - HEAD_BYTES, form.report_bytes)
    fits = (over == 0) & (n >= 1) & (n <= MAX_BATCH_REPORTS) & (size <= MAX_BATCH_BYTES)
    fits &= rest & (chunk.key[:, 1] - chunk.key[:, 0] == BATCH_ID_BYTES)
    chosen = np.flatnonzero(fits)
    chosen = chosen[raw[chunk.value[chosen, 0]] == MARK[0]]
    for count in np.unique(n[chosen]).tolist():
        alike = chosen[n[chosen] == count]
        if len(alike) < _MIN_JOINED:
            continue
        step = max(1, JOINED_REPORTS // count)
        for first in range(0, len(alike), step):
            joined = _equal_lengths(form, chunk, alike[first : first + step], count)
            rest[joined.record] = False
            if len(joined.record):
                yield joined


def _equal_lengths(form: Form, chunk: Chunk, record: Integers, n: int) -> Joined:
    """Return the valid batches among those of equal length."""
    size = HEAD_BYTES + n * form.report_bytes
    rows = rows_at(chunk, chunk.value[record], size)
    good, period = read_heads(form, rows, n)
    view, columns, bad = split(form, rows, n)
    for wrong in bad:
        good &= ~wrong
    return Joined(record, period, np.full(len(record), n), view, columns).only(good)
