"""The edge: records become perturbed reports, reports become batches, batches reach the broker.

What a device needs (:class:`Reporter` and its store) depends on numpy and orjson alone.
"""

from producer.device_plan import read_device_plan
from producer.ledger import Status
from producer.reporter import Report, Reporter
from producer.store import DeviceStore, FileStore, MemoryStore

__all__ = [
    "DeviceStore",
    "FileStore",
    "MemoryStore",
    "Report",
    "Reporter",
    "Status",
    "read_device_plan",
]
