"""The public interface.

On a device: ``read_device_plan``, ``Reporter`` with a ``FileStore``. At a gateway:
``Report.decode`` and ``Batcher``. Elsewhere: ``read_plan``. For users of the statistics:
``subscribe``. Everything else belongs to the command line.
"""

from consumer.subscribe.assembler import Snapshot, Table
from consumer.subscribe.subscribe import subscribe
from estimators.plan import Plan
from estimators.plan.document import read_plan
from producer import (
    DeviceStore,
    FileStore,
    MemoryStore,
    Report,
    Reporter,
    Status,
    read_device_plan,
)
from producer.gateway.batcher import Batcher

__all__ = [
    "Batcher",
    "DeviceStore",
    "FileStore",
    "MemoryStore",
    "Plan",
    "Report",
    "Reporter",
    "Snapshot",
    "Status",
    "Table",
    "read_device_plan",
    "read_plan",
    "subscribe",
]
