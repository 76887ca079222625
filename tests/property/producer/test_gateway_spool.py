"""The spool under crashes at every step, torn writes, a failing and a full disk: no loss unseen."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calmstream.producer.gateway.durable import spool as spool_module
from tests.support.gateway.faulty_files import Crash
from tests.support.gateway.spool_world import World, counting_plan
from tests.support.tally import START

ACTIONS = (
    *("report", "report", "report", "turn", "turn", "turn", "pass", "pass"),
    *("crash", "full", "fail", "away", "back"),
)


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "RESERVE_BYTES", 4096)


def act(world: World, action: str) -> None:
    dice = world.dice
    if action == "report":
        world.devices(dice.randint(1, 12))
    elif action == "turn":
        world.turn()
    elif action == "pass":
        world.clock.advance(dice.choice([0.5, 2, 10, 40]))
    elif action == "crash":
        world.files.until_crash = dice.randint(0, 20)
    elif action == "full":
        room = world.files.used() + dice.randint(0, 600)
        world.files.room = dice.choice([room, 1 << 30])
    elif action == "fail":
        world.files.failing = dice.choice([0.0, 0.0, 0.1, 0.5])
    elif action == "away":
        world.away = dice.random() < 0.7
    else:
        world.clock.wall_ms -= dice.choice([0, 5_000, 50_000])


def check(world: World) -> None:
    counts = Counter(world.counted())
    assert set(counts.values()) <= {1}, "counted twice"
    missing = world.acknowledged - set(counts)
    unseen = missing - world.lost - world.late
    assert len(unseen) <= world.unsealed, "acknowledged, not counted and not shown as lost"


def run(seed: int, actions: list[str]) -> World:
    world = World(Random(seed))
    for action in actions:
        try:
            act(world, action)
        except Crash:
            world.crash()
    world.files.failing, world.files.room, world.away = 0.0, 1 << 30, False
    world.files.until_crash = None
    # A clock that went back by minutes is right again.
    world.clock.wall_ms = max(world.clock.wall_ms, START * 1000)
    for _ in range(60):
        world.turn()
        world.clock.advance(7)
    check(world)
    return world


# A crash leaves zeros within the beginning of a file.
@example(seed=3875, actions=["pass", "pass", "turn", "pass", "crash", "report"])
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=100))
def test_every_acknowledged_report_is_counted_once_or_shown_as_lost(
    seed: int, actions: list[str]
) -> None:
    world = run(seed, actions)
    assert not world.outgoing, "everything is settled in the end"
    left = [path for path in world.files.contents if path.suffix == ".spool"]
    assert not left, "every window is forgotten in the end"


def test_a_file_that_was_closed_unsound_is_cut_before_the_next_frame() -> None:
    """A disk that fails while a window is forgotten leaves its file closed, with a torn frame."""
    dice = Random(10_000_570)
    actions = dice.choices(ACTIONS, k=dice.randint(5, 100))
    assert not run(10_000_570, actions).outgoing


def test_the_runs_meet_what_they_are_for() -> None:
    dice, seen = Random(1), Counter[str]()
    for seed in range(100):
        world = run(seed, dice.choices(ACTIONS, k=80))
        seen["acknowledged"] += len(world.acknowledged)
        seen["counted"] += len(world.counted())
        seen["lost"] += len(world.lost)
        seen["late"] += len(world.late)
    assert min(seen[name] for name in ("acknowledged", "counted", "lost")) > 50, seen


@pytest.mark.parametrize("step", range(80))
def test_a_crash_at_every_step_of_one_life(step: int) -> None:
    world = World(Random(step))
    world.files.until_crash = step
    for action in ("report", "turn", "pass", "report", "turn", "pass", "pass", "turn") * 4:
        try:
            act(world, action)
        except Crash:
            world.crash()
    world.files.until_crash = None
    for _ in range(60):
        world.turn()
        world.clock.advance(7)
    check(world)
    assert world.acknowledged
    assert counting_plan().windows == 4


def test_what_was_accepted_is_sent_although_the_disk_is_full() -> None:
    world = World(Random(1))
    world.devices(6)
    assert len(world.acknowledged) == 6
    world.files.room = world.files.used()
    world.clock.advance(2)
    for _ in range(20):
        world.turn()
    assert len(world.counted()) == 3, "all but the last three, which wait for more"
    before = len(world.acknowledged)
    world.devices(3)
    assert len(world.acknowledged) == before, "new ones are refused"


def test_a_window_that_is_forgotten_stays_closed_when_the_clock_goes_back() -> None:
    world = World(Random(1))
    world.devices(6)
    first = list(world.sent_entries)
    for _ in range(60):
        world.clock.advance(3)
        world.turn()
    assert not [path for path in world.files.contents if path.suffix == ".spool"]
    world.clock.wall_ms -= 180_000
    world.crash()
    world.waiting = first
    world.devices(0)
    for _ in range(60):
        world.clock.advance(3)
        world.turn()
    check(world)
    assert len(world.counted()) == 6
