"""Short sequences of faults, named after the rule that they test.

The simulator found the first five in a copy of the code without one necessary line.
"""

from __future__ import annotations

import pytest

from tests.fault.setting import Operation
from tests.fault.simulator import run

SEQUENCES: dict[str, list[Operation]] = {
    "ids of accepted batches are found again after a hand-over": [
        ("work", 411034231),
        ("send", 227970257),
        ("work", 126183764),
        ("zombie", 452000072),
        ("zombie_write", 68446900),
    ],
    "a restore begins at the first batch of an open window": [
        ("work", 92853908),
        ("send", 99475741),
        ("advance", 419990880),
        ("work", 142675535),
        ("crash_edge", 394500580),
    ],
    "no partition record before its closed record is acknowledged": [
        ("send", 80331688),
        ("stall", 41085084),
        ("work", 206604734),
        ("idle", 432083208),
        ("work", 603117218),
        ("fault", 708243168),
    ],
    "what a member held before a rebalance is forgotten": [
        ("join", 505216869),
        ("advance", 159345332),
        ("join", 1032876857),
    ],
    "an edge that restarts sends the same bytes, and they count once": [
        ("send", 985977877),
        ("crash_edge", 578273269),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_kept_sequence(name: str) -> None:
    run(SEQUENCES[name])
