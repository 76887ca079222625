"""The public interface.

On a device: ``Reporter`` or ``Recorder`` with a ``FileStore`` and a ``Policy``; ``Outbox``,
``history``, ``decoded``, ``withdraw``. At a gateway: ``Report.decode``. Elsewhere: ``read_plan``.
For users of the statistics: ``subscribe``, ``History``, ``changes``. All else belongs to the
command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calmstream.common.errors import CalmstreamError as CalmstreamError
    from calmstream.common.errors import FatalError as FatalError
    from calmstream.common.errors import InvalidInput as InvalidInput
    from calmstream.common.errors import RecoverableError as RecoverableError
    from calmstream.consumer.read.changes import changes as changes
    from calmstream.consumer.read.history import Answer as Answer
    from calmstream.consumer.read.history import History as History
    from calmstream.consumer.subscribe.assembler import Snapshot as Snapshot
    from calmstream.consumer.subscribe.assembler import Table as Table
    from calmstream.consumer.subscribe.subscribe import subscribe as subscribe
    from calmstream.estimators.plan import Plan as Plan
    from calmstream.estimators.plan.document import read_plan as read_plan
    from calmstream.producer.device.control import history as history
    from calmstream.producer.device.control import rejoin as rejoin
    from calmstream.producer.device.control import set_policy as set_policy
    from calmstream.producer.device.control import withdraw as withdraw
    from calmstream.producer.device.history import Sent as Sent
    from calmstream.producer.device.outbox import Delivered as Delivered
    from calmstream.producer.device.outbox import Outbox as Outbox
    from calmstream.producer.device.policy import Allotment as Allotment
    from calmstream.producer.device.policy import Policy as Policy
    from calmstream.producer.device.policy import Status as Status
    from calmstream.producer.device.read_plan import read_device_plan as read_device_plan
    from calmstream.producer.device.recorder import Recorder as Recorder
    from calmstream.producer.device.report import Report as Report
    from calmstream.producer.device.report import decoded as decoded
    from calmstream.producer.device.reporter import Reporter as Reporter
    from calmstream.producer.device.store import DeviceStore as DeviceStore
    from calmstream.producer.device.store import FileStore as FileStore
    from calmstream.producer.device.store import MemoryStore as MemoryStore
    from calmstream.producer.signed.refusal import PlanRefused as PlanRefused
    from calmstream.producer.signed.refusal import Refusal as Refusal

_MODULES = {
    "common.errors": ("CalmstreamError", "FatalError", "InvalidInput", "RecoverableError"),
    "consumer.read.changes": ("changes",),
    "consumer.read.history": ("Answer", "History"),
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
    "producer.device.report": ("Report", "decoded"),
    "producer.device.reporter": ("Reporter",),
    "producer.device.store": ("DeviceStore", "FileStore", "MemoryStore"),
    "producer.signed.refusal": ("PlanRefused", "Refusal"),
}

_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_PLACES)  # noqa: PLE0605 - known at run time only


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that a program loads only the side that it uses."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
