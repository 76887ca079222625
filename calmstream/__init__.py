"""The public interface.

On a device: ``Reporter`` with a ``FileStore`` and a ``Policy``; ``history``, ``withdraw``. At a
gateway: ``Report.decode`` and ``Batcher``. Elsewhere: ``read_plan``. For users of the statistics:
``subscribe``, ``History``. Everything else belongs to the command line.
"""

from consumer.read.answer import Answer
from consumer.read.history import History
from consumer.subscribe.assembler import Snapshot, Table
from consumer.subscribe.subscribe import subscribe
from estimators.plan import Plan
from estimators.plan.document import read_plan
from producer import (
    Allotment,
    DeviceStore,
    FileStore,
    MemoryStore,
    PlanRefused,
    Policy,
    Refusal,
    Report,
    Reporter,
    Sent,
    Status,
    history,
    read_device_plan,
    rejoin,
    set_policy,
    withdraw,
)
from producer.gateway.batcher import Batcher

__all__ = [
    "Allotment",
    "Answer",
    "Batcher",
    "DeviceStore",
    "FileStore",
    "History",
    "MemoryStore",
    "Plan",
    "PlanRefused",
    "Policy",
    "Refusal",
    "Report",
    "Reporter",
    "Sent",
    "Snapshot",
    "Status",
    "Table",
    "history",
    "read_device_plan",
    "read_plan",
    "rejoin",
    "set_policy",
    "subscribe",
    "withdraw",
]
