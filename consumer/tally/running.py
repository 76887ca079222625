"""Creates the parts of a running tally worker and connects them.

They exist only while the worker is a member of its consumer group.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass

from calmstream.broker.topic_facts import verify_topics
from calmstream.broker.topic_watch import TopicWatch, plan_judge
from calmstream.broker.transport import Broker, Reader, Sink, TopicInfo, Topics
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.tally.assignment import AssignedPartitions, AssignmentHandler
from calmstream.consumer.tally.context import WorkerContext
from calmstream.consumer.tally.counting import BackPressure, RecordCounter
from calmstream.consumer.tally.liveness import Liveness, Observers
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.monitoring.foreign_alarm import ForeignRecordAlarm
from calmstream.consumer.tally.monitoring.gauges import Gauges
from calmstream.consumer.tally.monitoring.log_ends import EndWatch
from calmstream.consumer.tally.monitoring.progress import Progress
from calmstream.consumer.tally.restore import Restorer
from calmstream.consumer.tally.waiting import KeepAlive, Retries
from calmstream.consumer.tally.writing.checkpoint import Checkpointer
from calmstream.consumer.tally.writing.dead_letters import DeadLetters
from calmstream.consumer.tally.writing.outbox import Outbox
from calmstream.consumer.tally.writing.ticks import Ticker


@dataclass(frozen=True, slots=True)
class Clients:
    """The broker clients of one worker. They are closed together.

    Attributes:
        topics: the administrator, safe for use from several threads.
        reader: reads the state topic, and logs that are read again.
        sink: sends all records that the worker writes.
        membership: the membership of the consumer group.
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


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """The connected parts of a running worker; the class of each part describes it."""

    clients: Clients
    assigned: AssignedPartitions
    assignment: AssignmentHandler
    counter: RecordCounter
    outbox: Outbox
    checkpointer: Checkpointer
    back_pressure: BackPressure
    ticker: Ticker
    topic_watch: TopicWatch
    observers: Observers
    liveness: Liveness
    keep_alive: KeepAlive

    @property
    def membership(self) -> Membership:
        """The membership of the consumer group."""
        return self.clients.membership

    def close(self, timeout: float) -> None:
        """Close the clients and set the gauges of all partitions to 0."""
        self.clients.close(timeout)
        self.observers.gauges.drop(tuple(self.assigned.folds))


def open_clients(context: WorkerContext, broker: Broker, retries: Retries) -> Clients:
    """Verify the topics and open the clients; do not join the group yet."""
    plan, names = context.plan, context.names
    used = (*names.all_reports, names.state, names.dead_letters)
    with ExitStack() as undo:
        topics = broker.topics()
        undo.callback(topics.close)
        found = retries.call("the broker", lambda: verify_topics(plan, names, topics, used))
        reader = broker.reader()
        undo.callback(reader.close)
        sink = broker.sink()
        undo.callback(sink.close, 0.0)
        # Without this call, the first send to a topic would wait for the topic's metadata in the
        # worker's loop, perhaps while a broker does not answer.
        retries.call("the broker", lambda: sink.prepare(used))
        member = broker.group_reader(
            f"{names.output_prefix}.tally", member=context.config.member or None
        )
        membership = Membership(member, context.clock, context.config, plan.partitions)
        undo.pop_all()
    return Clients(topics, reader, sink, membership, found)


def start_worker(context: WorkerContext, broker: Broker, stop: threading.Event) -> RunningWorker:
    """Open the clients, connect the parts and join the group."""
    retries = Retries(context.clock, context.config.retry_seconds, stop, context.log)
    clients = open_clients(context, broker, retries)
    with ExitStack() as undo:
        undo.callback(clients.close, 0.0)
        running = _connect_parts(
            context, clients, retries, KeepAlive(clients.membership, context.health, stop)
        )
        retries.call(
            "joining the group", lambda: clients.membership.join(context.names.all_reports)
        )
        undo.pop_all()
    return running


def _connect_parts(
    context: WorkerContext, clients: Clients, retries: Retries, keep_alive: KeepAlive
) -> RunningWorker:
    clock, config, metrics = context.clock, context.config, context.metrics
    membership, assigned = clients.membership, AssignedPartitions()
    outbox, ticker = _outbox(context, clients), _ticker(context, clients)
    checkpointer = Checkpointer(context.plan, context.names, outbox, clock, metrics)
    ends = EndWatch(clients.topics, clock, config.topic_check_seconds)
    observers = Observers(ends, ForeignRecordAlarm(config), Progress(), Gauges(metrics, clock))
    dropped = (outbox, checkpointer, ticker, observers.progress, observers.gauges)
    assignment = AssignmentHandler(
        context,
        assigned,
        membership=membership,
        checkpointer=checkpointer,
        restorer=_restorer(context, clients, keep_alive),
        topics=clients.topics,
        ends=ends,
        retries=retries,
        keep_alive=keep_alive,
        drop=[part.drop for part in dropped],
    )
    rejects = _dead_letters(context, outbox)
    counter = RecordCounter(
        context, assigned, checkpointer, rejects, outbox, observers.alarm, keep_alive
    )
    return RunningWorker(
        clients=clients,
        assigned=assigned,
        assignment=assignment,
        counter=counter,
        outbox=outbox,
        checkpointer=checkpointer,
        back_pressure=BackPressure(context, outbox, membership),
        ticker=ticker,
        topic_watch=TopicWatch(
            plan_judge(context.plan, context.names, clients.found),
            clients.topics,
            clients.found,
            clock,
            every_seconds=config.topic_check_seconds,
            retry_seconds=config.retry_seconds,
        ),
        observers=observers,
        liveness=Liveness(context, assigned, membership, observers),
        keep_alive=keep_alive,
    )


def _ticker(context: WorkerContext, clients: Clients) -> Ticker:
    return Ticker(
        clients.sink,
        context.clock,
        clients.membership.guard,
        context.config.tick_seconds,
        stall_seconds=context.config.stall_seconds,
    )


def _outbox(context: WorkerContext, clients: Clients) -> Outbox:
    return Outbox(
        clients.sink,
        context.clock,
        clients.membership.guard,
        context.config.retry_seconds,
        retried=lambda: context.metrics.inc(m.SEND_RETRIES),
    )


def _restorer(context: WorkerContext, clients: Clients, keep_alive: KeepAlive) -> Restorer:
    return Restorer(
        context.plan,
        context.names,
        clients.reader,
        clients.topics,
        clock=context.clock,
        patience_seconds=context.config.retry_seconds,
        keep_alive=keep_alive.beat_or_stop,
    )


def _dead_letters(context: WorkerContext, outbox: Outbox) -> DeadLetters:
    return DeadLetters(
        context.plan,
        context.names,
        outbox,
        on_acknowledged=lambda: context.metrics.inc(m.DEAD_LETTERS),
        on_omitted=lambda: context.metrics.inc(m.DEAD_LETTERS_OMITTED),
    )
