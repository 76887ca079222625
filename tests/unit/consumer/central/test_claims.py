"""Two aggregators at the same time, in every order of their steps, and killed at any of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations, islice
from pathlib import Path
from threading import Event

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.consumer.central import publication
from calmstream.consumer.central.claims import Claims
from calmstream.consumer.central.publication import Publication
from calmstream.estimators.central.dp_marginals import DpMarginals
from calmstream.estimators.central.ledger import BudgetSpent
from calmstream.estimators.randomness import SeededRandomness
from tests.support.central import PLAN, CentralBench, bodies, packed, placed
from tests.support.faulty_broker import SendFault

STEPS = 7  # prepared, claimed, won, paid, computed, the level sent, the manifest sent


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(publication, "reserve", lambda _: None)


class World(CentralBench):
    """Counts how often noise is drawn for a window."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        super().__init__(folder, PLAN)
        self.drawn = 0
        self._seed = 0
        real = DpMarginals.release

        def counted(*args: object) -> object:
            self.drawn += 1
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(DpMarginals, "release", counted)

    def process(self, account: str) -> Publication:
        self._seed += 1
        context = self.context(self.account(account), SeededRandomness(self._seed))
        sink = self.broker.sink()
        claims = Claims(context, sink)
        claims.follow()
        return Publication(context, claims, sink)

    def shown(self) -> list[str]:
        """Return the nonces of the releases of window 0 that a reader accepts."""
        return [r.manifest["claim"] for r in self.releases() if r.manifest["window"] == 0]

    def payments(self, *accounts: str) -> list[int]:
        return [int("0" in self.account(name).read().entries) for name in accounts]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path / "world", monkeypatch)


def whole(process: Publication, window: int = 0) -> Iterator[str]:
    yield from process.steps(window, lambda _: [])
    yield from process.send()


def finish(process: Publication) -> None:
    with suppress(BudgetSpent):
        list(whole(process))


def runs() -> Iterator[tuple[list[int], list[int]]]:
    """Yield every order of the steps of two aggregators, each killed after any of its steps.

    Whoever claims second has lost, and should be done at its third turn: it has no more turns here,
    but in a run of its own where it goes on to its end.
    """
    for first in range(STEPS + 1):
        for second in range(STEPS + 1):
            for mine in combinations(range(first + second), first):
                turns = [0 if i in mine else 1 for i in range(first + second)]
                winner = first_to_claim(turns)
                if winner is None or turns.count(1 - winner) <= 3:
                    yield turns, []
                if winner is not None and turns.count(1 - winner) == 3:
                    yield turns, [1 - winner]


def first_to_claim(turns: list[int]) -> int | None:
    for place, who in enumerate(turns, start=1):
        if turns[:place].count(who) == 2:
            return who
    return None


