"""The edge: it perturbs records into reports, merges reports into batches and sends batches.

The part for devices (:class:`Reporter` and its store) depends on numpy and orjson only.
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
