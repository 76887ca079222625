"""Generated lives of a device, as in `edge/typescript/test/tools/live.ts`; Python's answers."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from calmstream import (
    MemoryStore,
    PlanRefused,
    Policy,
    history,
    rejoin,
    set_policy,
    withdraw,
)
from calmstream.common.errors import InvalidInput
from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.policy import Allotment
from calmstream.producer.device.reporter import Reporter
from tests.support.producer import START
from tests.support.signed import Operator

DAY = 86_400
OPERATORS = (Operator(1, 2), Operator(3, 4, owner="Other GmbH"), Operator(5, 6))
EPSILONS = ("0.5", "0.5", "0.75", "1", "1", "1.25", "2", "5")
STEPS = 40
Json = dict[str, Any]


@dataclass
class Recorded:
    dice: random.Random
    read: bytearray

    def bytes(self, count: int) -> bytes:
        data = self.dice.randbytes(count)
        self.read += data
        return data


def life(seed: int) -> tuple[Json, list[Json]]:
    dice = random.Random(seed)
    policies = [policy(dice) for _ in range(3)]
    raws = [raw_plan(dice) for _ in range(8)]
    steps = [step(dice, len(raws), len(policies)) for _ in range(STEPS)]
    if dice.random() < 0.9:  # otherwise the first plan meets the strict default
        steps[0]["kind"] = "policy"
    source = Recorded(dice, bytearray())
    secret = dice.randbytes(16)
    answers = Device(secret, source, policies, raws).live(steps)
    described = {
        "secret": secret.hex(),
        "random": bytes(source.read).hex(),
        "policies": [each.to_json() for each in policies],
        "plans": [base64.b64encode(raw).decode() for raw in raws],
        "steps": steps,
    }
    return described, answers


def policy(dice: random.Random) -> Policy:
    roots = [each.root for each in OPERATORS if dice.random() < 0.95]
    ever = dice.choice((None, "6", "12.5"))
    allotments = {}
    if roots and dice.random() < 0.4:
        allotments[roots[0]] = Allotment("2.25", None if ever is None else "3")
    return Policy(
        roots=roots,
        report_epsilon=dice.choice(("4", "4", "1.25", "128")),
        span_epsilon=dice.choice(("8", "16", "4", "2.5")),
        span_days=dice.choice((1, 3, 365)),
        ever_epsilon=ever,
        purposes=dice.choice((None, None, None, ["tests"])),
        allotments=allotments,
    )


def raw_plan(dice: random.Random) -> bytes:
    """A plan, signed or not, with a few lineages that plans share and continue."""
    operator = dice.choice(OPERATORS)
    if dice.random() < 0.08:
        operator = replace(operator, not_after=START + dice.choice((-1, 3600, 3 * DAY)))
    epsilon = dice.choice(EPSILONS)
    window = dice.choice((60, 3600, 3600, DAY))
    guarantee = dice.choice((Guarantee(), Guarantee(), Guarantee("w-event", dice.choice((2, 3)))))
    lineage = dice.choice("aabc")
    plan = operator.plan(
        lineage,
        epsilon=epsilon,
        lineage_epsilon=dice.choice(("", epsilon, "5", "6.5")),
        guarantee=guarantee,
        window=window,
        windows=DAY * dice.choice((1, 4, 60)) // window,
        start=START + dice.choice((0, 0, 0, DAY, 30 * DAY)),
        purpose=dice.choice(("tests", "tests", "tests", "else")),
        name=dice.choice(("one", "two")),
        continues=_continued(dice) if lineage != "c" else (),
    )
    if dice.random() < 0.75:
        return operator.sign(plan)
    return plan.to_bytes()


def _continued(dice: random.Random) -> tuple[str, ...]:
    if dice.random() < 0.7:
        return ()
    return (dice.choice(OPERATORS).plan("c").lineage,)


def step(dice: random.Random, plans: int, policies: int) -> Json:
    """One step; the clock stands anywhere near the plans, sometimes years ahead or behind."""
    kind = dice.choices(
        ("report", "open", "withdraw", "rejoin", "policy"), (36, 2, 0.3, 2, 1)
    )[0]  # fmt: skip
    offset = dice.choice((dice.randrange(DAY), dice.randrange(DAY), dice.randrange(40 * DAY)))
    jump = dice.choices((0, 400 * DAY, -DAY), (100, 1, 1))[0]
    now = 1000 * (START + offset + jump) + dice.randrange(1000)
    return {
        "kind": kind,
        "now": now,
        "plan": dice.randrange(plans),
        "policy": dice.randrange(policies),
        "allow": dice.random() < 0.7,
    }


class Device:
    def __init__(
        self, secret: bytes, source: Recorded, policies: list[Policy], raws: list[bytes]
    ) -> None:
        self._store = MemoryStore(DeviceState(secret))
        self._source, self._policies, self._raws = source, policies, raws
        self._reporters: dict[int, Reporter] = {}
        self._now = 0

    def live(self, steps: list[Json]) -> list[Json]:
        answers = [self._answer(each) for each in steps]
        sent = [
            {**asdict(each), "attributes": list(each.attributes)} for each in history(self._store)
        ]
        return [*answers, {"history": sent}]

    def _answer(self, step: Json) -> Json:
        self._now = step["now"]
        if step["kind"] == "withdraw":
            withdraw(self._store)
        elif step["kind"] == "rejoin":
            rejoin(self._store)
        elif step["kind"] == "policy":
            set_policy(self._store, self._policies[step["policy"]])
        else:
            return self._report(step)
        return {}

    def _report(self, step: Json) -> Json:
        try:
            reporter = self._reporter(step)
        except PlanRefused as error:
            return {"refused": error.reason.value}
        except InvalidInput:
            return {"refused": "another policy"}
        before, refusal = reporter.status(), reporter.refusal()
        report = reporter.report({"colour": "red", "size": "m", "flag": 1})
        left = reporter.remaining()
        return {
            "status": before.value,
            "refusal": refusal and refusal.value,
            "report": report and report.encode(reporter.plan).decode(),
            "span": f"{left.span:f}",
            "ever": None if left.ever is None else f"{left.ever:f}",
        }

    def _reporter(self, step: Json) -> Reporter:
        number = step["plan"]
        if number not in self._reporters or step["kind"] == "open":
            given = None if step["kind"] == "report" else self._policies[step["policy"]]
            self._reporters.pop(number, None)
            self._reporters[number] = Reporter(
                self._raws[number], self._store, self._source, lambda: self._now,
                policy=given, allow_unsigned=step["allow"],
            )  # fmt: skip
        return self._reporters[number]


def lives(count: int, seed: int) -> tuple[list[str], list[list[Json]]]:
    made = [life(seed + number) for number in range(count)]
    return [json.dumps(described) for described, _ in made], [answers for _, answers in made]