def accounts_of(kind: str, world: World) -> tuple[str, str]:
    if kind == "same":
        return "a", "a"
    if kind == "copied":
        account = world.account("a")
        account.bind(
            world.broker.topics().describe([world.names.releases])[world.names.releases].id
        )
        shutil.copy(world.folder / "a", world.folder / "b")
    return "a", "b"


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("same", 10),
        *(pytest.param(k, 1, marks=pytest.mark.slow) for k in ("same", "other", "copied")),
    ],
)
def test_no_window_is_released_twice_in_any_order_with_any_deaths(
    kind: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = released = 0
    for turns, survivors in islice(runs(), 0, None, every):
        tried += 1
        with monkeypatch.context() as patched:
            world = World(tmp_path / "world", patched)
            names = accounts_of(kind, world)
            processes = [whole(world.process(name)) for name in names]
            for who in turns:
                next(processes[who], None)
            for who in survivors:
                list(processes[who])
            before = world.shown()
            # Now both are dead, and their accounts come back, the later one first.
            for name in reversed(names):
                finish(world.process(name))
            after = world.shown()
            winner = first_to_claim(turns)
            lost = winner is not None and turns.count(winner) < STEPS
        assert after[: len(before)] == before, turns
        assert len(after) == (0 if lost else 1), turns
        assert world.drawn <= 1, turns
        # Paid for once at most, by whoever claimed; and never released without.
        assert len(after) <= sum(world.payments(*dict.fromkeys(names))) <= 1, turns
        released += len(after)
    assert tried > 1000 / every
    assert 100 / every < released < tried


@pytest.mark.parametrize(
    "faults",
    [
        [SendFault.FAIL],
        [SendFault.LOSE_ACK],
        [SendFault.LOSE_ACK, SendFault.LOSE_ACK],
        [SendFault.FAIL, SendFault.LOSE_ACK],
        [SendFault.DUPLICATE],
    ],
)
def test_a_claim_whose_fate_is_unknown_is_claimed_again_under_another_name(
    faults: list[SendFault], world: World
) -> None:
    world.broker.faults.plan(world.names.releases, *faults)
    process = world.process("a")
    for _ in faults:
        with suppress(RecoverableError):
            finish(process)
    finish(process)
    assert world.drawn == 1
    assert world.payments("a") == [1]
    assert len(world.shown()) == 1
    records = world.broker.records(Partition(world.names.releases, 0))
    keys = [r.key for r in records if (r.key or b"").startswith(b"claim/")]
    if SendFault.DUPLICATE not in faults:
        assert len(set(keys)) == len(keys), "compaction would move a repeated claim"
    finish(world.process("b"))
    assert world.drawn == 1
    assert len(world.shown()) == 1


def test_compaction_keeps_every_claim(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    runs = [first.steps(0, lambda _: []), second.steps(0, lambda _: [])]
    for turn in (0, 1, 0, 1):
        next(runs[turn])
    world.broker.compact(world.names.releases, active=0)
    assert list(runs[1]) == []
    assert list(runs[0]) == ["won", "paid", "computed"]


def test_a_claim_before_the_payment_dies_with_its_process(world: World) -> None:
    """Check it for the same account too: a copy of the account is equal to the account."""
    steps = world.process("a").steps(0, lambda _: [])
    assert [next(steps), next(steps), next(steps)] == ["prepared", "claimed", "won"]
    again = world.process("a")
    assert not again.wants(0)
    finish(again)
    assert world.payments("a") == [0]
    assert world.drawn == 0
    assert again.wants(1)


def test_a_spent_account_claims_nothing(world: World) -> None:
    for i in range(PLAN.releases):
        world.account("a").pay(f"elsewhere {i}")
    with pytest.raises(BudgetSpent):
        list(whole(world.process("a")))
    assert world.broker.records(Partition(world.names.releases, 0)) == []
    finish(world.process("b"))
    assert len(world.shown()) == 1


def test_an_account_stays_with_its_topic(world: World) -> None:
    process = world.process("a")
    finish(process)
    topics = world.broker.topics()
    topics.delete([world.names.releases])
    with pytest.raises(FatalError, match="calmstream central topics"):
        list(whole(process, 1))
    topics.create(world.names.specs(60_000))
    with pytest.raises(FatalError, match="is for the releases topic with id"):
        list(whole(world.process("a"), 1))
    assert world.payments("a") == [1]


def test_the_aggregator_is_alive_while_it_computes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, turned = world.process("a"), Event()
    monkeypatch.setattr(RoleHealth, "turned", lambda _: turned.set())
    real = publication.code_records
    monkeypatch.setattr(publication, "code_records", lambda *a: turned.wait(10) and real(*a))
    assert next(process.steps(0, lambda _: [])) == "prepared"


def no_memory(_: int) -> None:
    raise MemoryError("Unable to allocate 4.47 GiB for an array with shape (60000, 20)")


def defect(*_: object) -> None:
    raise KeyError("nurse")


@pytest.mark.parametrize(("place", "fault"), [("reserve", no_memory), ("code_records", defect)])
def test_what_fails_for_the_data_fails_before_the_claim_and_says_nothing_of_it(
    place: str, fault: Callable[..., None], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = packed(placed(bodies([("u1", ("F", "nurse", None))])))
    with monkeypatch.context() as patched:
        patched.setattr(publication, place, fault)
        with pytest.raises(FatalError) as refusal:
            list(world.process("a").steps(0, lambda _: list(rows)))
    message = str(refusal.value)
    assert not any(character.isdigit() for character in message)
    assert "nurse" not in message
    assert refusal.value.__suppress_context__
    assert world.broker.records(Partition(world.names.releases, 0)) == []
    assert world.payments("a") == [0]
    # With more memory the same window is released.
    finish(world.process("a"))
    assert len(world.shown()) == 1
