"""Decodes many batches at once: those of equal length are joined, which costs much less.

This only recognises valid batches; whatever it does not goes to `decode_batch`, which rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import Rejection
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

JOINED_REPORTS = 1 << 16  # reports that are joined at most, unless a single batch has more
_SHORT = 64  # up to this size, to gather bytes costs less than to slice and join
_MIN_JOINED = 4  # so many batches of one length are needed before it is worth joining them

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The keys and values of n records as positions in a buffer.

    ``key``, ``value``: start and end in ``data``, (n, 2), int64; (-1, -1) if there is none.
    """

    data: bytes
    key: Integers
    value: Integers

    def __len__(self) -> int:
        return len(self.key)

    def key_of(self, index: int) -> bytes | None:
        return self._content(self.key, index)

    def value_of(self, index: int) -> bytes | None:
        return self._content(self.value, index)

    def _content(self, spans: Integers, index: int) -> bytes | None:
        start, end = spans[index].tolist()
        return None if start < 0 else self.data[start:end]

    def rows(self, spans: Integers, size: int) -> NDArray[np.uint8]:
        """Return the bytes at spans of equal size as rows: shape (spans, size)."""
        if size <= _SHORT:
            places = spans[:, :1] + np.arange(size)
            return np.asarray(np.frombuffer(self.data, np.uint8)[places])
        joined = b"".join([self.data[start:end] for start, end in spans.tolist()])
        return np.frombuffer(joined, np.uint8).reshape(len(spans), size)


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


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """What n records hold: each is a batch, a tick, or has a rejection."""

    period: Integers  # (n,): of each batch, 0 for all else, as below
    reports: Integers  # (n,): their number
    rejections: dict[int, Rejection]
    joined: list[Joined]


def refused(rejection: Rejection) -> Decoded:
    """Return what a record holds that is refused whatever it holds."""
    none = np.zeros(1, np.int64)
    return Decoded(none, none, {0: rejection}, [])


def decode_all(plan: Plan, group: int, values: Values) -> Decoded:
    """Decode records of the topic of a group; depends on the plan and each record alone."""
    found = Decoded(np.zeros(len(values), np.int64), np.zeros(len(values), np.int64), {}, [])
    rest = ~_ticks(values)
    for joined in _alike(plan, group, values, rest):
        _note(found, joined)
    for index in np.flatnonzero(rest).tolist():
        try:
            batch = decode_batch(plan, group, values.key_of(index), values.value_of(index))
        except Rejection as rejection:
            found.rejections[index] = rejection
        else:
            _note(found, Joined.of(index, batch))
    return found


def _note(found: Decoded, joined: Joined) -> None:
    found.period[joined.record] = joined.period
    found.reports[joined.record] = joined.n
    found.joined.append(joined)


def _ticks(values: Values) -> NDArray[np.bool_]:
    lengths = values.value[:, 1] - values.value[:, 0]
    ticks: NDArray[np.bool_] = (values.key[:, 0] < 0) & (lengths == len(TICK))
    for index in np.flatnonzero(ticks).tolist():
        ticks[index] = values.value_of(index) == TICK
    return ticks


def _alike(plan: Plan, group: int, values: Values, rest: NDArray[np.bool_]) -> Iterator[Joined]:
    """Yield batches of equal length together; remove them from ``rest``, which is changed."""
    form = form_of(plan, group)
    size = values.value[:, 1] - values.value[:, 0]
    raw = np.frombuffer(values.data, np.uint8)
    n, over = np.divmod(size - HEAD_BYTES, form.report_bytes)
    fits = (over == 0) & (n >= 1) & (n <= MAX_BATCH_REPORTS) & (size <= MAX_BATCH_BYTES)
    fits &= rest & (values.key[:, 1] - values.key[:, 0] == BATCH_ID_BYTES)
    chosen = np.flatnonzero(fits)
    chosen = chosen[raw[values.value[chosen, 0]] == MARK[0]]
    for count in np.unique(n[chosen]).tolist():
        alike = chosen[n[chosen] == count]
        if len(alike) < _MIN_JOINED:
            continue
        step = max(1, JOINED_REPORTS // count)
        for first in range(0, len(alike), step):
            joined = _equal_lengths(form, values, alike[first : first + step], count)
            rest[joined.record] = False
            if len(joined.record):
                yield joined


def _equal_lengths(form: Form, values: Values, record: Integers, n: int) -> Joined:
    """Return the valid batches among those of equal length."""
    size = HEAD_BYTES + n * form.report_bytes
    rows = values.rows(values.value[record], size)
    good, period = read_heads(form, rows, n)
    view, columns, bad = split(form, rows, n)
    for wrong in bad:
        good &= ~wrong
    return Joined(record, period, np.full(len(record), n), view, columns).only(good)
