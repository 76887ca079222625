"""The public interface.

On a device: ``Reporter`` with a ``FileStore`` and a ``Policy``; ``history``, ``withdraw``. At a
gateway: ``Report.decode`` and ``Batcher``. Elsewhere: ``read_plan``. For users of the statistics:
``subscribe``, ``History``. Everything else belongs to the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calmstream.consumer.read.answer import Answer
    from calmstream.consumer.read.history import History
    from calmstream.consumer.subscribe.assembler import Snapshot, Table
    from calmstream.consumer.subscribe.subscribe import subscribe
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.plan.document import read_plan
    from calmstream.producer import (
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
    from calmstream.producer.gateway.batcher import Batcher

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

_OTHERS = {
    "Answer": "calmstream.consumer.read.answer",
    "Batcher": "calmstream.producer.gateway.batcher",
    "History": "calmstream.consumer.read.history",
    "Plan": "calmstream.estimators.plan",
    "Snapshot": "calmstream.consumer.subscribe.assembler",
    "Table": "calmstream.consumer.subscribe.assembler",
    "read_plan": "calmstream.estimators.plan.document",
    "subscribe": "calmstream.consumer.subscribe.subscribe",
}
"""The modules of names that the package ``producer`` does not have."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that a program loads only the side that it uses."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_OTHERS.get(name, "calmstream.producer")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
