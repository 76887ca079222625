"""Targets of each kind for tests, and what is stored in them, read in another way than it came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from calmstream.broker.names import TopicNames
from calmstream.consumer.sink.target import Target, target_of
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.plan import Plan
from tests.support.sink.postgres import PASSWORD, PostgresServer

COLUMNS = (
    "output_namespace", "plan", "plan_name", "window_number", "kind", "window_start",
    "window_end", "revision", "attributes", "cell", "labels", "value", "stderr", "flags", "reports",
)  # fmt: skip
SET_COLUMNS = (
    "output_namespace", "plan", "plan_name", "window_number", "kind", "window_start",
    "window_end", "revision", "offsets", "reports", "rejected", "method", "epsilon",
)  # fmt: skip
KINDS = ("postgresql", "parquet")

Row = tuple[Any, ...]


@dataclass
class Place:
    kind: str  # one of :data:`KINDS`
    address: str  # the address for ``--to``
    settings: dict[str, str]  # environment variables that a process needs to use it
    # returns all rows of a table with these columns: results or sets
    read: Callable[[str, tuple[str, ...]], list[Row]]

    def target(self) -> Target:
        address = self.address
        if self.kind == "postgresql":
            # As a person may write it, with the password percent-encoded in the address.
            secret = "".join(f"%{byte:02X}" for byte in PASSWORD.encode())
            address = address.replace("sink@", f"sink:{secret}@")
        return target_of(address)

    def results(self) -> list[Row]:
        return sorted(map(plain, self.read("results", COLUMNS)))

    def sets(self) -> list[Row]:
        return sorted(map(plain, self.read("sets", SET_COLUMNS)))


def plain(row: Row) -> Row:
    """Return a row in which lists are tuples and times are in seconds."""
    return tuple(
        tuple(x) if isinstance(x, list) else x.timestamp() if isinstance(x, datetime) else x
        for x in row
    )


def place(kind: str, directory: Path, server: PostgresServer | None) -> Place:
    if kind == "postgresql":
        assert server is not None
        return postgres_place(server, server.database())
    folder = directory / "results"

    def read_parquet(table: str, columns: tuple[str, ...]) -> list[Row]:
        files = sorted(folder.rglob("*.parquet"))
        if table == "sets":
            return [_facts(file, columns) for file in files]
        return [
            tuple(row[name] for name in columns)
            for file in files
            for row in pq.read_table(file).to_pylist()
        ]

    return Place(kind, f"parquet:{folder}", {}, read_parquet)


def postgres_place(server: PostgresServer, database: str) -> Place:
    def read(table: str, columns: tuple[str, ...]) -> list[Row]:
        with server.connect(database) as connection:
            return connection.execute(
                f"SELECT {', '.join(columns)} FROM calmstream.{table}"
            ).fetchall()

    return Place("postgresql", server.address(database), {"PGPASSWORD": PASSWORD}, read)


def _facts(file: Path, columns: tuple[str, ...]) -> Row:
    facts = orjson.loads(pq.read_schema(file).metadata[b"calmstream.set"])
    for name in ("window_start", "window_end"):
        facts[name] = datetime.fromisoformat(facts[name])
    return tuple(facts[name] for name in columns)


def expected_results(plan: Plan, names: TopicNames, snapshots: list[Snapshot]) -> list[Row]:
    """Return the flat rows of snapshots, made without the code of the sink."""
    rows = []
    for snapshot in snapshots:
        manifest = snapshot.manifest
        for record in snapshot.marginals.values():
            for cell, labels in enumerate(product(*record.labels)):
                rows.append(
                    (
                        names.output_namespace or names.namespace,
                        plan.digest,
                        plan.name,
                        manifest.window,
                        manifest.kind.value,
                        float(manifest.start),
                        float(manifest.end),
                        sum(manifest.revision),
                        record.attributes,
                        cell,
                        labels,
                        record.table[cell],
                        record.stderr[cell],
                        record.flags,
                        record.reports,
                    )
                )
    return sorted(rows)


def expected_sets(plan: Plan, names: TopicNames, snapshots: list[Snapshot]) -> list[Row]:
    return sorted(
        (
            names.output_namespace or names.namespace,
            plan.digest,
            plan.name,
            s.window,
            s.kind.value,
            float(s.manifest.start),
            float(s.manifest.end),
            sum(s.revision),
            s.revision,
            s.manifest.reports,
            sum(s.manifest.rejected.values()),
            plan.method,
            plan.epsilon,
        )
        for s in snapshots
    )
