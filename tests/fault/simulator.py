"""Play generated sequences of faults against the real code of all roles.

They run on the in-process broker in virtual time. Every report has its own cell and no noise: a
count above 1 proves double counting, a 0 where the log says 1 a loss. An operation is a name and a
number that seeds its own choices, so a sequence can be shortened without changing the rest.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.counts import parse_key as parse_counts_key
from calmstream.estimators.wire.state import parse_key
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.sender import BatchSender
from tests.fault.judge import judge, judge_counts
from tests.fault.setting import (
    CELLS,
    FAULTS,
    PUBLISH,
    TALLY,
    WINDOWS,
    Operation,
    Silent,
    Timed,
    plan,
)
from tests.fault.virtual import Crash, Process, VirtualClock
from tests.support.batches import GZIP, LZ4, frame
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import AWAIT_SECONDS
from tests.support.tally import START, batch_id, body, names_of


class _QuickSender(BatchSender):
    attempt_seconds, pause = 5.0, 0.05


class Scenario(Timed):
    """A broker with the processes of one plan, and a copy of all that was ever in its topics.

    A method without an underscore is an operation, which `play` calls by its name. Later records
    than ``letters_until`` (ms) need no dead letters; zombies lost their partitions and still run.
    """

    letters_until = float("inf")
    _tally = TALLY

    def __init__(self, *, polls: int = TALLY.poll_records) -> None:
        clock = VirtualClock(START * 1000 + 500)
        self._tally = replace(TALLY, poll_records=polls)
        self._begin(plan(), clock, broker_of(clock))
        self._add_worker()
        self._add_publisher()

    def _begin(self, served: Plan, clock: VirtualClock, broker: FaultyBroker) -> None:
        self.plan = served
        self.names = names_of(self.plan)
        self.clock = clock
        self.broker = broker
        self.topics = self.broker.topics()
        self.topics.create(self.names.specs(7 * 86_400_000))
        self.inputs = [Partition(self.names.reports(0), n) for n in range(2)]
        self.logs: dict[Partition, list[Record]] = {p: [] for p in self.inputs}
        self.outputs: list[Record] = []
        self.kept: list[Record] = []
        self.cell = 0
        self.sent: list[EncodedBatch] = []
        self.held: list[EncodedBatch] = []
        self.zombies: list[tuple[TallyWorker, Process]] = []
        self.fatal: Counter[str] = Counter()
        self.edge = self._edge()
        self.workers: list[tuple[TallyWorker, Process]] = []
        self.publishers: list[tuple[Publisher, Process]] = []
        self.tests: list[Callable[[], None]] = []

    def play(self, operations: list[Operation]) -> None:
        for name, number in operations:
            getattr(self, name)(random.Random(number))
            self._look()
        self._rest()

    # The edge

    def _edge(self) -> BatchSender:
        process = Process(self.broker, self.clock)
        sink = process.sink()
        return _QuickSender(self.names, lambda: sink, clock=self.clock)

    def _batch(self, dice: random.Random) -> EncodedBatch | None:
        """Return a batch of one to three new cells for a window near now, if any are left."""
        n = dice.randint(1, 3)
        if self.cell + n > CELLS:
            return None
        cells = list(range(self.cell, self.cell + n))
        self.cell += n
        now = (self.clock.wall_ms - START * 1000) // 10_000
        period = max(0, now + dice.choice([-1, 0, 0, 0, 0, 1]))
        return EncodedBatch(
            self.plan, 0, period, n, batch_id(1000 + cells[0]), body(self.plan, period, cells)
        )

    def send(self, dice: random.Random) -> None:
        batch = self._batch(dice)
        if batch is not None:
            self.sent.append(batch)
            self.edge.submit(batch)
        self.edge.step()

    def resend(self, dice: random.Random) -> None:
        if self.sent:
            self.edge.submit(dice.choice(self.sent[-8:]))

    def reorder(self, dice: random.Random) -> None:
        """Hold a new batch back; if others are held back already, send one of them."""
        batch = self._batch(dice)
        if batch is not None:
            self.held.append(batch)
        if len(self.held) > 1 or batch is None:
            self._send_held(dice)

    def _send_held(self, dice: random.Random) -> None:
        if self.held:
            late = self.held.pop(dice.randrange(len(self.held)))
            self.sent.append(late)
            self.edge.submit(late)

    def corrupt(self, dice: random.Random) -> None:
        good = body(self.plan, 0, [0])
        bad = [
            b"{",
            b"",
            good[:2] + bytes(16) + good[18:],
            good[:1] + b"\x09" + good[2:],
            good[:-1],
            good + b"x",
            good[:-1] + b"\x40",
            good[:2] + bytes(16),
        ]
        self.edge.submit(EncodedBatch(self.plan, 0, 0, 1, dice.randbytes(16), dice.choice(bad)))

    def damage(self, dice: random.Random) -> None:
        """Append a record batch that cannot be decoded and that covers several offsets."""
        raw = frame(b"no records", dice.randint(1, 4), codec=dice.choice([GZIP, LZ4, 5]))
        partition = dice.choice(self.inputs)
        if self.broker._cluster.answers(partition):
            self.broker.append_batch(partition, raw)

    def crash_edge(self, _dice: random.Random) -> None:
        """Replace the edge; the new one sends again what was in flight, as the spool ensures."""
        self.edge = self._edge()
        for batch in self.sent[-3:]:
            self.edge.submit(batch)

    # Workers

    def _add_worker(self) -> None:
        process = Process(self.broker, self.clock)
        silent: Any = Silent()
        shared = TallyContext("tally", self.plan, self.names, self.clock, self._tally, silent)
        worker = TallyWorker(shared, process)
        try:
            worker.start()
        except FatalError as error:
            self._note(error)
            return
        self.workers.append((worker, process))

    def _pick(self, dice: random.Random) -> tuple[TallyWorker, Process]:
        if not self.workers:
            self._add_worker()
        return dice.choice(self.workers)

    def work(self, dice: random.Random) -> None:
        worker, process = self._pick(dice)
        self._guarded(worker.turn, worker, process)

    def _guarded(self, step: Callable[[], None], worker: TallyWorker, process: Process) -> None:
        """Run a turn; a worker that dies or stops with an error leaves its group."""
        try:
            step()
        except (Crash, FatalError, RecoverableError) as error:
            self._note(error)
            self._bury(worker, process)

    def _bury(self, worker: TallyWorker, process: Process) -> None:
        """End a process as a crash does: nothing is written, and its memberships expire."""
        process.dead = True
        worker.abandon()
        process.expire()
        self.workers = [pair for pair in self.workers if pair[0] is not worker]

    def crash_worker(self, dice: random.Random) -> None:
        self._bury(*self._pick(dice))

    def crash_in_turn(self, dice: random.Random) -> None:
        """Die before or after one of the calls of a turn."""
        worker, process = self._pick(dice)
        process.fuse = dice.randrange(24)
        for _ in range(3):
            if not process.dead:
                self._guarded(worker.turn, worker, process)
        process.fuse = None

    def stop_worker(self, dice: random.Random) -> None:
        worker, process = self._pick(dice)
        self._guarded(worker.finish, worker, process)
        self.workers = [pair for pair in self.workers if pair[0] is not worker]

    def join(self, _dice: random.Random) -> None:
        """Add a worker, up to three, and let all workers take a turn."""
        if len(self.workers) < 3:
            self._add_worker()
        for worker, process in list(self.workers):
            self._guarded(worker.turn, worker, process)

    def expel(self, dice: random.Random) -> None:
        """Let a worker lose its membership and join again, as after a long freeze."""
        worker, process = self._pick(dice)
        process.expire()
        for _ in range(dice.choice([1, 2, 4])):
            if not process.dead:
                self._guarded(worker.turn, worker, process)

    def zombie(self, dice: random.Random) -> None:
        """Let a worker lose its membership without knowing it; it may still write."""
        worker, process = self._pick(dice)
        process.expire()
        self.zombies.append((worker, process))
        self.workers = [pair for pair in self.workers if pair[0] is not worker]

    def zombie_write(self, dice: random.Random) -> None:
        if self.zombies:
            zombie, process = dice.choice(self.zombies)
            try:
                zombie.checkpoint(self.clock.seconds + 1)
            except (RecoverableError, FatalError) as error:
                self._note(error)
            # It polls while it waits for acknowledgements, so it may have joined again.
            process.expire()

    # Publishers

    def _add_publisher(self) -> None:
        process = Process(self.broker, self.clock)
        silent: Any = Silent()
        shared = PublisherContext("publisher", self.plan, self.names, self.clock, PUBLISH, silent)
        estimates = EstimateRunner(start_tests=self.tests.append, wait_seconds=AWAIT_SECONDS)
        publisher = Publisher(shared, process, estimates)
        with suppress(FatalError):
            publisher.start(threading.Event())
            self.publishers.append((publisher, process))

    def publish(self, dice: random.Random) -> None:
        while self.tests:  # begun before, perhaps by one that is dead now
            self.tests.pop()()
        if not self.publishers:
            self._add_publisher()
        publisher, process = dice.choice(self.publishers)
        if dice.random() < 0.2:
            process.fuse = dice.randrange(16)
        try:
            for _ in range(3):
                publisher.turn()
        except (Crash, FatalError) as error:
            self._note(error)
            self._bury_publisher(publisher, process)
        process.fuse = None

    def _bury_publisher(self, publisher: Publisher, process: Process) -> None:
        process.dead = True
        process.expire()
        self.publishers = [pair for pair in self.publishers if pair[0] is not publisher]

    def crash_publisher(self, dice: random.Random) -> None:
        if self.publishers:
            self._bury_publisher(*dice.choice(self.publishers))

    def second_publisher(self, _dice: random.Random) -> None:
        """Let the active publisher lose its membership unnoticed, and start another one."""
        if self.publishers and len(self.publishers) < 3:
            self.publishers[0][1].expire()
            self._add_publisher()

    # The scenario

    def fault(self, dice: random.Random) -> None:
        names = self.names
        topic = dice.choice([names.state, names.dead_letters, names.snapshots, names.reports(0)])
        self.broker.faults.plan(topic, *dice.choices(FAULTS, k=2))

    def stall(self, dice: random.Random) -> None:
        self.broker.stall(dice.choice(self._partitions()))

    def release(self, _dice: random.Random) -> None:
        for partition in (*self._partitions(), self.counts):
            self.broker.release(partition)

    def fault_counts(self, dice: random.Random) -> None:
        self.broker.faults.plan(self.names.counts, *dice.choices(FAULTS, k=2))

    def stall_counts(self, _dice: random.Random) -> None:
        self.broker.stall(self.counts)

    def compact_counts(self, dice: random.Random) -> None:
        self.broker.compact(self.names.counts, active=dice.choice([0, 1, 4]))

    @property
    def counts(self) -> Partition:
        return Partition(self.names.counts, 0)

    def _partitions(self) -> list[Partition]:
        state = [Partition(self.names.state, n) for n in range(2)]
        single = [Partition(t, 0) for t in (self.names.dead_letters, self.names.snapshots)]
        return [*self.inputs, *state, *single]

    def trim(self, _dice: random.Random) -> None:
        """Delete old input as retention does: only what no state record in the topic needs."""
        import orjson

        for number, partition in enumerate(self.inputs):
            needed = [
                orjson.loads(r.value)["resume_from"]
                for r in self.broker.records(Partition(self.names.state, number))
                if r.value is not None and parse_key(r.key)[2] is None
            ]
            unsaved = self._unsaved()
            resume_offsets = [f[partition].state().resume_from for f in unsaved if partition in f]
            if needed:
                self.topics.trim({partition: min([*needed, *resume_offsets])})

    def _unsaved(self) -> list[Mapping[Partition, PartitionFold]]:
        """Return what live workers have counted, perhaps without a checkpoint."""
        return [worker.folds for worker, _ in (*self.zombies, *self.workers)]

    def compact(self, dice: random.Random) -> None:
        topic = dice.choice([self.names.state, self.names.snapshots])
        self.broker.compact(topic, active=dice.choice([0, 1, 4]))

    # Looking

    def _look(self) -> None:
        """Keep what trims and compaction take away."""
        for partition, log in self.logs.items():
            end = log[-1].offset + 1 if log else 0
            log += [r for r in self.broker.records(partition) if r.offset >= end]
        end = self.outputs[-1].offset + 1 if self.outputs else 0
        records = self.broker.records(Partition(self.names.snapshots, 0))
        self.outputs += [r for r in records if r.offset >= end]
        end = self.kept[-1].offset + 1 if self.kept else 0
        self.kept += [r for r in self.broker.records(self.counts) if r.offset >= end]
        self._look_for_lost_counts()

    def _look_for_lost_counts(self) -> None:
        """A closed record is deleted only when a late reader finds the window's counts."""
        kept = [r.key for r in self.broker.records(self.counts)]
        found = {parse_counts_key(key)[0] for key in kept}
        for number in range(2):
            for record in self.broker.records(Partition(self.names.state, number)):
                window = parse_key(record.key)[2]
                assert record.value is not None or window in found, f"counts of {window} are lost"

    def _note(self, error: BaseException) -> None:
        self.fatal[type(error).__name__ + ": " + str(error)[:60]] += 1

    def _rest(self) -> None:
        """Stop all faults; let one worker and one publisher finish within seconds."""
        self._end_faults()
        self._leave_one()
        end = (START + WINDOWS * 10 + 5) * 1000
        self.clock.advance(max(0.1, (end - self.clock.wall_ms) / 1000))
        for _ in range(60):
            for worker, process in list(self.workers):
                # One that had waited too long before the rest began may still give up.
                self._guarded(worker.turn, worker, process)
            if not self.workers:
                self._add_worker()
            for publisher, _process in self.publishers:
                publisher.turn()
            while self.tests:
                self.tests.pop()()
            self._look()
            self.clock.advance(0.3)
            if self.publishers[0][0].finished and self._read_to_the_end():
                break
        self.workers[0][0].checkpoint()

    def _end_faults(self) -> None:
        self.release(random.Random(0))
        self.broker.faults._planned.clear()
        dice = random.Random(0)
        while self.held:
            self._send_held(dice)
        for _ in range(20):
            self.edge.step()
            self.clock.advance(0.3)
        assert self.edge.in_flight == 0

    def _leave_one(self) -> None:
        """Leave one worker and one publisher.

        Half of the sequences end with a worker of their beginning: its own view must be right too.
        """
        kept = self.workers[:1] if self.cell % 2 else []
        for pair in self.workers[len(kept) :]:
            self._bury(*pair)
        while self.publishers:
            self._bury_publisher(*self.publishers[0])
        if not kept:
            self._add_worker()
        self._add_publisher()

    def _read_to_the_end(self) -> bool:
        folds = self.workers[0][0].folds
        ends = self.topics.log_ends(self.inputs)
        return all(p in folds and folds[p].next_offset == ends[p] for p in self.inputs)

    def check(self) -> None:
        """Compare everything that was published, as it was and as a late reader finds it."""
        late = self.broker.records(Partition(self.names.snapshots, 0))
        letters = self.broker.records(Partition(self.names.dead_letters, 0))
        logs = [self.logs[partition] for partition in self.inputs]
        judge(self.plan, logs, (self.outputs, late), letters, letters_until=self.letters_until)
        judge_counts(self.plan, logs, (self.kept, self.broker.records(self.counts)))


def broker_of(clock: VirtualClock) -> FaultyBroker:
    return FaultyBroker(lambda: clock.wall_ms, seconds=lambda: clock.seconds, session_seconds=1e9)


def run(operations: list[Operation], *, polls: int = TALLY.poll_records) -> Scenario:
    """Play a sequence and check it; ``polls``: records that a worker takes at once."""
    scenario = Scenario(polls=polls)
    scenario.play(operations)
    scenario.check()
    return scenario
