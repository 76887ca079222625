"""Measure how fast a worker counts reports on one core, from bytes to counters, without a broker.

    python -m benchmarks.speed.tally [--seconds S] [--json]

Each line of the output is one case. The program prepares records of one partition and gives them to
a *fold*, the object that decodes, checks (times and ids) and counts the records of a partition
(`tally.folding`), 5,000 at a time, as a poll does. Fetching and storing the state
are not included. The fastest of several passes is shown, in processor time, because other load on
the machine can only slow a pass down.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

import numpy as np

from calmstream.broker.transport import Chunk, Partition, Record
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch, encode_batch

START = 1_700_000_000
"""Start of the plan in Unix seconds; the records have times just after it."""

CHUNK = 5000
"""Number of records that are folded at once."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the output.

    Attributes:
        name: text of the line; "1,000 a record" means that a record holds 1,000 reports.
        mechanism: name of the mechanism that randomises the reports.
        bits: number of binary attributes that a report covers; its table has 2^bits cells.
        reports: number of reports in a record.
    """

    name: str
    mechanism: str
    bits: int
    reports: int


CASES = (
    Case("GRR, 8 cells, 1,000 a record", "grr", 3, 1000),
    Case("GRR, 256 cells, 1,000 a record", "grr", 8, 1000),
    Case("OUE, 16 cells, 1,000 a record", "oue", 4, 1000),
    Case("OUE, 64 cells, 1,000 a record", "oue", 6, 1000),
    Case("OUE, 256 cells, 1,000 a record", "oue", 8, 1000),
    Case("GRR, 8 cells, 1 a record", "grr", 3, 1),
    Case("OUE, 64 cells, 1 a record", "oue", 6, 1),
)


def plan_of(case: Case) -> Plan:
    """Return a plan of one window and one view for this case."""
    view = View(tuple(range(case.bits)))
    group = Group({"name": case.mechanism, "cells": 1 << case.bits}, (view,), (1,))
    return Plan(
        name="bench",
        purpose="benchmark",
        owner="benchmark",
        lineage="0" * 32,
        domain=Domain.binary(case.bits),
        epsilon="1",
        k=min(2, case.bits),
        method="calm",
        parameters={},
        groups=(group,),
        start=START,
        expires=START + 3600,
        window=3600,
        users=1_000_000,
        marginals=((0,),),
    )


def records_of(plan: Plan, case: Case, count: int) -> list[Record]:
    """Return ``count`` records of randomised reports, each with a new id."""
    mechanism, source = plan.mechanisms[0], SystemRandomness()
    truth = np.random.default_rng(1).integers(0, mechanism.cells, (count, case.reports))
    where = Partition("reports", 0)
    return [
        Record(
            where,
            offset,
            START * 1000 + offset,
            True,
            source.bytes(16),
            encode_batch(plan, 0, Batch(0, case.reports, None, mechanism.perturb(row, source))),
        )
        for offset, row in enumerate(truth)
    ]


def measure(case: Case, seconds: float) -> dict[str, object]:
    """Count the same records again and again for some seconds; return the rates of the best pass.

    Bits per second are given for OUE only, whose report has one bit per cell.
    """
    plan = plan_of(case)
    # At least 200 records or 20,000 reports, so that a pass is long compared with the clock's step.
    records = records_of(plan, case, max(200, 20_000 // case.reports))
    chunks = [Chunk.of(records[at : at + CHUNK]) for at in range(0, len(records), CHUNK)]
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        fold = PartitionFold.start(plan, 0, "id")
        began = time.process_time()
        for chunk in chunks:
            at = 0
            while at < len(chunk):
                at = fold.fold_chunk(chunk, at).stop
        best = min(best, time.process_time() - began)
        assert fold.state().open[0].tally.reports == len(records) * case.reports
    rate = len(records) * case.reports / best
    size = sum(len(r.value or b"") for r in records)
    return {
        "case": case.name,
        "reports_per_second": rate,
        "records_per_second": len(records) / best,
        "bits_per_second": rate * (1 << case.bits) if case.mechanism == "oue" else None,
        "bytes_per_report": size / (len(records) * case.reports),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="per case")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for case in CASES:
        result = measure(case, arguments.seconds)
        if arguments.json:
            print(json.dumps(result))
            continue
        bits = result["bits_per_second"]
        print(
            f"{case.name:<32}{result['reports_per_second'] / 1e6:>9.3f} M reports/s"
            f"{result['records_per_second']:>12,.0f} records/s"
            f"{result['bytes_per_report']:>8.1f} B/report"
            + (f"{bits / 1e6:>9.0f} M bits/s" if bits else "")
        )


if __name__ == "__main__":
    main()
