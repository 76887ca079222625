"""Check the noise-aware test of independence on independent pairs and on taxi trips.

All seeds were fixed before the first run.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from calmstream.evaluation.population import collect, draw
from calmstream.tables import Table, read_table
from estimators import methods
from estimators.analysis.report import check_pair
from tests.support.plans import draft

N = 1 << 18
RUNS = 40


@pytest.fixture
def taxi(shared: Path) -> Table:
    return read_table(shared / "data" / "taxi8.npz")


@pytest.mark.parametrize("method", ["inp-ht", "marg-ps", "calm"])
def test_size_at_the_five_percent_level(taxi: Table, method: str) -> None:
    """28 pairs of attributes with taxi's margins, drawn independently; the paper's rule beside."""
    plan, _ = draft(taxi.domain, "1.1", N, 2, method)
    margins = taxi.codes.mean(axis=0)
    rejected, uncorrected, tests = 0, 0, 0
    for run in range(RUNS):
        generator = np.random.default_rng((71, run))
        codes = (generator.random((N, 8)) < margins).astype(np.uint16)
        tallies = collect(plan, codes, np.random.SeedSequence((72, run)), exact=True)
        model = methods.get(method).fit(plan, tallies)
        for pair in combinations(range(8), 2):
            result = check_pair(model, taxi.domain, pair, N)
            assert result is not None
            tests += 1
            rejected += result.dependent
            uncorrected += result.statistic > result.uncorrected
    assert 0.03 <= rejected / tests <= 0.07
    # Compared with 3.84, as in the paper, nearly every independent pair looks dependent.
    assert uncorrected / tests >= 0.9


@pytest.mark.parametrize("method", ["inp-ht", "calm"])
def test_power_on_taxi(taxi: Table, method: str) -> None:
    plan, _ = draft(taxi.domain, "1.1", N, 2, method)
    pairs = [taxi.domain.index(names) for names in (("Toll", "Far"), ("CC", "Tip"))]
    detected = dict.fromkeys(pairs, 0)
    for run in range(RUNS):
        codes = draw(taxi.codes, N, np.random.default_rng((73, run)))
        tallies = collect(plan, codes, np.random.SeedSequence((74, run)), exact=True)
        model = methods.get(method).fit(plan, tallies)
        for pair in pairs:
            result = check_pair(model, taxi.domain, pair, N)
            assert result is not None
            detected[pair] += result.dependent
    assert min(detected.values()) >= 0.95 * RUNS
