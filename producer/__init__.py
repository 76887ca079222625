"""The sending side: it perturbs records into reports, merges reports into batches and sends them.

``device`` runs on each person's device, ``gateway`` collects the reports of many devices,
``signed`` holds the formats of signed plans, ``simulation`` simulates populations of devices, and
``central`` sends raw records for central plans. The terms plan, lineage, group, view and window are
explained in ``docs/concepts.md``.

The part for devices (:class:`Reporter` and its store) depends on numpy and orjson only, and on
cryptography if it verifies signed plans.
"""

from calmstream.producer.device.control import history, rejoin, set_policy, withdraw
from calmstream.producer.device.history import Sent
from calmstream.producer.device.policy import Allotment, Policy
from calmstream.producer.device.read_plan import read_device_plan
from calmstream.producer.device.reporter import Report, Reporter
from calmstream.producer.device.status import Status
from calmstream.producer.device.store import DeviceStore, FileStore, MemoryStore
from calmstream.producer.signed.refusal import PlanRefused, Refusal

__all__ = [
    "Allotment",
    "DeviceStore",
    "FileStore",
    "MemoryStore",
    "PlanRefused",
    "Policy",
    "Refusal",
    "Report",
    "Reporter",
    "Sent",
    "Status",
    "history",
    "read_device_plan",
    "rejoin",
    "set_policy",
    "withdraw",
]
