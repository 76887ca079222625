"""Creates the parts of a running tally worker and connects them.

They exist only while the worker is a member of its consumer group.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from calmstream.broker.topic_facts import verify_topics
from calmstream.broker.transport import Broker, Reader, Sink, TopicInfo, Topics
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions, AssignmentHandler
from calmstream.consumer.tally.counting import RecordCounter
from calmstream.consumer.tally.liveness import Liveness
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.restore import Restorer
from calmstream.consumer.tally.writing.checkpoint import Checkpointer
from calmstream.consumer.tally.writing.dead_letters import DeadLetters
from calmstream.consumer.tally.writing.outbox import WriteOutbox
from calmstream.consumer.tally.writing.ticks import Ticker


@dataclass(frozen=True, slots=True)
class Clients:
    """The broker clients of one worker.

    Attributes:
        topics: the administrator, safe for use from several threads.
        found: descriptions of the topics in use when the worker verified them, by name.
    """

    topics: Topics
    reader: Reader
    sink: Sink
    membership: Membership
    found: dict[str, TopicInfo]

    def close(self, timeout: float) -> None:
        """Leave the group and close all clients; wait at most ``timeout`` seconds for each."""
        self.membership.leave(timeout)
        self.sink.close(timeout)
        self.reader.close()
        self.topics.close()


class RunningWorker:
    """The connected parts of a running worker; the class of each part describes it."""

    def __init__(self, context: TallyContext, clients: Clients) -> None:
        clock, config = context.clock, context.config
        topics, membership = clients.topics, clients.membership
        self.clients = clients
        self.membership = membership
        self.assigned = AssignedPartitions()
        self.outbox = WriteOutbox(context, clients.sink, membership.guard)
        self.ticker = Ticker(context, clients.sink, membership.guard)
        self.checkpointer = Checkpointer(context, self.outbox)
        self.ends = EndWatch(topics, clock, config.topic_check_seconds)
        self.liveness = Liveness(context, self.assigned, membership, self.ends)
        self.assignment = AssignmentHandler(
            context,
            self.assigned,
            membership=membership,
            checkpointer=self.checkpointer,
            restorer=Restorer(context, clients.reader, topics, membership.keep_alive_or_stop),
            topics=topics,
            ends=self.ends,
            drop=[p.drop for p in (self.outbox, self.checkpointer, self.ticker, self.liveness)],
        )
        self.counter = RecordCounter(
            context,
            self.assigned,
            self.checkpointer,
            DeadLetters(context, self.outbox),
            self.outbox,
            membership,
        )
        self.topic_watch = context.watch(topics, clients.found)

    def close(self, timeout: float) -> None:
        """Close the clients and set the gauges of all partitions to 0."""
        self.clients.close(timeout)
        self.liveness.gauges.drop(tuple(self.assigned.folds))


def open_clients(context: TallyContext, broker: Broker) -> Clients:
    """Verify the topics and open the clients; do not join the group yet."""
    plan, names = context.plan, context.names
    used = (*names.all_reports, names.state, names.dead_letters)
    with ExitStack() as undo:
        topics = broker.topics()
        undo.callback(topics.close)
        found = context.retry("the broker", lambda: verify_topics(plan, names, topics, used))
        reader = broker.reader()
        undo.callback(reader.close)
        sink = broker.sink()
        undo.callback(sink.close, 0.0)
        # Without this call, the first send to a topic would wait for the topic's metadata in the
        # worker's loop, perhaps while a broker does not answer.
        context.retry("the broker", lambda: sink.prepare(used))
        member = broker.group_reader(names.group("tally"), member=context.config.member or None)
        membership = Membership(member, context)
        undo.pop_all()
    return Clients(topics, reader, sink, membership, found)


def start_worker(context: TallyContext, broker: Broker) -> RunningWorker:
    """Open the clients, connect the parts and join the group."""
    clients = open_clients(context, broker)
    with ExitStack() as undo:
        undo.callback(clients.close, 0.0)
        running = RunningWorker(context, clients)
        context.retry(
            "joining the group", lambda: clients.membership.join(context.names.all_reports)
        )
        undo.pop_all()
    return running
