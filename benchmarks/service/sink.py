"""Measure sinks: rows a second into each target, and what is stored after sinks were killed.

    python -m benchmarks.service.sink rows  [--rows N]
    python -m benchmarks.service.sink kills [--kills N] [--seed S]   (CALMSTREAM_TEST_BOOTSTRAP)

``rows`` stores sets in an empty target, in batches as the follower makes them, without Kafka: sets
of many small tables, and sets of few tables with many cells. It prints the rows a second of one
process, by the clock and by its own CPU time (PostgreSQL's server is another process), the bytes
that a row takes, and the CPU time to store all sets a second time, when nothing is new. Making the
sets is not measured.

``kills`` starts sinks on a real broker while sets are written, kills them at random moments,
sometimes two at a time, and compares every row with a fresh read of the topic. The exit code is 1
if one differs.

PostgreSQL's server is started in a temporary directory.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from calmstream.consumer.sink.stored import StoredSet, stored_set
from calmstream.consumer.sink.worker import BATCH_ROWS
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from tests.support.sink.kills import WrittenTopic, kill_sinks
from tests.support.sink.planted import records, wide_plan
from tests.support.sink.postgres import PostgresServer, programs
from tests.support.sink.targets import KINDS, Place, place

SHAPES = {
    "63 tables of 4 to 16 cells a set": (4,) * 32,
    "3 tables of up to 4,096 cells a set": (64, 64),
}


def sets_of(plan: Plan, rows: int) -> Iterator[StoredSet]:
    """Yield final sets of consecutive windows with about this many rows."""
    dice = random.Random(1)  # noqa: S311 - any numbers
    assembler, made = SnapshotAssembler(plan), 0
    for window in range(plan.windows):
        for key, value in records(plan, window, Kind.FINAL, 9, dice):
            found = assembler.read(key, value)
        assert found is not None
        one = stored_set("calmstream", found)
        yield one
        made += one.rows
        if made >= rows:
            return


def batches(sets: list[StoredSet]) -> Iterator[list[StoredSet]]:
    """Yield the sets in batches as the follower makes them."""
    batch, rows = list[StoredSet](), 0
    for one in sets:
        batch.append(one)
        rows += one.rows
        if rows >= BATCH_ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def measure_rows(rows: int, server: PostgresServer | None) -> None:
    """Print a table of all shapes and targets."""
    print("| sets | target | rows | rows a second | of CPU time | bytes a row | again, s of CPU |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for title, shape in SHAPES.items():
        sets = list(sets_of(wide_plan(*shape, windows=100_000), rows))
        total = sum(one.rows for one in sets)
        for kind in KINDS:
            if kind == "postgresql" and server is None:
                continue
            with tempfile.TemporaryDirectory() as directory:
                where = place(kind, Path(directory), server)
                (first, cpu), (_, again) = (store_all(where, sets) for _ in range(2))
                size = stored_bytes(where, Path(directory), server) / total
            print(
                f"| {title} | {kind} | {total:,} | {total / first:,.0f} | {total / cpu:,.0f} | "
                f"{size:.0f} | {again:.2f} |",
                flush=True,
            )


def store_all(where: Place, sets: list[StoredSet]) -> tuple[float, float]:
    """Store all sets; return the seconds, and those of CPU time of this process."""
    target = where.target()
    began, cpu = time.perf_counter(), time.process_time()
    target.open()
    for batch in batches(sets):
        target.store(batch)
    target.close()
    return time.perf_counter() - began, time.process_time() - cpu


def stored_bytes(where: Place, directory: Path, server: PostgresServer | None) -> int:
    """Return the size of what is stored, indexes included."""
    if where.kind != "postgresql":
        return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    assert server is not None
    with server.connect(where.address.rsplit("/", 1)[1]) as connection:
        (size,) = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relnamespace = 'calmstream'::regnamespace AND relkind = 'r'"
        ).fetchone()
    return int(size)


def measure_kills(kills: int, seed: int, server: PostgresServer | None) -> int:
    """Print what became of each target; return the number of targets with differences."""
    bootstrap, wrong = os.environ["CALMSTREAM_TEST_BOOTSTRAP"], 0
    kinds = [kind for kind in KINDS if kind != "postgresql" or server is not None]
    print("| target | kills | different numbers of rows seen | sets | rows | differences |")
    print("|---|---:|---:|---:|---:|---:|")
    for number, kind in enumerate(kinds):
        share = kills // len(kinds) + (number < kills % len(kinds))
        with tempfile.TemporaryDirectory() as directory:
            topic = WrittenTopic(bootstrap, Path(directory), seed + number)
            try:
                where = place(kind, Path(directory), server)
                done = kill_sinks(topic, where, Path(directory), share, seed + number)
            finally:
                topic.close()
        wrong += bool(done.differences)
        print(
            f"| {kind} | {done.kills} | {len(set(done.after_kill))} of {len(done.after_kill)} | "
            f"{done.sets:,} | {done.rows:,} | {len(done.differences)} |",
            flush=True,
        )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rows", "kills"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20261123)
    args = parser.parse_args()
    found = programs()
    server = None if found is None else PostgresServer(found)
    try:
        if args.what == "rows":
            measure_rows(args.rows, server)
            return 0
        return 1 if measure_kills(args.kills, args.seed, server) else 0
    finally:
        if server is not None:
            server.close()


if __name__ == "__main__":
    sys.exit(main())
