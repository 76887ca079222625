"""Creates the parts of a running tally worker and connects them.

They exist only while the worker is a member of its consumer group.
"""

from __future__ import annotations

from contextlib import ExitStack

from calmstream.broker.topic_facts import verify_topics
from calmstream.broker.transport import Broker
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


class RunningWorker:
    """The clients and the connected parts of a worker; the class of each part describes it."""

    def __init__(self, context: TallyContext, broker: Broker) -> None:
        """Verify the topics, open the clients, connect the parts and join the group."""
        plan, names, config = context.plan, context.names, context.config
        used = (*names.all_reports, names.state, names.dead_letters)
        with ExitStack() as undo:
            self.topics = topics = broker.topics()
            undo.callback(topics.close)
            found = context.retry("the broker", lambda: verify_topics(plan, names, topics, used))
            self._reader = broker.reader()
            undo.callback(self._reader.close)
            self._sink = sink = broker.sink()
            undo.callback(sink.close, 0.0)
            # Without this call, the first send to a topic would wait for the topic's metadata in
            # the worker's loop, perhaps while a broker does not answer.
            context.retry("the broker", lambda: sink.prepare(used))
            member = broker.group_reader(names.group("tally"))
            undo.callback(member.close, 0.0)
            self.membership = membership = Membership(member, context)
            self.topic_watch = context.watch(topics, found)
            self.assigned = AssignedPartitions()
            self.outbox = WriteOutbox(context, sink, membership.guard)
            self.ticker = Ticker(context, sink, membership.guard)
            self.checkpointer = Checkpointer(context, self.outbox)
            self.ends = EndWatch(topics, context.clock, config.topic_check_seconds)
            self.liveness = Liveness(context, self.assigned, membership, self.ends)
            self.restorer = Restorer(context, self._reader, topics, membership.keep_alive_or_stop)
            self.assignment = AssignmentHandler(
                context,
                self.assigned,
                membership=membership,
                checkpointer=self.checkpointer,
                restorer=self.restorer,
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
            context.retry("joining the group", lambda: membership.join(names.all_reports))
            undo.pop_all()

    def close(self, timeout: float) -> None:
        """Leave the group and close all clients; wait at most ``timeout`` seconds for each."""
        self.membership.leave(timeout)
        self._sink.close(timeout)
        self._reader.close()
        self.topics.close()
        self.liveness.gauges.drop(tuple(self.assigned.folds))
