"""Play faults against processes that serve three plans, while plans come and go.

Sometimes there are workers and publishers of one plan beside them, as during an upgrade.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.plans.role import PlansRole
from calmstream.consumer.plans.served_plan import LONGEST_PAUSE, PlanState
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.runtime.context import all_windows_closed_at
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.service import Service
from tests.fault.setting import PUBLISH, TALLY, WINDOWS, Operation, Timed, plan
from tests.fault.simulator import Scenario, broker_of
from tests.fault.virtual import Crash, Process, VirtualClock
from tests.support.tally import START
from tests.support.tally_bench import Inline

NAMES = ("one", "two", "three")

OF_A_PLAN = {
    "send": 12,
    "resend": 4,
    "reorder": 2,
    "corrupt": 2,
    "damage": 2,
    "crash_edge": 1,
    "fault": 4,
    "stall": 1,
    "release": 3,
    "trim": 1,
    "compact": 2,
    "fault_counts": 1,
    "stall_counts": 1,
    "compact_counts": 1,
    # processes of one plan, as of the last release
    "join": 1,
    "work": 3,
    "crash_worker": 1,
    "publish": 1,
}
OF_ALL = {
    "serve": 24,
    "show": 12,
    "advance": 6,
    "idle": 1,
    "clock_back": 1,
    "crash_process": 2,
    "crash_in_turn": 4,
    "stop_process": 1,
    "add_process": 2,
    "expel": 3,
    "zombie": 2,
    "zombie_write": 3,
    "plan_goes": 3,
    "plan_comes": 6,
    "fail_plan": 3,
}


def generate(seed: int, length: int = 90) -> list[Operation]:
    """Return a sequence of operations; those of a plan have its number before their name."""
    dice = random.Random(seed)
    weights = {**OF_A_PLAN, **OF_ALL}
    chosen = dice.choices(list(weights), list(weights.values()), k=length)
    return [
        (f"{dice.randrange(3)}.{name}" if name in OF_A_PLAN else name, dice.randrange(1 << 30))
        for name in chosen
    ]


class Folder:
    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self.plans = dict(plans)


class Served:
    def __init__(self, scenario: ManyScenario) -> None:
        self.process = Process(scenario.broker, scenario.clock)
        self.folder = Folder(scenario.wanted)
        service = Service(
            self.folder,  # type: ignore[arg-type]
            self.process,
            CollectorRegistry(),
            namespace="test",
            clock=scenario.clock,
            lanes=Inline,
            estimates=EstimateRunner(at_once, 0.0, at_once),
        )
        self.tally: Any = service.tally(TALLY)
        self.publisher: Any = service.publisher(PUBLISH, TALLY)
        assert isinstance(self.tally, PlansRole)
        for role in (self.tally, self.publisher):
            role._log = Quiet()

    def workers(self) -> list[TallyWorker]:
        served = self.tally._served.values()
        return [s._worker for s in served if s._worker is not None]


def at_once(run: Callable[[], None]) -> None:
    run()


class Quiet:
    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_more: None


class PlanPart(Scenario):
    """One plan of the scenario: its edge, its logs, and processes of this plan alone."""

    def __init__(self, name: str, around: ManyScenario) -> None:
        self._around = around
        self._begin(plan(name), around.clock, around.broker)
        # Then the plan may be over: nobody reads it any more.
        self.letters_until = all_windows_closed_at(self.plan)

    def _unsaved(self) -> list[Mapping[Partition, PartitionFold]]:
        living = [*self._around.services, *self._around.zombies]
        return [w.folds for service in living for w in service.workers()] + super()._unsaved()

    def work(self, dice: random.Random) -> None:
        if self.workers:
            super().work(dice)

    def publish(self, dice: random.Random) -> None:
        if self.publishers or dice.random() < 0.3:
            super().publish(dice)

    def crash_worker(self, dice: random.Random) -> None:
        if self.workers:
            super().crash_worker(dice)


class ManyScenario(Timed):
    """Three plans on one broker. A method without an underscore is an operation."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START * 1000 + 500)
        self.broker = broker_of(self.clock)
        self.parts = [PlanPart.__new__(PlanPart) for _ in NAMES]
        self.services: list[Served] = []
        self.zombies: list[Served] = []
        self.quarantines = 0
        for part, name in zip(self.parts, NAMES, strict=True):
            part.__init__(name, self)  # type: ignore[misc]
        self.wanted: dict[str, Plan] = {part.plan.digest: part.plan for part in self.parts}
        self._add()

    def play(self, operations: list[Operation]) -> None:
        for name, number in operations:
            part, _, operation = name.rpartition(".")
            target = self.parts[int(part)] if part else self
            getattr(target, operation)(random.Random(number))
            for each in self.parts:
                each._look()
        self._rest()

    def check(self) -> None:
        for part in self.parts:
            part.check()

    # Processes

    def _add(self) -> None:
        self.services.append(Served(self))

    def _pick(self, dice: random.Random) -> Served:
        if not self.services:
            self._add()
        return dice.choice(self.services)

    def _guarded(self, service: Served, step: Callable[[], None]) -> None:
        try:
            step()
        except (Crash, FatalError, RecoverableError):
            self._bury(service)
        if service.process.dead:  # the role's next turn would have noticed
            self._bury(service)

    def _bury(self, service: Served) -> None:
        service.process.dead = True
        service.process.expire()
        self.services = [each for each in self.services if each is not service]

    def serve(self, dice: random.Random) -> None:
        service = self._pick(dice)
        for _ in range(2):
            if not service.process.dead:
                self._guarded(service, service.tally.turn)

    def show(self, dice: random.Random) -> None:
        service = self._pick(dice)
        for _ in range(3):
            if not service.process.dead:
                self._guarded(service, service.publisher.turn)

    def crash_process(self, dice: random.Random) -> None:
        self._bury(self._pick(dice))

    def crash_in_turn(self, dice: random.Random) -> None:
        """Die before or after one of the calls of a turn."""
        service = self._pick(dice)
        service.process.fuse = dice.randrange(40)
        role = dice.choice([service.tally, service.publisher])
        for _ in range(4):
            if not service.process.dead:
                self._guarded(service, role.turn)
        service.process.fuse = None

    def stop_process(self, dice: random.Random) -> None:
        service = self._pick(dice)
        for role in (service.tally, service.publisher):
            if not service.process.dead:
                self._guarded(service, role.finish)
                role._shared.close(0.0)
        self.services = [each for each in self.services if each is not service]

    def add_process(self, _dice: random.Random) -> None:
        if len(self.services) < 3:
            self._add()

    def expel(self, dice: random.Random) -> None:
        """Let a process lose its memberships, as after a long freeze."""
        service = self._pick(dice)
        service.process.expire()
        for _ in range(dice.choice([1, 2, 4])):
            if not service.process.dead:
                self._guarded(service, service.tally.turn)

    def zombie(self, dice: random.Random) -> None:
        """Let a process lose its memberships without knowing it; it may still write."""
        service = self._pick(dice)
        service.process.expire()
        self.zombies.append(service)
        self.services = [each for each in self.services if each is not service]

    def zombie_write(self, dice: random.Random) -> None:
        workers = [w for zombie in self.zombies for w in zombie.workers() if w.folds]
        if workers:
            with suppress(RecoverableError, FatalError, Crash):
                dice.choice(workers).checkpoint(self.clock.seconds + 1)
            for zombie in self.zombies:
                zombie.process.expire()

    # Plans

    def plan_goes(self, dice: random.Random) -> None:
        """Take a plan from the folder; some processes see it at once."""
        part = dice.choice(self.parts)
        self.wanted.pop(part.plan.digest, None)
        for service in self.services:
            if dice.random() < 0.7:
                service.folder.plans = dict(self.wanted)

    def plan_comes(self, dice: random.Random) -> None:
        """Put a plan into the folder, perhaps back; some processes see it at once."""
        part = dice.choice(self.parts)
        self.wanted[part.plan.digest] = part.plan
        for service in self.services:
            if dice.random() < 0.7:
                service.folder.plans = dict(self.wanted)

    def fail_plan(self, dice: random.Random) -> None:
        """Let one plan of a process meet a fault; the others go on."""
        service = self._pick(dice)
        served = list(service.tally._served.values())
        if served:
            one = dice.choice(served)
            with service.tally._shared.group.lock:
                one.broker.share.fail(FatalError("a fault of this plan"))
            self._guarded(service, service.tally.turn)

    # The scenario

    def _rest(self) -> None:
        for part in self.parts:
            part._end_faults()
            while part.workers:
                part._bury(*part.workers[0])
            while part.publishers:
                part._bury_publisher(*part.publishers[0])
        self.wanted = {part.plan.digest: part.plan for part in self.parts}
        for service in self.services[self.parts[0].cell % 2 :]:
            self._bury(service)
        end = (START + WINDOWS * 10 + 5) * 1000
        self.clock.advance(max(0.1, (end - self.clock.wall_ms) / 1000))
        self.clock.advance(LONGEST_PAUSE)  # a plan in quarantine is tried again by then
        rounds = 0
        while not self._all_over():
            self._finish_a_little()
            rounds += 1
            assert rounds < 200, [service.publisher.states for service in self.services]

    def _finish_a_little(self) -> None:
        if not self.services:
            self._add()
        service = self.services[0]
        service.folder.plans = dict(self.wanted)
        for role in (service.tally, service.publisher):
            if not service.process.dead:
                self._guarded(service, role.turn)
        for part in self.parts:
            part._look()
        self.clock.advance(0.3)

    def _all_over(self) -> bool:
        """Return whether the process has finished every plan and given its partitions back."""
        if not self.services:
            return False
        tally, publisher = self.services[0].tally, self.services[0].publisher
        over = [*tally.states.values(), *publisher.states.values()]
        return over == [PlanState.OVER] * 2 * len(NAMES) and not tally._shared.group.owned


def run(operations: list[Operation]) -> ManyScenario:
    scenario = ManyScenario()
    scenario.play(operations)
    scenario.check()
    return scenario
