"""The edge: records become perturbed reports, reports become batches, batches reach the broker.

What a device needs (:class:`Reporter` and its store) depends on numpy and orjson alone.
"""

from producer.device.ledger import Status
from producer.device.read_plan import read_device_plan
from producer.device.reporter import Report, Reporter
from producer.device.store import DeviceStore, FileStore, MemoryStore

__all__ = [
    "DeviceStore",
    "FileStore",
    "MemoryStore",
    "Report",
    "Reporter",
    "Status",
    "read_device_plan",
]
