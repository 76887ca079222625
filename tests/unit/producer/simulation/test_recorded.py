"""Devices that live through a table of events report what a recorder would have."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from calmstream.commands import produce as command
from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.simulation.recorded import Event, RecordedDevices
from calmstream.producer.simulation.simulate import Population
from calmstream.tables.reading import ReadingOptions
from tests.support.plans import draft

DAY = 86_400_000
START = 1_800_000_000 // 86_400 * 86_400
DOMAIN = Domain.from_json(
    [
        {"name": "days", "kind": "number", "unit": "", "edges": ["0", "1", "2", "4"],
         "rounding": "grid", "from": {"event": "open", "take": "days", "over": "7d"}},
        {"name": "slowest", "kind": "number", "unit": "", "edges": ["0", "10", "100"],
         "rounding": "grid", "other": "none",
         "from": {"event": "start", "take": "max", "over": "7d"}},
        {"name": "theme", "labels": ["dark", "light"]},
        {"name": "apps", "kind": "choices", "options": ["mail", "maps"]},
        {"name": "crash", "kind": "hashed", "buckets": 8, "hashes": 2,
         "from": {"state": "last crash"}},
    ]
)  # fmt: skip


@pytest.fixture
def plan() -> Plan:
    return draft(DOMAIN, start=START, window=86_400, windows=9)[0]


def at(day: float) -> int:
    return START * 1000 + round(day * DAY)


EVENTS = [
    Event("b", at(0.2), "open"),
    Event("a", at(0.1), "open"),
    Event("a", at(0.9), "open"),
    Event("a", at(1.5), "open"),
    Event("a", at(1.6), "start", "10"),
    Event("a", at(1.7), "start", "100"),
    Event("a", at(0.3), "theme", "light"),
    Event("b", at(1.2), "apps", "maps|mail"),
    Event("b", at(1.3), "last crash", "null pointer"),
    Event("b", at(1.4), "unknown"),
    Event("b", at(1.4), "start", "fast"),
]


def test_a_window_is_about_the_events_before_it(plan: Plan) -> None:
    devices = RecordedDevices(plan, EVENTS, SeededRandomness(1))
    assert len(devices) == 2
    codes = [devices.codes(window).tolist() for window in range(4)]
    # b is named first; days, slowest (3 is none), theme, apps.
    assert [row[:2] for row in codes[0]] == [[0, 3], [0, 3]]
    assert [row[:2] for row in codes[1]] == [[1, 3], [1, 3]]
    assert [row[:2] for row in codes[2]] == [[1, 3], [2, 2]]
    assert codes[2][1][2] == 1
    assert codes[2][0][3:5] == [1, 1]
    assert codes[2][0][5:] == [plan.domain.code(5 + j, "null pointer") for j in range(2)]
    assert codes[3] != codes[0]
    assert devices.dropped == 2


def test_a_population_asks_for_the_records_of_its_window(plan: Plan) -> None:
    devices = RecordedDevices(plan, EVENTS, SeededRandomness(1))
    asked: list[int] = []

    def records(window: int) -> np.ndarray:
        asked.append(window)
        return devices.codes(window)

    empty = np.zeros((2, len(plan.domain)), np.uint16)
    population = Population(plan, empty, randomness=SeededRandomness(2), records=records)
    for device in (0, 1):
        assert len(list(population.reports(2, np.array([device])))) == 1
    assert asked == [2]
    assert population._codes[1, 0] == 2


def test_a_table_of_events_is_read(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rows = [
        f"{e.device},{datetime.fromtimestamp(e.time / 1000, UTC).isoformat()},{e.name},{e.value}"
        for e in EVENTS
    ]
    path.write_text("\n".join(["device,time,event,value", *rows]))
    devices = command._recorded(str(path), ReadingOptions(), plan)
    assert devices.codes(2)[:, 0].tolist() == [1, 2]
    path.write_text("device,when,event\na,2027-01-01,open\nb,2027-01-02,open\n")
    with pytest.raises(InvalidInput, match="no column 'time'"):
        command._recorded(str(path), ReadingOptions(), plan)
