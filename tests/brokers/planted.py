"""Records in a broker's log that no request brought there: bytes written into its segment file.

A broker looks into the batches that it is sent. Which ones it lets through depends on its release,
its vendor and its settings, and old logs hold what old releases let through. A planted log stands
for all of them: the broker serves it as it is.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

from broker.transport import Partition
from tests.brokers.native import NativeKafka
from tests.support.batches import APPEND_TIME, frame

_SEGMENT = "00000000000000000000"
_LAST_DELTA_AT = 23
_BASE = struct.Struct(">q")
_DELTA = struct.Struct(">i")


class Planting:
    """Batches for one partition that must be empty so far.

    Attributes:
        end: the offset behind the last batch.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.end = 0

    def add(self, raw: bytes) -> int:
        """Append a batch, whatever it holds; its first offset, which is written into it."""
        first = self.end
        (delta,) = _DELTA.unpack_from(raw, _LAST_DELTA_AT)
        self._file.write(_BASE.pack(first) + raw[_BASE.size :])
        self.end = first + delta + 1
        return first

    def close(self) -> None:
        self._file.close()


def stamped(payload: bytes, count: int, milliseconds: int, **stated: object) -> bytes:
    """A batch as a topic with LogAppendTime keeps it."""
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
    """Stop the broker, write the batches into empty partitions, start it; where each log ends."""
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
    # Without these the broker looks at all segments anew and makes their indexes.
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (kafka.data / name).unlink(missing_ok=True)
    checkpoint = kafka.data / "replication-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    kafka.start(timeout=120)
    return ends


def now_ms() -> int:
    return time.time_ns() // 1_000_000
