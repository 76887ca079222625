"""Sets as Arrow tables: one flat row for each cell, the same columns for every plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from calmstream.consumer.subscribe.columns import OF_CELL, statistic_rows

if TYPE_CHECKING:
    from calmstream.consumer.subscribe.assembler import Snapshot

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


def results_table(namespace: str, sets: Sequence[Snapshot]) -> pa.Table:
    """Return one row for each cell, ordered by set, table and cell."""
    tables = [
        (number, table) for number, one in enumerate(sets) for table in one.marginals.values()
    ]
    sizes = [len(table.table) for _, table in tables]
    of_table = pa.array(np.repeat(np.arange(len(tables)), sizes))
    of_set = pa.array([number for number, _ in tables], pa.int64()).take(of_table)
    columns = {
        **_set_columns(namespace, sets, of_set),
        "cell": pa.array(chain.from_iterable(map(range, sizes)), pa.int32()),
        "labels": pa.array(
            [labels for _, table in tables for labels in product(*table.labels)], _TEXTS
        ),
    }
    for name in ("attributes", "flags", "reports"):
        values = [getattr(table, name) for _, table in tables]
        columns[name] = pa.array(values, RESULTS.field(name).type).take(of_table)
    for name in ("value", "stderr"):
        numbers = (table.table if name == "value" else table.stderr for _, table in tables)
        columns[name] = pa.array(chain.from_iterable(numbers), pa.float64())
    return pa.Table.from_arrays([columns[name] for name in RESULTS.names], schema=RESULTS)


def statistics_table(namespace: str, sets: Sequence[Snapshot]) -> pa.Table:
    rows = [
        (number, row)
        for number, one in enumerate(sets)
        for row in statistic_rows(one.marginals.values())
    ]
    places = pa.array([number for number, _ in rows], pa.int64())
    columns = list(_set_columns(namespace, sets, places).values())
    columns += [
        pa.array([row[field.name] for _, row in rows], field.type)
        for field in list(STATISTICS)[len(_SET) :]
    ]
    return pa.Table.from_arrays(columns, schema=STATISTICS)


def _set_columns(namespace: str, sets: Sequence[Snapshot], places: pa.Array) -> dict[str, pa.Array]:
    columns = {"output_namespace": pa.array([namespace] * len(sets), _TEXT).take(places)}
    for name, kind in _SET[1:]:
        values = [OF_CELL[name](one.manifest) for one in sets]
        columns[name] = pa.array(values, kind).take(places)
    return columns
