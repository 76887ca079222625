"""Play generated sequences of faults: no report is lost, counted twice or mixed up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from calmstream.common.errors import PlanError
from calmstream.consumer.tally.folding import decode
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.document import read_plan
from tests.fault import many_plans
from tests.fault.setting import TALLY, Operation, generate, plan
from tests.fault.simulator import run
from tests.support.repeats import parts

SEQUENCES, PARTS = 2000, 40
OF_MANY_PLANS, PARTS_OF_MANY = 300, 30


def played(
    seeds: range, generate: Callable[[int], list[Operation]], run: Callable[..., object]
) -> None:
    for seed in seeds:
        operations = generate(seed)
        try:
            run(operations)
        except Exception as error:
            raise AssertionError(f"seed {seed} fails: {error!r}; {operations}") from error


@pytest.mark.parametrize("part", parts(2, 8, PARTS))
def test_nothing_is_lost_or_doubled(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # In every other part polls are larger, and all batches are joined, also a single one.
    large = part % 2 == 1
    if large:
        monkeypatch.setattr(decode, "_MIN_JOINED", 1)
    polls = 40 if large else TALLY.poll_records
    played(range(part, SEQUENCES, PARTS), generate, partial(run, polls=polls))


@pytest.mark.parametrize("part", parts(1, 6, PARTS_OF_MANY))
def test_no_plan_of_many_that_come_and_go_loses_or_doubles_anything(part: int) -> None:
    played(range(part, OF_MANY_PLANS, PARTS_OF_MANY), many_plans.generate, many_plans.run)


def test_the_simulated_mechanism_cannot_stand_in_a_plan() -> None:
    with pytest.raises(PlanError, match="unknown mechanism 'exact'"):
        build({"name": "exact", "cells": 64}, "1")
    document = plan().to_bytes().replace(b'"name":"grr"', b'"name":"exact"')
    with pytest.raises(PlanError, match="exact"):
        read_plan(document)
