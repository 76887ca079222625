"""Help for the tests of the producer: a plan with every kind of group, a clock, failing sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream import DeviceStore, Policy, Reporter
from calmstream.broker.transport import Headers, Partition, Record
from calmstream.common.clock import wall_clock
from calmstream.common.errors import CalmstreamError, RecoverableError
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import Randomness
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.gateway.sender import POLL_SECONDS, BatchSender
from tests.support.faulty_broker import FaultyBroker
from tests.support.plans import pair_plan
from tests.support.tally import names_of

START = 1_700_000_000
WINDOW = 10  # seconds
LINEAGE = "00112233445566778899aabbccddeeff"
LARGE = Policy(report_epsilon="128", span_epsilon="100000000")  # no test reaches it by accident
COLOUR = Attribute("colour", ("red", "green", "blue"), other=2)
SIZE = Attribute("size", ("s", "m", "l", "xl"))
FLAG = Attribute("flag", ("0", "1"))


def make_plan(
    *,
    name: str = "edge-test",
    start: int = START,
    window: int = WINDOW,
    windows: int = 6,
    **changes: Any,
) -> Plan:
    """Return a plan with three groups, of shares 5, 3 and 3; ``changes`` replace other fields.

    Group 0: colour and size by GRR. Group 1: size and flag by OUE. Group 2: two parities by GRR,
    with shares 1 and 2.
    """
    groups = (
        Group(standard("grr", "1", 12), (View((0, 1)),), (5,)),
        Group(standard("oue", "1", 8), (View((1, 2)),), (3,)),
        Group(
            standard("grr", "1", 2),
            (View((0,), "parity", (1,)), View((1, 2), "parity", (2, 1))),
            (1, 2),
        ),
    )
    own = {"lineage": LINEAGE, "domain": Domain((COLOUR, SIZE, FLAG)), "groups": groups}
    return pair_plan(name, start, window, windows, **{**own, "partitions": 2, **changes})


def unsigned_reporter(
    plan: Plan | bytes,
    store: DeviceStore,
    randomness: Randomness | None = None,
    clock: Callable[[], int] = wall_clock,
    policy: Policy | None = LARGE,
) -> Reporter:
    return Reporter(plan, store, randomness, clock, policy=policy, allow_unsigned=True)


def broker_for(*plans: Plan) -> FaultyBroker:
    broker = FaultyBroker(clock=lambda: START * 1000)
    for plan in plans:
        broker.topics().create(names_of(plan).specs(86_400_000))
    return broker


def records_of(broker: FaultyBroker, plan: Plan) -> list[tuple[int, Record]]:
    names = names_of(plan)
    return [
        (group, record)
        for group, topic in enumerate(names.all_reports)
        for number in range(plan.partitions)
        for record in broker.records(Partition(topic, number))
    ]


def count(plan: Plan, records: Iterable[tuple[int, Record]]) -> dict[tuple[int, int], Tally]:
    """Count the reports by group and window; a batch id that occurs again is not counted."""
    batch_ids: set[bytes] = set()
    tallies: dict[tuple[int, int], Tally] = {}
    for group, record in records:
        assert record.key is not None
        if record.key in batch_ids:
            continue
        batch_ids.add(record.key)
        batch = decode_batch(plan, group, record.key, record.value)
        mechanism, views = plan.mechanisms[group], len(plan.groups[group].views)
        view = np.zeros(batch.n, np.int64) if batch.view is None else batch.view
        tally = Tally(
            np.bincount(view, minlength=views), mechanism.tally(batch.columns, batch.view, views)
        )
        key = (group, batch.period)
        tallies[key] = tallies.get(key, Tally.zero(views, mechanism.width)) + tally
    return tallies


def some_codes(n: int, seed: int = 1) -> NDArray[np.uint16]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, [3, 4, 2], (n, 3)).astype(np.uint16)


def settle_all(sender: BatchSender) -> None:
    while sender.in_flight:
        sender.step(POLL_SECONDS)


class NoRandomness:
    def bytes(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes drawn")


@dataclass
class ScriptedDelivery:
    # the offset of a successful send, the error of a failed one, or None while open
    outcome: int | CalmstreamError | None

    def wait(self, timeout: float) -> int:
        if self.outcome is None:
            raise RecoverableError(f"not within {timeout} s")
        if isinstance(self.outcome, CalmstreamError):
            raise self.outcome
        return self.outcome

    def done(self) -> bool:
        return self.outcome is not None


class ScriptedSink:
    """Records what is sent; ``script`` gives the outcome of the nth send, None leaves it open."""

    def __init__(self, script: Callable[[int], int | CalmstreamError | None]) -> None:
        self.sends: list[tuple[str, bytes | None, bytes | None]] = []
        self.partitions: list[int] = []
        self.deliveries: list[ScriptedDelivery] = []
        self._script = script

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> ScriptedDelivery:
        assert partition is not None
        assert not headers
        outcome = self._script(len(self.sends))
        self.sends.append((topic, key, value))
        self.partitions.append(partition)
        self.deliveries.append(ScriptedDelivery(outcome))
        return self.deliveries[-1]

    def release(self) -> None:
        for delivery in self.deliveries:
            if delivery.outcome is None:
                delivery.outcome = 0

    def close(self, timeout: float) -> None:
        pass
