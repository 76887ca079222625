"""The parts of a simulated scenario: the operations, the plan, the settings of the processes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from calmstream.common.settings import load
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from tests.support.clock import ManualClock
from tests.support.faulty_broker import SendFault
from tests.support.plans import pair_plan
from tests.support.tally import START

Operation = tuple[str, int]

CELLS = 64
WINDOWS = 3
FAULTS = (SendFault.FAIL, SendFault.LOSE_ACK, SendFault.DUPLICATE)
WEIGHTS = {
    "send": 8,
    "resend": 3,
    "reorder": 2,
    "corrupt": 2,
    "work": 12,
    "publish": 5,
    "advance": 4,
    "idle": 1,
    "crash_worker": 2,
    "crash_in_turn": 4,
    "stop_worker": 1,
    "join": 2,
    "expel": 3,
    "damage": 2,
    "zombie": 2,
    "zombie_write": 3,
    "crash_publisher": 1,
    "second_publisher": 1,
    "crash_edge": 1,
    "fault": 3,
    "stall": 1,
    "release": 2,
    "trim": 1,
    "compact": 2,
    "clock_back": 1,
    "fault_counts": 2,
    "stall_counts": 1,
    "compact_counts": 1,
}

TALLY = load(
    TallyConfig,
    poll_seconds=0.05,
    checkpoint_seconds=1.0,
    session_seconds=3600.0,
    retry_seconds=8.0,
    stop_seconds=8.0,
    stall_seconds=60.0,
    poll_records=7,
    topic_check_seconds=3600.0,
)
PUBLISH = PublisherConfig(
    poll_seconds=0.05,
    refresh_seconds=0.5,
    clean_seconds=2.0,
    send_seconds=2.0,
    retry_seconds=600,
    topic_check_seconds=3600,
)


def generate(seed: int, length: int = 45) -> list[Operation]:
    dice = random.Random(seed)
    names = dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return [(name, dice.randrange(1 << 30)) for name in names]


@dataclass(frozen=True)
class Exact(GRR):
    """Reports without noise, so without privacy: exact counts show every lost or repeated one."""

    name: ClassVar[str] = "exact"
    p: ClassVar[Fraction] = Fraction(1)
    q: ClassVar[Fraction] = Fraction(0)

    def perturb(self, values: Any, _randomness: Any) -> dict[str, Any]:
        return {"v": np.asarray(values)}


def plan(name: str = "fault-test") -> Plan:
    """Return a plan with one group on six bits, two partitions and three windows of ten seconds.

    Its document and its digest are those of a plan with noise.
    """
    view = View(tuple(range(6)))
    made = pair_plan(
        name,
        START,
        10,
        WINDOWS,
        domain=Domain.binary(6),
        groups=(Group(GRR("1", CELLS), (view,), (1,)),),
        marginals=(view.attributes,),
        grace=4,
        skew=3,
        partitions=2,
    )
    made.__dict__["mechanisms"] = (Exact(made.epsilon, CELLS),)
    return made


class Timed:
    """The operations that move the clock of a scenario."""

    clock: ManualClock

    def advance(self, dice: random.Random) -> None:
        self.clock.advance(dice.choice([0.3, 1.1, 2.5, 5.0]))

    def idle(self, dice: random.Random) -> None:
        self.clock.advance(dice.choice([9.0, 16.0]))

    def clock_back(self, dice: random.Random) -> None:
        self.clock.wall_ms -= dice.choice([200, 3000])


class Silent:
    """Metrics that nobody reads."""

    def inc(self, *_: Any, **__: Any) -> None: ...
    def set(self, *_: Any, **__: Any) -> None: ...
    def set_all(self, *_: Any, **__: Any) -> None: ...
    def observe(self, *_: Any, **__: Any) -> None: ...
