"""Which plans a gateway offers, the files of a directory, and which of them are counted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import faults
from calmstream.broker.topic_watch import described
from calmstream.broker.transport import Broker, TopicInfo
from calmstream.common.clock import Clock
from calmstream.common.watched_folder import WatchedFolder
from calmstream.estimators.plan import Plan
from calmstream.producer.device.read_plan import read_any_plan
from calmstream.producer.gateway.open_batches import check_least
from calmstream.producer.gateway.settings import GatewaySettings
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES

CHECK_SECONDS = 10.0
_FIRST_SECONDS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A plan, and its envelope or, without one, its own bytes, which are ``fixed``.

    ``over``: its last window's end, ms since the epoch; ``until``: its certificate's end, seconds.
    """

    plan: Plan
    document: bytes
    etag: bytes
    over: int
    fixed: bool
    until: int | None

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def digest(self) -> str:
        return self.plan.digest


def plan_folder(
    directory: Path,
    roots: Collection[str],
    settings: GatewaySettings,
    *,
    allow_unsigned: bool,
) -> WatchedFolder[Offered]:
    """Plans of one name stand side by side: devices report under the old one until it ends."""

    def read(raw: bytes) -> Offered:
        accepted = read_any_plan(raw, roots, allow_unsigned=allow_unsigned)
        plan, statement = accepted.plan, accepted.statement
        check_least(plan, settings.batch_size, settings.min_batch)
        document = plan.to_bytes() if statement is None else raw
        etag = f'"{hashlib.sha256(document).hexdigest()[:32]}"'.encode()
        until = None if statement is None else statement.not_after
        over = plan.window_end(plan.windows - 1)
        return Offered(plan, document, etag, over, statement is None, until)

    return WatchedFolder(directory, read, max_bytes=MAX_ENVELOPE_BYTES, unique_names=False)


class CountedPlans:
    """Compares the topics of ``plans``; nobody would count a report of a ``refused`` one.

    Both are by digest, and replaced as a whole.
    """

    def __init__(self, broker: Broker, names: Callable[[Plan], TopicNames], clock: Clock) -> None:
        self.plans: Mapping[str, Offered] = {}
        self.refused: Mapping[str, str] = {}
        self._broker = broker
        self._names = names
        self._clock = clock
        self._ids: dict[str, str] = {}
        self._answered = clock.monotonic()
        self._failing = False

    def run(self, stop: threading.Event) -> None:
        seen: set[str] = set()
        while not stop.wait(_FIRST_SECONDS):
            plans = self.plans
            due = self._clock.monotonic() - self._answered >= CHECK_SECONDS
            if due or plans.keys() - seen:
                self._check(plans)
                seen = set() if self._failing else set(plans)

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while checks fail; 0 otherwise."""
        return self._clock.monotonic() - self._answered if self._failing else 0.0

    def _check(self, plans: Mapping[str, Offered]) -> None:
        names = {digest: self._names(one.plan) for digest, one in plans.items()}
        wanted = [topic for each in names.values() for topic in each.all_reports]
        try:
            found = described(self._broker.topics(), wanted)
        except Exception:  # noqa: BLE001 - the age of the last answer shows it
            self._failing = True
            return
        self._answered, self._failing = self._clock.monotonic(), False
        judged = {d: self._judge(one.plan, names[d], found) for d, one in plans.items()}
        self.refused = {digest: why for digest, why in judged.items() if why}

    def _judge(self, plan: Plan, names: TopicNames, found: Mapping[str, TopicInfo]) -> str:
        for topic in names.all_reports:
            now = found[topic].id if topic in found else ""
            if now and self._ids.setdefault(topic, now) != now:
                return f"topic {topic} was deleted and created again; start the gateway again"
        wrong = faults(plan, names, found, names.all_reports)
        return next((fault.text for fault in wrong), "")
