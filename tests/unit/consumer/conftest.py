"""A fixture for the tests of the consumer: a publisher with its broker and logs."""

from __future__ import annotations

import pytest

from tests.support.publisher import Bench, published_plan


@pytest.fixture
def bench() -> Bench:
    """Return a bench for publishers: a plan with one group, two partitions and three windows."""
    return Bench(published_plan(groups=1))
