"""Tests of change of numbers and options, from values of records to p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.changes import Source, compare
from calmstream.estimators.changes.source import Observed
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import CHOSEN, Choice, Number
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View

EDGES = tuple(str(10 * i) for i in range(9))
USES = Attribute("uses=chat", CHOSEN, kind=Choice("uses", "chat", ("chat",)))


def window(number: Number, values: np.ndarray, chats: np.ndarray, seed: int) -> Source:
    """Return one view of a number and an option, with reports of these values."""
    domain = Domain((Attribute("load", number.labels, kind=number), USES))
    loads = number.codes(values, SeededRandomness(seed))
    assert isinstance(USES.kind, Choice)
    codes = {chat: USES.kind.code(["chat"] if chat else []) for chat in (False, True)}
    cells = 2 * loads + np.where(chats, codes[True], codes[False])
    mechanism = standard("oue", "1", domain.size((0, 1)))
    histogram = np.bincount(cells, minlength=mechanism.cells)
    counts = mechanism.draw_tally(histogram, np.random.default_rng(seed))
    return Source(domain, (Observed(View((0, 1)), mechanism, len(cells), counts),))


@pytest.mark.parametrize("rounding", ["bin", "grid"])
def test_equal_numbers_do_not_change(rounding: str) -> None:
    """Rounding on a grid is random for every device, and no change."""
    number, random = Number(EDGES, "%", rounding=rounding), np.random.default_rng(1)
    values = []
    for i in range(100):
        sides = []
        for side in (0, 1):
            loads = random.normal(35.0, 15.0, 4000 * (1 + side))
            sides.append(window(number, loads, random.random(len(loads)) < 0.3, 2 * i + side))
        values.append([t.p for t in compare(*sides, [(0,), (0, 1)], details=0.0).tables])
    for own in np.array(values, np.float64).T:
        assert stats.kstest(own, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("rounding", ["bin", "grid"])
def test_a_larger_number_is_a_change_of_its_own_table_and_not_of_the_option(rounding: str) -> None:
    number, random = Number(EDGES, "%", rounding=rounding), np.random.default_rng(2)
    sides = [
        window(number, random.normal(mean, 15.0, 80_000), random.random(80_000) < 0.3, seed)
        for seed, mean in enumerate((35.0, 45.0))
    ]
    load, chat, both = compare(*sides, [(0,), (1,), (0, 1)]).tables
    assert load.changed
    assert both.changed
    assert not chat.changed
    assert load.difference is not None
    assert load.stderr is not None
    moved = float(number.positions @ load.difference)
    error = float(np.abs(number.positions) @ load.stderr)
    assert abs(moved - 10.0) < error
    assert both.dependence is not None
    assert both.dependence > 1e-4


def test_an_option_that_follows_the_number_is_a_change_of_dependence() -> None:
    number, random = Number(EDGES, "%"), np.random.default_rng(3)
    sides = []
    for seed, slope in enumerate((0.0, 0.2)):
        loads = random.normal(40.0, 15.0, 80_000)
        chats = random.random(80_000) < 0.5 + slope * np.sign(loads - 40.0)
        sides.append(window(number, loads, chats, seed))
    load, chat, both = compare(*sides, [(0,), (1,), (0, 1)]).tables
    assert not load.changed
    assert not chat.changed
    assert both.dependence is not None
    assert both.dependence < 1e-6
