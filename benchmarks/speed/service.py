"""Measure a tally worker from the broker to its counts, each rate beside its limit.

Rates are per second of processor time. Limits: of one report a record the client that drops the
records, of 1,000 the code that decodes and counts, of the memory of ids the ids themselves.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from benchmarks.speed import starting
from benchmarks.speed.rows import Row, best
from calmstream.broker.kafka import KafkaBroker
from calmstream.broker.names import TopicNames
from calmstream.broker.records import Chunk
from calmstream.broker.transport import Partition, TopicSpec
from calmstream.common.clock import SystemClock
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.batch_ids import BatchIds, as_ids
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch, encode_batch

POLL_RECORDS = 5000
DEADLINE = 300.0
RETENTION_MS = 86_400_000
IDS = 4_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """What a record holds: a mechanism over 2^bits cells, and so many reports."""

    mechanism: str
    bits: int
    reports: int


def plan_of(case: Case) -> Plan:
    """Return a plan of one view whose first window is the present hour."""
    start = int(time.time()) // 3600 * 3600
    mechanism = standard(case.mechanism, "1", 1 << case.bits)
    return Plan(
        name="bench",
        purpose="benchmark",
        owner="benchmark",
        lineage="0" * 32,
        domain=Domain.binary(case.bits),
        epsilon="1",
        k=2,
        method="calm",
        parameters={},
        groups=(Group(mechanism, (View(tuple(range(case.bits))),), (1,)),),
        start=start,
        expires=start + 7200,
        window=3600,
        grace=3600,
        skew=3600,
        users=1_000_000,
        marginals=((0,),),
    )


def bodies(plan: Plan, case: Case, count: int) -> Iterator[bytes]:
    """Yield batches of randomised reports of the first window."""
    mechanism, source = plan.mechanisms[0], SystemRandomness()
    truth = np.random.default_rng(1).integers(0, mechanism.cells, (count, case.reports))
    for row in truth:
        yield encode_batch(plan, 0, Batch(0, case.reports, None, mechanism.perturb(row, source)))


@dataclass(frozen=True, slots=True)
class Backlog:
    """A topic that is full of records, and what is needed to count it."""

    broker: KafkaBroker
    bootstrap: str
    plan: Plan
    namespace: str
    records: int
    reports: int  # number of reports of each

    def names(self, output: str = "") -> TopicNames:
        """Return the names of the topics, with results in a namespace of their own."""
        return TopicNames.of(self.plan, self.namespace, output)

    @property
    def where(self) -> Partition:
        return Partition(self.names().reports(0), 0)


@contextmanager
def existing(broker: KafkaBroker, specs: Sequence[TopicSpec]) -> Iterator[None]:
    topics = broker.topics()
    topics.create(specs)
    try:
        yield
    finally:
        topics.delete([spec.name for spec in specs])


@contextmanager
def filled(broker: KafkaBroker, bootstrap: str, case: Case, count: int) -> Iterator[Backlog]:
    """Fill a new topic with randomised reports of the window that is open now."""
    plan = plan_of(case)
    backlog = Backlog(broker, bootstrap, plan, f"bench-{secrets.token_hex(4)}", count, case.reports)
    with existing(broker, backlog.names().specs(RETENTION_MS)):
        sink = broker.sink()
        for body in bodies(plan, case, count):
            sink.send(backlog.where.topic, secrets.token_bytes(16), body, partition=0)
        sink.close(DEADLINE)
        yield backlog


def chunks_of(backlog: Backlog) -> Iterator[Chunk]:
    """Read the whole topic with a client of its own."""
    reader = backlog.broker.reader()
    reader.assign([backlog.where])
    reader.seek(backlog.where, 0)
    left = backlog.records
    while left:
        for chunk in reader.poll_chunks(1.0, POLL_RECORDS):
            left -= len(chunk)
            yield chunk
    reader.close()


def seconds_to_drop(backlog: Backlog) -> float:
    """Return the processor time in which the client reads the topic and drops the records."""
    began = time.process_time()
    for _ in chunks_of(backlog):
        pass
    return time.process_time() - began


def seconds_to_fold(backlog: Backlog) -> float:
    """Return the processor time to decode and count the topic, with all records in memory."""
    chunks = list(chunks_of(backlog))
    fold = PartitionFold.start(backlog.plan, 0, "id")
    began = time.process_time()
    for chunk in chunks:
        for _ in fold.fold(chunk):
            pass
    took = time.process_time() - began
    check_counts(backlog, fold)
    return took


def seconds_to_count(backlog: Backlog) -> float:
    """Return the processor time in which a worker counts the topic, with its checkpoints."""
    names = backlog.names(f"out-{secrets.token_hex(4)}")
    output = [spec for spec in names.specs(0) if spec.name.startswith(names.output_prefix)]
    with existing(backlog.broker, output):
        metrics = plan_metrics(CollectorRegistry(), backlog.plan, names, TALLY_METRICS)
        config = TallyConfig(poll_records=POLL_RECORDS)
        context = TallyContext("tally", backlog.plan, names, SystemClock(), config, metrics)
        worker = TallyWorker(context, backlog.broker)
        worker.start()
        took = _seconds_to_end(worker, backlog)
        worker.finish()
    return took


def _seconds_to_end(worker: TallyWorker, backlog: Backlog) -> float:
    deadline = time.monotonic() + DEADLINE
    while backlog.where not in worker.folds:
        worker.turn()
        assert time.monotonic() < deadline, "the worker gets no partition"
    began = time.process_time()
    fold = worker.folds[backlog.where]
    while fold.next_offset < backlog.records:
        worker.turn()
        assert time.monotonic() < deadline, "the worker does not count everything"
    worker.checkpoint()
    took = time.process_time() - began
    check_counts(backlog, fold)
    return took


def check_counts(backlog: Backlog, fold: PartitionFold) -> None:
    counted = sum(count.tally.reports for count in fold.state().open.values())
    assert counted == backlog.records * backlog.reports, counted


def single_rows(backlog: Backlog, aim: str, repeats: int) -> Iterator[Row]:
    thousands = backlog.records / 1e3
    counted, dropped = best(
        repeats, lambda: seconds_to_count(backlog), lambda: seconds_to_drop(backlog)
    )
    yield Row(
        "one report a record",
        "k records/s",
        aim,
        thousands / counted,
        thousands / dropped,
        "the client reads and drops",
    )


def large_row(backlog: Backlog, name: str, aim: str, repeats: int) -> Row:
    millions = backlog.records * backlog.reports / 1e6
    counted, folded = best(
        repeats, lambda: seconds_to_count(backlog), lambda: seconds_to_fold(backlog)
    )
    work, beside = f"1,000 reports a record, {name}", "decode and count alone"
    return Row(work, "M reports/s", aim, millions / counted, millions / folded, beside)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_row() -> Row:
    before, ids = resident(), BatchIds()
    for _ in range(IDS // POLL_RECORDS):
        ids.add_all(as_ids(secrets.token_bytes(16 * POLL_RECORDS)))
    each = (resident() - before) / len(ids)
    return Row("memory of an accepted batch", "bytes", "at most 24", each, 16, "the id itself")


def broker_rows(broker: KafkaBroker, bootstrap: str, records: int, repeats: int) -> Iterator[Row]:
    """Yield the lines for which a broker is needed; delete their topics afterwards."""
    with filled(broker, bootstrap, Case("grr", 6, 1), records) as backlog:
        yield from single_rows(backlog, "at least 170", repeats)
    for mechanism, aim in (("grr", "at least 30"), ("oue", "at least 15")):
        case = Case(mechanism, 6, 1000)
        with filled(broker, bootstrap, case, records // 40) as backlog:
            yield large_row(backlog, f"{mechanism} over 64 cells", aim, repeats)
    with filled(broker, bootstrap, Case("grr", 6, 1), 0) as backlog:
        document = backlog.plan.to_bytes()
        yield from starting.rows(repeats, document, bootstrap, backlog.namespace)
