"""Generated lives of a recorder, as in `edge/typescript/test/tools/record.ts`; Python's answers."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from calmstream import MemoryStore, Recorder, Report, rejoin, withdraw
from calmstream.common.errors import RecoverableError
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.recorded import TAKES
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.store import Document
from tests.support.producer import COLOUR, FLAG, LARGE, SIZE, START, make_plan
from tests.support.typescript.scenarios import Recorded

DAY = 86_400
EVENTS = ("open", "export", "__proto__", "größe \U0001f600")
STATES = ("colour", "theme", "constructor")
VALUES = (1, 1, 1, 2, 0.1, 0.25, -3, 1e15, 1e300, -0.0, True, None, "7", [1])
SET = ("red", "dark", 3, 2.5, ["x", "y"], ["x", 1], "w" * 1025, "ü" * 512, None, True, "\ud800")
Json = dict[str, Any]


class FailingStore(MemoryStore):
    """A store whose disk fails before or after it has written what recorders keep."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(DeviceState(secret, policy=LARGE))
        self.fails: list[str] = []

    def update_events(self, change: Callable[[Document], Document]) -> Document:
        when = self.fails.pop(0) if self.fails else ""
        if when == "before":
            raise RecoverableError("made up")
        changed = super().update_events(change)
        if when == "after":
            raise RecoverableError("made up")
        return changed


@dataclass
class Clock:
    """A device's clock beside the true time; both in milliseconds."""

    dice: random.Random
    ahead: bool
    real: int = START * 1000
    wrong: int = 0

    def move(self) -> None:
        dice = self.dice
        self.real += round(
            dice.choice((10, 3000, 15_000, 4 * 3_600_000, 30 * 3_600_000)) * dice.random()
        )
        if dice.random() < 0.03:
            back, ahead = (-400, -30, -2, -1, -1, 0, 0, 0, 0), (1, 2, 30, 400)
            if self.ahead:
                self.wrong = round(dice.choice((*back, *ahead)) * DAY * 1000 * dice.random())
            else:  # by whole days, so that a day of the clock is a true day
                self.wrong = dice.choice(back) * DAY * 1000

    def now(self) -> int:
        return self.real + self.wrong


@dataclass
class Life:
    plan: Plan
    secret: bytes
    # each with ``kind``, ``now`` and ``real`` in milliseconds, and arguments
    steps: list[Json] = field(default_factory=list)


def entries(dice: random.Random) -> list[Json]:
    number = {"kind": "number", "edges": ["0", "1", "2", "5", "30"], "unit": "", "rounding": "bin"}
    number |= {"below": False, "above": True, "other": "?"}
    found: list[Json] = []
    for take in TAKES:
        recorded = {
            "event": dice.choice(EVENTS[:2]),
            "take": take,
            "over": dice.choice(("1d", "7d", "90d")),
        }
        found.append({"name": f"{take} {len(found)}", **number, "from": recorded})
    recorded = {"event": EVENTS[2], "take": "any", "over": "7d"}
    found.append({"name": "any", "labels": ["no", "yes"], "from": recorded})
    found.append(
        {"name": "__proto__", "labels": ["x", "?"], "other": "?", "from": {"state": "theme"}}
    )
    found.append(
        {"name": "c", "kind": "choices", "options": ["x", "y"], "from": {"state": STATES[2]}}
    )
    return found


def plan_of(dice: random.Random) -> Plan:
    window = dice.choice((3600, DAY, 7 * DAY))
    plan = make_plan(
        guarantee=dice.choice((Guarantee(), Guarantee("w-event", 2))),
        window=window,
        windows=400 * DAY // window,
    )
    more = Domain.from_json(entries(dice)).attributes
    return replace(plan, domain=Domain((COLOUR, SIZE, FLAG, *more)))


def life(seed: int, steps: int = 150, *, ahead: bool = True, calm: bool = False) -> Life:
    """``ahead``: clocks run ahead too, not by whole days; ``calm``: nothing fails or is wrong."""
    dice = random.Random(seed)
    clock = Clock(dice, ahead)
    found = Life(plan_of(dice), dice.randbytes(16))
    weights = (60, 8, 8, 8, 2) if calm else (60, 8, 8, 8, 2, 3, 3, 0.5, 1, 0.5)
    kinds = ("note", "set", "record", "report", "flush", "restart", "fail")
    kinds += ("withdraw", "rejoin", "return")
    while len(found.steps) < steps:
        clock.move()
        if calm:
            clock.wrong = 0
        step: Json = {"kind": dice.choices(kinds[: len(weights)], weights)[0]}
        step |= {"now": clock.now(), "real": clock.real}
        if step["kind"] == "note":
            step |= {"name": dice.choice((*EVENTS, "open", "export")), "value": dice.choice(VALUES)}
        elif step["kind"] == "set":
            step |= {"name": dice.choice((*STATES, "size", "nobody's")), "value": dice.choice(SET)}
        elif step["kind"] == "fail":
            step |= {"when": dice.choice(("before", "after"))}
        found.steps.append(step)
    return found


class Device:
    def __init__(self, lived: Life) -> None:
        self.store = FailingStore(lived.secret)
        self.now = START * 1000
        self.source = Recorded(random.Random(lived.secret), bytearray())
        self.plan = lived.plan
        self.recorder = self.opened()

    def opened(self) -> Recorder:
        """Return the recorder of a new process; what the former had not written is lost."""
        return Recorder(
            self.plan, self.store, self.source, lambda: self.now, policy=LARGE, allow_unsigned=True
        )

    def answer(self, step: Json) -> Json:
        self.now, kind = step["now"], step["kind"]
        if kind == "note":
            self.recorder.note(step["name"], step["value"])
        elif kind == "set":
            self.recorder.set(step["name"], step["value"])
        elif kind == "record":
            return {"record": self.recorder.record(), "dropped": self.recorder.dropped}
        elif kind == "report":
            return {"report": spelled(self.recorder.report(), self.plan)}
        elif kind == "restart":
            self.recorder = self.opened()
        elif kind == "fail":
            self.store.fails = [step["when"]]
        elif kind == "withdraw":
            self.store.fails = []
            self.recorder.withdraw()
        elif kind == "rejoin":
            rejoin(self.store)
        elif kind == "return":  # by another door than the recorder's, which does not notice
            withdraw(self.store)
            rejoin(self.store)
        else:
            self.recorder.flush()
        return {}


def spelled(report: Report | None, plan: Plan) -> str | None:
    return None if report is None else report.encode(plan).decode()


def lives(count: int, seed: int) -> tuple[list[str], list[list[Json]]]:
    given = [lived_by(life(seed + number)) for number in range(count)]
    return [text for text, _ in given], [answers for _, answers in given]


def lived_by(lived: Life) -> tuple[str, list[Json]]:
    device = Device(lived)
    answers = [device.answer(step) for step in lived.steps]
    described = {
        "secret": lived.secret.hex(),
        "random": bytes(device.source.read).hex(),
        "policy": LARGE.to_json(),
        "plan": base64.b64encode(lived.plan.to_bytes()).decode(),
        "steps": lived.steps,
    }
    return json.dumps(described), answers
