"""Sets as Arrow tables: one flat row for each cell, the same columns for every plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calmstream.consumer.sink.columns import OF_SET
from calmstream.consumer.sink.stored import StoredSet
from calmstream.consumer.subscribe.statistic_rows import StatisticRow, statistic_rows
from calmstream.estimators.wire.snapshot import MarginalRecord

_TEXT, _TEXTS, _TIME = pa.string(), pa.list_(pa.string()), pa.timestamp("us", tz="UTC")

_SET = (
    ("output_namespace", _TEXT),
    ("plan", _TEXT),
    ("plan_name", _TEXT),
    ("window_number", pa.int64()),
    ("kind", _TEXT),
    ("window_start", _TIME),
    ("window_end", _TIME),
    ("revision", pa.int64()),
)
"""The columns that every schema begins with; they say which set a row is from."""

RESULTS = pa.schema(
    [
        *_SET,
        ("attributes", _TEXTS),
        ("cell", pa.int32()),
        ("labels", _TEXTS),
        ("value", pa.float64()),
        ("stderr", pa.float64()),
        ("flags", _TEXTS),
        ("reports", pa.int64()),
    ]
)
"""Columns of the flat rows. ``plan`` is the digest, ``cell`` the row-major number of the cell."""

STATISTICS = pa.schema(
    [
        *_SET,
        ("attributes", _TEXTS),
        ("given", _TEXTS),
        ("labels", _TEXTS),
        ("statistic", _TEXT),
        ("value", pa.float64()),
        ("stderr", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("unit", _TEXT),
        ("flags", _TEXTS),
        ("reports", pa.int64()),
    ]
)
"""Columns of the statistics, one row each; the four numbers are null where they are unknown."""


def results_table(sets: Sequence[StoredSet]) -> pa.Table:
    """Return one row for each cell, ordered by set, table and cell.

    Cost: O(cells) array operations and O(tables) Python steps.
    """
    tables = [(number, table) for number, one in enumerate(sets) for table in one.tables]
    sizes = np.array([len(table.table) for _, table in tables], np.int64)
    of_set = np.repeat(np.array([number for number, _ in tables], np.int64), sizes)
    of_table = np.repeat(np.arange(len(tables)), sizes)
    columns = _set_columns(sets, pa.array(of_set))
    for name in ("attributes", "flags", "reports"):
        values = [getattr(table, name) for _, table in tables]
        columns[name] = pa.array(values, RESULTS.field(name).type).take(pa.array(of_table))
    cells = [np.arange(size, dtype=np.int32) for size in sizes]
    columns["cell"] = pa.array(np.concatenate([*cells, np.empty(0, np.int32)]), pa.int32())
    columns["labels"] = _labels([table for _, table in tables])
    for name, values in (
        ("value", [np.array(table.table, np.float64) for _, table in tables]),
        ("stderr", [np.array(table.stderr, np.float64) for _, table in tables]),
    ):
        columns[name] = pa.array(np.concatenate([*values, np.empty(0)]), pa.float64())
    return pa.Table.from_arrays([columns[name] for name in RESULTS.names], schema=RESULTS)


def statistics_table(sets: Sequence[StoredSet]) -> pa.Table:
    """Return one row for each statistic of the tables, ordered by set and table."""
    of_set, rows = list[int](), list[StatisticRow]()
    for number, one in enumerate(sets):
        found = list(statistic_rows(one.tables))
        of_set += [number] * len(found)
        rows += found
    places = pa.array(of_set, pa.int64())
    columns = list(_set_columns(sets, places).values())
    columns += [
        pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in list(STATISTICS)[len(columns) :]
    ]
    return pa.Table.from_arrays(columns, schema=STATISTICS)


def _set_columns(sets: Sequence[StoredSet], places: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of `_SET` for rows of which each is from the set at its place."""
    return {
        name: pa.array([OF_SET[name](one) for one in sets], kind).take(places)
        for name, kind in _SET
    }


def _labels(tables: Sequence[MarginalRecord]) -> pa.Array:
    """Return the labels of every cell of these tables, a list for each cell."""
    texts: list[str] = []
    starts: dict[tuple[tuple[str, ...], ...], int] = {}
    codes, lengths = [np.empty(0, np.int64)], [np.zeros(1, np.int64)]
    for table in tables:
        if table.labels not in starts:
            starts[table.labels] = len(texts)
            texts.extend(label for labels in table.labels for label in labels)
        positions = _positions(tuple(map(len, table.labels)))
        codes.append((positions + starts[table.labels]).ravel())
        lengths.append(np.full(len(positions), len(table.labels)))
    offsets = np.cumsum(np.concatenate(lengths)).astype(np.int32)
    values = pa.array(texts, pa.string()).take(pa.array(np.concatenate(codes)))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


@lru_cache(maxsize=256)
def _positions(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return for each cell, row-major, the position of each of its labels in all labels."""
    axes = np.indices(shape).reshape(len(shape), -1).T
    begins = np.concatenate([[0], np.cumsum(shape[:-1])]).astype(np.int64)
    return np.ascontiguousarray(axes + begins)
