"""Random kills, freezes and terminations every second or two; afterwards no partition stands still.

Windows of a second or two close all the time, on silent logs by ticks alone. Longer windows leave
the log as it is while all workers are frozen. From the moment when the faults end, every partition
has a living owner a session later, and closes its next window.
"""

from __future__ import annotations

import random
import secrets
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.brokers.native import NativeKafka
from tests.brokers.segments import stored
from tests.support.batches import RefusedError, Row, batch, produce
from tests.support.service.crew import Crew, page
from tests.support.service.processes import Process, run, until
from tests.support.tally import body, names_of, small_plan

WORKERS = 3
GROUPS, PARTITIONS = 3, 4
SESSION_SECONDS = 6
FREEZE_SECONDS = 8.0
WINDOWS = (1, 2, 14)
"""Seconds. The last one is longer than a freeze: seeds of it end with a sleep of all workers."""

CHECKPOINT_SECONDS = 0.5
QUIET_SECONDS = 3 * CHECKPOINT_SECONDS
REST_SECONDS = SESSION_SECONDS + 10
LOOK_SECONDS = 0.25
PAUSE_SECONDS = (1.0, 2.0)
FAULTS = ("kill", "freeze", "terminate")

Input = tuple[int, int]
"""Group and partition."""


@dataclass
class Seen:
    """What one seed showed. Seconds.

    Attributes:
        seed: of the faults.
        traffic: whether reports flowed; otherwise the logs held ticks alone.
        window: length of the plan's windows.
        faults: how many of each kind.
        rest: from the end of the faults until the last partition had closed its next window.
        standstill: the longest time that a window was due and its partition did not close it,
            while one and the same living, not frozen worker owned it.
        stuck: partitions that had closed none when time was up.
    """

    seed: int
    traffic: bool
    window: int
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    rest: float = 0.0
    standstill: float = 0.0
    stuck: list[Input] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether every partition closed its next window in time."""
        return not self.stuck

    def line(self) -> str:
        """For a person to read."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.faults.items())
        logs = "traffic" if self.traffic else "silent"
        verdict = f"closed in {self.rest:4.1f} s" if self.held else f"STUCK {self.stuck}"
        return (
            f"seed {self.seed:3}: {logs:7} {self.window} s windows; {kinds}; {verdict}; "
            f"longest standstill {self.standstill:4.1f} s"
        )


