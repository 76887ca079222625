"""A trusted operator gets at most what the policy allows, by the reports that left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from calmstream import DeviceStore, FileStore, PlanRefused, Policy, Reporter
from calmstream.producer.device.control import install
from tests.support.producer import START
from tests.support.signed import Operator

PLANS = 200
DAY = 86_400
OPERATOR = Operator(not_before=0, not_after=1 << 40)
POLICY = Policy(roots=(OPERATOR.root,))


class Attack:
    def __init__(self, store: DeviceStore) -> None:
        self.spent, self._store = Decimal(0), store

    def ask(self, raw: bytes, second: int = START) -> bool:
        try:
            device = Reporter(raw, self._store, clock=lambda: second * 1000, policy=POLICY)
        except PlanRefused:
            return False
        report = device.report({"colour": "red"})
        if report is None:
            return False
        self.spent += Decimal(device.plan.epsilon)
        return True


def fresh_lineages(epsilon: str = "1") -> Iterator[bytes]:
    for number in range(PLANS):
        yield OPERATOR.sign(
            OPERATOR.plan(f"fresh {number}", epsilon=epsilon, lineage_epsilon="128")
        )


def children() -> Iterator[bytes]:
    """Yield plans, each of which continues earlier lineages and states more than all of them."""
    named = []
    for number in range(PLANS):
        name = "same" if number % 2 else f"child {number}"
        plan = OPERATOR.plan(
            name, name=f"p{number}", epsilon="0.3", lineage_epsilon="128",
            continues=[] if number % 2 else named[-8:],
        )  # fmt: skip
        if not number % 2:
            named.append(plan.lineage)
        yield OPERATOR.sign(plan)


def test_both_files_put_back_are_not_noticed(tmp_path: Path) -> None:
    """The limit that PRIVACY.md states: a whole disk that goes back takes the ledger along."""
    path, lock = tmp_path / "device.json", tmp_path / "device.json.lock"
    install(FileStore(path), POLICY)
    copies = [(file, file.read_bytes()) for file in (path, lock)]
    attack = Attack(FileStore(path))
    signed = list(fresh_lineages())
    for raw in signed[:8]:
        attack.ask(raw)
    for file, content in copies:
        file.write_bytes(content)
    assert attack.ask(signed[8])
    assert attack.spent == 9


def test_everything_at_once_gives_8(tmp_path: Path) -> None:
    """200 plans of every kind, in random order, clock anywhere in a year, one device."""
    dice, attack = random.Random(7), Attack(FileStore(tmp_path / "device.json"))
    plans = [*fresh_lineages("0.9")][:80] + [*children()][:80] + [*fresh_lineages("16")][:40]
    dice.shuffle(plans)
    for raw in plans:
        attack.ask(raw, START + dice.randrange(60))
        attack.ask(raw, START + dice.randrange(364 * DAY))
    assert 7 < attack.spent <= 8
