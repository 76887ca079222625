"""Check the partitioner against values that Kafka publishes, and against the Kafka client."""

from __future__ import annotations

import random

import pytest
from kafka.partitioner.default import murmur2 as reference

from calmstream.broker.partitioner import murmur2, partition_of


# From org.apache.kafka.common.utils.UtilsTest#testMurmur2, as signed integers there.
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_kafkas_published_values(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % (1 << 32)


def test_murmur2_equals_the_clients() -> None:
    numbers = random.Random(2)
    for length in range(100):
        data = numbers.randbytes(length)
        assert murmur2(data) == reference(data)


def test_every_partition_is_used_about_equally() -> None:
    numbers = random.Random(3)
    counts = [0] * 7
    for _ in range(7000):
        counts[partition_of(numbers.randbytes(16), 7)] += 1
    assert all(800 < count < 1200 for count in counts)
