"""Claims decide which of several aggregators may release the noisy tables of a window.

The first claim of a window is valid for ever, even if its owner fails: its nonce is the record's
key and exists in one process's memory only, so no restart or copy of an account uses it again.
"""

from __future__ import annotations

from contextlib import suppress

from calmstream.broker.topic_facts import central_faults, refuse
from calmstream.broker.transport import Partition, Sink, TopicInfo
from calmstream.common.errors import ForeignRecord, RecoverableError
from calmstream.consumer.central.config import SEND_SECONDS, AggregatorContext
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.estimators.central.release_reading import ReleaseOwners
from calmstream.estimators.central.release_wire import NONCE_BYTES, claim_key, encode_claim


class Claims:
    """Per window: `follow`; if it is not `taken`, `append`; release it only if it is `held`."""

    def __init__(self, context: AggregatorContext, sink: Sink) -> None:
        self._context = context
        self._partition = Partition(context.names.releases, 0)
        self._topic = TopicReader(
            context.broker, [self._partition], context.clock, keep_alive=context.health.turned
        )
        self._sink = sink
        self._owners = ReleaseOwners(context.plan.digest)
        self._own: set[str] = set()

    def bind(self, *, strict: bool = False) -> dict[str, TopicInfo]:
        """Bind the account to this releases topic, which has its claims; describe both topics.

        Faults are refused before: the remedy can be another topic, with another id. Those that do
        not stop the counting are refused where it is ``strict``.
        """
        names = self._context.names
        found = self._topic.topics.describe([names.raw, names.releases])
        refuse(fault for fault in central_faults(names, found) if strict or fault.stops)
        self._context.account.bind(found[names.releases].id)
        return found

    def taken(self, window: int) -> bool:
        return window in self._owners.owners

    def follow(self) -> None:
        for record in self._topic.to_end():
            with suppress(ForeignRecord):
                self._owners.read(record.value)

    def append(self, window: int) -> None:
        nonce = self._context.randomness.bytes(NONCE_BYTES).hex()
        # Noted before the send: the claim is valid even if its acknowledgement is lost. The next
        # attempt has another nonce: of one key, compaction would keep the later record, which can
        # lie behind the claim of another aggregator.
        self._own.add(nonce)
        self._sink.send(
            self._partition.topic,
            claim_key(nonce),
            encode_claim(self._context.plan, window, nonce),
            partition=0,
        ).wait(SEND_SECONDS)

    def held(self, window: int) -> str | None:
        """Return the nonce of the window's valid claim if it is this process's; else None."""
        self.follow()
        if not self.taken(window):
            raise RecoverableError(f"the claim of window {window} is not in the log yet")
        nonce = self._owners.owners[window]
        return nonce if nonce in self._own else None

    def close(self) -> None:
        self._topic.close()
