"""Attacks on the central model fail: of a user, a sender of invented users, and an operator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from calmstream.broker.transport import Partition
from calmstream.consumer.central.aggregator import RETRY_SECONDS
from calmstream.consumer.runtime.service import Alone
from calmstream.estimators.central.wire import encode_batches
from calmstream.producer.central.submit import submit
from tests.support import central
from tests.support.central import CentralBench, Patience, held_bytes, released_counts
from tests.support.faulty_broker import SendFault

PLAN = replace(central.PLAN, columns=("sex", "job"), levels=2, releases=3)
USERS = 4096


@pytest.mark.parametrize("records", ["many", "nonsense"])
def test_all_output_but_the_release_is_independent_of_the_records(
    records: str, tmp_path: Path
) -> None:
    nobody, somebody = (
        beside(CentralBench(tmp_path / name, PLAN), name) for name in ("nobody", records)
    )
    assert nobody["finished"]
    assert len(nobody["logs"]) == PLAN.releases
    assert somebody == nobody


def beside(bench: CentralBench, records: str) -> dict[str, object]:
    """Return all that an aggregator shows during all windows, except the contents of releases."""
    aggregator = bench.aggregator()
    if records == "many":
        users = [f"u{i}" for i in range(3000)]
        jobs = [f"job {i % 700}" for i in range(3000)]
        submit(PLAN, bench.broker, bench.names, users, [["F"] * 3000, jobs], batch_size=7)
    if records == "nonsense":
        sink = bench.broker.sink()
        for i in range(2000):
            sink.send(bench.names.raw, bytes(16), bytes([i % 256]) * (i % 50)).wait(1)
        submit(PLAN, bench.broker, bench.names, ["x"] * 99, [["y" * 999] * 99] * 2)
    with capture_logs() as logs:
        for advance in (0, 60, 70):  # in the end two windows are closed at once
            bench.clock.advance(advance)
            bench.turns(aggregator, 30)
    topic = bench.broker.records(Partition(bench.names.releases, 0))
    return {
        "metrics": generate_latest(bench.registry),
        "logs": logs,
        "health": (aggregator.health.live(), aggregator.health.readiness()),
        "finished": aggregator.over(),
        "account": bench.account("account").read().entries,
        "claims": [orjson.loads(r.value or b"")["window"] for r in topic if b"claim" in r.key],
    }


@pytest.mark.parametrize("releases", [1, 3], ids=["the last one", "others follow"])
def test_a_broker_that_is_away_after_the_payment_delays_the_release_and_no_more(
    releases: int, tmp_path: Path
) -> None:
    bench = CentralBench(tmp_path, replace(PLAN, releases=releases))
    aggregator = bench.aggregator()
    bench.submit(500, sex="F", job="F")
    bench.clock.advance(60)
    until = bench.clock.monotonic() + 5 * RETRY_SECONDS

    def away(partition: Partition, key: bytes | None, _: bytes | None) -> SendFault:
        release = partition.topic == bench.names.releases and not (key or b"").startswith(b"claim")
        return SendFault.FAIL if release and bench.clock.monotonic() < until else SendFault.NONE

    bench.broker.faults.on_send = away
    Alone(aggregator, until_over=True).run(Patience(bench.clock, 1200))
    (only,) = [r for r in bench.releases() if r.manifest["window"] == 0]
    assert released_counts(only, 2)
    assert all(bench.account("account").read().entries.values())
    assert aggregator.over()


@pytest.mark.parametrize("trimmed", [False, True])
def test_windows_that_may_have_lost_records_are_left_out_by_the_clock(
    trimmed: bool, tmp_path: Path
) -> None:
    bench = CentralBench(tmp_path, PLAN)
    bench.submit(500, sex="F", job="F")
    kept = 2 * PLAN.window + 86_400
    bench.clock.advance(kept - 600 + 61)  # window 1 began just longer ago than is sure to be kept
    if trimmed:
        bench.broker.topics().trim(bench.broker.topics().log_ends(bench.names.raw_partitions))
    aggregator = bench.aggregator()
    bench.turns(aggregator)
    assert bench.sample("skipped_total") == 2
    assert [r.manifest["window"] for r in bench.releases()] == [2]
    assert len(bench.account("account").read().entries) == 1


def test_a_partition_that_never_rests_does_not_hold_up_an_idle_one(tmp_path: Path) -> None:
    bench = CentralBench(tmp_path, PLAN)
    aggregator = bench.aggregator()
    sink = bench.broker.sink()
    ((_, body),) = encode_batches(PLAN, ["u1"], [["F"], ["nurse"]], 1)
    for _ in range(60):
        sink.send(bench.names.raw, bytes(16), body, partition=0).wait(1)
        aggregator.turn()
        bench.clock.advance(1.5)
    assert [r.manifest["window"] for r in bench.releases()] == [0]


def test_readers_pass_over_what_is_no_release_of_their_plan_and_say_so(tmp_path: Path) -> None:
    bench = CentralBench(tmp_path, PLAN)
    sink = bench.broker.sink()
    foreign = [b"nonsense", None, b'{"v":"central-1.0","plan":"other","window":0,"levels":[]}']
    for i, value in enumerate(foreign):
        sink.send(bench.names.releases, b"foreign %d" % i, value, partition=0).wait(1)
    aggregator = bench.aggregator()
    bench.submit(500, sex="F", job="F")
    bench.clock.advance(60)
    bench.turns(aggregator, 4)
    sink.send(bench.names.releases, b"0/1", b"[1]", partition=0).wait(1)
    with capture_logs() as logs:
        (release,) = bench.releases()
    assert released_counts(release, 1)
    (warning,) = logs
    assert "offset 0: a value is no release; skipping records" in warning["event"]


def test_a_backlog_is_held_one_window_at_a_time(tmp_path: Path) -> None:
    bench = CentralBench(tmp_path, replace(PLAN, releases=8, partitions=2))
    sink = bench.broker.sink()
    for _ in range(6):
        columns = [["F"] * 7000, ["nurse"] * 7000]
        for _, body in encode_batches(bench.plan, [f"u{i}" for i in range(7000)], columns, 10):
            sink.send(bench.names.raw, bytes(16), body, partition=0).wait(1)
        bench.clock.advance(60)
    aggregator = bench.aggregator()
    memory = []
    for _ in range(60):
        aggregator.turn()
        memory.append(held_bytes(aggregator))
        bench.clock.advance(0.5)
    assert len(bench.releases()) == 6
    # One window of 7,000 users, and what one poll of 500 batches reads beyond it.
    assert max(memory) <= 12_000 * 500
