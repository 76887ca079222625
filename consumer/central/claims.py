"""Claims: of all aggregators of a plan, whatever accounts they have, one may release a window.

A claim is a record of the releases topic with a random nonce as its key. The first claim of a
window holds it for ever, even if its owner dies, so a window is released at most once however many
accounts, copies of accounts and aggregators there are. A nonce lives in the memory of one process:
an aggregator that dies between its claim and its release loses that window, and no copy of its
account can take the claim up.

Claims are never deleted: the topic is only compacted, and every claim has a key of its own. The
sink is idempotent, so that a claim has one place in the log. A send that may or may not have
arrived is repeated with a fresh nonce, never with the same one: compaction would move a repeated
key behind a competitor's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.transport import Partition
from estimators.central.release_reading import ReleaseOwners
from estimators.central.release_wire import NONCE_BYTES, claim_key, encode_claim
from estimators.errors import FatalError, RecoverableError

if TYPE_CHECKING:
    from broker.names import CentralNames
    from broker.transport import Broker, Sink
    from estimators.central.plan import CentralPlan
    from estimators.randomness import Randomness

SEND_SECONDS = 30.0
_POLL_SECONDS = 0.2
_POLL_RECORDS = 16
_STILL_POLLS = 150
"""So many polls in a row without progress are a failure: 30 seconds."""


class Claims:
    """The claims of one aggregator, and the claims of others that it has read.

    Args:
        plan: whose windows.
        broker: stays open.
        names: topics.
        sink: idempotent, as every sink is; stays open.
        randomness: of nonces.
        alive: called every few seconds while the topic is read.
    """

    def __init__(
        self,
        plan: CentralPlan,
        broker: Broker,
        names: CentralNames,
        sink: Sink,
        randomness: Randomness,
        alive: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._partition = Partition(names.releases, 0)
        self._randomness = randomness
        self._alive = alive
        self._topics = broker.topics()
        self._reader = broker.reader()
        self._sink = sink
        self._reading = False
        self._seen = ReleaseOwners(plan.digest)
        self._own: set[str] = set()

    def topic_id(self) -> str:
        """Return the current id of the releases topic.

        Raises:
            FatalError: there is no such topic.
        """
        name = self._partition.topic
        info = self._topics.describe([name]).get(name)
        if info is None:
            raise FatalError(f"topic {name} does not exist; create it: calmstream central topics")
        return info.id

    def taken(self, window: int) -> bool:
        """Return whether a record read so far holds the window for any aggregator."""
        return window in self._seen.owners

    def follow(self) -> None:
        """Read the topic to an end that is fetched now.

        Raises:
            RecoverableError: the broker does not answer, or the reading makes no progress.
        """
        if not self._reading:
            start = self._topics.log_starts([self._partition])[self._partition]
            self._reader.assign([self._partition])
            self._reader.seek(self._partition, start)
            self._reading = True
        end = self._topics.log_ends([self._partition])[self._partition]
        position, still = self._reader.position(self._partition), 0
        while position < end:
            for record in self._reader.poll(_POLL_SECONDS, _POLL_RECORDS):
                self._seen.read(record.value)
            self._alive()
            before, position = position, self._reader.position(self._partition)
            still = 0 if position > before else still + 1
            if still > _STILL_POLLS:
                raise RecoverableError(f"reading {self._partition} makes no progress")

    def append(self, window: int) -> None:
        """Append a claim.

        Raises:
            RecoverableError: it may or may not have arrived; call again.
        """
        nonce = self._randomness.bytes(NONCE_BYTES).hex()
        self._own.add(
            nonce
        )  # noted before it is sent: the claim is ours even if the acknowledgement is lost
        self._sink.send(
            self._partition.topic,
            claim_key(nonce),
            encode_claim(self._plan, window, nonce),
            partition=0,
        ).wait(SEND_SECONDS)

    def held(self, window: int) -> str | None:
        """Return the nonce by which this process holds a window after :meth:`append`, else None.

        Raises:
            RecoverableError: the claim cannot be read yet.
        """
        self.follow()
        if not self.taken(window):
            raise RecoverableError(f"the claim of window {window} is not in the log yet")
        nonce = self._seen.owners[window]
        return nonce if nonce in self._own else None

    def close(self) -> None:
        """Release resources. Never raises."""
        self._reader.close()
        self._topics.close()
