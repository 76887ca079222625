"""Claims decide which of several aggregators may release the noisy tables of a window.

A claim is a record in the releases topic with a random number (a nonce) as its key. The first claim
of a window is valid for ever, even if its owner fails. So each window is released at most once,
even if several aggregators run, or if somebody copies or restores the file of the budget account. A
nonce exists only in the memory of one process. So if an aggregator fails between its claim and its
release, the window is lost: the process cannot use the claim after a restart, nor can another
process with a copy of the account.

Claims are never deleted: the topic is only compacted, and each claim has its own key. No claim is
in the log twice:

- If the sink repeats a send, the log keeps one record, because the sink is idempotent.
- If no acknowledgement comes, a new claim with a new nonce is sent. With the same nonce, two
  records would have the same key, and compaction would keep the last one. That one can lie behind
  the claim of another aggregator.
"""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Broker, Partition, Sink
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.release_reading import ReleaseOwners
from calmstream.estimators.central.release_wire import NONCE_BYTES, claim_key, encode_claim
from calmstream.estimators.randomness import Randomness

SEND_SECONDS = 30.0
"""Maximum wait for the acknowledgement of a claim."""


class Claims:
    """The claims of one aggregator, and the claims of others that it has read.

    For each window: call :meth:`follow`; if the window is not :meth:`taken`, call :meth:`append`;
    then release the window only if :meth:`held` returns a nonce.
    """

    def __init__(
        self,
        plan: CentralPlan,
        broker: Broker,
        names: CentralNames,
        sink: Sink,
        randomness: Randomness,
        clock: Clock,
        alive: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._partition = Partition(names.releases, 0)
        self._randomness = randomness
        self._topic = TopicReader(broker, [self._partition], clock, keep_alive=alive)
        self._sink = sink
        self._owners = ReleaseOwners(plan.digest)
        self._own: set[str] = set()

    def topic_id(self) -> str:
        """Return the current id of the releases topic.

        The id changes if the topic is deleted and created again. The claims are lost then.
        """
        name = self._partition.topic
        info = self._topic.topics.describe([name]).get(name)
        if info is None:
            raise FatalError(f"topic {name} does not exist; create it: calmstream central topics")
        return info.id

    def taken(self, window: int) -> bool:
        """Return whether any aggregator has claimed the window, as far as the topic was read."""
        return window in self._owners.owners

    def follow(self) -> None:
        """Read the topic up to its present end."""
        for record in self._topic.to_end():
            self._owners.read(record.value)

    def append(self, window: int) -> None:
        nonce = self._randomness.bytes(NONCE_BYTES).hex()
        # The nonce is noted before the send, because the claim is valid even if its acknowledgement
        # is lost.
        self._own.add(nonce)
        self._sink.send(
            self._partition.topic,
            claim_key(nonce),
            encode_claim(self._plan, window, nonce),
            partition=0,
        ).wait(SEND_SECONDS)

    def held(self, window: int) -> str | None:
        """Return the nonce of the valid claim of a window if the claim is this process's.

        None means that the valid claim is another process's. Call this method after
        :meth:`append`.
        """
        self.follow()
        if not self.taken(window):
            raise RecoverableError(f"the claim of window {window} is not in the log yet")
        nonce = self._owners.owners[window]
        return nonce if nonce in self._own else None

    def close(self) -> None:
        """Close the clients. Never raises."""
        self._topic.close()
