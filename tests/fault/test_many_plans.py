"""Play faults against processes of three plans that come and go: every plan stays exact."""

from __future__ import annotations

import pytest

from tests.fault.many_plans import generate, run
from tests.support.repeats import repeats

SEQUENCES = 300
PARTS = 30
QUICK_PARTS, PLAYED = 1, repeats(6, PARTS)
"""Parts that `make test` plays, and that `make test-all` or `make test-long` plays."""


@pytest.mark.parametrize(
    "part",
    [
        *range(QUICK_PARTS),
        *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK_PARTS, PLAYED)),
    ],
)
def test_no_plan_loses_or_doubles_anything(part: int) -> None:
    for seed in range(part, SEQUENCES, PARTS):
        operations = generate(seed)
        try:
            run(operations)
        except Exception as error:
            raise AssertionError(f"seed {seed} fails: {error!r}; {operations}") from error
