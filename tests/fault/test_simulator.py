"""Play generated sequences of faults: no report is lost, counted twice or mixed up."""

from __future__ import annotations

import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire import joined
from tests.fault.setting import TALLY, generate, plan
from tests.fault.simulator import run
from tests.support.repeats import repeats

SEQUENCES = 2000
PARTS = 40
QUICK_PARTS, PLAYED = 2, repeats(8, PARTS)
"""Parts that `make test` plays, and that `make test-all` or `make test-long` plays."""


@pytest.mark.parametrize(
    "part",
    [
        *range(QUICK_PARTS),
        *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK_PARTS, PLAYED)),
    ],
)
def test_nothing_is_lost_or_doubled(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # In every other part polls are larger, and all batches are joined, also a single one.
    large = part % 2 == 1
    if large:
        monkeypatch.setattr(joined, "_MIN_JOINED", 1)
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
