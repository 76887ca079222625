"""Plans and records that a tally worker counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmstream.broker.transport import Partition, Record
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import SystemRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch, encode_batch

START = 1_700_000_000  # start of the plan in Unix seconds; the records have times just after it


@dataclass(frozen=True, slots=True)
class Case:
    """What a record holds: a mechanism over 2^bits cells, and so many reports."""

    mechanism: str
    bits: int
    reports: int


def plan_of(case: Case) -> Plan:
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
