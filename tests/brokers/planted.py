"""Write bytes into a broker's segment files, to plant records that it would not accept.

A broker checks the batches that it receives. Which ones it accepts depends on its release, vendor
and settings, and old logs hold what old releases accepted. A planted log represents all of them:
the broker serves it without changes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable

from calmstream.broker.transport import Partition
from tests.brokers.native import NativeKafka
from tests.support.batches import APPEND_TIME, frame

_SEGMENT = "00000000000000000000"
_LAST_DELTA_AT = 23
_BASE = struct.Struct(">q")
_DELTA = struct.Struct(">i")


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
        end = 0
        with (folder / f"{_SEGMENT}.log").open("wb") as file:
            for one in raw:
                (delta,) = _DELTA.unpack_from(one, _LAST_DELTA_AT)
                file.write(_BASE.pack(end) + one[_BASE.size :])
                end += delta + 1
        ends[partition] = end
    # Without these files the broker reads all segments again and makes their indexes.
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (kafka.data / name).unlink(missing_ok=True)
    checkpoint = kafka.data / "replication-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    kafka.start(timeout=120)
    return ends


def now_ms() -> int:
    return time.time_ns() // 1_000_000
