"""Play generated sequences of faults: no report is lost, counted twice or mixed up."""

from __future__ import annotations

import pytest

from calmstream.common.errors import PlanError
from calmstream.consumer.tally.folding import decode
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.document import read_plan
from tests.fault.setting import TALLY, generate, plan
from tests.fault.simulator import run
from tests.support.repeats import parts

SEQUENCES, PARTS = 2000, 40


@pytest.mark.parametrize("part", parts(2, 8, PARTS))
def test_nothing_is_lost_or_doubled(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # In every other part polls are larger, and all batches are joined, also a single one.
    large = part % 2 == 1
    if large:
        monkeypatch.setattr(decode, "_MIN_JOINED", 1)
    for seed in range(part, SEQUENCES, PARTS):
        operations = generate(seed)
        try:
            run(operations, polls=40 if large else TALLY.poll_records)
        except Exception as error:
            raise AssertionError(f"seed {seed} fails: {error!r}; {operations}") from error


def test_the_simulated_mechanism_cannot_stand_in_a_plan() -> None:
    with pytest.raises(PlanError, match="unknown mechanism 'exact'"):
        build({"name": "exact", "cells": 64}, "1")
    document = plan().to_bytes().replace(b'"name":"grr"', b'"name":"exact"')
    with pytest.raises(PlanError, match="exact"):
        read_plan(document)
