"""Kill, freeze or terminate workers every second or two, then check that no partition is stuck.

One scenario is determined by its seed. Windows of one or two seconds close all the time; without
reports, ticks (records without reports) close them. With longer windows no record is written while
all workers are frozen. When the faults have ended, every partition must have a running owner within
a session, and must close its next window.
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
"""Lengths of windows in seconds, one for each third of the seeds. The last one is longer than a
freeze; its scenarios end with a freeze of all workers."""

CHECKPOINT_SECONDS = 0.5
QUIET_SECONDS = 3 * CHECKPOINT_SECONDS
"""Time after which a worker has stored all that it has counted."""

RECOVERY_SECONDS = SESSION_SECONDS + 10
"""Time after the last fault within which every partition must close its next window."""

POLL_SECONDS = 0.25
PAUSE_SECONDS = (1.0, 2.0)
"""Shortest and longest time between two faults."""

FAULTS = ("kill", "freeze", "terminate")

Input = tuple[int, int]
"""Group and partition."""


@dataclass
class SeedResult:
    """The result of one seed; times in seconds."""

    seed: int  # number that determines the scenario
    traffic: bool  # whether reports were sent; otherwise the logs hold ticks only
    window: int  # length of the plan's windows
    # number of faults by kind
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    # time from the end of the faults until the last partition had closed its next window
    recovery: float = 0.0
    # the longest time in which a partition did not close a window that was due, although the
    # same running worker owned it
    standstill: float = 0.0
    # partitions that had not closed their next window at the deadline
    stuck: list[Input] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether every partition closed its next window in time."""
        return not self.stuck

    def line(self) -> str:
        """Return the result as one line of text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.faults.items())
        logs = "traffic" if self.traffic else "silent"
        verdict = f"closed in {self.recovery:4.1f} s" if self.held else f"STUCK {self.stuck}"
        return (
            f"seed {self.seed:3}: {logs:7} {self.window} s windows; {kinds}; {verdict}; "
            f"longest standstill {self.standstill:4.1f} s"
        )


class Stalls:
    """Play one seed: its own plan, three workers, and faults for ``seconds`` seconds."""

    def __init__(self, broker: NativeKafka, directory: Path, seed: int, seconds: float) -> None:
        self.rng = random.Random(seed)
        self.result = SeedResult(seed, traffic=seed % 4 == 3, window=WINDOWS[seed % len(WINDOWS)])
        self._broker = broker
        self._directory = directory
        self._seconds = seconds
        plan = small_plan(
            windows=3600,
            window=self.result.window,
            grace=1,
            skew=2,
            groups=GROUPS,
            partitions=PARTITIONS,
            start=int(time.time()) - self.result.window,
        )
        self.plan = replace(plan, name=f"stalls-{seed}-{secrets.token_hex(3)}")
        self.names = names_of(self.plan, "calmstream")
        self.inputs = [(g, p) for g in range(GROUPS) for p in range(PARTITIONS)]
        self._closed: dict[Input, int] = {}
        self._owned: dict[Input, tuple[int, float]] = {}
        self._thaws: list[tuple[float, Process]] = []
        self._leaving: list[Process] = []
        self._stop = threading.Event()

    def play(self) -> SeedResult:
        """Inject the faults, await the next windows, and return the result."""
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
            until("every partition closes windows", self._all_closing, 120, POLL_SECONDS)
            if self.result.traffic:
                sender.start()
            self._inject_faults()
            self._await_next_windows()
        finally:
            self._stop.set()
            self.crew.close()
            for process in self._leaving:
                process.kill()
        return self.result

    # Faults

    def _inject_faults(self) -> None:
        """Inject a fault every second or two, perhaps freeze all, and wait until all are over."""
        end = time.monotonic() + self._seconds
        due = 0.0
        while time.monotonic() < end:
            if due <= time.monotonic():
                self._fault()
                due = time.monotonic() + self.rng.uniform(*PAUSE_SECONDS)
            self._turn()
            time.sleep(POLL_SECONDS)
        self._await_thaws()
        if self.result.window > FREEZE_SECONDS:
            self._await_quiet()
            self._freeze(*self._awake())
            self._await_thaws()

    def _await_thaws(self) -> None:
        while self._thaws or self._leaving:
            self._turn()
            time.sleep(POLL_SECONDS)

    def _await_quiet(self) -> None:
        """Wait until every partition has closed the windows that were due, and has saved them.

        Workers that are all frozen now all lose their partitions. The first one to return gets its
        old partitions, and its restored state ends where the log ends, because nothing was
        appended in between.
        """

        def quiet() -> bool:
            self._turn()
            since = time.time() - self.plan.grace - self.plan.start
            saved = QUIET_SECONDS <= since % self.plan.window <= QUIET_SECONDS + 1
            return saved and not self._behind(int(since // self.plan.window) - 1)

        until("all is quiet", quiet, 90, POLL_SECONDS)

    def _behind(self, window: int) -> list[Input]:
        """Return the partitions that have not closed ``window``."""
        return [i for i in self.inputs if self._closed.get(i, -1) < window]

    def _fault(self) -> None:
        """Inject a random fault into a running worker; where all are frozen, kill one."""
        kind = self.rng.choice(FAULTS)
        awake = self._awake()
        if kind == "kill" or not awake:
            self.crew.kill(self.rng.randrange(WORKERS))
            self.result.faults["kill"] += 1
            return
        place = self.rng.choice(awake)
        if kind == "freeze":
            self._freeze(place)
            return
        self._leaving.append(self.crew.relieve(place))
        self.result.faults["terminate"] += 1

    def _freeze(self, *places: int) -> None:
        due = time.monotonic() + FREEZE_SECONDS
        for place in places:
            self._thaws.append((due, self.crew.freeze(place)))
            self.result.faults["freeze"] += 1

    def _awake(self) -> list[int]:
        frozen = self.crew.frozen
        return [n for n, p in enumerate(self.crew.processes) if p.port not in frozen]

    def _turn(self) -> None:
        """Do what is due between faults: thaw, restart, and observe owners and closed windows."""
        now = time.monotonic()
        for thaw in [t for t in self._thaws if t[0] <= now or not t[1].alive()]:
            self._thaws.remove(thaw)
            self.crew.thaw(thaw[1])
        for process in [p for p in self._leaving if not p.alive()]:
            self._leaving.remove(process)
            # One that was still starting has no signal handlers yet.
            assert process.wait(1) in (0, -signal.SIGTERM), process.tail()
        self.crew.restart_dead()
        self._observe()

    # After the faults

    def _await_next_windows(self) -> None:
        """Wait until every partition has closed the first window that is due from now on."""
        began, now = time.monotonic(), time.time()
        due = self.plan.window_at(int((now - self.plan.grace) * 1000))
        self.result.stuck = list(self.inputs)
        while self.result.stuck and time.monotonic() - began < RECOVERY_SECONDS:
            time.sleep(POLL_SECONDS)
            self._turn()
            self.result.stuck = self._behind(due)
        self.result.recovery = time.monotonic() - began

    def _all_closing(self) -> bool:
        self._observe()
        return len(self._closed) == len(self.inputs)

    def _observe(self) -> None:
        """Note closed windows, from the state topic, and owners, from the workers' metrics."""
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
            self.result.standstill = max(self.result.standstill, overdue)
        for where in self._owned.keys() - owners.keys():
            del self._owned[where]

    def _owned_by(self, process: Process) -> list[Input]:
        partitions = []
        for series, clock in page(process):
            name, _, labels = series.partition("{")
            if name == "calmstream_partition_clock_seconds" and clock > 0:
                fields = dict(part.split("=", 1) for part in labels.rstrip("}").split(","))
                topic, number = fields["topic"].strip('"'), fields["partition"].strip('"')
                partitions.append((self.names.group_of(topic), int(number)))
        return partitions

    def _send(self) -> None:
        """Send a batch to a random partition every 50 ms, until stopped."""
        rng = random.Random(self.result.seed)
        while not self._stop.wait(0.05):
            group, number = rng.choice(self.inputs)
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
) -> list[SeedResult]:
    """Play one seed after another, each in its own directory, and return the results."""
    results = []
    for seed in chosen:
        own = directory / f"seed-{seed}"
        own.mkdir()
        results.append(Stalls(broker, own, seed, seconds).play())
        show(results[-1].line())
    return results
