"""What the tests of the consumer share."""

from __future__ import annotations

import pytest

from tests.support.publisher import Bench, published_plan


@pytest.fixture
def bench() -> Bench:
    """One group, two partitions, three windows, for publishers."""
    return Bench(published_plan(groups=1))
