"""The public interface.

On a device: ``Reporter`` or ``Recorder`` with a ``FileStore`` and a ``Policy``; ``Outbox``,
``history``, ``decoded``, ``withdraw``. At a gateway: ``Report.decode``. Elsewhere: ``read_plan``.
For users of the statistics: ``subscribe``, ``History``, ``changes``. All else belongs to the
command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calmstream.common.errors import (
        CalmstreamError,
        FatalError,
        InvalidInput,
        RecoverableError,
    )
    from calmstream.consumer.read.answer import Answer
    from calmstream.consumer.read.changes import changes
    from calmstream.consumer.read.history import History
    from calmstream.consumer.subscribe.assembler import Snapshot, Table
    from calmstream.consumer.subscribe.subscribe import subscribe
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.plan.document import read_plan
    from calmstream.producer.device.control import history, rejoin, set_policy, withdraw
    from calmstream.producer.device.history import Sent
    from calmstream.producer.device.outbox import Delivered, Outbox
    from calmstream.producer.device.policy import Allotment, Policy, Status
    from calmstream.producer.device.read_plan import read_device_plan
    from calmstream.producer.device.recorder import Recorder
    from calmstream.producer.device.report import Report
    from calmstream.producer.device.reporter import Reporter
    from calmstream.producer.device.store import DeviceStore, FileStore, MemoryStore
    from calmstream.producer.device.words import decoded
    from calmstream.producer.signed.refusal import PlanRefused, Refusal

__all__ = [
    "Allotment",
    "Answer",
    "CalmstreamError",
    "Delivered",
    "DeviceStore",
    "FatalError",
    "FileStore",
    "History",
    "InvalidInput",
    "MemoryStore",
    "Outbox",
    "Plan",
    "PlanRefused",
    "Policy",
    "Recorder",
    "RecoverableError",
    "Refusal",
    "Report",
    "Reporter",
    "Sent",
    "Snapshot",
    "Status",
    "Table",
    "changes",
    "decoded",
    "history",
    "read_device_plan",
    "read_plan",
    "rejoin",
    "set_policy",
    "subscribe",
    "withdraw",
]

_MODULES = {
    "common.errors": ("CalmstreamError", "FatalError", "InvalidInput", "RecoverableError"),
    "consumer.read.answer": ("Answer",),
    "consumer.read.changes": ("changes",),
    "consumer.read.history": ("History",),
    "consumer.subscribe.assembler": ("Snapshot", "Table"),
    "consumer.subscribe.subscribe": ("subscribe",),
    "estimators.plan": ("Plan",),
    "estimators.plan.document": ("read_plan",),
    "producer.device.control": ("history", "rejoin", "set_policy", "withdraw"),
    "producer.device.history": ("Sent",),
    "producer.device.outbox": ("Delivered", "Outbox"),
    "producer.device.policy": ("Allotment", "Policy", "Status"),
    "producer.device.read_plan": ("read_device_plan",),
    "producer.device.recorder": ("Recorder",),
    "producer.device.report": ("Report",),
    "producer.device.reporter": ("Reporter",),
    "producer.device.store": ("DeviceStore", "FileStore", "MemoryStore"),
    "producer.device.words": ("decoded",),
    "producer.signed.refusal": ("PlanRefused", "Refusal"),
}

_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that a program loads only the side that it uses."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
