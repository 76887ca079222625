"""A batch of perturbed reports of one group as a Kafka record, or a tick: docs/wire-formats.md.

Each batch has exactly one encoding, and the length of its value follows from n.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.base import Column, Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import MAX_BATCH_REPORTS

BATCH_ID_BYTES = 16
MAX_BATCH_BYTES = 1 << 20
RESERVED_BYTES = 4096 + 512
"""Of the size of a record: what Kafka adds to a value, and the head of a report."""

MARK = b"\x01"
VERSION = 1
TICK = b'{"tick":1,"v":"1.0"}'

_HEAD = struct.Struct("<BB16sHIH")
HEAD_BYTES = _HEAD.size
_PERIOD = slice(20, 24)
_WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Reports of one group and one window, 1 to 65,535, decoded and range-checked.

    ``view``: of each report, shape (n,); None where the group has one.
    """

    period: int
    n: int
    view: NDArray[np.int64] | None
    columns: Reports


def refuse(reason: Reason, detail: str) -> NoReturn:
    raise Rejection(reason, detail)


def check_size(value: bytes) -> None:
    if len(value) > MAX_BATCH_BYTES:
        refuse(Reason.OVERSIZED, f"{len(value)} bytes, at most {MAX_BATCH_BYTES}")


@dataclass(frozen=True, slots=True)
class Form:
    """What the batches of one group share; ``digest``: the first 16 bytes of the plan's."""

    digest: bytes
    group: int
    view: Column | None
    columns: tuple[Column, ...]
    report_bytes: int

    @property
    def every(self) -> tuple[Column, ...]:
        """All columns in the order of their bytes, the view's first."""
        return self.columns if self.view is None else (self.view, *self.columns)


def form_of(plan: Plan, group: int) -> Form:
    key = f"form of batches {group}"
    form: Form | None = plan.derived.get(key)
    if form is None:
        views, columns = len(plan.groups[group].views), plan.mechanisms[group].columns
        view = Column("view", "int", views) if views > 1 else None
        size = sum(_row_bytes(c) for c in columns) + (0 if view is None else _row_bytes(view))
        form = Form(bytes.fromhex(plan.digest)[:16], group, view, columns, size)
        plan.derived[key] = form
    return form


def _width(bound: int) -> int:
    """Return the number of bytes of an integer column whose largest value is bound - 1."""
    return next(width for width in _WIDTHS if bound - 1 < 1 << 8 * width)


