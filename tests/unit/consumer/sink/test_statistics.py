"""Check that every target keeps the statistics of published tables, of the newest set only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from calmstream.common.errors import ForeignRecord
from calmstream.consumer.subscribe.arrow_rows import STATISTICS
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.domain import Domain
from calmstream.estimators.wire.snapshot import Kind, decode, encode
from calmstream.estimators.wire.table_summary import Statistic, TableStatistics
from tests.support.publisher import count_of, published_plan, snapshot_of
from tests.support.sink.targets import Place, plain

DOMAIN = Domain.from_dictionary(
    [
        {"name": "m\\s", "kind": "number", "unit": 'm"s', "edges": [0, 10, 30]},
        {"name": "region", "labels": ["EU", "{U,S}"]},
        {"name": "size", "kind": "ordered", "labels": ["s", "l"]},
    ]
)
PLAN = replace(
    published_plan(groups=3, windows=20), domain=DOMAIN, summaries=("mean", "median", "rank")
)
PLAN = replace(PLAN, marginals=((0,), (0, 1), (0, 2)))
COLUMNS = tuple(STATISTICS.names)


def snapshot(window: int, kind: Kind, offset: int) -> Snapshot:
    counts = count_of([0] * 300 + [1] * 210 + [2] * 250 + [3] * (240 + offset))
    whole = snapshot_of(PLAN, window, kind, (offset,) * 6, *[counts] * 3)
    # Some numbers are unknown.
    tables = {**whole.marginals}
    (given,) = tables["m\\s", "region"].summaries
    unknown = (Statistic("mean", None, None, None, None), *given.rows[1].statistics[1:])
    rows = (given.rows[0], TableStatistics(given.rows[1].labels, unknown))
    tables["m\\s", "region"] = replace(
        tables["m\\s", "region"], summaries=(replace(given, rows=rows),)
    )
    return replace(whole, marginals=tables)


def expected(*snapshots: Snapshot) -> list[tuple[Any, ...]]:
    rows = []
    for one in snapshots:
        manifest = one.manifest
        head = ("test", PLAN.digest, PLAN.name, manifest.window, manifest.kind.value)
        head += (float(manifest.start), float(manifest.end), sum(manifest.revision))
        for record in one.marginals.values():
            for summary in record.summaries:
                for row in summary.rows:
                    for s in row.statistics:
                        about = (summary.attributes, summary.given, row.labels, s.statistic)
                        flags = (*record.flags, *summary.flags)
                        numbers = (s.value, s.stderr, s.low, s.high)
                        rows.append((*head, *about, *numbers, summary.unit, flags, record.reports))
    return sorted(rows, key=repr)


def stored(where: Place) -> list[tuple[Any, ...]]:
    if where.kind != "parquet":
        return sorted(map(plain, where.read("statistics", COLUMNS)), key=repr)
    rows = []
    for file in Path(where.address.partition(":")[2]).rglob("*.parquet"):
        metadata = pq.read_schema(file).metadata
        facts = orjson.loads(metadata[b"calmstream.set"])
        (head,) = [
            row[:8]
            for row in map(plain, where.read("sets", COLUMNS[:8]))
            if row[3] == facts["window_number"] and row[4] == facts["kind"]
        ]
        rows += [
            (*head, *plain(tuple(one[name] for name in COLUMNS[8:])))
            for one in orjson.loads(metadata[b"calmstream.statistics"])
        ]
    return sorted(rows, key=repr)


def test_statistics_are_stored_and_replaced_with_their_set(where: Place) -> None:
    target = where.target()
    target.open()
    early, total = snapshot(1, Kind.EARLY, 3), snapshot(0, Kind.TOTAL, 2)
    target.store("test", [early, total])
    assert stored(where) == expected(early, total)
    final = snapshot(1, Kind.FINAL, 5)
    target.store("test", [final])
    target.close()
    assert stored(where) == expected(final, total)
    assert len(stored(where)) == 14


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "m"},
        {"attributes": ("other",)},
        {"given": ("region",)},
        {"flags": ("a\0b",)},
        {"rows": (TableStatistics((), (Statistic("mean", float("inf"), 0.0, 0.0, 0.0),)),)},
        {"rows": (TableStatistics((), (Statistic("a\0b", 1.0, 0.0, 0.0, 0.0),)),)},
    ],
)
def test_statistics_that_do_not_fit_the_plan_are_a_foreign_record(
    change: dict[str, Any],
) -> None:
    one = snapshot(1, Kind.FINAL, 5)
    record = one.record("m\\s")
    bad = replace(record, summaries=(replace(record.summaries[0], **change),))
    with pytest.raises(ForeignRecord, match="damaged"):
        decode(encode(bad), PLAN)
