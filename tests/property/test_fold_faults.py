"""Check that the state that workers write equals the log, under generated faults.

Every pair (window, id) has its own cell. So a count of two proves double counting, and a zero
proves a loss. Workers crash, stop, lose partitions and write late. The state topic is compacted;
its writes fail, lose their acknowledgement or occur twice. Input that is no longer needed is
deleted.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.wire.state import encode_closed, encode_state
from tests.support.faulty_broker import SendFault
from tests.support.tally import (
    TOPIC_ID,
    Reference,
    batch_id,
    fields_of,
    fold_one,
    small_plan,
    state_of,
)
from tests.support.tally_bench import Stage

PLAN = small_plan(windows=4, grace=4, skew=3)
OPERATIONS = [
    *["good"] * 6,
    "resend",
    "resend",
    "bad",
    *["turn"] * 6,
    "idle",
    "crash",
    "stop",
    "zombie",
    "zombie writes",
    "compact",
    "fault",
    "trim",
]

SETTINGS = {"checkpoint_seconds": 1.0, "session_seconds": 3600.0, "retry_seconds": 1000.0}


class Drama:
    """A worker on the in-process broker, on which a test performs operations.

    A method without an underscore is an operation; `play` calls it by its name with the random
    generator ``dice``.

    Attributes:
        stage: the broker, the topics and the clock.
        worker: the worker that owns the partition.
        zombies: workers that lost the partition and still run.
        sent: window, id and cell of each valid batch.
        log: the input as it was written, also the part deleted since.
    """

    def __init__(self) -> None:
        self.stage = Stage(PLAN, dict(SETTINGS))
        self.stage.clock.sleep(0)
        self.worker = self.stage.worker()
        self.zombies = []
        self.sent = []
        self.log = []

    def play(self, operation: str, dice: random.Random) -> None:
        getattr(self, operation.replace(" ", "_"))(dice)
        self.stage.clock.advance(dice.choice([0, 0.1, 0.4, 1.1]))

    def good(self, dice: random.Random) -> None:
        """Send a valid batch for a window near now."""
        period = max(0, PLAN.window_at(self.stage.clock.wall_ms) + dice.choice([-1, 0, 0, 0, 1]))
        number = dice.randrange(1 << 30)
        self.sent.append((period, number, dice.randrange(4)))
        self._send(*self.sent[-1])

    def resend(self, dice: random.Random) -> None:
        """Send one of the last batches again."""
        if self.sent:
            self._send(*dice.choice(self.sent[-6:]))

    def _send(self, period: int, number: int, cell: int) -> None:
        self.stage.batch(period, [cell], number=number)

    def bad(self, dice: random.Random) -> None:
        """Send a record that must be rejected."""
        self.stage.send(batch_id(dice.randrange(100)), b"{")

    def turn(self, _dice: random.Random) -> None:
        self.worker.turn()

    def idle(self, dice: random.Random) -> None:
        self.stage.clock.advance(dice.choice([2, 6, 11]))

    def crash(self, _dice: random.Random) -> None:
        self.worker.abandon()
        self.worker = self.stage.worker()

    def stop(self, _dice: random.Random) -> None:
        self.worker.finish()
        self.worker = self.stage.worker()

    def zombie(self, _dice: random.Random) -> None:
        self.worker.running.membership._reader.expire()
        self.zombies.append(self.worker)
        self.worker = self.stage.worker()

    def zombie_writes(self, dice: random.Random) -> None:
        if self.zombies:
            dice.choice(self.zombies).checkpoint()

    def compact(self, dice: random.Random) -> None:
        self.stage.broker.compact(self.stage.names.state, active=dice.choice([0, 1, 3]))

    def fault(self, dice: random.Random) -> None:
        faults = [SendFault.FAIL, SendFault.LOSE_ACK, SendFault.DUPLICATE]
        topic = dice.choice([self.stage.names.state, self.stage.names.dead_letters])
        self.stage.broker.faults.plan(topic, *dice.choices(faults, k=2))

    def trim(self, _dice: random.Random) -> None:
        """Delete old input as retention does: only what no copy of the state needs."""
        states = self.stage.states()
        if states:
            self._keep_log()
            self.stage.topics.trim({self.stage.input(): min(s.resume_from for s in states)})

    def _keep_log(self) -> None:
        length = len(self.log)
        self.log += [r for r in self.stage.broker.records(self.stage.input()) if r.offset >= length]

    def end(self) -> None:
        self.worker.abandon()
        self.worker = self.stage.worker()
        self.stage.move_to(200)
        self.stage.turns(self.worker, count=16, step=0.6)
        self._keep_log()


def check(drama: Drama) -> None:
    info = drama.stage.topics.describe([drama.stage.input().topic])
    fold = PartitionFold.start(PLAN, 0, next(iter(info.values())).id)
    states = {0: encode_state(PLAN, fold.state())}
    closed = {}
    for r in drama.log:
        closed |= {c.window: encode_closed(PLAN, c) for c in fold_one(fold, r).closed}
        states[r.offset + 1] = encode_state(PLAN, fold.state())
    for state in drama.stage.states():
        assert encode_state(PLAN, state) == states[state.next_offset]
    for window in drama.stage.closed():
        assert encode_closed(PLAN, window) == closed[window.window]
    assert {c.window for c in drama.stage.closed()} == set(range(PLAN.windows))
    assert max(s.next_offset for s in drama.stage.states()) == len(drama.log)
    rejected = {letter.offset for letter, _ in drama.stage.dead_letters()}
    assert len(rejected) == sum(fold.state().total.rejects.values())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=st.lists(st.sampled_from(OPERATIONS), max_size=60), seed=st.integers(0, 1 << 30))
def test_the_written_state_equals_the_log_after_any_faults(
    operations: list[str], seed: int
) -> None:
    drama, dice = Drama(), random.Random(seed)
    for operation in operations:
        drama.play(operation, dice)
    drama.end()
    check(drama)


def test_the_state_after_the_faults_equals_the_slow_reference() -> None:
    """Compare the fold, which the simulation uses, with the reference that keeps lists."""
    drama, dice = Drama(), random.Random(3)
    for operation in dice.choices(OPERATIONS, k=150):
        drama.play(operation, dice)
    drama.end()
    fold = PartitionFold.start(PLAN, 0, TOPIC_ID)
    events = []
    from calmstream.common.errors import Reason
    from calmstream.estimators.wire.batch import TICK, decode_batch

    for r in drama.log:
        fold_one(fold, r)
        if r.value == TICK:
            events.append((r.offset, r.timestamp, None, None, [], None))
        elif r.value == b"{":
            events.append((r.offset, r.timestamp, None, None, [], Reason.UNDECODABLE))
        else:
            batch = decode_batch(PLAN, 0, r.key, r.value)
            cells = batch.columns["v"].tolist()
            events.append((r.offset, r.timestamp, batch.period, r.key, cells, None))
    assert len(events) > 20
    assert fields_of(fold.state()) == state_of(Reference(PLAN, events))
