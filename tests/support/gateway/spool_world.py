"""A gateway's spool with devices, a broker and a worker around it, all in one thread.

Every report has a value of its own. Devices repeat one until they get an answer. The broker loses
acknowledgements and is away at times; the worker counts each batch id that came in time once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import SpoolOutcome, over_at
from calmstream.producer.gateway.durable.spool import Spool
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.metrics import Failure, GatewayTotals
from calmstream.producer.gateway.settings import GatewaySettings
from tests.support.clock import ManualClock
from tests.support.gateway.faulty_files import Crash, FaultyFiles
from tests.support.plans import pair_plan
from tests.support.tally import START

LABELS = 64
ROOT = Path("/spool")
TAKEN = {SpoolOutcome.ACCEPTED, SpoolOutcome.DUPLICATE}


def counting_plan(window: int = 60, grace: int = 40, windows: int = 4, start: int = START) -> Plan:
    """Return a plan of one group in which a report's value can name the report."""
    labels = tuple(str(i) for i in range(LABELS))
    return pair_plan(
        "gateway",
        start,
        window,
        windows,
        domain=Domain((Attribute("a", labels), Attribute("b", labels))),
        groups=(Group(standard("grr", "1", LABELS**2), (View((0, 1)),), (1,)),),
        grace=grace,
        skew=2,
    )


class _Expired(GatewayTotals):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def failed(self, reports: int, why: Failure) -> None:
        assert why is Failure.EXPIRED
        self._world.unsealed += reports


@dataclass
class World:
    dice: Random
    plan: Plan = field(default_factory=counting_plan)
    acknowledged: set[int] = field(default_factory=set)  # values whose device has its answer
    appended: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    # values in batches whose window ended before they were sent
    lost: set[int] = field(default_factory=set)
    sent: dict[bytes, bytes] = field(default_factory=dict)
    away: bool = False
    # reports shown as lost because the disk refused them until their window ended
    unsealed: int = 0

    def __post_init__(self) -> None:
        self.files = FaultyFiles(self.dice)
        self.clock = ManualClock(START * 1000)
        self.waiting: list[SpoolEntry] = []
        self.outgoing: list[EncodedBatch] = []
        self.sent_entries: list[SpoolEntry] = []
        self.made = 0
        self.spool: Spool | None = None
        self.start()

    def start(self) -> None:
        while self.spool is None:
            try:
                found = Spool(
                    ROOT,
                    self.clock,
                    GatewaySettings(batch_size=8, linger=1.0, min_batch=3),
                    files=self.files,
                    totals=lambda _: _Expired(self),
                )
                unsettled = found.recover()
            except Crash:
                self.files.crash()
                continue
            except FatalError as error:
                if "made up" not in str(error):
                    raise
                self.files.failing = 0.0  # somebody has repaired the disk
                continue
            self.spool, self.outgoing = found, unsettled

    def crash(self) -> None:
        self.files.crash()
        self.spool = None
        self.start()

    def devices(self, reports: int) -> None:
        """New reports, and all that have no answer yet, with the same ids and other bytes."""
        period = max(self.plan.window_at(self.clock.now_ms()), 0)
        for _ in range(reports):
            value, self.made = self.made, self.made + 1
            report_id = self.dice.randbytes(16)
            self.waiting.append(SpoolEntry(report_id, 0, 0, min(period, 3), (0, (value,))))
        assert self.spool is not None
        sent = self.waiting + self.dice.sample(self.waiting, len(self.waiting) // 2)
        self.sent_entries = sent
        results = self.spool.accept(self.plan, sent, [None] * len(sent))
        assert len(results) == len(sent)
        left = {entry.report_id: entry for entry in self.waiting}
        for entry, result in zip(sent, results, strict=True):
            if result in TAKEN:
                self.acknowledged.add(entry.row[1][0])  # type: ignore[arg-type]
            if result is not SpoolOutcome.UNAVAILABLE:
                left.pop(entry.report_id, None)
        forgetful = self.dice.random() < 0.1
        kept = [entry for entry in sent if forgetful] + list(left.values())
        self.waiting = list({entry.report_id: entry for entry in kept}.values())

    def turn(self) -> None:
        """One round of the gateway's threads: seal, send, settle, forget."""
        assert self.spool is not None
        self.outgoing += list(self.spool.leaving())
        now, left = self.clock.now_ms(), []
        for batch in self.outgoing:
            if self.spool.mark.present() >= over_at(self.plan, batch.period):
                self._note_lost(batch)
                self.spool.settle(batch, acknowledged=False)
            elif self._send(batch, now):
                self.spool.settle(batch, acknowledged=True)
            else:
                left.append(batch)
        self.outgoing = left
        self.spool.tidy()

    def _send(self, batch: EncodedBatch, now: int) -> bool:
        assert self.spool is not None
        try:
            encoded = self.spool.plans[self.plan.digest].body(batch)
        except RecoverableError:
            return False
        before = self.sent.setdefault(encoded.batch_id, encoded.value)
        assert before == encoded.value, "a resend has other bytes"
        if self.away or self.dice.random() < 0.2:
            return False
        self.appended.setdefault(encoded.batch_id, (now, encoded.value))
        return self.dice.random() < 0.8

    def _note_lost(self, batch: EncodedBatch) -> None:
        assert self.spool is not None
        body = self.spool.plans[self.plan.digest].body(batch)
        self.lost |= set(self.values(body.batch_id, body.value))

    def values(self, batch_id: bytes, value: bytes) -> list[int]:
        return [int(v) for v in decode_batch(self.plan, 0, batch_id, value).columns["v"]]

    def counted(self) -> list[int]:
        """Values that a worker counts: of each batch id once, if it was appended in time."""
        found = []
        for batch_id, (when, value) in self.appended.items():
            batch = decode_batch(self.plan, 0, batch_id, value)
            values = self.values(batch_id, value)
            if when < self.plan.window_end(batch.period) + 1000 * self.plan.grace:
                found += values
            else:
                self.late |= set(values)
        return found
