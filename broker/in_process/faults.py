"""Faults of sends that a test plans."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from broker.transport import Partition


class SendFault(Enum):
    """Outcome of one send."""

    NONE = "appended and acknowledged"
    FAIL = "not appended; the delivery raises RecoverableError"
    DUPLICATE = "appended twice, as by a retry after a lost acknowledgement; acknowledged"
    LOSE_ACK = "appended; the delivery raises RecoverableError"


SendHook = Callable[[Partition, bytes | None, bytes | None], SendFault]
"""Decides on a send from its partition, key and value. Runs under the broker's lock."""


class Faults:
    """Planned faults of one in-process broker. Safe for use from several threads.

    Attributes:
        on_send: decides on every send without a planned fault, if set.
    """

    def __init__(self) -> None:
        self.on_send: SendHook | None = None
        self._planned: dict[str, deque[SendFault]] = {}

    def plan(self, topic: str, *faults: SendFault) -> None:
        """The next sends to this topic meet these, in order, after those planned before."""
        self._planned.setdefault(topic, deque()).extend(faults)

    def for_send(self, partition: Partition, key: bytes | None, value: bytes | None) -> SendFault:
        """The fault that this send meets; uses up a planned one."""
        planned = self._planned.get(partition.topic)
        if planned:
            return planned.popleft()
        if self.on_send is not None:
            return self.on_send(partition, key, value)
        return SendFault.NONE
