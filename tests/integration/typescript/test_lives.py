"""A device or recorder in TypeScript does as one in Python, whatever happens to its device."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from calmstream import Status
from tests.support.typescript import recorded, scenarios
from tests.support.typescript.package import answers

# `make test` compares the first ones.
LIVES, FEWER_LIVES = 200, 40
RECORDERS, FEWER_RECORDERS = 500, 60


def compared(tool: str, lives: tuple[list[str], list[list[Any]]]) -> list[Any]:
    """Check that both languages give the same answers; return those to all steps."""
    described, expected = lives
    found = [json.loads(answer) for answer in answers(tool, described)]
    for number, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
        for step, (given, wanted) in enumerate(zip(theirs, ours, strict=True)):
            assert given == wanted, f"life {number}, step {step}"
    return [step for life in expected for step in life]


@pytest.mark.parametrize("count", [FEWER_LIVES, pytest.param(LIVES, marks=pytest.mark.slow)])
def test_the_same_life_gives_the_same_answers(count: int) -> None:
    steps = compared("live", scenarios.lives(count, seed=1))
    statuses = Counter(step["status"] for step in steps if "status" in step)
    refused = Counter(step["refused"] for step in steps if "refused" in step)
    if count == LIVES:
        assert {status for status, times in statuses.items() if times >= 5} == set(Status)
    assert set(refused) == {
        "unsigned", "unknown_root", "expired_certificate", "purpose", "report_epsilon",
        "another policy",
    }  # fmt: skip


@pytest.mark.parametrize(
    "count", [FEWER_RECORDERS, pytest.param(RECORDERS, marks=pytest.mark.slow)]
)
def test_the_same_life_gives_the_same_records(count: int) -> None:
    steps = compared("record", recorded.lives(count, seed=1))
    reasons = Counter(reason for step in steps for reason in step.get("dropped", {}))
    assert set(reasons) == {"unplanned", "value", "clock"}
    assert sum(step.get("report") is not None for step in steps) > count / 2
