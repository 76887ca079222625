"""Check that senders use all partitions."""

from __future__ import annotations

import random

from calmstream.broker.names import partition_of


def test_every_partition_is_used_about_equally() -> None:
    numbers = random.Random(3)
    counts = [0] * 7
    for _ in range(7000):
        counts[partition_of(numbers.randbytes(16), 7)] += 1
    assert all(800 < count < 1200 for count in counts)
