"""A recorder in TypeScript counts and reports as one in Python, whatever happens to its device."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.typescript.package import answers
from tests.support.typescript.recorded import lives

LIVES, FEWER = 500, 60


@pytest.mark.parametrize("count", [FEWER, pytest.param(LIVES, marks=pytest.mark.slow)])
def test_the_same_life_gives_the_same_records(count: int) -> None:
    described, expected = lives(count, seed=1)
    found = [json.loads(answer) for answer in answers("record", described)]
    for number, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
        for step, (given, wanted) in enumerate(zip(theirs, ours, strict=True)):
            assert given == wanted, f"life {number}, step {step}"
    steps = [step for life in expected for step in life]
    reasons = Counter(reason for step in steps for reason in step.get("dropped", {}))
    assert set(reasons) == {"unplanned", "value", "clock"}
    assert sum(step.get("report") is not None for step in steps) > count / 2
