"""Send one hostile record of each kind every second, while faults are injected."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter

from calmstream.broker.names import TopicNames
from calmstream.estimators.plan import Plan
from tests.support.attacks.hostile import kinds, lies, sendable
from tests.support.batches import RefusedError, Row, batch, frame, produce
from tests.support.tally import body

EVERY_SECONDS = 1.0  # time between two rounds; in a round each kind is sent once

# Kafka's error codes of a broker that stops or starts; they are not about the bytes that were sent.
_PASSING = {3, 5, 6, 7, 8, 9, 13, 56}


class HostileSender:
    """A thread that sends raw batches to random partitions.

    Attributes:
        sent: acknowledged batches by kind.
        unacknowledged: batches without an acknowledgement; they may be in the log.
        rejects: smallest and largest number of rejections that the batches cause. The smallest
            counts the acknowledged batches only, the largest also the unacknowledged ones.
        keys: ids of all records that it made.
        failure: a batch that the broker refused although it should accept it, or None.
    """

    def __init__(self, bootstrap: str, plan: Plan, names: TopicNames, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self.unacknowledged: Counter[str] = Counter()
        self.rejects = [0, 0]
        self.keys: set[bytes] = set()
        self.failure: str | None = None
        self._bootstrap = bootstrap
        self._plan = plan
        self._names = names
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the hostile sender hangs"
        assert self.failure is None, self.failure

    def _live(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set() and self.failure is None:
            self._round()
            due = max(due + EVERY_SECONDS, time.monotonic())
            self._stop.wait(due - time.monotonic())

    def _round(self) -> None:
        group = self._rng.randrange(len(self._plan.groups))
        now = time.time_ns() // 1_000_000
        period = self._plan.window_at(now)

        def honest() -> Row:
            return Row(body(self._plan, period, [1], group), self._key())

        for name, kind in sendable(kinds(honest)).items():
            raw = frame(kind.payload, kind.count, first_time=now, **kind.stated())  # type: ignore[arg-type]
            self._send(name, group, raw, kind.rejected)
        for name, row in lies(self._plan, group, period).items():
            self.keys.add(row.key or b"")
            self._send(name, group, batch([row], first_time=now), 1)

    def _key(self) -> bytes:
        key = secrets.token_bytes(16)
        self.keys.add(key)
        return key

    def _send(self, name: str, group: int, raw: bytes, rejects: int) -> None:
        number = self._rng.randrange(self._plan.partitions)
        try:
            produce(self._bootstrap, self._names.reports(group), number, raw)
        except RefusedError as error:
            if error.code not in _PASSING:
                self.failure = f"{name}: {error}"
            return
        except ConnectionRefusedError:
            return
        except OSError:
            self.unacknowledged[name] += 1
            self.rejects[1] += rejects
            return
        self.sent[name] += 1
        self.rejects[0] += rejects
        self.rejects[1] += rejects
