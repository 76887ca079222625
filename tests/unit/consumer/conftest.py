"""What the tests of the consumer share."""

from __future__ import annotations

import pytest

from tests.publisher_support import Bench, published_plan


@pytest.fixture
def bench() -> Bench:
    """One group, two partitions, three windows, for publishers."""
    return Bench(published_plan(groups=1))
