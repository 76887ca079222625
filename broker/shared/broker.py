"""The shared clients of one connection, and the connection as one plan sees it."""

from __future__ import annotations

from functools import cached_property

from calmstream.broker.shared.group import GroupShare, SharedGroup
from calmstream.broker.shared.reader import ReaderShare, SharedReader
from calmstream.broker.shared.sink import SinkShare
from calmstream.broker.transport import Broker, Sink, Topics
from calmstream.common.clock import Clock


class SharedBroker:
    """Clients for many plans; the owner of this object calls the group's ``turn``."""

    def __init__(self, broker: Broker, group: str, clock: Clock) -> None:
        self._broker = broker
        self.group = SharedGroup(lambda: broker.group_reader(group), clock)
        self.reader = SharedReader(broker.reader, clock)

    @cached_property
    def sink(self) -> Sink:
        return self._broker.sink()

    def topics(self) -> Topics:
        return self._broker.topics()

    def plan(self) -> PlanBroker:
        return PlanBroker(self)

    def close(self, timeout: float) -> None:
        self.group.close(timeout)
        self.reader.close()
        if "sink" in self.__dict__:
            self.sink.close(timeout)


class PlanBroker:
    """A plan's view of a shared connection; see `Broker`.

    Closing its clients, or this object, leaves the common clients open. There is one membership,
    whatever the name of the group.
    """

    def __init__(self, shared: SharedBroker) -> None:
        self._shared = shared
        self._readers: list[ReaderShare] = []
        self.share = shared.group.share()

    @property
    def readers(self) -> list[ReaderShare]:
        return [reader for reader in self._readers if not reader.closed]

    def sink(self) -> SinkShare:
        return SinkShare(self._shared.sink)

    def reader(self) -> ReaderShare:
        share = self._shared.reader.share()
        self._readers = [*self.readers, share]
        return share

    def group_reader(self, group: str) -> GroupShare:  # noqa: ARG002
        self.share.attach()
        return self.share

    def topics(self) -> Topics:
        return self._shared.topics()

    def close(self) -> None:
        self.share.release()
        for reader in self.readers:
            reader.close()