def _row_bytes(column: Column) -> int:
    return _width(column.bound) if column.kind == "int" else -(-column.bound // 8)


def encode_batch(plan: Plan, group: int, batch: Batch) -> bytes:
    form = form_of(plan, group)
    if not 1 <= batch.n <= MAX_BATCH_REPORTS:
        raise ValueError(f"a batch has 1 to {MAX_BATCH_REPORTS} reports, not {batch.n}")
    if not 0 <= batch.period < 1 << 32:
        raise ValueError(f"a batch has a period from 0 to 2^32 - 1, not {batch.period}")
    head = _HEAD.pack(MARK[0], VERSION, form.digest, group, batch.period, batch.n)
    parts = [head] if form.view is None else [head, _packed(form.view, batch.view)]
    parts += [_packed(column, batch.columns[column.name]) for column in form.columns]
    return b"".join(parts)


def _packed(column: Column, values: NDArray[Any] | None) -> bytes:
    assert values is not None, "a group with several views states them"
    if column.kind == "bits":
        return np.ascontiguousarray(values, np.uint8).tobytes()
    wide = np.asarray(values)
    if wide.size and not 0 <= int(wide.min()) <= int(wide.max()) < column.bound:
        raise ValueError(f"column {column.name} must lie in [0, {column.bound})")
    return wide.astype(f"<u{_width(column.bound)}").tobytes()


def decode_batch(plan: Plan, group: int, key: bytes | None, value: bytes | None) -> Batch:
    """Return the batch in a record of the topic of ``group``; depends on plan and bytes only.

    Checks run in the order of `Reason`, so that one input always gets one reason. Time (late,
    early) and duplicates are judged by the caller. Raises `Rejection` and nothing else.
    """
    form = form_of(plan, group)
    if value is None:
        refuse(Reason.UNDECODABLE, "a record without a value")
    check_size(value)
    if not value.startswith(MARK):
        refuse(Reason.UNDECODABLE, "not a batch")
    stated, period, n = _read_head(plan, form, value)
    if key is None or len(key) != BATCH_ID_BYTES:
        refuse(Reason.BAD_BATCH_ID, f"the key must be a batch id of {BATCH_ID_BYTES} bytes")
    if stated != group:
        refuse(Reason.WRONG_GROUP, f"expected group {group}, got {stated}")
    if n < 1:
        refuse(Reason.OUT_OF_RANGE, "a batch has at least 1 report")
    if len(value) != (size := HEAD_BYTES + n * form.report_bytes):
        refuse(Reason.MALFORMED, f"{len(value)} bytes, {n} reports have {size}")
    view, columns, bad = split(form, np.frombuffer(value, np.uint8)[None, :], n)
    for column, wrong in zip(form.every, bad, strict=True):
        if wrong.any():
            refuse_range(column)
    return Batch(period, n, view, columns)


def _read_head(plan: Plan, form: Form, value: bytes) -> tuple[int, int, int]:
    """Return group, period and n."""
    if len(value) > 1 and value[1] != VERSION:
        refuse(Reason.UNKNOWN_VERSION, f"expected version {VERSION}")
    if len(value) < HEAD_BYTES:
        refuse(Reason.MALFORMED, f"{len(value)} bytes, the head has {HEAD_BYTES}")
    _, _, digest, group, period, n = _HEAD.unpack_from(value)
    if digest != form.digest:
        refuse(Reason.UNKNOWN_PLAN, f"expected plan {plan.digest[:8]}")
    return group, period, n


def refuse_range(column: Column) -> NoReturn:
    if column.kind == "bits":
        refuse(Reason.OUT_OF_RANGE, f"column {column.name} has bits beyond {column.bound}")
    refuse(Reason.OUT_OF_RANGE, f"column {column.name} must lie in [0, {column.bound})")


def read_heads(
    form: Form, rows: NDArray[np.uint8], n: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether each head is that of a valid batch of n reports, and the periods: (batches,).

    ``rows``: the values, shape (batches, ``HEAD_BYTES + n * form.report_bytes``).
    """
    expected = _HEAD.pack(MARK[0], VERSION, form.digest, form.group, 0, n)
    head = rows[:, :HEAD_BYTES].copy()
    period = np.ascontiguousarray(head[:, _PERIOD]).view("<u4")[:, 0].astype(np.int64)
    head[:, _PERIOD] = 0
    good: NDArray[np.bool_] = (head == np.frombuffer(expected, np.uint8)).all(axis=1)
    return good, period


def split(
    form: Form, rows: NDArray[np.uint8], n: int
) -> tuple[NDArray[np.int64] | None, Reports, list[NDArray[np.bool_]]]:
    """Split batches of equal length, rows as in `read_heads`, into view and columns of all.

    Also returns for each column, the view's first, which batches have a value outside its range,
    shape (batches,).
    """
    at, found, bad = HEAD_BYTES, [], []
    for column in form.every:
        size = n * _row_bytes(column)
        part = np.ascontiguousarray(rows[:, at : at + size])
        at += size
        values, wrong = (_integers if column.kind == "int" else _bits)(column, part, n)
        found.append(values)
        bad.append(wrong)
    view = None if form.view is None else found.pop(0)
    columns = {column.name: values for column, values in zip(form.columns, found, strict=True)}
    return view, columns, bad


def _integers(
    column: Column, part: NDArray[np.uint8], n: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    raw = part.view(f"<u{_width(column.bound)}")
    wrong: NDArray[np.bool_] = (raw > raw.dtype.type(column.bound - 1)).any(axis=1)
    return raw.reshape(len(raw) * n).astype(np.int64), wrong


def _bits(
    column: Column, part: NDArray[np.uint8], n: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    rows = part.reshape(len(part), n, -1)
    last = rows[:, :, -1]
    wrong: NDArray[np.bool_] = (last >> np.uint8(column.bound % 8 or 8) != 0).any(axis=1)
    return rows.reshape(len(part) * n, -1), wrong
