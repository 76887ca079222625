"""Admission of many records at once, with the decisions that single records get one by one.

What depends on a record alone is decided for all records together: whether it decodes, and whether
its window is open at the log's clock, which is a running maximum. What depends on the records
before it is decided in their order: duplicates and the plan's limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Chunk
from calmstream.common.errors import Reason, Rejection
from calmstream.consumer.tally.folding.admission import DUPLICATE, AdmissionControl
from calmstream.consumer.tally.folding.batch_ids import Ids, hashes
from calmstream.consumer.tally.folding.windows import check_period
from calmstream.estimators.plan.plan import MAX_TIME
from calmstream.estimators.wire.batch import BATCH_ID_BYTES
from calmstream.estimators.wire.joined import Decoded, Values, decode_all

Integers = NDArray[np.int64]

MIN_RECORDS = 8
"""With fewer records it is faster to decide one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The decisions on n records.

    Attributes:
        decoded: what the records hold, with the rejections of those that cannot be decoded.
        accepted: whether each record is an accepted batch, shape (n,).
        rejections: of all rejected records, by their index.
        clock: the log's clock after each record, shape (n,), milliseconds since the epoch.
    """

    decoded: Decoded
    accepted: NDArray[np.bool_]
    rejections: dict[int, Rejection]
    clock: Integers


def until_close(control: AdmissionControl, chunk: Chunk) -> int:
    """Return how many records :func:`admit_chunk` can decide on: those before a window closes.

    0 if the first record closes a window, or is better folded alone.
    """
    if len(chunk) < MIN_RECORDS or chunk.damage is not None or control.plan.expires > MAX_TIME:
        return 0
    close = control.next_close
    if close is None:
        return len(chunk)
    later = np.flatnonzero(chunk.timestamp > close)
    return int(later[0]) if len(later) else len(chunk)


def admit_chunk(control: AdmissionControl, chunk: Chunk) -> Decisions:
    """Decide on all records of a chunk, none of which closes a window.

    Afterwards ``control`` is in the state that the records leave one by one.
    """
    before = control.clock
    clock = np.maximum(np.maximum.accumulate(chunk.timestamp), before)
    decoded = decode_all(control.plan, control.group, Values(chunk.data, chunk.key, chunk.value))
    rejections = dict(decoded.rejections)
    accepted = decoded.reports > 0
    _check_periods(control, decoded.period, clock, accepted, rejections)
    clock_before = np.concatenate([[before], clock[:-1]])
    for period in sorted(set(decoded.period[accepted].tolist())):
        chosen = np.flatnonzero(accepted & (decoded.period == period))
        _admit_period(control, chunk, period, chosen, decoded, clock_before, rejections)
    for index in rejections:
        accepted[index] = False
    control.clock = int(clock[-1])
    return Decisions(decoded, accepted, rejections, clock)


def replay_chunk(control: AdmissionControl, chunk: Chunk) -> None:
    """Decide again on records that were folded before, as :meth:`AdmissionControl.replay` does."""
    at = 0
    while at < len(chunk):
        part = chunk.part(at, len(chunk))
        until = until_close(control, part)
        if until < MIN_RECORDS:
            control.replay(chunk.record(at))
            at += 1
        else:
            admit_chunk(control, part.part(0, until))
            at += until


def _check_periods(
    control: AdmissionControl,
    period: Integers,
    clock: Integers,
    accepted: NDArray[np.bool_],
    rejections: dict[int, Rejection],
) -> None:
    """Reject batches of windows that are not open; remove them from ``accepted``."""
    plan, closed = control.plan, control.closed_through
    possible = (period > closed) & (period < plan.windows)
    start = (plan.start + np.where(possible, period, 0) * plan.window) * 1000
    wrong = accepted & ~(possible & (start <= clock + plan.skew * 1000))
    for index in np.flatnonzero(wrong).tolist():
        try:
            check_period(plan, int(period[index]), int(clock[index]), closed)
        except Rejection as rejection:
            rejections[index] = rejection
    accepted &= ~wrong


def _admit_period(
    control: AdmissionControl,
    chunk: Chunk,
    period: int,
    chosen: Integers,
    decoded: Decoded,
    clock_before: Integers,
    rejections: dict[int, Rejection],
) -> None:
    """Decide on the batches of one open window, at the indices ``chosen``."""
    values = Values(chunk.data, chunk.key, chunk.value)
    ids = values.rows(chunk.key[chosen], BATCH_ID_BYTES).view(np.uint64)
    mixed = hashes(ids)
    new = ~control.batches.known(period, ids, mixed)
    if not (new.all() and _different(ids) and _within(control, period, decoded.reports[chosen])):
        new = _one_by_one(control, period, chosen, ids, new, decoded.reports, rejections)
    if new.any():
        first = chosen[new][0]
        control.batches.add_all(
            period, ids[new], mixed[new], int(chunk.offset[first]), int(clock_before[first])
        )


def _different(ids: Ids) -> bool:
    """Return whether even the first halves of all ids are different; those of random ids are."""
    words = np.sort(ids[:, 0])
    return not (words[1:] == words[:-1]).any()


def _within(control: AdmissionControl, period: int, reports: Integers) -> bool:
    """Return whether these batches stay within the plan's limits, whatever their order."""
    limits = control.plan.limits
    return limits is None or bool(
        reports.max() <= limits.batch_reports
        and control.batches.accepted(period) + len(reports) <= limits.batches
    )


def _one_by_one(
    control: AdmissionControl,
    period: int,
    chosen: Integers,
    ids: Ids,
    new: NDArray[np.bool_],
    reports: Integers,
    rejections: dict[int, Rejection],
) -> NDArray[np.bool_]:
    """Decide in order on batches of one window; return which of them are accepted."""
    before, seen = control.batches.accepted(period), set[bytes]()
    accepted = np.zeros(len(chosen), np.bool_)
    for i, index in enumerate(chosen.tolist()):
        key = ids[i].tobytes()
        if not new[i] or key in seen:
            rejections[index] = Rejection(Reason.DUPLICATE, DUPLICATE)
            continue
        try:
            control.check_limits(int(reports[index]), before + len(seen))
        except Rejection as rejection:
            rejections[index] = rejection
            continue
        seen.add(key)
        accepted[i] = True
    return accepted
