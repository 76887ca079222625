"""Write bytes into a broker's segment files, to plant records that it would not accept.

A broker checks the batches that it receives. Which ones it accepts depends on its release, vendor
and settings, and old logs hold what old releases accepted. A planted log represents all of them:
the broker serves it without changes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

from calmstream.broker.transport import Partition
from tests.brokers.native import NativeKafka
from tests.support.batches import APPEND_TIME, frame

_SEGMENT = "00000000000000000000"
_LAST_DELTA_AT = 23
_BASE = struct.Struct(">q")
_DELTA = struct.Struct(">i")


class Planting:
    """Writes batches to a partition that must be empty."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.end = 0

    def add(self, raw: bytes) -> int:
        """Append a batch with any content, set its first offset, and return that offset."""
        first = self.end
        (delta,) = _DELTA.unpack_from(raw, _LAST_DELTA_AT)
        self._file.write(_BASE.pack(first) + raw[_BASE.size :])
        self.end = first + delta + 1
        return first

    def close(self) -> None:
        self._file.close()


def stamped(payload: bytes, count: int, milliseconds: int, **stated: object) -> bytes:
    """Encode a batch as a topic with LogAppendTime stores it."""
    attributes = int(stated.pop("attributes", 0)) | APPEND_TIME  # type: ignore[call-overload]
    return frame(
        payload,
        count,
        attributes=attributes,
        max_time=milliseconds,
        first_time=milliseconds,
        epoch=0,
        **stated,  # type: ignore[arg-type]
    )


def plant(kafka: NativeKafka, batches: dict[Partition, Iterable[bytes]]) -> dict[Partition, int]:
    """Stop the broker, write batches into empty partitions, start it; return the log ends."""
    kafka.stop()
    ends = {}
    for partition, raw in batches.items():
        folder = kafka.data / f"{partition.topic}-{partition.number}"
        for name in (".index", ".timeindex", ".snapshot"):
            (folder / f"{_SEGMENT}{name}").unlink(missing_ok=True)
        planting = Planting(folder / f"{_SEGMENT}.log")
        for one in raw:
            planting.add(one)
        planting.close()
        ends[partition] = planting.end
    # Without these files the broker reads all segments again and makes their indexes.
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (kafka.data / name).unlink(missing_ok=True)
    checkpoint = kafka.data / "replication-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    kafka.start(timeout=120)
    return ends


def now_ms() -> int:
    return time.time_ns() // 1_000_000
