"""A device in TypeScript decides as one in Python, whatever plans, clocks and policies it meets."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from calmstream import Status
from tests.support.typescript.package import answers
from tests.support.typescript.scenarios import lives

LIVES, FEWER = 200, 40  # `make test` compares the first ones


@pytest.mark.parametrize("count", [FEWER, pytest.param(LIVES, marks=pytest.mark.slow)])
def test_the_same_life_gives_the_same_answers(count: int) -> None:
    described, expected = lives(count, seed=1)
    found = [json.loads(answer) for answer in answers("live", described)]
    for number, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
        for step, (given, wanted) in enumerate(zip(theirs, ours, strict=True)):
            assert given == wanted, f"life {number}, step {step}"
    steps = [step for life in expected for step in life]
    statuses = Counter(step["status"] for step in steps if "status" in step)
    refused = Counter(step["refused"] for step in steps if "refused" in step)
    if count == LIVES:
        assert {status for status, times in statuses.items() if times >= 5} == set(Status)
    assert set(refused) == {
        "unsigned", "unknown_root", "expired_certificate", "purpose", "report_epsilon",
        "another policy",
    }  # fmt: skip
