"""Faults of sends, which a test plans in advance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from calmstream.broker.transport import Partition


class SendFault(Enum):
    """The outcome of one send."""

    NONE = "appended and acknowledged"
    FAIL = "not appended; the delivery raises RecoverableError"
    DUPLICATE = "appended twice, as by a retry after a lost acknowledgement; acknowledged"
    LOSE_ACK = "appended; the delivery raises RecoverableError"


SendHook = Callable[[Partition, bytes | None, bytes | None], SendFault]
"""Returns the outcome of a send from its partition, key and value. Runs under the broker's lock."""


class Faults:
    """The planned faults of one in-process broker. Safe for use from several threads.

    Attributes:
        on_send: if set, decides the outcome of every send without a planned fault.
    """

    def __init__(self) -> None:
        self.on_send: SendHook | None = None
        self._planned: dict[str, deque[SendFault]] = {}

    def plan(self, topic: str, *faults: SendFault) -> None:
        """Plan the outcomes of the next sends to a topic, after those planned before."""
        self._planned.setdefault(topic, deque()).extend(faults)

    def for_send(self, partition: Partition, key: bytes | None, value: bytes | None) -> SendFault:
        """Return the outcome of a send, and remove it from the planned ones."""
        planned = self._planned.get(partition.topic)
        if planned:
            return planned.popleft()
        if self.on_send is not None:
            return self.on_send(partition, key, value)
        return SendFault.NONE
