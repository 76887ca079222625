"""Parses small JSON batches one by one and joins their columns.

It recognises valid batches of few reports in the usual form, and nothing else: to be recognised is
enough to be valid, but a valid batch need not be recognised. The checks that need a batch's columns
are made on Python's own objects, because arrays cost more for a few numbers.
"""

from __future__ import annotations

import binascii
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Column, Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import MAX_BATCH_BYTES, VERSION

MAX_REPORTS = 32
"""Maximum number of reports of a batch that is recognised."""

_INT64 = 1 << 63


class SmallBatches:
    """Collects the small batches of one group until they are taken.

    Args:
        plan: the plan whose reports are read.
        group: index of the group.

    Attributes:
        heads: index of the record, period and number of reports of each batch: three lists.
        reports: number of all reports.
    """

    def __init__(self, plan: Plan, group: int) -> None:
        self._digest = plan.digest
        self._group = group
        views = len(plan.groups[group].views)
        self._view = Column("view", "int", views) if views > 1 else None
        self._columns = plan.mechanisms[group].columns
        self._clear()

    def _clear(self) -> None:
        self.heads: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.reports = 0
        self._views: list[int] = []
        self._found: list[list[Any]] = [[] for _ in self._columns]

    def add(self, record: int, value: bytes) -> bool:
        """Add the batch in a value if it is recognised; return whether it is."""
        if len(value) > MAX_BATCH_BYTES:
            return False
        try:
            body = orjson.loads(value)
        except (orjson.JSONDecodeError, RecursionError):
            return False
        if type(body) is not dict or body.get("v") != VERSION or body.get("plan") != self._digest:
            return False
        group, period, n = body.get("group"), body.get("period"), body.get("n")
        columns = body.get("columns")
        if not (
            type(group) is type(n) is type(period) is int
            and group == self._group
            and 1 <= n <= MAX_REPORTS
            and -_INT64 <= period < _INT64
            and type(columns) is dict
            and len(columns) == len(self._columns)
        ):
            return False
        view = self._read_view(body, n)
        found = [self._read(column, columns.get(column.name), n) for column in self._columns]
        if view is None or None in found:
            return False
        self._views += view
        for kept, values in zip(self._found, found, strict=True):
            kept.extend(values or ())
        records, periods, sizes = self.heads
        records.append(record)
        periods.append(period)
        sizes.append(n)
        self.reports += n
        return True

    def _read_view(self, body: dict[str, Any], n: int) -> list[Any] | None:
        if self._view is None:
            return None if "view" in body else []
        return self._read(self._view, body.get("view"), n)

    def _read(self, column: Column, values: object, n: int) -> list[Any] | None:
        """Return the values of a column, of bits as one element; None if they are not valid."""
        if column.kind == "bits":
            return _bits(column, values, n)
        if type(values) is not list or len(values) != n:
            return None
        bound = column.bound
        for value in values:
            if type(value) is not int or not 0 <= value < bound:
                return None
        return values

    def take(self) -> tuple[NDArray[np.int64] | None, Reports]:
        """Return views and columns of all batches, and forget the batches.

        Returns:
            As in `Joined`.
        """
        view = None if self._view is None else np.array(self._views, np.int64)
        columns: dict[str, NDArray[Any]] = {}
        for column, found in zip(self._columns, self._found, strict=True):
            if column.kind == "bits":
                rows = np.frombuffer(b"".join(found), np.uint8)
                columns[column.name] = rows.reshape(self.reports, -(-column.bound // 8))
            else:
                columns[column.name] = np.array(found, np.int64)
        self._clear()
        return view, columns


def _bits(column: Column, text: object, n: int) -> list[bytes] | None:
    if type(text) is not str:
        return None
    try:
        raw = binascii.a2b_base64(text)
        # The one spelling of these bytes, so that it is valid base64 as well.
        if binascii.b2a_base64(raw, newline=False) != text.encode("ascii"):
            return None
    except ValueError:
        return None
    row, used = -(-column.bound // 8), column.bound % 8
    if len(raw) != n * row or (used and max(raw[row - 1 :: row]) >> used):
        return None
    return [raw]
