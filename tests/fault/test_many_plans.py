"""Play faults against processes of three plans that come and go: every plan stays exact."""

from __future__ import annotations

import pytest

from tests.fault.many_plans import generate, run
from tests.support.repeats import parts

SEQUENCES, PARTS = 300, 30


@pytest.mark.parametrize("part", parts(1, 6, PARTS))
def test_no_plan_loses_or_doubles_anything(part: int) -> None:
    for seed in range(part, SEQUENCES, PARTS):
        operations = generate(seed)
        try:
            run(operations)
        except Exception as error:
            raise AssertionError(f"seed {seed} fails: {error!r}; {operations}") from error