class Stalls:
    """One seed: a plan of its own, three workers, and faults for so many seconds."""

    def __init__(self, broker: NativeKafka, directory: Path, seed: int, seconds: float) -> None:
        self.dice = random.Random(seed)
        self.seen = Seen(seed, traffic=seed % 4 == 3, window=WINDOWS[seed % len(WINDOWS)])
        self._broker = broker
        self._directory = directory
        self._seconds = seconds
        plan = small_plan(
            windows=3600,
            window=self.seen.window,
            grace=1,
            skew=2,
            groups=GROUPS,
            partitions=PARTITIONS,
            start=int(time.time()) - self.seen.window,
        )
        self.plan = replace(plan, name=f"stalls-{seed}-{secrets.token_hex(3)}")
        self.names = names_of(self.plan, "calmstream")
        self.inputs = [(g, p) for g in range(GROUPS) for p in range(PARTITIONS)]
        self._closed: dict[Input, int] = {}
        self._owned: dict[Input, tuple[int, float]] = {}
        self._thaws: list[tuple[float, Process]] = []
        self._leaving: list[Process] = []
        self._stop = threading.Event()

    def play(self) -> Seen:
        """Faults, then rest; what was seen."""
        path = self._directory / "plan.json"
        path.write_bytes(self.plan.to_bytes())
        where = ["--plan", path, "--bootstrap", self._broker.bootstrap]
        made = run("topics", *where)
        assert made.returncode == 0, made.stderr
        settings = {
            "CALMSTREAM_SESSION_SECONDS": str(SESSION_SECONDS),
            # After nearly every tick: what is restored then ends where the log does.
            "CALMSTREAM_CHECKPOINT_SECONDS": str(CHECKPOINT_SECONDS),
        }
        self.crew = Crew(self._directory, where, ["tally"] * WORKERS, settings)
        sender = threading.Thread(target=self._send, daemon=True)
        try:
            until("every partition closes windows", self._all_closing, 60, LOOK_SECONDS)
            if self.seen.traffic:
                sender.start()
            self._suffer()
            self._rest()
        finally:
            self._stop.set()
            self.crew.close()
            for process in self._leaving:
                process.kill()
        return self.seen

    # Faults

    def _suffer(self) -> None:
        """A fault every second or two, perhaps a sleep of all; then wait until none is left."""
        end = time.monotonic() + self._seconds
        due = 0.0
        while time.monotonic() < end:
            if due <= time.monotonic():
                self._fault()
                due = time.monotonic() + self.dice.uniform(*PAUSE_SECONDS)
            self._turn()
            time.sleep(LOOK_SECONDS)
        self._await_thaws()
        if self.seen.window > FREEZE_SECONDS:
            self._await_quiet()
            self._freeze(*self._awake())
            self._await_thaws()

    def _await_thaws(self) -> None:
        while self._thaws or self._leaving:
            self._turn()
            time.sleep(LOOK_SECONDS)

    def _await_quiet(self) -> None:
        """Until every partition has closed what was due, and has saved it.

        If all are frozen now, all lose their partitions. Whoever is back first gets what it had,
        and what it restores ends where the log does, because nothing was appended meanwhile.
        """

        def quiet() -> bool:
            self._turn()
            since = time.time() - self.plan.grace - self.plan.start
            saved = QUIET_SECONDS <= since % self.plan.window <= QUIET_SECONDS + 1
            return saved and not self._behind(int(since // self.plan.window) - 1)

        until("all is quiet", quiet, 90, LOOK_SECONDS)

    def _behind(self, window: int) -> list[Input]:
        """Partitions that have not closed a window."""
        return [i for i in self.inputs if self._closed.get(i, -1) < window]

    def _fault(self) -> None:
        """One of any kind; whom it meets is not frozen already, or is killed."""
        kind = self.dice.choice(FAULTS)
        awake = self._awake()
        if kind == "kill" or not awake:
            self.crew.kill(self.dice.randrange(WORKERS))
            self.seen.faults["kill"] += 1
            return
        place = self.dice.choice(awake)
        if kind == "freeze":
            self._freeze(place)
            return
        self._leaving.append(self.crew.relieve(place))
        self.seen.faults["terminate"] += 1

    def _freeze(self, *places: int) -> None:
        due = time.monotonic() + FREEZE_SECONDS
        for place in places:
            self._thaws.append((due, self.crew.freeze(place)))
            self.seen.faults["freeze"] += 1

    def _awake(self) -> list[int]:
        frozen = self.crew.frozen
        return [n for n, p in enumerate(self.crew.processes) if p.port not in frozen]

    def _turn(self) -> None:
        """What is due beside the faults: thaws, restarts, a look at owners and closed windows."""
        now = time.monotonic()
        for thaw in [t for t in self._thaws if t[0] <= now or not t[1].alive()]:
            self._thaws.remove(thaw)
            self.crew.thaw(thaw[1])
        for process in [p for p in self._leaving if not p.alive()]:
            self._leaving.remove(process)
            # One that was still starting has no signal handlers yet.
            assert process.wait(1) in (0, -signal.SIGTERM), process.tail()
        self.crew.restart_dead()
        self._look()

    # The rest

    def _rest(self) -> None:
        """Await that every partition closes the first window that is due from now on."""
        began, now = time.monotonic(), time.time()
        due = self.plan.window_at(int((now - self.plan.grace) * 1000))
        self.seen.stuck = list(self.inputs)
        while self.seen.stuck and time.monotonic() - began < REST_SECONDS:
            time.sleep(LOOK_SECONDS)
            self._turn()
            self.seen.stuck = self._behind(due)
        self.seen.rest = time.monotonic() - began

    def _all_closing(self) -> bool:
        self._look()
        return len(self._closed) == len(self.inputs)

    def _look(self) -> None:
        """Note which windows were closed, by the state topic, and who owns what, by his page."""
        for number in range(PARTITIONS):
            for record in stored(self._broker.data, self.names.state, number):
                parts = [int(part) for part in (record.key or b"").decode().split("/")]
                if len(parts) == 3:
                    where = (parts[0], parts[1])
                    self._closed[where] = max(self._closed.get(where, -1), parts[2])
        now = time.time()
        owners: dict[Input, int] = {}
        for process in self.crew.processes:
            if process.port not in self.crew.frozen:
                owners |= dict.fromkeys(self._owned_by(process), process.port)
        for where, port in owners.items():
            before = self._owned.get(where, (0, 0.0))
            since = before[1] if before[0] == port else now
            self._owned[where] = (port, since)
            end = self.plan.window_end(self._closed.get(where, -1) + 1) / 1000
            overdue = now - max(since, end + self.plan.grace)
            self.seen.standstill = max(self.seen.standstill, overdue)
        for where in self._owned.keys() - owners.keys():
            del self._owned[where]

    def _owned_by(self, process: Process) -> list[Input]:
        found = []
        for series, clock in page(process):
            name, _, labels = series.partition("{")
            if name == "calmstream_partition_clock_seconds" and clock > 0:
                fields = dict(part.split("=", 1) for part in labels.rstrip("}").split(","))
                topic, number = fields["topic"].strip('"'), fields["partition"].strip('"')
                found.append((self.names.group_of(topic), int(number)))
        return found

    def _send(self) -> None:
        """A batch every twentieth of a second, to any partition."""
        dice = random.Random(self.seen.seed)
        while not self._stop.wait(0.05):
            group, number = dice.choice(self.inputs)
            period = self.plan.window_at(time.time_ns() // 1_000_000)
            row = Row(body(self.plan, period, [1], group), secrets.token_bytes(16))
            try:
                produce(self._broker.bootstrap, self.names.reports(group), number, batch([row]))
            except (OSError, RefusedError):
                continue


def play_seeds(
    broker: NativeKafka,
    directory: Path,
    chosen: range,
    seconds: float,
    show: Callable[[str], None],
) -> list[Seen]:
    """Play one seed after another, each in a directory of its own."""
    found = []
    for seed in chosen:
        own = directory / f"seed-{seed}"
        own.mkdir()
        found.append(Stalls(broker, own, seed, seconds).play())
        show(found[-1].line())
    return found
