"""A report as a row: checked against the plan, and copied.

Reports of many devices are written into one batch. Each is checked before it is added, so that a
malformed report affects its sender only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.base import Column
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, check_window
from calmstream.producer.device.report import Report
from calmstream.producer.gateway.encoding import EncodedBatch, make_batch

Row = tuple[int, tuple[int | bytes, ...]]
"""The view, and one value per column of the mechanism: an integer, or the packed bits."""

T = TypeVar("T")
_ONE = (1,)


class _Integer:
    """Reads an integer column of one report."""

    def __init__(self, column: Column) -> None:
        self.name, self._bound = column.name, column.bound

    def read(self, values: Any) -> int:
        """Return the value."""
        if type(values) is not np.ndarray or values.dtype.kind not in "iu":
            _reject(Reason.MALFORMED, f"column {self.name} must be an array of integers")
        if values.shape != _ONE:
            _reject(Reason.LENGTH_MISMATCH, f"column {self.name} must have shape (1,)")
        value: int = values.item()
        if not 0 <= value < self._bound:
            _reject(Reason.OUT_OF_RANGE, f"column {self.name} must lie in [0, {self._bound})")
        return value


class _Bits:
    """Reads a column of packed bits of one report."""

    def __init__(self, column: Column) -> None:
        self.name, self._bound = column.name, column.bound
        self._shape = (1, -(-column.bound // 8))
        self._used = column.bound % 8 or 8

    def read(self, values: Any) -> bytes:
        """Return a copy of the packed bits."""
        if type(values) is not np.ndarray or values.dtype != np.uint8:
            _reject(Reason.MALFORMED, f"column {self.name} must be an array of bytes")
        if values.shape != self._shape:
            _reject(Reason.LENGTH_MISMATCH, f"column {self.name} must have shape {self._shape}")
        raw = values.tobytes()
        if raw[-1] >> self._used:
            _reject(Reason.OUT_OF_RANGE, f"column {self.name} has bits beyond {self._bound}")
        return raw


class RowReader:
    """Splits reports of one plan into group, window and row.

    Args:
        plan: the plan that the reports must follow.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._windows = plan.windows
        self._views = [len(group.views) for group in plan.groups]
        self._forms = [
            tuple(_Bits(c) if c.kind == "bits" else _Integer(c) for c in m.columns)
            for m in plan.mechanisms
        ]

    def read(self, report: Report) -> tuple[int, int, Row]:
        """Return group, window and row. Refuses what a worker would refuse, except for time.

        Raises:
            Rejection: and nothing else, whatever the object; with a worker's reason.
        """
        try:
            return self._read(report)
        except Rejection:
            raise
        except Exception:  # noqa: BLE001 - foreign objects may raise anything
            raise Rejection(Reason.MALFORMED, "expected a Report of this plan") from None

    def _read(self, report: Report) -> tuple[int, int, Row]:
        group, period, view, columns = report.group, report.period, report.view, report.columns
        if type(group) is not int or type(period) is not int or type(view) is not int:
            _reject(Reason.MALFORMED, "group, period and view must be integers")
        if not 0 <= group < len(self._forms):
            _reject(Reason.WRONG_GROUP, f"the plan has {len(self._forms)} groups, got {group}")
        forms = self._forms[group]
        if len(columns) != len(forms):
            _reject(Reason.MALFORMED, f"expected columns {[form.name for form in forms]}")
        values = tuple([form.read(columns[form.name]) for form in forms])
        if not 0 <= view < self._views[group]:
            _reject(Reason.OUT_OF_RANGE, f"view must lie in [0, {self._views[group]})")
        if not 0 <= period < self._windows:
            check_window(self._plan, period)
        return group, period, (view, values)


def _reject(reason: Reason, detail: str) -> NoReturn:
    raise Rejection(reason, detail)


def row_of(plan: Plan, group: int, batch: Batch) -> Row:
    """Return the row of a batch of one that was decoded by the plan."""
    values: list[int | bytes] = []
    for column in plan.mechanisms[group].columns:
        array = batch.columns[column.name]
        values.append(array.tobytes() if column.kind == "bits" else int(array[0]))
    return 0 if batch.view is None else int(batch.view[0]), tuple(values)


def in_parts(rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Split rows that leave together into parts of nearly equal size, at most ``most`` each."""
    n = len(rows)
    parts = -(-n // most)
    for i in range(parts):
        yield rows[n * i // parts : n * (i + 1) // parts]


def batch_of_rows(plan: Plan, group: int, period: int, rows: Sequence[Row]) -> EncodedBatch:
    """Return a batch of rows, which must be in random order."""
    n = len(rows)
    view = np.array([row[0] for row in rows], np.int64)
    columns: dict[str, Any] = {}
    by_column = zip(*(row[1] for row in rows), strict=True)
    for column, values in zip(plan.mechanisms[group].columns, by_column, strict=True):
        if column.kind == "bits":
            columns[column.name] = np.frombuffer(b"".join(values), np.uint8).reshape(n, -1)
        else:
            columns[column.name] = np.array(values, np.int64)
    return make_batch(plan, group, period, view, columns)


def batches_of_rows(
    plan: Plan, group: int, period: int, rows: Sequence[Row], dropped: Callable[[int], None]
) -> list[EncodedBatch]:
    """Return batches of all rows that can be encoded; never raises.

    A row that cannot be encoded alone is left out. Rows that fail together only are halved until
    they do not.

    Args:
        plan: the plan that the rows follow.
        group: their group.
        period: number of their window.
        rows: in random order.
        dropped: receives the number of rows that are left out.

    Cost: one encoding where nothing fails; else one per row, and O(log n) more for all rows.
    """
    if not rows:
        return []
    try:
        return [batch_of_rows(plan, group, period, rows)]
    except Exception:  # noqa: BLE001 - a defect may raise anything
        sound = [row for row in rows if len(rows) > 1 and _can_be_encoded(plan, group, period, row)]
    if len(sound) < len(rows):
        dropped(len(rows) - len(sound))
        return batches_of_rows(plan, group, period, sound, dropped)
    half = len(rows) // 2
    parts = (rows[:half], rows[half:])
    return [one for part in parts for one in batches_of_rows(plan, group, period, part, dropped)]


def _can_be_encoded(plan: Plan, group: int, period: int, row: Row) -> bool:
    try:
        batch_of_rows(plan, group, period, [row])
    except Exception:  # noqa: BLE001 - a defect may raise anything
        return False
    return True
